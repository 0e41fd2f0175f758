// The results of a node: its row of out, its log-sum-exp, the weights of its edges.
#pragma once

#include <limits>

#include "engine/graph/step.hpp"
#include "engine/tensor/argmax.hpp"
#include "engine/tensor/heads.hpp"
#include "engine/tensor/loops.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

template <class Real>
class NodeOutput {
 public:
  explicit NodeOutput(const GraphThread<Real>& on) : on_(on) {}

  /// values: [heads][value features], padded; multiplies each head with its factor, in place.
  void write(std::int64_t node, Real* values, const Real* factors) const {
    // Data is read first: out may overwrite it.
    const auto& [data, data_layout] = on_.step.data;
    if (problem_.residual)
      on_.kernels.numbers.read(data_layout.type, row_at(data, data_layout, 0, 0, node),
                               data_layout.strides.feature,
                               static_cast<std::size_t>(problem_.width), data_);
    for (std::size_t h = 0; !concat_ && h < on_.heads; ++h)
      multiply_values(values + h * on_.value_features, factors[h], features_,
                      values + h * on_.value_features);
    const Layout& layout = problem_.out;
    const bool in_place = has_rows_of(kTypeOf<Real>, layout);
    for (std::int64_t h = 0; h < problem_.out_heads(); ++h) {
      const auto index = static_cast<std::size_t>(h);
      std::byte* const out = row_at(on_.step.args.out, layout, 0, h, node);
      Real* const to = in_place ? reinterpret_cast<Real*>(out) : row_;
      if (concat_)
        multiply_values(values + index * on_.value_features, factors[h], features_, to);
      else
        combine_heads(problem_.combine, values, problem_.heads,
                      static_cast<std::int64_t>(on_.value_features), problem_.value_features,
                      static_cast<const Real*>(on_.step.args.head_weights), to);
      for (std::size_t x = 0; problem_.residual && x < features_; ++x)
        to[x] += data_[index * features_ + x];
      if (!in_place)
        on_.kernels.numbers.write(layout.type, to, features_, out, layout.strides.feature);
    }
  }

  void write_lse(std::int64_t node, const Real* row_max, const Real* sum) const {
    const Layout& layout = problem_.lse;
    for (std::int64_t h = 0; h < problem_.heads; ++h)
      write_log_sum_exp(on_.step.plan.context->kernels->f64, layout.type,
                        log_sum_exp(row_max[h], sum[h]),
                        row_at(on_.step.args.lse, layout, 0, h, node));
  }

  /// Writes the weights of a batch from the probabilities in `probs`.
  void write_weights(const PanelRows& panel, const Batch& batch, const Real* probs,
                     const Real* sum) const {
    Real inverse[kMaxPanel];
    for (std::size_t h = 0; h < panel.rows; ++h) inverse[h] = inverse_of(sum[h]);
    Real weights[kMaxPanel];
    for (std::size_t e = 0; e < batch.edges; ++e) {
      for (std::size_t h = 0; h < panel.rows; ++h)
        weights[h] = probs[e * panel.pitch + h] * inverse[h];
      write_edge(batch, e, panel.first, panel.rows, weights);
    }
  }

  /// Writes weights that are known, [edges][heads].
  void write_weights(const Batch& batch, const Real* weights) const {
    for (std::size_t e = 0; e < batch.edges; ++e)
      write_edge(batch, e, 0, on_.heads, weights + e * on_.heads);
  }

  /// Hard attention: 1 at the edge chosen for each head, 0 at the others of the batch.
  void write_chosen(const Batch& batch, const std::int64_t* chosen) const {
    for (std::int64_t h = 0; h < problem_.heads; ++h)
      for (std::size_t e = 0; e < batch.edges; ++e) {
        const bool taken = chosen[h] == batch.edge(e);
        const Real weight = chosen[h] == kNotANumber ? std::numeric_limits<Real>::quiet_NaN()
                                                     : static_cast<Real>(taken ? 1 : 0);
        write_edge(batch, e, h, 1, &weight);
      }
  }

 private:
  void write_edge(const Batch& batch, std::size_t edge, std::int64_t first, std::size_t heads,
                  const Real* weights) const {
    const Layout& layout = problem_.weights;
    const std::int64_t given = on_.graph.given(batch.edge(edge));
    on_.kernels.numbers.write(layout.type, weights, heads,
                              row_at(on_.step.args.weights, layout, 0, first, given),
                              layout.strides.head);
  }

  const GraphThread<Real>& on_;
  const GraphProblem& problem_ = on_.problem;
  const bool concat_ = problem_.combine == HEED_COMBINE_CONCAT;
  const std::size_t features_ = static_cast<std::size_t>(problem_.value_features);
  Real* const row_ = on_.buffer(&NodeSlab::row);
  Real* const data_ = on_.buffer(&NodeSlab::data);
};

}  // namespace heed
