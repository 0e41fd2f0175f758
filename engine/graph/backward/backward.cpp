// The steps of a run, the last first. Each goes over the edges twice: by destination, where softmax
// is, and by source, where keys and values gather their gradients. Nothing is kept in between but
// log-sum-exp and delta of every node and head.
#include "engine/graph/backward/incoming.hpp"
#include "engine/graph/backward/matrices.hpp"
#include "engine/graph/backward/outgoing.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

template <class Real>
class GraphBackward {
 public:
  GraphBackward(const heed_graph_attention_backward_plan& plan, const GraphBackwardArgs& args,
                std::byte* space)
      : plan_(plan), args_(args), space_(space) {}

  void run() {
    if (problem_.nodes > 0) widen_edge_matrices(plan_.attention, args_.attention, space_);
    attend_again();
    Tensor grad = {args_.given.grad_out, plan_.problem.grad_out};
    for (std::int64_t t = problem_.steps - 1; t >= 0; --t) grad = go_back(t, grad);
    if (args_.given.grad_data != nullptr) write_data(grad);
    clear_removed();
    write_sums(args_.given.grad_head_weights, plan_.space.head_sums, 1, 1, 1);
    write_sums(args_.given.grad_score_weights, plan_.space.score_sums,
               weights_of_head(problem_.score, problem_.features), padded_,
               problem_.scale / problem_.temperature);
    matrices_.write();
  }

 private:
  void differentiate(const GraphBackwardStep& step) const {
    using In = Incoming<Real>;
    using Out = Outgoing<Real>;
    const EdgeOrder& incoming = *plan_.graph;
    const EdgeOrder& outgoing = plan_.graph->outgoing;
    const std::int64_t per_claim = plan_.attention.ranges_per_claim;
    share_out(threads_, step, incoming.ranges, per_claim, &In::differentiate);
    if (incoming.hubs.size() > 0) {
      share_out(threads_, step, incoming.hubs, 1, &In::merge);
      share_out(threads_, step, incoming.ranges, per_claim, &In::differentiate_split);
      share_out(threads_, step, incoming.hubs, 1, &In::sum);
    }
    if (step.key.data == nullptr && step.value.data == nullptr) return;
    share_out(threads_, step, outgoing.ranges, plan_.outgoing_per_claim, &Out::differentiate);
    share_out(threads_, step, outgoing.hubs, 1, &Out::sum);
  }

  // ---- Steps ----

  /// The data that a step reads: rows of out of the step before.
  Tensor data_of(std::int64_t step) const {
    if (step == 0) return {args_.attention.data, problem_.data};
    const Layout& out = problem_.out;
    const std::int64_t size = problem_.nodes * problem_.width * out.bytes;
    return {space_ + plan_.space.states + (step - 1) * size,
            {out.type, out.bytes, {0, 0, problem_.width, 1}}};
  }

  GraphStep forward_step(const heed_graph_attention_args& args, std::int64_t index) const {
    return begin_step(plan_.attention, args, data_of(index), space_, index, true);
  }

  /// Runs forward to have the data of all steps.
  void attend_again() const {
    heed_graph_attention_args args = args_.attention;
    for (std::int64_t t = 1; t < problem_.steps; ++t) {
      args.out = const_cast<void*>(data_of(t).data);
      run_step(forward_step(args, t - 1));
    }
  }

  /// From the gradient of a step's results to the gradient of its data.
  Tensor go_back(std::int64_t t, const Tensor& grad) {
    const heed_graph_attention_backward_args& to = args_.given;
    const GraphBackwardProblem& p = plan_.problem;
    const GraphStep forward = forward_step(args_.attention, t);
    const bool projected = problem_.is_projected();
    const auto target = [&](int projection, void* data, const Layout& layout,
                            std::int64_t features) {
      return projected ? GradientTarget{data, layout, features, p.accumulate}
                       : matrices_.made(projection);
    };
    const GraphBackwardStep step = {plan_,
                                    args_,
                                    forward,
                                    grad,
                                    target(0, to.grad_query, p.grad_query, problem_.features),
                                    target(1, to.grad_key, p.grad_key, problem_.features),
                                    target(2, to.grad_value, p.grad_value, problem_.value_features),
                                    t + 1 == problem_.steps};
    differentiate(step);
    if (to.grad_head_weights != nullptr)
      sum_ranges<double>(step, plan_.space.head_terms, problem_.heads, plan_.space.head_sums);
    if (to.grad_score_weights != nullptr)
      sum_ranges<Real>(step, plan_.space.score_terms, problem_.heads * padded_,
                       plan_.space.score_sums);
    matrices_.add_edges(step);
    return projected ? grad : matrices_.go_back(step, t);
  }

