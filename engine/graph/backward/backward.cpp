// The steps of a run, the last first. Each goes over the edges twice: by destination, where softmax
// is, and by source, where keys and values gather their gradients. Nothing is kept in between but
// log-sum-exp and delta of every node and head.
#include "engine/graph/backward/incoming.hpp"
#include "engine/graph/backward/matrices.hpp"
#include "engine/graph/backward/outgoing.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

template <class Real>
class GraphBackward {
 public:
  GraphBackward(const heed_graph_attention_backward_plan& plan, const GraphBackwardArgs& args,
                std::byte* space)
      : plan_(plan),
        problem_(plan.problem.attention),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        space_(space),
        matrices_(plan, args, space) {}

  void run() {
    if (problem_.nodes > 0) {
      widen_edge_matrices(plan_.attention, args_.attention, space_);
      attend_again();
      Tensor grad = {args_.given.grad_out, plan_.problem.grad_out};
      for (std::int64_t t = problem_.steps - 1; t >= 0; --t) grad = go_back(t, grad);
      if (args_.given.grad_data != nullptr) write_data(grad);
      clear_removed();
    }
    write_head_weights();
    write_score_weights();
    matrices_.write();
  }

 private:
  /// Calls function(nodes, task) for so many tasks, shared out among threads, where `nodes` are
  /// Incoming or Outgoing.
  template <class Nodes, class Function>
  void share_out(const GraphBackwardStep& step, std::size_t count, std::int64_t per_claim,
                 Function&& function) const {
    std::byte* const slabs = space_ + plan_.space.slabs;
    parallel_for(plan_.context->threads,
                 {static_cast<std::int64_t>(count), per_claim, plan_.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   Nodes nodes(step, slabs + worker * plan_.space.slab_bytes);
                   for (std::int64_t i = begin; i < end; ++i) function(nodes, i);
                 });
  }

  void differentiate(const GraphBackwardStep& step) const {
    using In = Incoming<Real>;
    using Out = Outgoing<Real>;
    const EdgeOrder& incoming = *plan_.graph;
    const EdgeOrder& outgoing = plan_.graph->outgoing;
    const std::int64_t per_claim = plan_.attention.ranges_per_claim;
    share_out<In>(step, incoming.ranges.size(), per_claim,
                  [&](In& in, std::int64_t i) { in.differentiate(incoming.ranges[i], i); });
    if (incoming.hubs.size() > 0) {
      share_out<In>(step, incoming.hubs.size(), 1,
                    [&](In& in, std::int64_t i) { in.merge(incoming.hubs[i]); });
      share_out<In>(step, incoming.ranges.size(), per_claim,
                    [&](In& in, std::int64_t i) { in.differentiate_split(incoming.ranges[i], i); });
      share_out<In>(step, incoming.hubs.size(), 1,
                    [&](In& in, std::int64_t i) { in.sum(incoming.hubs[i]); });
    }
    if (step.key.data == nullptr && step.value.data == nullptr) return;
    share_out<Out>(step, outgoing.ranges.size(), plan_.outgoing_per_claim,
                   [&](Out& out, std::int64_t i) { out.differentiate(outgoing.ranges[i]); });
    share_out<Out>(step, outgoing.hubs.size(), 1,
                   [&](Out& out, std::int64_t i) { out.sum(outgoing.hubs[i]); });
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
    const GraphStep forward = forward_step(args_.attention, t);
    const bool last = t + 1 == problem_.steps;
    const auto rows = [&](void* data, const Layout& layout) {
      return GradientTarget{data, layout, plan_.problem.accumulate};
    };
    const GradientOfProjections made = matrices_.projections();
    const bool projected = problem_.inputs == HEED_GRAPH_PROJECTED;
    const GraphBackwardStep step = {
        plan_,
        args_,
        forward,
        grad,
        projected ? rows(to.grad_query, plan_.problem.grad_query) : made.query,
        projected ? rows(to.grad_key, plan_.problem.grad_key) : made.key,
        projected ? rows(to.grad_value, plan_.problem.grad_value) : made.value,
        last,
        space_};
    differentiate(step);
    sum_head_weights(step);
    sum_score_weights(step);
    matrices_.add_edges(step);
    return projected ? grad : matrices_.go_back(step, t);
  }

