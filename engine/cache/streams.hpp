// Where saved sequences go and come from: memory, files, pipes, sockets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/checksum.hpp"

namespace heed {

class OutputStream {
 public:
  virtual ~OutputStream() = default;
  void write(const void* bytes, std::size_t count);
  /// Of all that was written.
  std::uint64_t checksum() const { return checksum_.value(); }
  /// What was written is where it belongs.
  virtual void flush() {}

 private:
  virtual void put(const std::byte* bytes, std::size_t count) = 0;

  Checksum checksum_;
};

class InputStream {
 public:
  virtual ~InputStream() = default;
  /// From the first byte on there are so many; no more is read. Throws if fewer are known to be
  /// there.
  virtual void expect(std::size_t count) = 0;
  /// Throws if they are not there.
  void read(void* bytes, std::size_t count);
  /// Of all that was read.
  std::uint64_t checksum() const { return checksum_.value(); }

 private:
  virtual void get(std::byte* bytes, std::size_t count) = 0;

  Checksum checksum_;
};

/// Memory that is large enough.
class MemoryOutput final : public OutputStream {
 public:
  explicit MemoryOutput(void* memory) : next_(static_cast<std::byte*>(memory)) {}

 private:
  void put(const std::byte* bytes, std::size_t count) override;

  std::byte* next_;
};

class MemoryInput final : public InputStream {
 public:
  MemoryInput(const void* memory, std::size_t bytes)
      : next_(static_cast<const std::byte*>(memory)), bytes_(bytes) {}
  void expect(std::size_t count) override;

 private:
  void get(std::byte* bytes, std::size_t count) override;

  const std::byte* next_;
  const std::size_t bytes_;
};

/// Through a buffer: rows may be a few bytes.
class FileOutput final : public OutputStream {
 public:
  FileOutput(const heed_allocator& allocator, int descriptor);
  void flush() override;

 private:
  void put(const std::byte* bytes, std::size_t count) override;

  const int descriptor_;
  Array<std::byte> buffer_;
  std::size_t held_ = 0;  ///< bytes in it
};

class FileInput final : public InputStream {
 public:
  FileInput(const heed_allocator& allocator, int descriptor);
  void expect(std::size_t count) override { expected_ = count; }

 private:
  void get(std::byte* bytes, std::size_t count) override;

  const int descriptor_;
  Array<std::byte> buffer_;
  std::size_t begin_ = 0;  ///< bytes [begin_, end_) of it are next
  std::size_t end_ = 0;
  std::size_t taken_ = 0;  ///< from the descriptor
  std::size_t expected_ = 0;
};

}  // namespace heed
