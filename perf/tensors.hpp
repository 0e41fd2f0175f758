// The tensors that a workload computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "perf/buffer.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// Numbers of a heed_dtype.
class Tensor {
 public:
  Tensor() : Tensor(HEED_DTYPE_F32, 0) {}
  Tensor(std::uint32_t type, std::int64_t count)
      : type_(type), count_(count), memory_((bytes() + sizeof(float) - 1) / sizeof(float)) {}

  /// nullptr without elements: what is not there is not handed over.
  void* data() { return count_ == 0 ? nullptr : memory_.data(); }
  const void* data() const { return count_ == 0 ? nullptr : memory_.data(); }
  std::int64_t size() const { return count_; }
  std::uint32_t type() const { return type_; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(count_ * oracle::format_of(type_).bytes);
  }

  double operator[](std::int64_t i) const {
    return oracle::decode(type_, oracle::load_bits(type_, memory_.data(), i));
  }
  void set(std::int64_t i, double number) {
    oracle::store_bits(type_, memory_.data(), i, oracle::encode(type_, number));
  }

  /// As the oracle reads rows of so many numbers, from the first of these rows on.
  oracle::Source rows(std::int64_t width, std::int64_t first = 0) const {
    return {static_cast<const char*>(data()) + first * width * oracle::format_of(type_).bytes,
            type_,
            {0, 0, width, 1}};
  }

 private:
  std::uint32_t type_;
  std::int64_t count_;
  Buffer memory_;
};

/// Nearly normal numbers with mean 0 and this deviation; and what no output may stay.
void fill_random(Tensor& tensor, unsigned seed, double deviation = 1);
void fill_with_nan(Tensor& tensor);

struct Tensors {
  explicit Tensors(const Workload& workload);
  heed_attention_args args(std::int64_t layer = 0);

  Workload workload;
  Tensor query;
  Tensor key, value;                ///< of all layers, one after the other
  Tensor key_scales, value_scales;  ///< of 8-bit ones: of each row, or one number
  Tensor out;                       ///< outputs are NaN until something computes them

  // Without elements where the workload has none.
  std::vector<std::uint8_t> mask;
  Tensor bias, slopes, sinks;
  std::vector<std::int64_t> weight_rows;
  Tensor lse, weights, column_sums;
};

/// Query and out as the oracle reads them: [batch, head, row, feature]; packed: batch 0.
oracle::Source queries_of(const Workload& workload, const Tensor& tensor);
/// Key and value, and the scales of their rows, likewise; in pages: [page, head, row, feature]. Of
/// several layers the first.
oracle::Source keys_of(const Workload& workload, const Tensor& tensor);

/// Rows of the same workload follow each other, most of them in turns with one other workload.
inline std::shared_ptr<Tensors> tensors_of(const Workload& workload) {
  return kept<Tensors, 2>(workload.name, workload);
}

}  // namespace heed::perf
