// Memory for tensors, and the numbers in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

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

/// The T that these arguments make, under a name. The latest `count` stay, since rows of the same
/// workload follow each other; all of them at once would fill small machines, so an older one is
/// freed before another is made.
template <class T, std::size_t count = 1, class... Arguments>
std::shared_ptr<T> kept(const std::string& name, const Arguments&... arguments) {
  static std::list<std::pair<std::string, std::shared_ptr<T>>> latest;
  const auto found = std::find_if(latest.begin(), latest.end(),
                                  [&](const auto& one) { return one.first == name; });
  if (found != latest.end()) {
    latest.splice(latest.begin(), latest, found);
  } else {
    if (latest.size() == count) latest.pop_back();
    latest.emplace_front(name, std::make_shared<T>(arguments...));
  }
  return latest.front().second;
}

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
