#include "engine/dense/verbose.hpp"

#include <cstdarg>
#include <cstdio>

namespace heed {
namespace {

void add_types(const Problem& p, Words& words) {
  const ElementType types[4] = {p.query.type, p.key.type, p.value.type, p.out.type};
  bool plain = true;
  for (const ElementType type : types) plain = plain && type == ElementType::kF32;
  if (!plain)
    words.add(" %s,%s,%s->%s", name_of(types[0]), name_of(types[1]), name_of(types[2]),
              name_of(types[3]));
}

void add_positions(const Problem& p, Words& words) {
  // Of sequences of full length: shorter ones have their own where it is the bottom right.
  const std::int64_t offset = p.limits(p.query_length, p.key_length).offset;
  const bool causal = p.right == 0;
  if (causal) words.add(" causal");
  if (p.offset_given) words.add(causal ? "%+lld" : " offset=%lld", static_cast<long long>(offset));
  if (!causal && p.right != kUnbounded) words.add(" right=%lld", static_cast<long long>(p.right));
  if (p.left != kUnbounded) words.add(" left=%lld", static_cast<long long>(p.left));
}

}  // namespace

void Words::add(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(text_ + used_, sizeof text_ - used_, format, arguments);
  va_end(arguments);
  if (written > 0)
    used_ = used_ + static_cast<std::size_t>(written) < sizeof text_
                ? used_ + static_cast<std::size_t>(written)
                : sizeof text_ - 1;
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return "f32";
    case ElementType::kF64:
      return "f64";
    case ElementType::kBf16:
      return "bf16";
    case ElementType::kF16:
      return "f16";
    case ElementType::kMask:
      break;
  }
  return "mask";
}

Words options_of(const Problem& p, const heed_attention_args& args) {
  Words words;
  add_types(p, words);
  add_positions(p, words);
  words.add_if(args.cu_seqlens_q != nullptr || args.cu_seqlens_k != nullptr, " packed");
  words.add_if(args.key_lengths != nullptr, " lengths");
  words.add_if(args.mask != nullptr, " mask");
  if (p.softcap > 0) words.add(" softcap=%g", p.softcap);
  words.add_if(args.alibi_slopes != nullptr, " alibi");
  words.add_if(args.bias != nullptr, " bias");
  words.add_if(args.score_function != nullptr, " function");
  if (p.temperature != 1) words.add(" temperature=%g", p.temperature);
  words.add_if(p.hard, " hard");
  words.add_if(args.sinks != nullptr, " sinks");
  words.add_if(args.lse != nullptr, " lse");
  if (p.weights_point != HEED_WEIGHTS_NONE)
    words.add(" weights=%d", static_cast<int>(p.weights_point));
  words.add_if(p.sum_columns, " columns");
  return words;
}

void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept {
  const Problem& p = plan.problem;
  const heed_context& c = *plan.context;
  std::fprintf(stderr,
               "heed: attention B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld scale %.6g%s, "
               "%s %s x%u, tiles %lld x %lld, %lld tasks, %.3f ms, %.1f GFLOP/s\n",
               static_cast<long long>(p.batch), static_cast<long long>(p.query_heads),
               static_cast<long long>(p.key_heads), static_cast<long long>(p.query_length),
               static_cast<long long>(p.key_length), static_cast<long long>(p.features),
               static_cast<long long>(p.value_features), p.scale, options_of(p, args).c_str(),
               c.kernels->f32.isa, c.executor_name, plan.workers,
               static_cast<long long>(plan.tile_q), static_cast<long long>(plan.tile_kv),
               static_cast<long long>(plan.tasks), seconds * 1e3,
               seconds > 0 ? plan.flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
