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

/// Reproducible numbers.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}

  /// Nearly normal: mean 0, variance 1.
  float normal();
  /// True for this share of the calls.
  bool with_probability(double share);

 private:
  std::uint64_t next();

  std::uint64_t state_;
};

void fill_random(Buffer& buffer, unsigned seed);

}  // namespace heed::perf