  /// The gradient of data; with queries, keys and values given, the gradient of the residual.
  void write_data(const Tensor& grad) const {
    const Layout& layout = plan_.problem.grad_data;
    share_out(threads_, static_cast<std::size_t>(problem_.nodes), kNodesPerClaim,
              [&](std::int64_t begin, std::int64_t end, std::byte* slab) {
                Real* const row = at<Real>(slab + plan_.attention.slab.bytes, plan_.slab.rows);
                for (std::int64_t n = begin; n < end; ++n) {
                  if (problem_.is_projected())
                    read_row(kernels_, problem_, grad, n, row);
                  else
                    std::copy_n(static_cast<const Real*>(grad.data) + n * problem_.width,
                                problem_.width, row);
                  write_gradient(kernels_, layout, plan_.problem.accumulate, row, problem_.width,
                                 row + Gather<Real>::padded(problem_.width),
                                 row_at(args_.given.grad_data, layout, 0, 0, n));
                }
              });
  }

  void clear_removed() const {
    const heed_graph_attention_backward_args& to = args_.given;
    const GraphBackwardProblem& p = plan_.problem;
    if (p.accumulate) return;
    heed::clear_removed(plan_.attention, to.grad_edge_bias, p.grad_edge_bias,
                        p.sums_bias ? 1 : problem_.heads, 1);
    heed::clear_removed(plan_.attention, to.grad_edge_data, p.grad_edge_data, 1,
                        problem_.edge_width);
  }

  // ---- Weights of heads and of scores: sums over ranges and steps, in their order ----

  template <class Term>
  void sum_ranges(const GraphBackwardStep& step, std::size_t terms, std::int64_t count,
                  std::size_t sums) const {
    double* const to = at<double>(space_, sums);
    if (step.last) std::fill_n(to, count, 0.0);
    const Term* from = at<Term>(space_, terms);
    for (std::size_t range = 0; range < plan_.graph->ranges.size(); ++range, from += count)
      for (std::int64_t i = 0; i < count; ++i) to[i] += static_cast<double>(from[i]);
  }

  /// Writes the first `of_head` of each head's sums, `pitch` apart, times a factor.
  void write_sums(void* given, std::size_t sums, std::int64_t of_head, std::int64_t pitch,
                  double factor) const {
    auto* const to = static_cast<Real*>(given);
    const double* const from = at<double>(space_, sums);
    for (std::int64_t i = 0; to != nullptr && i < problem_.heads * of_head; ++i)
      to[i] = static_cast<Real>((plan_.problem.accumulate ? static_cast<double>(to[i]) : 0) +
                                from[i / of_head * pitch + i % of_head] * factor);
  }

  const heed_graph_attention_backward_plan& plan_;
  const GraphBackwardArgs& args_;
  std::byte* const space_;
  const GraphProblem& problem_ = plan_.problem.attention;
  const KernelTable<Real>& kernels_ = kernels_of<Real>(*plan_.context->kernels);
  const RunThreads threads_ = {*plan_.context, plan_.workers, space_ + plan_.space.slabs,
                               plan_.space.slab_bytes};
  const std::int64_t padded_ = Gather<Real>::padded(problem_.features);
  const MatrixGradients<Real> matrices_{plan_, args_, space_};
};

}  // namespace

void run_plan(const heed_graph_attention_backward_plan& plan,
              const heed_graph_attention_backward_args& given, void* workspace, std::size_t bytes) {
  const GraphBackwardArgs args(given);
  validate(plan.problem, args, plan.context->backend);
  check_workspace(plan.space.bytes, workspace, bytes);
  with_real(plan.problem.attention.float64, [&](auto real) {
    GraphBackward<decltype(real)>(plan, args, static_cast<std::byte*>(workspace)).run();
  });
}

void print_run(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& given, double seconds) noexcept {
  const GraphBackwardArgs args(given);
  print_graph("graph backward", plan.attention, plan.problem.attention, args.attention,
              plan.graph->ranges.size() + plan.graph->outgoing.ranges.size(), plan.gathered_bytes,
              seconds);
}

}  // namespace heed
