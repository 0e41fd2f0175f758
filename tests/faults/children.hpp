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

/// Whether a child runs what is registered for exit().
enum class Leave { kByExit, kAtOnce };

/// Runs function in a fork of this process. The child leaves by exit(), so that whatever runs then
/// is tried too; but where oneTBB had started threads it must leave at once, because oneTBB's
/// destructors wait for ever for locks that those threads held.
Ending in_child(const std::function<int()>& function, Leave leave = Leave::kByExit,
                unsigned seconds = 15);

}  // namespace heed_test
