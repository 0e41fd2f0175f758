// A multi-head block: its tensors, and planned, checked and ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "perf/accuracy.hpp"
#include "perf/contexts.hpp"
#include "perf/planned.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// A matrix [in, out] with its bias, which has no elements where there is none.
struct Projection {
  Projection(const Workload& workload, std::int64_t in, std::int64_t out, unsigned seed);
  /// Another like it, to be written to.
  explicit Projection(const Projection& like, std::uint32_t type);

  std::int64_t in;
  std::int64_t out;
  Tensor matrix;  ///< of variance 1 / in, so that products are about as large as inputs
  Tensor bias;
};

struct BlockTensors {
  explicit BlockTensors(const Workload& workload);

  /// Where keys and values come from: queries, if there are as many of both.
  const Tensor& key_input() const { return input_key.size() == 0 ? input_query : input_key; }

  Tensor input_query;  ///< [batch, query length, width]
  Tensor input_key;    ///< [batch, key length, width], or without elements
  Projection query;
  Projection key;
  Projection value;
  Projection out_of_heads;
  Tensor out;  ///< [batch, query length, width]; NaN until something computes it
  std::shared_ptr<Tensors> attention;  ///< masks and the like, and what attention alone computes
};

/// Of tensors of the workload's type.
heed_multihead_desc block_desc(const Workload& workload, const heed_attention_desc& attention);
/// What is inside, without layouts of tensors.
heed_attention_desc inner_desc(const Workload& workload);

class Block {
 public:
  Block(const std::string& workload, Context context);

  const Workload& workload() const { return workload_; }
  const heed_multihead_info& info() const { return info_; }
  const Accuracy& accuracy() const { return *accuracy_; }

  /// Runs the block once; the first time also checks its results: throws std::runtime_error where
  /// they are off by more than they may be.
  Runner prepare();

 private:
  Workload workload_;
  Context context_;
  BlockPlan plan_;
  heed_multihead_info info_;
  std::optional<Accuracy> accuracy_;
};

/// Compares some rows of out of the last batch item, from its first to its last. The weights of
/// none: attention's own outputs are checked by its own rows.
Accuracy check_accuracy(const Workload& workload, BlockTensors& tensors);

}  // namespace heed::perf
