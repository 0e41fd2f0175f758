// The tensors that a workload computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "perf/buffer.hpp"
#include "perf/number.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// Numbers of a heed_dtype.
class Tensor {
 public:
  Tensor(std::uint32_t type, std::size_t count);

  /// nullptr without elements: what is not there is not handed over.
  void* data() { return count_ == 0 ? nullptr : memory_.data(); }
  std::size_t size() const { return count_; }
  std::uint32_t type() const { return type_; }

  /// As they lie in memory.
  const char* bytes() const { return address(0); }
  /// Of one of so many rows.
  std::size_t row_bytes(std::int64_t rows) const {
    return count_ / static_cast<std::size_t>(rows) * size_of(type_);
  }

  double operator[](std::int64_t i) const { return read_number(type_, address(i)); }
  void set(std::int64_t i, double number) { write_number(type_, number, address(i)); }

  /// Takes over `count` elements of a tensor of the same type.
  void copy(std::int64_t first, const Tensor& from, std::int64_t from_first, std::int64_t count) {
    std::memcpy(address(first), from.address(from_first),
                static_cast<std::size_t>(count) * size_of(type_));
  }

  /// `count` elements from the first on.
  template <class Real>
  void read(std::int64_t first, std::int64_t count, Real* to) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Real>((*this)[first + i]);
  }

 private:
  char* address(std::int64_t i) const {
    return reinterpret_cast<char*>(memory_.data()) + static_cast<std::size_t>(i) * size_of(type_);
  }

  std::uint32_t type_;
  std::size_t count_;
  mutable Buffer memory_;
};

/// Nearly normal numbers with mean 0 and this deviation; and what no output may stay.
void fill_random(Tensor& tensor, unsigned seed, double deviation = 1);
void fill_with_nan(Tensor& tensor);

struct Tensors {
  explicit Tensors(const Workload& workload);
  heed_attention_args args();

  Tensor query;
  Tensor key;
  Tensor value;
  Tensor out;  ///< outputs are NaN until something computes them

  // Without elements where the workload has none.
  std::vector<std::uint8_t> mask;
  Tensor bias;
  Tensor slopes;
  Tensor sinks;
  std::vector<std::int32_t> key_lengths;
  std::vector<std::int32_t> query_begins;
  std::vector<std::int32_t> key_begins;
  std::vector<std::int64_t> weight_rows;
  Tensor lse;
  Tensor weights;
  Tensor column_sums;
  bool score_function;
};

/// What the arithmetic of a workload is: HEED_DTYPE_F32 or HEED_DTYPE_F64.
std::uint32_t arithmetic_of(const Workload& workload);

/// The score function of all workloads: a relative position, kNearness * (j - i) on every score.
/// A power of two, so that only the sum is rounded.
constexpr double kNearness = 0x1p-9;

/// Where the mask lets a pair through, or the element of the bias, by the sizes of their layouts.
std::size_t score_index(const heed_score_layout& layout, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t key);

/// The tensors of a workload. Those of the latest two are kept, since rows of the same ones follow
/// each other and all of them at once would fill small machines.
std::shared_ptr<Tensors> tensors_of(const Workload& workload);

}  // namespace heed::perf
