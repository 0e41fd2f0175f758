#include "engine/context/tuning.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "engine/context/tuning_lines.hpp"
#include "engine/runtime/descriptor.hpp"

namespace heed {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 16;

class OpenFile {
 public:
  /// Whatever it is, opening it does not wait.
  explicit OpenFile(const char* path)
      : descriptor_(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

Array<char> contents(const heed_allocator& allocator, const TuningFile& file) {
  const OpenFile opened(file.path);
  struct stat status {};
  if (opened.descriptor() < 0 || fstat(opened.descriptor(), &status) != 0)
    file.refuse(HEED_STATUS_IO, "opening it failed: %s",
                std::system_category().message(errno).c_str());
  if (!S_ISREG(status.st_mode))
    file.refuse(HEED_STATUS_INVALID_ARGUMENT, "it must be a regular file");
  if (status.st_size > kMostBytes)
    file.refuse(HEED_STATUS_CORRUPT, "it has %lld bytes; it must have at most %lld",
                static_cast<long long>(status.st_size), static_cast<long long>(kMostBytes));
  Array<char> bytes(allocator, status.st_size);
  auto* const to = reinterpret_cast<std::byte*>(bytes.data());
  std::size_t have = 0;
  std::size_t got = 1;
  try {
    for (; have < bytes.size() && got > 0; have += got)
      got = read_some(opened.descriptor(), to + have, bytes.size() - have);
  } catch (const Error& error) {
    file.refuse(error.status, "%s", error.message);
  }
  if (have < bytes.size()) file.refuse(HEED_STATUS_IO, "it became shorter while it was read");
  return bytes;
}

}  // namespace

TunedTiles Tuning::find(const TuningKey& key) const {
  for (std::size_t i = 0; i < tiles.size(); ++i)
    if (covers(tiles.data()[i], key)) return tiles.data()[i];
  return {};
}

Tuning read_tuning(const heed_allocator& allocator, const char* path, const char* source,
                   const CpuName& cpu, const char* isa) {
  const TuningFile file = {path, source, 0};
  const TuningFor here = {cpu.text, isa};
  const Array<char> bytes = contents(allocator, file);
  const std::string_view text(bytes.data(), bytes.size());
  Tuning tuning;
  tuning.tiles = Array<TunedTiles>(allocator, read_lines(file, text, here, nullptr));
  (void)read_lines(file, text, here, tuning.tiles.data());
  const std::size_t path_bytes = std::strlen(path) + 1;
  tuning.path = Array<char>(allocator, static_cast<std::int64_t>(path_bytes));
  std::memcpy(tuning.path.data(), path, path_bytes);
  return tuning;
}

}  // namespace heed
