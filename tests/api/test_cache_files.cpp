// Sequences saved to and loaded from files, pipes and sockets.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/api/caches.hpp"
#include "tests/api/files.hpp"

using namespace api_test;

namespace {

/// A descriptor that is closed in the end.
class Open {
 public:
  explicit Open(int descriptor) : descriptor_(descriptor) { REQUIRE(descriptor >= 0); }
  ~Open() { close(); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

std::array<int, 2> make_ends(bool of_sockets) {
  std::array<int, 2> ends{};
  REQUIRE((of_sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) : pipe(ends.data())) == 0);
  return ends;
}

struct Pipe {
  explicit Pipe(bool of_sockets = false) : Pipe(make_ends(of_sockets)) {}
  Open out, in;

 private:
  explicit Pipe(const std::array<int, 2>& ends) : out(ends[0]), in(ends[1]) {}
};

/// Writes all of it, as slowly as the reader reads.
void feed(int descriptor, const std::string& bytes, std::size_t portion) {
  for (std::size_t i = 0; i < bytes.size();) {
    const ssize_t written =
        write(descriptor, bytes.data() + i, std::min(portion, bytes.size() - i));
    if (written < 0 && errno != EINTR) return;
    if (written > 0) i += static_cast<std::size_t>(written);
  }
}

void do_not_wait(int descriptor) { REQUIRE(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0); }

/// A sequence that fits no pipe: of 600 KB.
heed_cache_desc large_cache() {
  heed_cache_desc desc = small_cache();
  desc.features = desc.value_features = 64;
  desc.pages = 40;
  return desc;
}
constexpr std::int64_t kLargeRows = 300;

heed_status load_file(const Cache& cache, int descriptor, heed_sequence* sequence) {
  return heed_cache_load_file(cache.get(), descriptor, sequence);
}

/// Saved into a pipe or sockets and loaded from another, in such portions at the other end.
void check_through(Pipe& to, Pipe& from, std::size_t portion, bool waits) {
  const heed_cache_desc desc = large_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = grown(cache, desc, kLargeRows);
  const std::string bytes = saved(cache, sequence);
  if (!waits) do_not_wait(to.in.get());
  if (!waits) do_not_wait(from.out.get());
  std::string arrived;
  std::thread reader([&] { arrived = drain(to.out.get(), portion); });
  const heed_status status = heed_cache_save_file(cache.get(), sequence, to.in.get());
  to.in.close();
  reader.join();
  require_ok(status);
  CHECK((arrived == bytes));
  std::thread writer([&] { feed(from.in.get(), bytes, portion); });
  heed_sequence made = 0;
  const heed_status back = load_file(cache, from.out.get(), &made);
  from.out.close();
  writer.join();
  require_ok(back);
  CHECK((saved(cache, made) == bytes));
}

}  // namespace

TEST_CASE("a file holds what memory holds, from where it stands on", "[cache][saved][files]") {
  const heed_cache_desc desc = large_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence small = grown(cache, desc, 3);
  const heed_sequence large = grown(cache, desc, kLargeRows);
  const File file("before");
  REQUIRE(lseek(file.get(), 6, SEEK_SET) == 6);
  for (const heed_sequence sequence : {small, large, small})
    require_ok(heed_cache_save_file(cache.get(), sequence, file.get()));
  REQUIRE(write(file.get(), "after", 5) == 5);
  file.rewind();
  const std::string all =
      "before" + saved(cache, small) + saved(cache, large) + saved(cache, small) + "after";
  CHECK((drain(file.get()) == all));

  const Cache other = make_cache(serial(), desc);
  REQUIRE(lseek(file.get(), 6, SEEK_SET) == 6);
  off_t place = 6;
  for (const heed_sequence sequence : {small, large, small}) {
    heed_sequence made = 0;
    require_ok(load_file(other, file.get(), &made));
    CHECK((saved(other, made) == saved(cache, sequence)));
    place += static_cast<off_t>(saved(cache, sequence).size());
    CHECK(file.place() == place);  // nothing more was read
  }
  check_load_refused(other, HEED_STATUS_CORRUPT,
                     "descriptor " + std::to_string(file.get()) +
                         " ends after 5 bytes; it must have at least 120, or the saved sequence "
                         "is not whole",
                     [&](heed_sequence* made) { return load_file(other, file.get(), made); });
}

TEST_CASE("a saved sequence that lacks a byte, or of which a bit is another, is refused",
          "[cache][saved][files][refused]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_I8}) {
    heed_cache_desc desc = small_cache(dtype);
    desc.key_heads = 1;
    const Cache cache = make_cache(serial(), desc);
    const std::string good = saved(cache, grown(cache, desc, 17));
    const auto refused = [&](const std::string& bytes, const std::string& words,
                             const std::string& words_of_file) {
      check_load_refused(cache, HEED_STATUS_CORRUPT, words, bytes);
      const File file(bytes);
      check_load_refused(cache, HEED_STATUS_CORRUPT, words_of_file, [&](heed_sequence* sequence) {
        return load_file(cache, file.get(), sequence);
      });
    };
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
      const auto at_least = [&](std::size_t fixed) {
        return std::to_string(bytes < fixed ? 120 : good.size());
      };
      const std::string has = std::to_string(bytes);
      refused(
          good.substr(0, bytes),
          "bytes is " + has + "; it must be at least " + at_least(120) +
              ", or the saved sequence is not whole",
          "descriptor ... ends after " + has + " bytes; it must have at least " + at_least(112));
    }
    const std::string altered =
        "the checksum of the saved sequence is 0x ... ; that of its bytes is 0x ... , so they have "
        "been altered";
    const std::vector<std::int64_t> before = state(cache);
    std::size_t taken = 0;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
      heed_sequence sequence = 77;
      const heed_status status =
          heed_cache_load(cache.get(), bytes.data(), bytes.size(), &sequence);
      taken += status == HEED_STATUS_OK || sequence != 77 || state(cache) != before ? 1 : 0;
      if (bit >= std::size_t{8} * 112 && bit % 8 == 4) refused(bytes, altered, altered);
    }
    CHECK(taken == 0);
    const std::string no_beginning = "the first 8 bytes are 0x7878787878787878";
    refused(std::string(200, 'x'), no_beginning, no_beginning);
    CHECK((saved(cache, loaded(cache, good)) == good));
  }
}

