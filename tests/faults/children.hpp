// Things that may crash or hang, tried in a child process under a watchdog.
#pragma once

#include <functional>
#include <string>

namespace heed_test {

struct Ending {
  int code;           ///< what the function returned, if the child got that far; else -1
  std::string said;   ///< what it wrote to stderr
  std::string cause;  ///< of an ending before that: a signal, the watchdog or exit()
};

/// Runs function in a fork of this process, which must not have started threads. The child leaves
/// by exit(), so that whatever runs then is tried too.
Ending in_child(const std::function<int()>& function, unsigned seconds = 15);

}  // namespace heed_test
