// Turns the query of a node and the keys of its edges into the scores that softmax sees: everything
// that options do to a score.
#pragma once

#include <cmath>
#include <limits>

#include "engine/graph/products.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// The end from which edges are looked at: the nodes that are computed, and the nodes that their
/// edges lead to. Scores are the same either way, to the bit if both ends say that they are.
template <class Real>
struct EdgeSide {
  const EdgeOrder& order;
  Tensor own, other;  ///< queries and keys, or keys and queries
  Real* rows;         ///< [kNodeEdges][heads][features] of `other`, if they must be copied
  const Real* asked;  ///< W_edge_key times the queries that edges lead to,
                      ///< [nodes][heads][edge_width]; nullptr: times the node's own
  bool same_bits;
};

/// The power of two in a factor: it takes no digits from what it multiplies.
template <class Real>
Real power_of_two(Real factor) {
  return factor == 0 || !std::isfinite(factor) ? factor : std::ldexp(Real{1}, std::ilogb(factor));
}

template <class Real>
class EdgeScores {
 public:
  EdgeScores(const GraphThread<Real>& on, const EdgeSide<Real>& side) : on_(on), side_(side) {
    if (activates_) read_weights(factor_, weights_);
    for (std::size_t h = 0; problem_.divides_by_norms() && h < on_.heads; ++h)
      weights_[h] = static_cast<Real>(head_weight(h) * static_cast<double>(rest_of_scale_));
  }

  const EdgeMatrix<Real>& matrix() const { return matrix_; }

  /// Fetches the node's query, and multiplies W_edge_key with it.
  void begin_node(std::int64_t node) const {
    if (problem_.divides_by_norms()) {
      query_of_.copy(node, query_);
      return divide_by_norms(own_scale_, query_);
    }
    query_of_.copy_scaled(node, own_scale_, query_);
    if (matrix_.given() && side_.asked == nullptr && !activates_) matrix_.ask(query_, edge_query_);
  }

  /// W_edge_key times the node's query, times own_scale(), [heads][edge_width].
  const Real* edge_query() const { return edge_query_; }
  Real own_scale() const { return own_scale_; }
  /// The batch's keys, and its edge data [edges][edge_width].
  const EdgeRows& rows() const { return keys_; }
  EdgeRows edge_data() const { return consecutive_rows(edge_data_, on_.edge_width, 0); }
  const Real* edge_numbers() const { return edge_data_; }

  /// Goes over the nodes of a range: at_once(tile) computes tiles, if there are `kernels` for that,
  /// and alone(node) every other node. Where at_once(tile) is false its nodes follow one by one,
  /// each at once or alone. A tile has several nodes only if their own rows are read and, as
  /// `together` says, written where they lie.
  template <class AtOnce, class Alone>
  void each_node(const NodeKernels<Real>* kernels, const NodeRange& range,
                 const Gather<Real>& value_of, bool together, AtOnce&& at_once,
                 Alone&& alone) const {
    for (std::int64_t n = range.first; n < range.last;) {
      const bool has_tiles = kHasNodeKernels<Real> && kernels != nullptr;
      const NodeTile tile =
          has_tiles ? tile_of(n, range.last, value_of, together) : NodeTile{n, 0, {}, nullptr};
      const bool good = tile.nodes > 0 && at_once(tile);
      const std::int64_t end = n + std::max<std::int64_t>(tile.nodes, 1);
      for (; !good && n < end; ++n)
        if (tile.nodes <= 1 || !at_once(tile_of(n, n + 1, value_of, together))) alone(n);
      n = end;
    }
  }

