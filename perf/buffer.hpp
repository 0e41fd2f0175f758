// Memory for tensors, and the numbers in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace heed::perf {

/// Floats on their own cache lines, as an allocator of tensors would place them.
class Buffer {
 public:
  explicit Buffer(std::size_t count);
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::size_t size() const { return count_; }
  float* begin() { return data(); }
  float* end() { return data() + count_; }

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Free> data_;
  std::size_t count_;
};

/// Bytes for a run of heed.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : memory_((bytes + sizeof(float) - 1) / sizeof(float)), bytes_(bytes) {}
  void* data() { return memory_.data(); }
  std::size_t bytes() const { return bytes_; }

 private:
  Buffer memory_;
  std::size_t bytes_;
};

/// Reproducible numbers.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}

  /// Nearly normal: mean 0, variance 1.
  float normal();
  /// True for this share of the calls.
  bool with_probability(double share);
  /// 0 to count - 1, each as likely as the others but for 2^-32.
  std::uint32_t below(std::uint32_t count);
  /// 64 bits, each as likely 0 as 1.
  std::uint64_t bits();

 private:
  std::uint64_t state_;
};

void fill_random(Buffer& buffer, unsigned seed);

}  // namespace heed::perf
