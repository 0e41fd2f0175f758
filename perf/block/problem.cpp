#include "perf/block/problem.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace heed::perf {

heed_attention_desc inner_desc(const Workload& workload) {
  heed_attention_desc attention = parse_workload(workload.attention).desc;
  for (heed_layout* const layout :
       {&attention.query, &attention.key, &attention.value, &attention.out})
    *layout = HEED_LAYOUT_INIT;
  return attention;
}

heed_multihead_desc block_desc(const Workload& workload, const heed_attention_desc& attention) {
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  desc.attention = &attention;
  desc.width_query = workload.width;
  const std::uint32_t type = workload.desc.query.dtype;
  for (heed_layout* const layout : {&desc.input_query, &desc.input_key, &desc.out})
    layout->dtype = type;
  for (heed_matrix_layout* const layout : {&desc.w_query, &desc.w_key, &desc.w_value, &desc.w_out})
    layout->dtype = type;
  return desc;
}

namespace {

BlockPlan plan_of(const Context& context, const Workload& workload) {
  const heed_attention_desc attention = inner_desc(workload);
  const heed_multihead_desc desc = block_desc(workload, attention);
  return made(heed_multihead_plan_create, heed_multihead_plan_destroy, context.get(), &desc);
}

/// All that a call needs, prepared weights among it.
struct Call {
  Call(const Workload& workload, const heed_multihead_info& info, BlockTensors& tensors)
      : raw(workload.raw), attention(tensors.attention->args()), workspace(info.workspace_bytes) {
    attention.query = attention.key = attention.value = nullptr;
    attention.out = nullptr;
    args.attention = &attention;
    args.input_query = tensors.input_query.data();
    args.input_key = tensors.input_key.data();
    args.out = tensors.out.data();
  }

  void give(const Context& context, Projection& projection, const void*& matrix, const void*& bias,
            const heed_weights*& prepared) {
    if (raw) {
      matrix = projection.matrix.data();
      bias = projection.bias.data();
      return;
    }
    heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
    desc.arithmetic = projection.bias.type();
    desc.in = projection.in;
    desc.out = projection.out;
    desc.layout.dtype = projection.matrix.type();
    weights.push_back(made(heed_weights_create, heed_weights_destroy, context.get(), &desc,
                           projection.matrix.data(), projection.bias.data()));
    prepared = weights.back().get();
  }

  bool raw;
  std::vector<Weights> weights;
  heed_attention_args attention;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  Workspace workspace;
};

}  // namespace

Block::Block(const std::string& workload, Context context)
    : workload_(parse_workload(workload)),
      context_(std::move(context)),
      plan_(plan_of(context_, workload_)),
      info_(described(heed_multihead_plan_describe, plan_.get(), HEED_MULTIHEAD_INFO_INIT)) {}

Runner Block::prepare() {
  const auto tensors = kept<BlockTensors>(workload_.name, workload_);
  const auto call = std::make_shared<Call>(workload_, info_, *tensors);
  heed_multihead_args& args = call->args;
  call->give(context_, tensors->query, args.w_query, args.b_query, args.p_query);
  call->give(context_, tensors->key, args.w_key, args.b_key, args.p_key);
  call->give(context_, tensors->value, args.w_value, args.b_value, args.p_value);
  call->give(context_, tensors->out_of_heads, args.w_out, args.b_out, args.p_out);
  const Runner run = [plan = plan_, tensors, call] {
    check(heed_multihead_plan_run(plan.get(), &call->args, call->workspace.data(),
                                  call->workspace.bytes()));
  };
  if (!accuracy_) fill_with_nan(tensors->out);
  run();  // always: a workspace so large costs its first run a page fault for every page
  if (!accuracy_) accuracy_ = check_accuracy(workload_, *tensors);
  demand(*accuracy_, workload_.name);
  return run;
}

Projection::Projection(const Workload& workload, std::int64_t in, std::int64_t out, unsigned seed)
    : in(in),
      out(out),
      matrix(workload.desc.query.dtype, in * out),
      bias(oracle::real_dtype(workload.desc), workload.projection_biases ? out : 0) {
  fill_random(matrix, seed, 1 / std::sqrt(static_cast<double>(in)));
  fill_random(bias, seed + 1);
}

Projection::Projection(const Projection& like, std::uint32_t type)
    : in(like.in), out(like.out), matrix(type, like.matrix.size()), bias(type, like.bias.size()) {}

BlockTensors::BlockTensors(const Workload& w)
    : input_query(w.desc.query.dtype, w.desc.batch * w.desc.query_length * w.width),
      input_key(w.desc.key.dtype, w.desc.query_length == w.desc.key_length
                                      ? 0
                                      : w.desc.batch * w.desc.key_length * w.width),
      query(w, w.width, w.desc.query_heads * w.desc.features, 11),
      key(w, w.width, w.desc.key_heads * w.desc.features, 13),
      value(w, w.width, w.desc.key_heads * w.desc.value_features, 15),
      out_of_heads(w, w.desc.query_heads * w.desc.value_features, w.width, 17),
      out(w.desc.out.dtype, w.desc.batch * w.desc.query_length * w.width),
      attention(tensors_of(parse_workload(w.attention))) {
  fill_random(input_query, 19);
  fill_random(input_key, 20);
  fill_with_nan(out);
}

}  // namespace heed::perf
