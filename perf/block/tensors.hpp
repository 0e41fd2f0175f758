// The tensors that a multi-head block computes with.
#pragma once

#include <cstdint>
#include <memory>

#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// A matrix [in, out] with its bias, which has no elements where there is none.
struct Projection {
  Projection(const Workload& workload, std::int64_t in, std::int64_t out, unsigned seed);

  std::int64_t in;
  std::int64_t out;
  Tensor matrix;  ///< of variance 1 / in, so that products are about as large as inputs
  Tensor bias;
};

struct BlockTensors {
  explicit BlockTensors(const Workload& workload);

  /// Where keys and values come from: queries, if there are as many of both.
  Tensor& key_input() { return input_key.size() == 0 ? input_query : input_key; }

  Tensor input_query;  ///< [batch, query length, width]
  Tensor input_key;    ///< [batch, key length, width], or without elements
  Projection query;
  Projection key;
  Projection value;
  Projection out_of_heads;
  Tensor out;  ///< [batch, query length, width]; NaN until something computes it
  std::shared_ptr<Tensors> attention;  ///< masks and the like, and what attention alone computes
};

/// Those of the latest workload are kept, since its rows follow each other.
std::shared_ptr<BlockTensors> block_tensors_of(const Workload& workload);

}  // namespace heed::perf
