#include "perf/block/tensors.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace heed::perf {
namespace {

std::size_t count(std::int64_t batch, std::int64_t rows, std::int64_t width) {
  return static_cast<std::size_t>(batch * rows * width);
}

}  // namespace

Projection::Projection(const Workload& workload, std::int64_t in, std::int64_t out, unsigned seed)
    : in(in),
      out(out),
      matrix(workload.desc.query.dtype, count(1, in, out)),
      bias(arithmetic_of(workload), workload.projection_biases ? count(1, 1, out) : 0) {
  fill_random(matrix, seed, 1 / std::sqrt(static_cast<double>(in)));
  fill_random(bias, seed + 1);
}

BlockTensors::BlockTensors(const Workload& w)
    : input_query(w.desc.query.dtype, count(w.desc.batch, w.desc.query_length, w.width)),
      input_key(w.desc.key.dtype, w.desc.query_length == w.desc.key_length
                                      ? 0
                                      : count(w.desc.batch, w.desc.key_length, w.width)),
      query(w, w.width, w.desc.query_heads * w.desc.features, 11),
      key(w, w.width, w.desc.key_heads * w.desc.features, 13),
      value(w, w.width, w.desc.key_heads * w.desc.value_features, 15),
      out_of_heads(w, w.desc.query_heads * w.desc.value_features, w.width, 17),
      out(w.desc.out.dtype, count(w.desc.batch, w.desc.query_length, w.width)),
      attention(tensors_of(parse_workload(w.attention))) {
  fill_random(input_query, 19);
  fill_random(input_key, 20);
  fill_with_nan(out);
}

std::shared_ptr<BlockTensors> block_tensors_of(const Workload& workload) {
  static std::pair<std::string, std::shared_ptr<BlockTensors>> latest;
  if (latest.first != workload.name) {
    latest = {};  // frees the older before the new one is made
    latest = {workload.name, std::make_shared<BlockTensors>(workload)};
  }
  return latest.second;
}

}  // namespace heed::perf
