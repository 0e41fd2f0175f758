// The way back through a block:
//
//   projections and heads    kept by a run of the block, or computed again
//   grad_heads               = grad_out W_out^T, or the heads' gradients by another combiner
//   grad_W_out               = heads^T grad_out
//   grad_Q, grad_K, grad_V   by the attention, see engine/dense/backward
//   grad_W                   = input^T times each of them
//   grad_input               = each of them times W^T
//
// Products run as for projections: a transposed matrix is one with other strides.
#include <algorithm>

#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/projection/over_rows.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {
namespace {

/// One of the three projections, and where its gradients go.
struct Projection {
  const MatmulPlan& to_input;
  const MatmulPlan& to_matrix;
  const MatrixArgument& w;
  const InputRows& input;
  const SequenceRows& rows;
  std::byte* grad;  ///< in the workspace, row by row
  struct {
    void* w;
    const Matrix& matrix;  ///< that w is
    void* b;
  } to;

  std::int64_t width() const { return to_input.size.in; }
};

/// Rows [begin, end) of a tensor.
struct RowRange {
  std::int64_t begin, end;
};

class BackwardRun {
 public:
  BackwardRun(const heed_multihead_backward_plan& plan, const MultiheadBackwardArgs& args,
              const InnerBackward& inner, std::byte* workspace)
      : plan_(plan),
        args_(args.block),
        given_(args.given),
        inner_(inner),
        one_input_(args.one_input()),
        workspace_(workspace),
        query_{plan.input_query,
               plan.w_query,
               inputs_.w_query,
               inputs_.query,
               query_rows_,
               workspace + plan.space.grad_query,
               {given_.grad_w_query, problem_.grad_w_query, given_.grad_b_query}},
        key_{plan.input_key,
             plan.w_key,
             inputs_.w_key,
             inputs_.key,
             key_rows_,
             workspace + plan.space.grad_key,
             {given_.grad_w_key, problem_.grad_w_key, given_.grad_b_key}},
        value_{plan.input_value,
               plan.w_value,
               inputs_.w_value,
               inputs_.key,
               key_rows_,
               workspace + plan.space.grad_value,
               {given_.grad_w_value, problem_.grad_w_value, given_.grad_b_value}} {}

  void attend_again() const {
    if (problem_.kept) return;
    heed_attention_args attention = inner_.attention;
    attention.lse = nullptr;  // nobody wants a copy of the kept one
    project_and_attend(plan_.block, args_, attention, workspace_ + plan_.space.shared,
                       inner_.tensors);
  }

  void differentiate_combiner() const {
    if (!block_.has_w_out())
      return with_real(block_.float64(), [&](auto real) { split_heads<decltype(real)>(); });
    const InputRows grad_out = query_rows_.input(given_.grad_out, problem_.grad_out);
    if (attention_wanted())
      multiply(plan_.grad_heads, grad_out, query_rows_.count, inputs_.w_out, grad_heads(), false);
    if (given_.grad_w_out != nullptr)
      write_product(plan_.w_out, {heads(), grad_out, query_rows_.count}, given_.grad_w_out,
                    problem_.grad_w_out);
    if (given_.grad_b_out != nullptr)
      write_sum_of_rows(threads_, block_.float64(), grad_out, query_rows_.count,
                        vector(given_.grad_b_out, block_.width_out));
  }

  void differentiate_attention() const {
    if (!attention_wanted()) return;
    heed_attention_backward_args args = inner_.args;
    args.attention = &inner_.attention;
    // The gradients of projections go to the workspace, one after the other, and are sums with
    // nothing.
    if (problem_.accumulate())
      std::fill(workspace_ + plan_.space.grad_query, workspace_ + plan_.space.matrix, std::byte{0});
    run_plan(plan_.attention, args, workspace_ + plan_.space.shared, plan_.attention.bytes);
  }

