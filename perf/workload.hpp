// Workloads by name, e.g. B1_H8_L4096_D128_causal, and the tensors they compute with.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/heed.h"

namespace heed::perf {

struct Workload {
  std::string name;
  heed_attention_desc desc;  ///< contiguous float32, every size filled in
};

/// The grammar, for help texts and error messages.
extern const char* const kWorkloadGrammar;

/// The workloads that run by default.
extern const std::vector<std::string> kStandardWorkloads;

/// Throws std::invalid_argument that says what is wrong with the name.
Workload parse_workload(const std::string& name);

/// Bytes of keys and values, each counted once.
double key_value_bytes(const Workload& workload);

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

/// Reproducible numbers, nearly normal: mean 0, variance 1.
void fill_random(Buffer& buffer, unsigned seed);

struct Tensors {
  explicit Tensors(const heed_attention_desc& desc);
  heed_attention_args args();

  Buffer query;
  Buffer key;
  Buffer value;
  Buffer out;  ///< NaN until something computes it
};

/// The tensors of a workload; kept until another workload asks, since rows of the same one
/// follow each other and all of them at once would fill small machines.
Tensors& tensors_of(const Workload& workload);

}  // namespace heed::perf
