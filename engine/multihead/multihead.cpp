#include "engine/dense/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/multihead/problem.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/heads.hpp"
#include "engine/tensor/merge.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Rows per task of combining heads: enough to be worth its claim.
constexpr std::int64_t kCombineRows = 64;

/// One run, from inputs to out.
class BlockRun {
 public:
  BlockRun(const heed_multihead_plan& plan, const heed_multihead_args& args,
           const heed_attention_args& attention, std::byte* workspace, std::byte* tensors)
      : plan_(plan),
        args_(args),
        attention_(attention),
        slabs_(workspace + plan.space.shared),
        tensors_(tensors) {}

  void project() const {
    const Problem& a = problem_.attention;
    const Matmul matmuls[] = {
        {&plan_.query, query_rows_.count, inputs_.query, inputs_.w_query,
         query_rows_.output(tensors_ + plan_.space.query, a.query, a.features)},
        {&plan_.key, key_rows_.count, inputs_.key, inputs_.w_key,
         key_rows_.output(tensors_ + plan_.space.key, a.key, a.features)},
        {&plan_.value, key_rows_.count, inputs_.key, inputs_.w_value,
         key_rows_.output(tensors_ + plan_.space.value, a.value, a.value_features)},
    };
    run_matmuls(threads(plan_.matmul_workers), matmuls, 3);
  }

  void attend() const {
    heed_attention_args inner = attention_;
    if (problem_.keep) inner.lse = tensors_ + plan_.space.lse;
    prefill(plan_.attention, inner, slabs_);
    decode(plan_.attention, inner, slabs_);
    recompute(plan_.attention, inner, slabs_);
    if (problem_.keep && attention_.lse != nullptr) copy_lse();
  }

  void combine() const {
    if (!problem_.has_w_out()) {
      with_real(problem_.float64(), [&](auto real) { combine_rows<decltype(real)>(); });
      return;
    }
    const Matmul matmul = {&plan_.out, query_rows_.count,
                           query_rows_.input(tensors_ + plan_.space.heads, problem_.attention.out),
                           inputs_.w_out,
                           query_rows_.output(args_.out, problem_.out, problem_.width_out)};
    run_matmuls(threads(plan_.combine_workers), &matmul, 1);
  }

 private:
  RunThreads threads(std::uint32_t workers) const {
    return {*plan_.context, workers, slabs_, plan_.space.slab_bytes};
  }

  /// The caller's log-sum-exp, from the kept one.
  void copy_lse() const {
    const Problem& a = problem_.attention;
    const bool packed = a.packed_queries > 0;
    const Layout& kept = plan_.attention.problem.lse;
    const std::int64_t count = packed ? query_rows_.count : a.query_length;
    for (std::int64_t b = 0; b < (packed ? 1 : a.batch); ++b)
      for (std::int64_t h = 0; h < a.query_heads; ++h)
        for (std::int64_t i = query_rows_.begin; i < query_rows_.begin + count; ++i)
          write_log_sum_exp(
              plan_.context->kernels->f64, a.lse.type,
              *reinterpret_cast<const double*>(row_at(tensors_ + plan_.space.lse, kept, b, h, i)),
              row_at(attention_.lse, a.lse, b, h, i));
  }

  /// Without a W_out: combines the heads of each row.
  template <class Real>
  void combine_rows() const {
    const Problem& a = problem_.attention;
    const InputRows heads = query_rows_.input(tensors_ + plan_.space.heads, a.out);
    const OutputRows out = query_rows_.output(args_.out, problem_.out, problem_.width_out);
    const RunThreads run = threads(plan_.combine_workers);
    const bool combines = problem_.combine != HEED_COMBINE_HEADS;
    const auto combine = [&](std::int64_t t, std::uint32_t worker) {
      auto* const row = reinterpret_cast<Real*>(run.slab(worker));
      const auto* const side_by_side = reinterpret_cast<const Real*>(heads.at(t));
      if (combines)
        combine_heads(problem_.combine, side_by_side, a.query_heads, a.value_features,
                      a.value_features, static_cast<const Real*>(args_.head_weights), row);
      kernels_of<Real>(*plan_.context->kernels)
          .numbers.write(out.layout.type, combines ? row : side_by_side,
                         static_cast<std::size_t>(problem_.width_out), out.at(t, 0),
                         out.layout.strides.feature);
    };
    parallel_each(plan_.context->threads, {query_rows_.count, kCombineRows, run.workers}, combine);
  }

  const heed_multihead_plan& plan_;
  const MultiheadProblem& problem_ = plan_.problem;
  const heed_multihead_args& args_;
  const heed_attention_args& attention_;
  std::byte* const slabs_;    ///< of products; or the workspace of the attention
  std::byte* const tensors_;  ///< where projections and heads lie: the workspace, or args.kept
  const BlockInputs inputs_ = {problem_, args_, attention_};
  const SequenceRows& query_rows_ = inputs_.query_rows;
  const SequenceRows& key_rows_ = inputs_.key_rows;
};

}  // namespace

heed_attention_args placed_arguments(const heed_multihead_plan& plan,
                                     const heed_multihead_args& args, std::byte* tensors) {
  heed_attention_args attention = read_attention_args(args);
  if (tensors == nullptr) return attention;  // a caller's, which is refused later if it is needed
  if (plan.problem.query_rows > 0) {
    attention.query = tensors + plan.space.query;
    attention.out = tensors + plan.space.heads;
  }
  if (plan.problem.key_rows > 0) {
    attention.key = tensors + plan.space.key;
    attention.value = tensors + plan.space.value;
  }
  return attention;
}

heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace) {
  const MultiheadProblem& p = plan.problem;
  std::byte* const tensors = p.keep ? static_cast<std::byte*>(args.kept) : workspace;
  const heed_attention_args attention = placed_arguments(plan, args, tensors);
  check_outputs<kBlockOperands>(p, &args, p.float64());
  validate(p, args, attention, prepared_for(*plan.context), plan.space.kept_bytes);
  return attention;
}

void project_and_attend(const heed_multihead_plan& plan, const heed_multihead_args& args,
                        const heed_attention_args& attention, std::byte* workspace,
                        std::byte* tensors) {
  const BlockRun run(plan, args, attention, workspace, tensors);
  run.project();
  run.attend();
}

void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes) {
  check_workspace(plan.space.bytes, workspace, bytes);
  auto* const begin = static_cast<std::byte*>(workspace);
  const heed_attention_args attention = checked_arguments(plan, args, begin);
  const BlockRun run(plan, args, attention, begin,
                     plan.problem.keep ? static_cast<std::byte*>(args.kept) : begin);
  run.project();
  run.attend();
  run.combine();
}

}  // namespace heed
