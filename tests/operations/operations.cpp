#include "tests/operations/operations.hpp"

#include <cstdlib>

namespace heed_test {

BackwardProblem draw_gradients(std::uint64_t seed, Lengths lengths) {
  BackwardProblem p = draw_backward(seed, lengths);
  p.attend(plain_contexts()[0]);
  return p;
}

std::vector<const char*> options_of(const Block& b) {
  std::vector<const char*> all = {name_of_combine(b.choice.combine)};
  const auto option = [&](const char* name, bool used) {
    if (used) all.push_back(name);
  };
  option("float64", b.out.dtype() == HEED_DTYPE_F64);
  option("16 bits", format_of(b.out.dtype()).bytes == 2);
  option("self", b.choice.self);
  option("prepared", b.w_query.prepared || b.w_key.prepared || b.w_value.prepared);
  const Index columns = b.w_query.out() + b.w_key.out() + b.w_value.out();
  option("packed W_qkv", b.w_query.layout().stride_in == columns);
  option("transposed W", std::abs(b.w_query.layout().stride_out) > 1);
  option("grouped heads", b.key_heads() != b.attention.desc.query_heads);
  option("packed rows", b.attention.desc.packed_queries > 0);
  option("hard", b.attention.desc.hard != 0);
  return all;
}

std::vector<const char*> options_of(const GraphProblem& p) {
  std::vector<const char*> all;
  const auto option = [&](const char* name, bool used) {
    if (used) all.push_back(name);
  };
  option("float32", p.out->dtype() == HEED_DTYPE_F32);
  option("float64", p.out->dtype() == HEED_DTYPE_F64);
  option("16 bits", format_of(p.out->dtype()).bytes == 2);
  option("projected", p.desc.inputs == HEED_GRAPH_PROJECTED);
  option("shared", p.desc.inputs == HEED_GRAPH_SHARED);
  option("per node", p.desc.inputs == HEED_GRAPH_PER_NODE);
  option("prepared", p.prepared != std::array<bool, 3>{});
  option("edge keys", p.w_edge_key.has_value());
  option("edge values", p.w_edge_value.has_value());
  option("edge bias", p.edge_bias.has_value());
  option("softcap", p.desc.softcap > 0);
  option("temperature", p.desc.temperature != 0);
  option("hard", p.desc.hard != 0);
  option("weighted", p.desc.combine == HEED_COMBINE_WEIGHTED);
  option("mean", p.desc.combine == HEED_COMBINE_MEAN);
  option("max", p.desc.combine == HEED_COMBINE_MAX);
  option("residual", p.desc.residual != 0);
  option("in place", p.in_place);
  option("steps", p.desc.steps > 1);
  return all;
}

std::vector<const char*> options_of(const BlockBackward& p) {
  std::vector<const char*> all = options_of(p.block.attention);
  all.push_back(name_of_combine(p.block.choice.combine));
  return all;
}

}  // namespace heed_test