  /// The operands that kernels of nodes need of a tile, except gradients. Where scores are no
  /// products `slopes`, a buffer for a batch, receive derivatives, if given.
  NodeEdges<Real> at_once(const NodeTile& tile, const Gather<Real>& value_of,
                          Real* slopes = nullptr) {
    query_of_.prefetch_after(tile);
    const Batch& batch = tile.batch;
    const std::int64_t* const offsets = tile.offsets;
    const std::int32_t* const others = side_.order.others.data() + batch.begin;
    NodeEdges<Real> edges{};
    edges.nodes = static_cast<std::size_t>(tile.nodes);
    edges.edges = batch.edges;
    edges.offsets = offsets;
    edges.own = own_;
    edges.values = values(value_of, batch);
    edges.value_features = value_of.features();
    edges.heads = on_.heads;
    edges.features = on_.features;
    edges.scale = adds_numbers_ ? factor_ : scale_;
    for (std::int64_t i = 0; i < tile.nodes; ++i) {
      // A few more than there are, over which the next node's are written: most nodes have no more.
      std::int32_t* to = own_ + (offsets[i] - offsets[0]);
      const std::int32_t* const end = own_ + (offsets[i + 1] - offsets[0]);
      for (; to < end; to += kOwnAtOnce) std::fill_n(to, kOwnAtOnce, static_cast<std::int32_t>(i));
    }
    edges.act = adds_numbers_ ? &act_ : nullptr;
    edges.keys = key_at_once_.rows(others, batch.edges);
    edges.slopes = edges.keys.again();
    edges.query = query_at_once_.from(tile.first, query_);
    if (activates_ && !adds_numbers_) {
      kernels_.rows.activate(edges.keys, batch.edges, {edges.query, own_}, on_.heads, on_.features,
                             act_, activated_, slopes);
      const std::size_t width = on_.heads * on_.features;
      edges.keys = consecutive_rows(activated_, width, on_.features);
      edges.slopes = consecutive_rows(slopes, width, on_.features);
      edges.query = {weights_, 0};
    }
    return edges;
  }

  /// The rows that a batch of edges leads to, of values. Keys are read before, and are the same
  /// rows in GATv2.
  EdgeRows values(const Gather<Real>& value_of, const Batch& batch) const {
    const EdgeRows rows = value_of.rows(side_.order.others.data() + batch.begin, batch.edges);
    return key_at_once_.is(value_of) ? rows.again() : rows;
  }

  /// Finds the batch's keys and edge data, and copies them if need be.
  void begin_batch(const Batch& batch) {
    for (std::size_t e = 0; problem_.edge_width > 0 && e < batch.edges; ++e)
      on_.edge_data.copy(side_.order.given(batch.edge(e)), edge_data_ + e * on_.edge_width);
    if (problem_.divides_by_norms() || (activates_ && matrix_.given()))
      make_keys(batch);
    else
      keys_ = key_of_.rows(side_.order.others.data() + batch.begin, batch.edges);
  }

  /// scores[e][h] = the score of edge e of the batch and head h of the panel, in log2 units of s /
  /// temperature. Other lanes stay as they are. `tanh`, if given, receives tanh(s / softcap).
  void compute(const PanelRows& panel, const Batch& batch, Real* scores, Real* tanh = nullptr) {
    if (activates_)
      score_activated(panel, batch, scores);
    else
      multiply(panel, batch, scores);
    if (problem_.softcap > 0) {
      const auto cap = static_cast<Real>(problem_.softcap * problem_.log2_unit);
      kernels_.panels.softcap(panel.vectors, scores, batch.edges, tanh == nullptr ? cap : Real{1});
      for (std::size_t i = 0; tanh != nullptr && i < batch.edges * panel.pitch; ++i) {
        tanh[i] = scores[i];
        scores[i] *= cap;
      }
    }
    leaves_out_ = false;
    if (on_.step.args.edge_bias != nullptr) add_bias(panel, batch, scores);
  }

