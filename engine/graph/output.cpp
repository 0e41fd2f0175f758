#include "engine/graph/output.hpp"

#include <limits>

#include "engine/tensor/argmax.hpp"
#include "engine/tensor/heads.hpp"
#include "engine/tensor/log_sum_exp.hpp"

namespace heed {
namespace {

template <class Real>
void multiply(const Real* from, Real factor, std::size_t count, Real* __restrict to) {
  for (std::size_t x = 0; x < count; ++x) to[x] = from[x] * factor;
}

}  // namespace

template <class Real>
NodeOutput<Real>::NodeOutput(const GraphStep& step, std::byte* slab)
    : step_(step),
      problem_(step.plan.problem),
      kernels_(kernels_of<Real>(*step.plan.context->kernels)),
      features_(static_cast<std::size_t>(problem_.value_features)),
      padded_(static_cast<std::size_t>(Gather<Real>::padded(problem_.value_features))),
      row_(at<Real>(slab, step.plan.slab.row)),
      data_(at<Real>(slab, step.plan.slab.data)) {}

template <class Real>
Real* NodeOutput<Real>::in_place(std::int64_t node) const {
  if (problem_.combine != HEED_COMBINE_CONCAT || problem_.residual) return nullptr;
  return whole_row<Real>(step_.args.out, problem_.out, problem_.heads, problem_.value_features,
                         node);
}

template <class Real>
void NodeOutput<Real>::write(std::int64_t node, Real* values, const Real* factors) const {
  // Data is read first: out may overwrite it.
  if (problem_.residual)
    kernels_.numbers.read(
        step_.data.layout.type, row_at(step_.data.data, step_.data.layout, 0, 0, node),
        step_.data.layout.strides.feature, static_cast<std::size_t>(problem_.width), data_);
  const bool concat = problem_.combine == HEED_COMBINE_CONCAT;
  for (std::int64_t h = 0; !concat && h < problem_.heads; ++h) {
    Real* const head = values + static_cast<std::size_t>(h) * padded_;
    for (std::size_t x = 0; x < features_; ++x) head[x] *= factors[h];
  }
  for (std::int64_t h = 0; h < problem_.out_heads(); ++h) {
    const auto index = static_cast<std::size_t>(h);
    write_row(row_at(step_.args.out, problem_.out, 0, h, node), data_ + index * features_,
              [&](Real* to) {
                if (concat) {
                  multiply(values + index * padded_, factors[h], features_, to);
                } else {
                  combine_heads(problem_.combine, values, problem_.heads,
                                static_cast<std::int64_t>(padded_), problem_.value_features,
                                static_cast<const Real*>(step_.args.head_weights), to);
                }
              });
  }
}

/// compute(to) computes the row without the data that is added to it.
template <class Real>
template <class Compute>
void NodeOutput<Real>::write_row(std::byte* out, const Real* data, Compute&& compute) const {
  const Layout& layout = problem_.out;
  const bool in_place = layout.type == kTypeOf<Real> && layout.strides.feature == 1;
  Real* const to = in_place ? reinterpret_cast<Real*>(out) : row_;
  compute(to);
  for (std::size_t x = 0; problem_.residual && x < features_; ++x) to[x] += data[x];
  if (!in_place) kernels_.numbers.write(layout.type, to, features_, out, layout.strides.feature);
}

template <class Real>
void NodeOutput<Real>::write_lse(std::int64_t node, const Real* row_max, const Real* sum) const {
  const Layout& layout = problem_.lse;
  for (std::int64_t h = 0; h < problem_.heads; ++h) {
    const double lse = log_sum_exp(row_max[h], sum[h]);
    write_log_sum_exp(step_.plan.context->kernels->f64, layout.type, lse,
                      row_at(step_.args.lse, layout, 0, h, node));
  }
}

template <class Real>
void NodeOutput<Real>::write_edge(std::int64_t edge, std::int64_t first, std::size_t heads,
                                  const Real* weights) const {
  const Layout& layout = problem_.weights;
  kernels_.numbers.write(
      layout.type, weights, heads,
      row_at(step_.args.weights, layout, 0, first, step_.plan.graph->given(edge)),
      layout.strides.head);
}

template <class Real>
void NodeOutput<Real>::write_weights(const PanelRows& panel, const Batch& batch, const Real* probs,
                                     const Real* sum) const {
  Real inverse[kMaxPanel];
  for (std::size_t h = 0; h < panel.rows; ++h) inverse[h] = sum[h] == 0 ? Real{0} : 1 / sum[h];
  Real weights[kMaxPanel];
  for (std::size_t e = 0; e < batch.edges; ++e) {
    for (std::size_t h = 0; h < panel.rows; ++h)
      weights[h] = probs[e * panel.pitch + h] * inverse[h];
    write_edge(batch.begin + static_cast<std::int64_t>(e), panel.first, panel.rows, weights);
  }
}

template <class Real>
void NodeOutput<Real>::write_weights(const Batch& batch, const Real* weights) const {
  const auto heads = static_cast<std::size_t>(problem_.heads);
  for (std::size_t e = 0; e < batch.edges; ++e)
    write_edge(batch.begin + static_cast<std::int64_t>(e), 0, heads, weights + e * heads);
}

template <class Real>
void NodeOutput<Real>::write_chosen(const Batch& batch, const std::int64_t* chosen) const {
  for (std::int64_t h = 0; h < problem_.heads; ++h) {
    const bool nan = chosen[h] == kNotANumber;
    for (std::size_t e = 0; e < batch.edges; ++e) {
      const std::int64_t edge = batch.begin + static_cast<std::int64_t>(e);
      const Real weight = nan ? std::numeric_limits<Real>::quiet_NaN()
                              : static_cast<Real>(chosen[h] == edge ? 1 : 0);
      write_edge(edge, h, 1, &weight);
    }
  }
}

template class NodeOutput<float>;
template class NodeOutput<double>;

}  // namespace heed