  void differentiate_projections() const {
    for (const Projection* const p : {&query_, &key_, &value_}) {
      const Factors factors = {p->input, gradient(*p), p->rows.count};
      if (p->to.w != nullptr) write_product(p->to_matrix, factors, p->to.w, p->to.matrix);
      if (p->to.b != nullptr)
        write_sum_of_rows(threads_, block_.float64(), factors.y, factors.count,
                          vector(p->to.b, p->width()));
    }
    const RowRange queries = {query_rows_.begin, query_rows_.begin + query_rows_.count};
    const RowRange keys = {key_rows_.begin, key_rows_.begin + key_rows_.count};
    if (given_.grad_input_query != nullptr) {
      const bool same = queries.begin == keys.begin && queries.end == keys.end;
      if (one_input_ && !same) clear_input();
      add_to_input(query_, block_.width_query, one_input_ && !same);
      if (one_input_) add_to_input(key_, block_.width_query, true);
      if (one_input_) add_to_input(value_, block_.width_query, true);
      const GradientRows to = {given_.grad_input_query, problem_.grad_input_query,
                               query_rows_.per_batch, block_.width_query, problem_.accumulate()};
      write_input(queries, to);
      // Packed rows may belong to keys alone.
      if (one_input_) write_input({keys.begin, std::min(keys.end, queries.begin)}, to);
      if (one_input_) write_input({std::max(keys.begin, queries.end), keys.end}, to);
    }
    if (given_.grad_input_key != nullptr) {
      add_to_input(key_, block_.width_key, false);
      add_to_input(value_, block_.width_key, true);
      write_input(keys, {given_.grad_input_key, problem_.grad_input_key, key_rows_.per_batch,
                         block_.width_key, problem_.accumulate()});
    }
  }

 private:
  /// Whether anything is asked for that lies before the heads.
  bool attention_wanted() const {
    const heed_attention_backward_args& a = inner_.args;
    return a.grad_query != nullptr || a.grad_key != nullptr || a.grad_value != nullptr ||
           a.grad_bias != nullptr || a.grad_sinks != nullptr || a.grad_alibi_slopes != nullptr ||
           a.grad_scale != nullptr || a.grad_temperature != nullptr ||
           a.grad_score_weights != nullptr;
  }

  GradientRows vector(void* data, std::int64_t width) const {
    return {data, problem_.grad_b, 1, width, problem_.accumulate()};
  }

  /// Rows of all heads, which lie side by side.
  InputRows heads() const {
    return query_rows_.input(inner_.tensors + plan_.block.space.heads,
                             plan_.block.problem.attention.out);
  }
  OutputRows grad_heads() const {
    return query_rows_.output(workspace_ + plan_.space.grad_heads, plan_.attention.problem.grad_out,
                              block_.heads_width);
  }
  Layout side_by_side(std::int64_t width, const SequenceRows& rows) const {
    return {real_type(block_.float64()),
            real_bytes(block_.float64()),
            {rows.per_batch * width, 0, width, 1}};
  }
  InputRows gradient(const Projection& p) const {
    return p.rows.input(p.grad, side_by_side(p.width(), p.rows));
  }

  /// y = x W^T, or grows by that.
  void multiply(const MatmulPlan& plan, const InputRows& x, std::int64_t rows,
                const MatrixArgument& w, const OutputRows& y, bool adds) const {
    const Matmul matmul = {
        &plan,
        rows,
        x,
        transposed(*plan_.context->kernels, block_.float64(), w, workspace_ + plan_.space.matrix),
        y,
        adds};
    if (rows > 0) run_matmuls(threads_, &matmul, 1);
  }

  /// x^T y, to where the gradient of a matrix goes.
  void write_product(const MatmulPlan& plan, const Factors& rows, void* to,
                     const Matrix& as) const {
    write_gradient_of_matrix(threads_, plan, rows, as, to, problem_.accumulate(),
                             workspace_ + plan_.space.grad_matrix);
  }

  /// The gradient of an input, of all its rows, before it is written.
  std::byte* input() const { return workspace_ + plan_.space.grad_heads; }
  void clear_input() const {
    std::fill_n(input(), block_.query_rows * block_.width_query * real_bytes(block_.float64()),
                std::byte{0});
  }
  void add_to_input(const Projection& p, std::int64_t width, bool adds) const {
    multiply(p.to_input, gradient(p), p.rows.count, p.w,
             p.rows.output(input(), side_by_side(width, p.rows), width), adds);
  }
  void write_input(const RowRange& rows, const GradientRows& to) const {
    if (rows.begin >= rows.end) return;
    write_rows(threads_, block_.float64(),
               input() + rows.begin * to.out * real_bytes(block_.float64()), rows.begin,
               rows.end - rows.begin, to);
  }