TEST_CASE("pipes and sockets take and give what they can", "[cache][saved][files][threads]") {
  for (const bool waits : {true, false})
    for (const std::size_t portion : {1000U, 70000U}) {
      CAPTURE(waits, portion);
      for (const bool of_sockets : {false, true}) {
        Pipe to(of_sockets), from(of_sockets);
        check_through(to, from, portion, waits);
      }
    }
}

TEST_CASE("signals do not disturb a load", "[cache][saved][files][threads]") {
  struct sigaction quiet = {}, before = {};
  quiet.sa_handler = [](int) {};  // without SA_RESTART: calls of the system end with EINTR
  REQUIRE(sigaction(SIGUSR1, &quiet, &before) == 0);
  const heed_cache_desc desc = large_cache();
  const Cache cache = make_cache(serial(), desc);
  const std::string bytes = saved(cache, grown(cache, desc, kLargeRows));
  Pipe pipe;
  std::atomic<bool> over{false};
  const pthread_t loading = pthread_self();
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) (void)pthread_kill(loading, SIGUSR1), usleep(100);
    feed(pipe.in.get(), bytes, 5000);
    while (!over) std::this_thread::yield();
  });
  heed_sequence made = 0;
  const heed_status status = load_file(cache, pipe.out.get(), &made);
  over = true;
  pipe.out.close();
  writer.join();
  REQUIRE(sigaction(SIGUSR1, &before, nullptr) == 0);
  require_ok(status);
  CHECK((saved(cache, made) == bytes));
}

TEST_CASE("what the system says is told", "[cache][saved][files][refused]") {
  const heed_cache_desc desc = large_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = grown(cache, desc, kLargeRows);
  const auto not_saved = [&](int descriptor, const std::string& says) {
    forget_last_error();
    check_refusal(heed_cache_save_file(cache.get(), sequence, descriptor), HEED_STATUS_IO,
                  "writing to descriptor " + std::to_string(descriptor) + " failed: " + says);
  };
  const auto not_loaded = [&](int descriptor, const std::string& says) {
    check_load_refused(cache, HEED_STATUS_IO,
                       "reading from descriptor " + std::to_string(descriptor) + " failed: " + says,
                       [&](heed_sequence* made) { return load_file(cache, descriptor, made); });
  };
  not_saved(-1, "Bad file descriptor");
  not_loaded(-1, "Bad file descriptor");
  Pipe pipe;
  not_saved(pipe.out.get(), "Bad file descriptor");
  not_loaded(pipe.in.get(), "Bad file descriptor");
  const Open folder(open("/", O_RDONLY));
  not_loaded(folder.get(), "Is a directory");
  const int full = open("/dev/full", O_WRONLY);
  if (full >= 0) not_saved(full, "No space left on device");
  if (full >= 0) close(full);

  // Nobody reads, and yet the program goes on: SIGPIPE would end it.
  struct sigaction deadly = {}, before = {};
  deadly.sa_handler = SIG_DFL;
  REQUIRE(sigaction(SIGPIPE, &deadly, &before) == 0);
  pipe.out.close();
  not_saved(pipe.in.get(), "Broken pipe");
  sigset_t pending;
  REQUIRE(sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  deadly.sa_handler = SIG_IGN;
  REQUIRE(sigaction(SIGPIPE, &deadly, nullptr) == 0);
  not_saved(pipe.in.get(), "Broken pipe");
  REQUIRE(sigaction(SIGPIPE, &before, nullptr) == 0);
  sigset_t blocked;
  REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0);
  CHECK(sigismember(&blocked, SIGPIPE) == 0);
}