  /// The panel's sums[h] = the sum of weights[e][h] times the batch's rows, added to what is there
  /// unless `fresh`. Of edges that the batch and panel last computed leave out for a head, rows
  /// that are not finite do not reach the sums.
  void add_rows(const PanelRows& panel, const Batch& batch, const EdgeRows& rows,
                std::size_t features, const Real* weights, bool fresh, Real* sums) const {
    on_.sum_rows(panel, attended(rows, panel, batch.edges, features), batch.edges, weights,
                 features, fresh, sums);
  }
  bool leaves_out(std::size_t edge, std::size_t head) const {
    return leaves_out_ && bias_[head * kBatch + edge] == -std::numeric_limits<Real>::infinity();
  }

  /// Weights of features times a factor, [heads][features], padded.
  void read_weights(Real factor, Real* to) const {
    const std::int64_t features = problem_.features;
    for (std::int64_t h = 0; h < problem_.heads; ++h, to += on_.features) {
      std::fill_n(to, on_.features, Real{0});
      for (std::int64_t x = 0; x < features; ++x)
        to[x] = given_ == nullptr ? factor : given_[h * features + x] * factor;
    }
  }

  /// Gradients are of the node's rows over their norms, times weights of heads; they become
  /// gradients of its rows, [heads][features], padded. `of_weights`, if given, grows by the
  /// gradients of the weights: one of each head's features.
  void leave_norms(std::int64_t node, Real* gradients, Real* of_weights) const {
    const std::size_t features = on_.features;
    query_of_.copy(node, query_);
    for (std::size_t h = 0; h < on_.heads; ++h) {
      const double along = go_through_norm(kernels_, query_ + h * features, features,
                                           head_weight(h), gradients + h * features);
      if (of_weights != nullptr) of_weights[h * features] += static_cast<Real>(along);
    }
  }

  /// act() of queries and keys of the edges [begin, begin + count) of the batch, [count][panel's
  /// heads][features], in a buffer that ends with this batch; `slopes`, if given, receives its
  /// derivatives.
  Real* activate(const PanelRows& panel, std::size_t begin, std::size_t count,
                 Real* slopes = nullptr) const {
    EdgeRows rows = keys_.from_head(panel.first);
    rows.source += begin;
    const Real* const query = query_ + static_cast<std::size_t>(panel.first) * on_.features;
    kernels_.rows.activate(rows, count, OwnRows<Real>{{query, 0}, rows.source}, panel.rows,
                           on_.features, act_, activated_, slopes);
    clear_padding(count * panel.rows, activated_);
    if (slopes != nullptr) clear_padding(count * panel.rows, slopes);
    return activated_;
  }

 private:
  /// The tile that begins with a node and ends before `last`: it has as many nodes and edges as
  /// kernels of nodes take, and no node where the first has too many edges.
  NodeTile tile_of(std::int64_t first, std::int64_t last, const Gather<Real>& value_of,
                   bool together) const {
    const auto most = static_cast<std::int64_t>(activates_ && !adds_numbers_ ? kBatch : kNodeEdges);
    const bool several = together && query_at_once_.has_whole_rows();
    const std::int64_t most_nodes = several ? std::min(most, last - first) : 1;
    const std::int64_t few =
        std::min(most, kTileBytes / (key_at_once_.row_bytes() + value_of.row_bytes()));
    const std::int64_t* const offsets = side_.order.offsets.data() + first;
    std::int64_t nodes = offsets[1] - offsets[0] <= most ? 1 : 0;
    while (nodes > 0 && nodes < most_nodes && offsets[nodes + 1] - offsets[0] <= few) ++nodes;
    const auto edges = static_cast<std::size_t>(offsets[nodes] - offsets[0]);
    return {first, nodes, {offsets[0], edges}, offsets};
  }