  /// The gradient of data; with queries, keys and values given, the gradient of the residual.
  void write_data(const Tensor& grad) const {
    const Layout& layout = plan_.problem.grad_data;
    std::byte* const slabs = space_ + plan_.space.slabs;
    parallel_for(plan_.context->threads, {problem_.nodes, kNodesPerClaim, plan_.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   Real* const row = at<Real>(
                       slabs + worker * plan_.space.slab_bytes + plan_.attention.slab.bytes,
                       plan_.slab.rows);
                   for (std::int64_t n = begin; n < end; ++n) {
                     read_row(grad, n, row);
                     write_gradient(kernels_, layout, plan_.problem.accumulate, row, problem_.width,
                                    row + Gather<Real>::padded(problem_.width),
                                    row_at(args_.given.grad_data, layout, 0, 0, n));
                   }
                 });
  }

  /// A row of results, or of data that was projected.
  void read_row(const Tensor& from, std::int64_t node, Real* to) const {
    if (problem_.inputs == HEED_GRAPH_PROJECTED)
      return heed::read_row(kernels_, problem_, from, node, to);
    std::copy_n(static_cast<const Real*>(from.data) + node * problem_.width, problem_.width, to);
  }

  void clear_removed() const {
    if (plan_.problem.accumulate) return;
    const auto clear = [&](void* to, const Layout& layout, std::int64_t heads,
                           std::int64_t features) {
      if (to != nullptr) heed::clear_removed(plan_.attention, to, layout, heads, features);
    };
    clear(args_.given.grad_edge_bias, plan_.problem.grad_edge_bias,
          plan_.problem.sums_bias ? 1 : problem_.heads, 1);
    clear(args_.given.grad_edge_data, plan_.problem.grad_edge_data, 1, problem_.edge_width);
  }

  /// Sums one step's terms, in the order of ranges.
  void sum_head_weights(const GraphBackwardStep& step) const {
    if (args_.given.grad_head_weights == nullptr) return;
    const auto ranges = static_cast<std::int64_t>(plan_.graph->ranges.size());
    double* const terms = at<double>(space_, plan_.space.head_terms);
    double* const sums = terms + ranges * problem_.heads;
    for (std::int64_t h = 0; h < problem_.heads; ++h) {
      if (step.last) sums[h] = 0;
      for (std::int64_t range = 0; range < ranges; ++range)
        sums[h] += terms[range * problem_.heads + h];
    }
  }

  void write_head_weights() const {
    auto* const to = static_cast<Real*>(args_.given.grad_head_weights);
    if (to == nullptr) return;
    const auto ranges = static_cast<std::int64_t>(plan_.graph->ranges.size());
    const double* const sums = at<double>(space_, plan_.space.head_terms) + ranges * problem_.heads;
    for (std::int64_t h = 0; h < problem_.heads; ++h)
      to[h] = static_cast<Real>((plan_.problem.accumulate ? static_cast<double>(to[h]) : 0) +
                                (problem_.nodes > 0 ? sums[h] : 0));
  }

  // ---- Weights of scores ----

  std::int64_t padded() const { return Gather<Real>::padded(problem_.features); }

  void sum_score_weights(const GraphBackwardStep& step) const {
    if (args_.given.grad_score_weights == nullptr) return;
    double* const sums = at<double>(space_, plan_.space.score_sums);
    const std::int64_t count = problem_.heads * padded();
    if (step.last) std::fill_n(sums, count, 0.0);
    add_ranges(at<Real>(space_, plan_.space.score_terms), plan_.graph->ranges.size(), count, sums);
  }

  void write_score_weights() const {
    auto* const to = static_cast<Real*>(args_.given.grad_score_weights);
    if (to == nullptr) return;
    const double* const sums = at<double>(space_, plan_.space.score_sums);
    const double scale = problem_.scale / problem_.temperature;
    const std::int64_t of_head = weights_of_head(problem_.score, problem_.features);
    for (std::int64_t i = 0; i < problem_.heads * of_head; ++i) {
      const double sum = sums[i / of_head * padded() + i % of_head] * scale;
      to[i] = static_cast<Real>((plan_.problem.accumulate ? static_cast<double>(to[i]) : 0) +
                                (problem_.nodes > 0 ? sum : 0));
    }
  }

  const heed_graph_attention_backward_plan& plan_;
  const GraphProblem& problem_;
  const GraphBackwardArgs& args_;
  const KernelTable<Real>& kernels_;
  std::byte* const space_;
  MatrixGradients<Real> matrices_;
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
