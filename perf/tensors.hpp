// The tensors that a workload computes with: a problem of the tests, but a large one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "perf/kept.hpp"
#include "perf/workload.hpp"
#include "tests/problem/attention.hpp"

namespace heed::perf {

using oracle::Tensor;
using oracle::Workspace;

/// Rows of so many numbers, one after the other.
inline Tensor rows_of(std::uint32_t dtype, std::int64_t rows, std::int64_t width) {
  return oracle::placed({1, 1, rows, width}, oracle::Arrangement::kDefault, dtype, 0);
}
inline std::int64_t size_of(const Tensor& tensor) {
  const oracle::Axes& n = tensor.shape();
  return n[0] * n[1] * n[2] * n[3];
}
inline std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(size_of(tensor) * oracle::format_of(tensor.dtype()).bytes);
}

/// As the oracle reads it: one batch, as of packed rows, is that of all sequences.
inline oracle::Source source_of(const Tensor& tensor) {
  oracle::Source source = tensor.source();
  if (tensor.shape()[0] == 1) source.strides.batch = 0;
  return source;
}

/// Of one layer, with these random numbers; what a run writes is canaries, NaNs, at first.
oracle::Problem problem_of(const Workload& workload, std::uint64_t seed = 1);

/// A problem for every layer: keys and values of its own, queries and outputs of the first.
using Layers = std::vector<oracle::Problem>;
Layers layers_of(const Workload& workload);
heed_attention_args args_of(Layers& layers, std::size_t layer);

/// Rows of the same workload follow each other, most of them in turns with one other workload.
inline std::shared_ptr<Layers> tensors_of(const Workload& workload) {
  return kept<Layers, 2>(workload.name, [&] { return layers_of(workload); });
}

}  // namespace heed::perf