  /// The panel's heads of rows. Edges that are left out for a head have zeros there: a weight of 0
  /// protects from nothing, since 0 * NaN is NaN. Such rows are copied, and `features` is theirs.
  EdgeRows attended(const EdgeRows& rows, const PanelRows& panel, std::size_t edges,
                    std::size_t features) const {
    const EdgeRows from = rows.from_head(panel.first);
    if (!leaves_out_) return from;
    for (std::size_t e = 0; e < edges; ++e)
      for (std::size_t h = 0; h < panel.rows; ++h) {
        Real* const to = isolated_ + (e * panel.rows + h) * features;
        if (leaves_out(e, h))
          std::fill_n(to, features, Real{0});
        else
          kernels_.numbers.read(from.type, from.from_head(static_cast<std::int64_t>(h)).row(e), 1,
                                features, to);
      }
    return consecutive_rows(isolated_, panel.rows * features, features);
  }

  void multiply(const PanelRows& panel, const Batch& batch, Real* scores) const {
    on_.multiply_rows(panel, keys_, batch.edges, query_, on_.features, true, scores);
    // From the other end every edge leads to a query of its own.
    if (side_.asked != nullptr)
      on_.add_edge_products(side_.order, side_.asked, edge_data_, panel, batch, scores);
    else if (matrix_.given())
      on_.multiply_rows(panel, edge_data(), batch.edges, edge_query_, on_.edge_width, false,
                        scores);
    const auto scale = [&](auto&& factor_of) {
      for (std::size_t e = 0; e < batch.edges; ++e)
        for (std::size_t h = 0; h < panel.rows; ++h) scores[e * panel.pitch + h] *= factor_of(h);
    };
    if (problem_.divides_by_norms())
      scale([weights = weights_ + panel.first](std::size_t h) { return weights[h]; });
    else if (rest_of_scale_ != 1)
      scale([rest = rest_of_scale_](std::size_t) { return rest; });
  }

  // ---- Rows over their norms ----

  double head_weight(std::size_t head) const {
    return given_ == nullptr ? 1 : static_cast<double>(given_[head]);
  }

  /// A row, [heads][features], becomes one of unit lengths times a factor.
  void divide_by_norms(Real factor, Real* row) const {
    for (std::int64_t h = 0; h < problem_.heads; ++h, row += on_.features)
      divide_by_norm(kernels_, row, on_.features, static_cast<double>(factor), row);
  }

  /// Keys that are no rows as they are given: over their norms, or with what edge data adds.
  void make_keys(const Batch& batch) {
    const std::size_t row = on_.heads * on_.features;
    for (std::size_t e = 0; e < batch.edges; ++e) {
      Real* const to = side_.rows + e * row;
      key_of_.copy_ahead(side_.order.others.data() + batch.edge(e), to);
      if (problem_.divides_by_norms())
        divide_by_norms(Real{1}, to);
      else
        matrix_.add_row(edge_data_ + e * on_.edge_width, to);
    }
    keys_ = consecutive_rows(side_.rows, row, on_.features);
  }

  /// Rows that are infinite have NaN past their features, where they were multiplied with 0.
  void clear_padding(std::size_t rows, Real* values) const {
    const auto features = static_cast<std::size_t>(problem_.features);
    const std::size_t padded = on_.features;
    for (std::size_t r = 0; features < padded && r < rows; ++r)
      std::fill(values + r * padded + features, values + (r + 1) * padded, Real{0});
  }

  /// Few edges at a time, so that what act() makes of them is still in the L1 cache when it is
  /// summed.
  void score_activated(const PanelRows& panel, const Batch& batch, Real* scores) const {
    constexpr std::size_t kTogether = 16;
    const std::size_t features = on_.features;
    for (std::size_t e = 0; e < batch.edges; e += kTogether) {
      const std::size_t count = std::min(kTogether, batch.edges - e);
      const Real* const rows = activate(panel, e, count);
      kernels_.rows.edge_scores(consecutive_rows(rows, panel.rows * features, features), count,
                                weights_ + static_cast<std::size_t>(panel.first) * features,
                                panel.rows, features, true, scores + e * panel.pitch, panel.pitch);
    }
  }

