#include "engine/runtime/bytes.hpp"

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
#include <cstring>
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

// ---- Checksums ----------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5;

std::uint64_t rotate_left(std::uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/// A little-endian value.
template <class Number>
std::uint64_t number_at(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t number) {
  return rotate_left(lane + number * kPrime2, 31) * kPrime1;
}

}  // namespace

void Checksum::add_stripe(const std::byte* stripe) {
  for (std::uint64_t& lane : lanes_) {
    lane = mixed(lane, number_at<std::uint64_t>(stripe));
    stripe += sizeof lane;
  }
}

void Checksum::add(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  const std::byte* const end = from + count;
  const std::size_t held = count_ % kStripe;
  count_ += count;
  if (held > 0) {
    const std::size_t more = std::min(count, kStripe - held);
    std::copy_n(from, more, rest_ + held);
    from += more;
    if (held + more < kStripe) return;
    add_stripe(rest_);
  }
  for (; end - from >= static_cast<std::ptrdiff_t>(kStripe); from += kStripe) add_stripe(from);
  std::copy(from, end, rest_);
}

std::uint64_t Checksum::value() const {
  std::uint64_t sum = kPrime5;
  if (count_ >= kStripe) {
    constexpr int kBits[4] = {1, 7, 12, 18};
    sum = 0;
    for (int i = 0; i < 4; ++i) sum += rotate_left(lanes_[i], kBits[i]);
    for (const std::uint64_t lane : lanes_) sum = (sum ^ mixed(0, lane)) * kPrime1 + kPrime4;
  }
  sum += count_;
  const std::byte* from = rest_;
  const std::byte* const end = rest_ + count_ % kStripe;
  for (; end - from >= 8; from += 8)
    sum = rotate_left(sum ^ mixed(0, number_at<std::uint64_t>(from)), 27) * kPrime1 + kPrime4;
  for (; end - from >= 4; from += 4)
    sum = rotate_left(sum ^ number_at<std::uint32_t>(from) * kPrime1, 23) * kPrime2 + kPrime3;
  for (; from != end; ++from)
    sum = rotate_left(sum ^ std::to_integer<std::uint64_t>(*from) * kPrime5, 11) * kPrime1;
  sum = (sum ^ sum >> 33) * kPrime2;
  sum = (sum ^ sum >> 29) * kPrime3;
  return sum ^ sum >> 32;
}

}  // namespace heed
