// The tensors that a workload computes with: a problem of the tests, but a large one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

/// What make() returns, a T, under a name. The latest `count` stay, since rows of the same workload
/// follow each other; all of them at once would fill small machines, so an older one is freed
/// before another is made.
template <class T, std::size_t count = 1, class Make>
std::shared_ptr<T> kept(const std::string& name, Make&& make) {
  static std::list<std::pair<std::string, std::shared_ptr<T>>> latest;
  const auto found = std::find_if(latest.begin(), latest.end(),
                                  [&](const auto& one) { return one.first == name; });
  if (found != latest.end()) {
    latest.splice(latest.begin(), latest, found);
  } else {
    if (latest.size() == count) latest.pop_back();
    latest.emplace_front(name, std::shared_ptr<T>(new T(make())));
  }
  return latest.front().second;
}

/// Rows of the same workload follow each other, most of them in turns with one other workload.
inline std::shared_ptr<Layers> tensors_of(const Workload& workload) {
  return kept<Layers, 2>(workload.name, [&] { return layers_of(workload); });
}

}  // namespace heed::perf
