#include "engine/multihead/multihead.hpp"

#include <algorithm>

#include "engine/dense/scores.hpp"
#include "engine/dense/strategy.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/heads.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// The rows of an input or output that belong to a sequence, numbered through. Packed rows before
/// the first sequence or after the last belong to none: they are neither read nor written.
struct Rows {
  std::int64_t begin;
  std::int64_t count;
  std::int64_t per_batch;
};

Rows rows_of(const Problem& p, const std::int32_t* offsets, std::int64_t packed,
             std::int64_t length) {
  if (packed == 0) return {0, p.batch * length, length};
  const std::int64_t count = offsets[p.batch] - offsets[0];
  return {count > 0 ? offsets[0] : 0, count, packed};
}

/// One run, from inputs to out.
class BlockRun {
 public:
  BlockRun(const heed_multihead_plan& plan, const heed_multihead_args& args,
           const heed_attention_args& attention, std::byte* workspace)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        attention_(attention),
        workspace_(workspace),
        query_rows_(rows_of(problem_.attention, attention.cu_seqlens_q,
                            problem_.attention.packed_queries, problem_.attention.query_length)),
        key_rows_(rows_of(problem_.attention, attention.cu_seqlens_k,
                          problem_.attention.packed_keys, problem_.attention.key_length)) {}

  void project() const {
    const Problem& a = problem_.attention;
    const bool one_input = args_.input_key == nullptr;
    const InputRows query = input(args_.input_query, problem_.input_query, query_rows_);
    const InputRows key = one_input ? input(args_.input_query, problem_.input_query, key_rows_)
                                    : input(args_.input_key, problem_.input_key, key_rows_);
    Matmul matmuls[] = {
        {&plan_.query, query_rows_.count, query,
         matrix(problem_.w_query, args_.p_query, args_.w_query, args_.b_query),
         output(workspace_ + plan_.space.query, a.query, query_rows_, a.features)},
        {&plan_.key, key_rows_.count, key,
         matrix(problem_.w_key, args_.p_key, args_.w_key, args_.b_key),
         output(workspace_ + plan_.space.key, a.key, key_rows_, a.features)},
        {&plan_.value, key_rows_.count, key,
         matrix(problem_.w_value, args_.p_value, args_.w_value, args_.b_value),
         output(workspace_ + plan_.space.value, a.value, key_rows_, a.value_features)},
    };
    for (std::size_t i = 0; i < (one_input ? 3 : 1); ++i) {
      matmuls[i].items = plan_.query.size.items;
      if (in_panels()) matmuls[i].x_panels = workspace_ + plan_.space.input;
    }
    if (in_panels()) {
      pack(query);
      matmuls[0].y_panels = workspace_ + plan_.space.query;
      matmuls[0].y_scale = ScoreSteps(a, attention_, HEED_WEIGHTS_PROBABILITIES).query_scale;
    }
    multiply(matmuls, 3, plan_.matmul_workers);
  }

  void attend() const {
    std::byte* const shared = workspace_ + plan_.space.shared;
    plan_.attention.strategy->run(plan_.attention, attention_, shared);
    recompute(plan_.attention, attention_, shared);
  }

  void combine() const {
    if (!problem_.has_w_out()) {
      with_real(problem_.float64(), [&](auto real) { combine_rows<decltype(real)>(); });
      return;
    }
    Layout heads = problem_.attention.out;
    heads.strides.head = 0;
    Matmul matmul = {&plan_.out, query_rows_.count,
                     input(workspace_ + plan_.space.heads, heads, query_rows_),
                     matrix(problem_.w_out, args_.p_out, args_.w_out, args_.b_out),
                     output(args_.out, problem_.out, query_rows_, problem_.width_out)};
    matmul.items = plan_.out.size.items;
    if (in_panels()) matmul.x_panels = workspace_ + plan_.space.heads;
    multiply(&matmul, 1, plan_.combine_workers);
  }

 private:
  static InputRows input(const void* data, const Layout& layout, const Rows& rows) {
    return {row_at(data, layout, 0, 0, rows.begin), layout, rows.per_batch};
  }
  static OutputRows output(void* data, const Layout& layout, const Rows& rows,
                           std::int64_t per_head) {
    return {row_at(data, layout, 0, 0, rows.begin), layout, rows.per_batch, per_head};
  }
  MatrixArgument matrix(const Matrix& matrix, const heed_weights* prepared, const void* data,
                        const void* bias) const {
    return {prepared, &matrix, data, bias, problem_.bias};
  }
  bool in_panels() const { return plan_.attention.placement == Placement::kPanels; }

  void pack(const InputRows& query) const {
    const PackJob job = {problem_.float64(),       query,
                         problem_.attention.batch, problem_.attention.query_length,
                         problem_.width_query,     workspace_ + plan_.space.input};
    pack_panels(*plan_.context, job, plan_.matmul_workers, slabs(), plan_.space.slab_bytes);
  }

  std::byte* slabs() const { return workspace_ + plan_.space.shared; }

  void multiply(const Matmul* matmuls, std::size_t count, std::uint32_t workers) const {
    run_matmuls(*plan_.context, matmuls, count, workers, slabs(), plan_.space.slab_bytes);
  }

  /// Without a W_out: combines the heads of each row.
  template <class Real>
  void combine_rows() const {
    const std::int64_t tasks = (query_rows_.count + plan_.combine_rows - 1) / plan_.combine_rows;
    parallel_for(plan_.context->threads, {tasks, 1, plan_.combine_workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   const std::int64_t step = plan_.combine_rows;
                   combine_rows<Real>(begin * step, std::min(end * step, query_rows_.count),
                                      worker);
                 });
  }

  template <class Real>
  void combine_rows(std::int64_t begin, std::int64_t end, std::uint32_t worker) const {
    const Problem& a = problem_.attention;
    const InputRows heads = input(workspace_ + plan_.space.heads, a.out, query_rows_);
    const OutputRows out = output(args_.out, problem_.out, query_rows_, problem_.width_out);
    auto* const row = reinterpret_cast<Real*>(slabs() + worker * plan_.space.slab_bytes);
    for (std::int64_t t = begin; t < end; ++t) {
      combine_heads(problem_.combine, reinterpret_cast<const Real*>(heads.at(t)), a.query_heads,
                    a.value_features, a.value_features,
                    static_cast<const Real*>(args_.head_weights), row);
      kernels_of<Real>(*plan_.context->kernels)
          .numbers.write(out.layout.type, row, static_cast<std::size_t>(a.value_features),
                         out.at(t, 0), out.layout.strides.feature);
    }
  }

  const heed_multihead_plan& plan_;
  const MultiheadProblem& problem_;
  const heed_multihead_args& args_;
  const heed_attention_args& attention_;
  std::byte* const workspace_;
  const Rows query_rows_;
  const Rows key_rows_;
};

}  // namespace

heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace) {
  heed_attention_args attention = read_attention_args(args);
  attention.query = workspace + plan.space.query;
  attention.key = workspace + plan.space.key;
  attention.value = workspace + plan.space.value;
  attention.out = workspace + plan.space.heads;
  validate(plan.problem, args, attention, plan.context->backend);
  return attention;
}

void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes) {
  check_workspace(plan.space.bytes, workspace, bytes);
  auto* const begin = static_cast<std::byte*>(workspace);
  const heed_attention_args attention = checked_arguments(plan, args, begin);
  const BlockRun run(plan, args, attention, begin);
  run.project();
  run.attend();
  run.combine();
}

}  // namespace heed
