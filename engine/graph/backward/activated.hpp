// Gradients of scores that are no products, <a, act(z)> with z = query + key + edge data:
//
//   of z            = a x derivatives x gradients of scores    of queries and keys, summed over
//   edges of a            = sum over edges of gradients of scores x act(z) of W_edge_key   = sum
//   over edges of edge data x gradients of z
#pragma once

#include "engine/graph/backward/edges.hpp"

namespace heed {

/// Sums over the edges of a range: of a, [heads][features], and of W_edge_key,
/// [edge_width][heads][features], padded. nullptr: nobody wants them.
template <class Real>
struct ActivatedSums {
  Real* weights;
  Real* edge_keys;
};

template <class Real>
class ActivatedGradients {
 public:
  /// The scores are the node's.
  ActivatedGradients(const GraphBackwardThread<Real>& on, const EdgeScores<Real>& scores)
      : on_(on), scores_(scores) {
    if (!problem_.is_product()) scores_.read_weights(on.scale, weights_);
  }

  /// A buffer of derivatives, [kBatch][heads][features].
  Real* slopes() const { return slopes_; }

  /// sums[h] += gradients x derivatives of a batch, of which finish() makes gradients of the node.
  void add(const PanelRows& panel, const Batch& batch, const Real* gradients, Real* sums) {
    values_ = scores_.activate(panel, 0, batch.edges, slopes_);
    leave_out(panel, batch.edges, gradients);
    add_values(panel, batch, slopes_, gradients, sums);
  }

  /// Of the batch and panel that were just added: `edge_rows`, [edges][edge_width], unless nullptr,
  /// receive the gradients of edge data too.
  void add_others(const PanelRows& panel, const Batch& batch, const Real* gradients,
                  const ActivatedSums<Real>& sums, Real* edge_rows) const {
    if (sums.weights != nullptr) add_values(panel, batch, values_, gradients, sums.weights);
    if (!matrix_.given() || (sums.edge_keys == nullptr && edge_rows == nullptr)) return;
    const auto first = static_cast<std::size_t>(panel.first) * features_;
    const std::size_t width = panel.rows * features_;
    const std::size_t edge_width = matrix_.padded_width();
    for (std::size_t e = 0; e < batch.edges; ++e)
      for (std::size_t i = 0; i < width; ++i) {
        const Real gradient = gradients[e * panel.pitch + i / features_];
        if (gradient != 0) slopes_[e * width + i] *= gradient * weights_[first + i];
      }
    const EdgeRows rows = consecutive_rows(slopes_, width, width);
    for (std::int64_t c = 0; c < problem_.edge_width; ++c) {
      if (sums.edge_keys != nullptr) {
        Real* const to = sums.edge_keys + static_cast<std::size_t>(c) * row() + first;
        if (leaves_out_)
          add_attended(panel, batch, gradients, scores_.edge_numbers() + c, edge_width, to);
        else
          kernels_.rows.edge_values(rows, batch.edges, scores_.edge_numbers() + c, edge_width, 1,
                                    width, to, false);
      }
      if (edge_rows != nullptr)
        kernels_.rows.edge_scores(rows, batch.edges, matrix_.row(c) + first, 1, width, false,
                                  edge_rows + c, edge_width);
    }
  }

  /// Makes gradients of the node's sums, unless scores are products: of nothing, beside weights
  /// that are infinite, nothing.
  void finish(Real* sums) const {
    if (problem_.is_product()) return;
    for (std::size_t i = 0; i < row(); ++i)
      if (sums[i] != 0) sums[i] *= weights_[i];
  }
  /// The factor of gradients; finish() does the rest.
  Real factor() const { return problem_.is_product() ? on_.scale : Real{1}; }

 private:
  std::size_t row() const { return on_.heads * features_; }

  /// What has no gradient adds nothing, whatever it holds: 0 * NaN is NaN.
  void leave_out(const PanelRows& panel, std::size_t edges, const Real* gradients) {
    leaves_out_ = false;
    for (std::size_t e = 0; e < edges; ++e)
      for (std::size_t h = 0; h < panel.rows; ++h) {
        if (gradients[e * panel.pitch + h] != 0) continue;
        leaves_out_ = true;
        const std::size_t at = (e * panel.rows + h) * features_;
        std::fill_n(values_ + at, features_, Real{0});
        std::fill_n(slopes_ + at, features_, Real{0});
      }
  }

  /// sums[h] += numbers of edges x their gradients of z, without edges that have no gradient.
  void add_attended(const PanelRows& panel, const Batch& batch, const Real* gradients,
                    const Real* numbers, std::size_t pitch, Real* sums) const {
    const EdgeRows rows = consecutive_rows(slopes_, panel.rows * features_, features_);
    Real attended[kBatch];
    for (std::size_t h = 0; h < panel.rows; ++h) {
      for (std::size_t e = 0; e < batch.edges; ++e)
        attended[e] = gradients[e * panel.pitch + h] == 0 ? 0 : numbers[e * pitch];
      kernels_.rows.edge_values(rows.from_head(static_cast<std::int64_t>(h)), batch.edges, attended,
                                1, 1, features_, sums + h * features_, false);
    }
  }

  /// sums[h] += gradients x rows, [edges][panel's heads][features].
  void add_values(const PanelRows& panel, const Batch& batch, const Real* rows,
                  const Real* gradients, Real* sums) const {
    kernels_.rows.edge_values(consecutive_rows(rows, panel.rows * features_, features_),
                              batch.edges, gradients, panel.pitch, panel.rows, features_,
                              sums + static_cast<std::size_t>(panel.first) * features_, false);
  }

  const GraphBackwardThread<Real>& on_;
  const EdgeScores<Real>& scores_;
  const GraphProblem& problem_ = on_.forward.problem;
  const KernelTable<Real>& kernels_ = on_.forward.kernels;
  const EdgeMatrix<Real> matrix_{on_.forward, EdgeMatrix<Real>::kKeys};
  const std::size_t features_ = static_cast<std::size_t>(Gather<Real>::padded(problem_.features));
  /// a, times what makes gradients of scores those of products.
  Real* const weights_ = on_.buffer(&GraphBackwardSlab::score_weights);
  Real* const slopes_ = on_.buffer(&GraphBackwardSlab::slopes);
  Real* values_ = nullptr;
  bool leaves_out_ = false;  ///< edges of the batch and panel that were just added
};

}  // namespace heed
