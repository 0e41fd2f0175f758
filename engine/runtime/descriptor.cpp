#include "engine/runtime/descriptor.hpp"

#if defined(_WIN32)
#include <io.h>
#else
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// More at once is refused by some systems.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

[[noreturn]] void fail_at(const char* doing, int descriptor, int code) {
  fail(HEED_STATUS_IO, "%s descriptor %d failed: %s", doing, descriptor,
       std::system_category().message(code).c_str());
}

#if defined(_WIN32)

using Count = unsigned;
enum : short { kToRead, kToWrite };

/// Every descriptor waits by itself, and there are no signals.
bool again(int, short, int) { return false; }
struct NoSigpipe {
  NoSigpipe() {}
};

#else

using Count = std::size_t;
enum : short { kToRead = POLLIN, kToWrite = POLLOUT };

/// Whether to try again, after waiting if the descriptor is one that does not wait by itself.
bool again(int descriptor, short events, int code) {
  if (code == EINTR) return true;
  if (code != EAGAIN && code != EWOULDBLOCK) return false;
  pollfd waiting = {descriptor, events, 0};
  return poll(&waiting, 1, -1) >= 0 || errno == EINTR;
}

/// Keeps SIGPIPE from this thread while it lives. (For sockets MSG_NOSIGNAL would do, but not for
/// pipes.)
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    was_pending_ = pending();
    blocked_ = pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_) == 0;
  }
  ~NoSigpipe() {
    if (!blocked_) return;
    int taken = 0;
    if (!was_pending_ && pending()) sigwait(&sigpipe_, &taken);  // the write's own
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  static bool pending() {
    sigset_t signals;
    sigemptyset(&signals);
    sigpending(&signals);
    return sigismember(&signals, SIGPIPE) == 1;
  }

  sigset_t sigpipe_, before_;
  bool was_pending_, blocked_;
};

#endif

}  // namespace

void write_all(int descriptor, const std::byte* bytes, std::size_t count) {
  const NoSigpipe quiet;
  while (count > 0) {
    const std::ptrdiff_t written =
        write(descriptor, bytes, static_cast<Count>(std::min(count, kMostAtOnce)));
    const int code = errno;
    if (written < 0 && !again(descriptor, kToWrite, code)) fail_at("writing to", descriptor, code);
    if (written <= 0) continue;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

std::size_t read_some(int descriptor, std::byte* bytes, std::size_t most) {
  for (;;) {
    const std::ptrdiff_t got =
        read(descriptor, bytes, static_cast<Count>(std::min(most, kMostAtOnce)));
    const int code = errno;
    if (got >= 0) return static_cast<std::size_t>(got);
    if (!again(descriptor, kToRead, code)) fail_at("reading from", descriptor, code);
  }
}

}  // namespace heed