  void add_bias(const PanelRows& panel, const Batch& batch, Real* scores) {
    const Layout& layout = problem_.edge_bias;
    for (std::size_t e = 0; e < batch.edges; ++e) {
      Real of_edge[kMaxPanel];
      kernels_.numbers.read(
          layout.type,
          row_at(on_.step.args.edge_bias, layout, 0, panel.first, side_.order.given(batch.edge(e))),
          layout.strides.head, panel.rows, of_edge);
      for (std::size_t h = 0; h < panel.rows; ++h) {
        bias_[h * kBatch + e] = of_edge[h];
        leaves_out_ = leaves_out_ || of_edge[h] == -std::numeric_limits<Real>::infinity();
      }
    }
    const Real* rows[kMaxPanel];
    for (std::size_t h = 0; h < panel.rows; ++h) rows[h] = bias_ + h * kBatch;
    kernels_.panels.add_rows(panel.vectors, scores, batch.edges, rows, panel.rows,
                             static_cast<Real>(problem_.log2_unit));
  }

  const GraphThread<Real>& on_;
  const EdgeSide<Real> side_;
  const GraphProblem& problem_ = on_.problem;
  const KernelTable<Real>& kernels_ = on_.kernels;
  const Gather<Real> query_of_{kernels_, side_.own, problem_.heads, problem_.features, nullptr};
  const bool activates_ = !problem_.is_product();
  const Gather<Real> key_of_{kernels_,          side_.other, problem_.heads,
                             problem_.features, side_.rows,  activates_};
  const Activation<Real> act_ = problem_.template act<Real>();
  /// A score is act() of a sum of two values of its head. Kernels of nodes read the values of all
  /// heads side by side.
  const bool adds_numbers_ = problem_.score == HEED_SCORE_SUM;
  const Gather<Real> query_at_once_ =
      adds_numbers_ ? Gather<Real>::of_heads(kernels_, side_.own, problem_.heads, nullptr)
                    : query_of_;
  const Gather<Real> key_at_once_ =
      adds_numbers_ ? Gather<Real>::of_heads(kernels_, side_.other, problem_.heads, side_.rows)
                    : key_of_;
  /// Queries, or keys, are multiplied with this, or weights of features.
  const Real factor_ =
      static_cast<Real>(problem_.query_scale(problem_.softcap > 0, problem_.log2_unit));
  const Real scale_ = activates_ ? Real{1} : factor_;
  /// A scaled query is not rounded as a scaled key is, so where bits must be the same from both
  /// ends products are summed of values with all their digits.
  const Real own_scale_ = side_.same_bits ? power_of_two(scale_) : scale_;
  const Real rest_of_scale_ = own_scale_ == scale_ ? Real{1} : scale_ / own_scale_;
  /// As given: of features, or of heads over whose norms rows are; nullptr: all are 1.
  const Real* const given_ = static_cast<const Real*>(on_.step.args.score_weights);
  /// Times what the factors of rows lack.
  Real* const weights_ = on_.buffer(&NodeSlab::score_weights);
  Real* const activated_ = on_.buffer(&NodeSlab::activated);
  Real* const query_ = on_.buffer(&NodeSlab::query);
  Real* const edge_query_ = on_.buffer(&NodeSlab::edge_query);
  Real* const bias_ = on_.buffer(&NodeSlab::bias);
  Real* const edge_data_ = on_.buffer(&NodeSlab::edge_rows);
  Real* const isolated_ = on_.buffer(&NodeSlab::isolated);
  const EdgeMatrix<Real> matrix_{on_, on_.step.args.w_edge_key, on_.step.plan.space.w_edge_key,
                                 on_.features};
  EdgeRows keys_{};
  bool leaves_out_ = false;
  /// Of a tile's edges: which of its nodes has it.
  static constexpr std::int64_t kOwnAtOnce = 8;
  std::int32_t own_[kNodeEdges + kOwnAtOnce];
};

}  // namespace heed