  // ---- Without a W_out ----

  template <class Real>
  void split_heads() const {
    auto* const terms = reinterpret_cast<double*>(workspace_ + plan_.space.terms);
    const std::int64_t tasks = ceil_div(query_rows_.count, kTermRows);
    parallel_each(plan_.context->threads, {tasks, 1, plan_.workers},
                  [&](std::int64_t task, std::uint32_t worker) {
                    split_heads(task, reinterpret_cast<Real*>(threads_.slab(worker)), terms);
                  });
    if (given_.grad_head_weights != nullptr)
      write_head_weights(static_cast<Real*>(given_.grad_head_weights), terms, tasks);
  }

  template <class Real>
  void split_heads(std::int64_t task, Real* gradient, double* terms) const {
    const Problem& a = block_.attention;
    const NumberKernels<Real>& numbers = kernels_of<Real>(*plan_.context->kernels).numbers;
    const auto features = static_cast<std::size_t>(a.value_features);
    const InputRows heads = this->heads();
    const InputRows grad_out = query_rows_.input(given_.grad_out, problem_.grad_out);
    const OutputRows to = grad_heads();
    double* const own = terms + task * a.query_heads;
    const bool weighted = block_.combine == HEED_COMBINE_WEIGHTED;
    if (weighted) std::fill_n(own, a.query_heads, 0.0);
    const std::int64_t end = std::min((task + 1) * kTermRows, query_rows_.count);
    const bool combined = block_.combine != HEED_COMBINE_HEADS;
    for (std::int64_t t = task * kTermRows; t < end; ++t) {
      const auto* const row = reinterpret_cast<const Real*>(heads.at(t));
      numbers.read(grad_out.layout.type, grad_out.at(t), grad_out.layout.strides.feature,
                   static_cast<std::size_t>(block_.width_out),
                   combined ? gradient : reinterpret_cast<Real*>(to.at(t, 0)));
      if (!combined) continue;
      split_gradient(block_.combine, gradient, row, a.query_heads, a.value_features,
                     a.value_features, static_cast<const Real*>(args_.head_weights),
                     reinterpret_cast<Real*>(to.at(t, 0)));
      for (std::int64_t h = 0; weighted && h < a.query_heads; ++h)
        own[h] += numbers.inner_product(gradient, row + h * a.value_features, features);
    }
  }

  template <class Real>
  void write_head_weights(Real* to, const double* terms, std::int64_t tasks) const {
    const std::int64_t heads = block_.attention.query_heads;
    for (std::int64_t h = 0; h < heads; ++h) {
      double sum = 0;
      for (std::int64_t task = 0; task < tasks; ++task) sum += terms[task * heads + h];
      to[h] = static_cast<Real>(sum + (problem_.accumulate() ? static_cast<double>(to[h]) : 0.0));
    }
  }

  const heed_multihead_backward_plan& plan_;
  const MultiheadBackwardProblem& problem_ = plan_.problem;
  const MultiheadProblem& block_ = problem_.block;
  const heed_multihead_args& args_;
  const heed_multihead_backward_args& given_;
  const InnerBackward& inner_;
  const bool one_input_;
  std::byte* const workspace_;
  const RunThreads threads_ = {*plan_.context, plan_.workers, workspace_ + plan_.space.shared,
                               plan_.space.slab_bytes};
  const BlockInputs inputs_ = {block_, args_, inner_.attention};
  const SequenceRows& query_rows_ = inputs_.query_rows;
  const SequenceRows& key_rows_ = inputs_.key_rows;
  const Projection query_, key_, value_;
};

}  // namespace

void run_plan(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& given,
              void* workspace, std::size_t bytes) {
  check_workspace(plan.space.bytes, workspace, bytes);
  auto* const begin = static_cast<std::byte*>(workspace);
  const MultiheadBackwardArgs args(given);
  const InnerBackward inner = checked_arguments(plan, args, begin);
  const BackwardRun run(plan, args, inner, begin);
  run.attend_again();
  run.differentiate_combiner();
  run.differentiate_attention();
  run.differentiate_projections();
}

}  // namespace heed
