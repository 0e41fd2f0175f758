#include "engine/cache/streams.hpp"

#include <algorithm>
#include <cstring>

#include "engine/runtime/descriptor.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

constexpr std::int64_t kBuffer = 1 << 16;

}  // namespace

void OutputStream::write(const void* bytes, std::size_t count) {
  checksum_.add(bytes, count);
  put(static_cast<const std::byte*>(bytes), count);
}

void InputStream::read(void* bytes, std::size_t count) {
  get(static_cast<std::byte*>(bytes), count);
  checksum_.add(bytes, count);
}

void MemoryOutput::put(const std::byte* bytes, std::size_t count) {
  std::memcpy(next_, bytes, count);
  next_ += count;
}

void MemoryInput::expect(std::size_t count) {
  if (bytes_ < count)
    fail(HEED_STATUS_CORRUPT,
         "bytes is %zu; it must be at least %zu, or the saved sequence is not whole", bytes_,
         count);
}

void MemoryInput::get(std::byte* bytes, std::size_t count) {
  std::memcpy(bytes, next_, count);
  next_ += count;
}

FileOutput::FileOutput(const heed_allocator& allocator, int descriptor)
    : descriptor_(descriptor), buffer_(allocator, kBuffer) {}

void FileOutput::flush() {
  write_all(descriptor_, buffer_.data(), held_);
  held_ = 0;
}

void FileOutput::put(const std::byte* bytes, std::size_t count) {
  while (count > 0) {
    const std::size_t some = std::min(count, buffer_.size() - held_);
    std::copy_n(bytes, some, buffer_.data() + held_);
    bytes += some;
    count -= some;
    held_ += some;
    if (held_ == buffer_.size()) flush();
  }
}

FileInput::FileInput(const heed_allocator& allocator, int descriptor)
    : descriptor_(descriptor), buffer_(allocator, kBuffer) {}

void FileInput::get(std::byte* bytes, std::size_t count) {
  while (count > 0) {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = read_some(descriptor_, buffer_.data(), std::min(buffer_.size(), expected_ - taken_));
      if (end_ == 0)
        fail(HEED_STATUS_CORRUPT,
             "descriptor %d ends after %zu bytes; it must have at least %zu, or the saved sequence "
             "is not whole",
             descriptor_, taken_, expected_);
      taken_ += end_;
    }
    const std::size_t some = std::min(count, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, some, bytes);
    bytes += some;
    count -= some;
    begin_ += some;
  }
}

}  // namespace heed
