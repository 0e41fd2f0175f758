// edge_scores and edge_values: gathered rows times queries, and weights times gathered rows.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// How the heads of a row follow each other.
enum class Heads { kSideBySide, kApart, kShared };

struct EdgeCase {
  std::size_t heads;
  std::size_t features;
  std::size_t edges;
  Heads layout;
  std::uint64_t seed;
  std::size_t pitch = 0;

  void fit(std::size_t lanes) { pitch = round_up(heads, lanes); }
  std::string line() const {
    const char* const names[] = {"side by side", "apart", "shared"};
    std::ostringstream text;
    text << "heads " << heads << " features " << features << " edges " << edges << " "
         << names[static_cast<int>(layout)];
    return text.str();
  }
};

/// Every power of two that heads are taken in, and what is left of it; features that fill vectors
/// of 64, 32 and 16 bytes.
std::vector<EdgeCase> edge_sizes() {
  std::vector<EdgeCase> cases;
  std::size_t index = 0;
  for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U, 24U})
    for (const std::size_t features : {4U, 8U, 12U, 16U, 20U, 32U, 40U, 64U, 80U, 128U, 256U})
      for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 31U, 32U})
        for (const Heads layout : {Heads::kSideBySide, Heads::kApart, Heads::kShared})
          if (keep(index++)) cases.push_back({heads, features, edges, layout, index});
  return cases;
}

/// Rows of some nodes, canaries between them, and the edges that point at them, some at the same.
template <class Real>
class Rows {
 public:
  Rows(const EdgeCase& c, Random& random)
      : head_stride_(c.layout == Heads::kShared ? 0 : c.features + gap(c)),
        stride_((c.layout == Heads::kShared ? c.features : c.heads * head_stride_) + 3),
        buffer_(kNodes * stride_, 1) {
    const std::size_t heads = c.layout == Heads::kShared ? 1 : c.heads;
    for (std::size_t n = 0; n < kNodes; ++n)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t x = 0; x < c.features; ++x)
          buffer_[n * stride_ + h * head_stride_ + x] = random.normal<Real>();
    for (std::size_t e = 0; e < c.edges; ++e)
      source_.push_back(static_cast<std::int32_t>(random.integer(0, kNodes - 1)));
  }

  heed::EdgeRows<Real> view() const {
    return {buffer_.data(), source_.data(), static_cast<std::ptrdiff_t>(stride_),
            static_cast<std::ptrdiff_t>(head_stride_)};
  }
  Wide<Real> at(std::size_t edge, std::size_t head, std::size_t x) const {
    return buffer_[static_cast<std::size_t>(source_[edge]) * stride_ + head * head_stride_ + x];
  }

 private:
  static constexpr std::size_t kNodes = 11;
  static std::size_t gap(const EdgeCase& c) { return c.layout == Heads::kApart ? 5 : 0; }

  std::size_t head_stride_;
  std::size_t stride_;
  BasicBuffer<Real> buffer_;
  std::vector<std::int32_t> source_;
};

/// Rows, a query, and what edge_scores makes of them.
template <class Real>
struct Queries {
  Queries(const EdgeCase& whole, Random& random)
      : c(whole), rows(c, random), query(normals<Real>(c.heads * c.features, random)) {}

  /// The scores of `edges` edges from `first` on.
  void score(const Table<Real>& kernels, std::size_t first, std::size_t edges, bool fresh,
             Real* scores, std::size_t pitch) const {
    heed::EdgeRows<Real> view = rows.view();
    view.source += first;
    kernels.rows.edge_scores(view, edges, query.data(), c.heads, c.features, fresh, scores, pitch);
  }

  EdgeCase c;
  Rows<Real> rows;
  BasicBuffer<Real> query;
};

/// Rows, weights, and what edge_values makes of them.
template <class Real>
struct Values {
  Values(const EdgeCase& whole, Random& random)
      : c(whole),
        rows(c, random),
        weights(normals<Real>(c.edges * c.pitch, random)),
        before(normals<Real>(c.heads * c.features, random)) {}

  BasicBuffer<Real> sums(const Table<Real>& kernels, bool fresh) const {
    auto sums = fresh ? BasicBuffer<Real>(before.size()) : before;  // canaries: never read
    kernels.rows.edge_values(rows.view(), c.edges, weights.data(), c.pitch, c.heads, c.features,
                             sums.data(), fresh);
    return sums;
  }

  EdgeCase c;
  Rows<Real> rows;
  BasicBuffer<Real> weights, before;
};

}  // namespace

TEMPLATE_TEST_CASE("edge_scores multiplies gathered rows by queries, head by head", "[edges]",
                   float, double) {
  for_each_case<TestType>(edge_sizes(), [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Queries<TestType> q(c, random);
    const auto before = normals<TestType>(c.edges * c.pitch, random);
    double worst = 0;
    for (const bool fresh : {true, false}) {
      INFO((fresh ? "fresh" : "not fresh"));
      auto tile = before;
      q.score(kernels, 0, c.edges, fresh, tile.data(), c.pitch);
      const double ratio = worst_of(c.edges, c.pitch, [&](std::size_t e, std::size_t h) {
        const std::size_t at = e * c.pitch + h;
        if (h >= c.heads) return wrong_unless(same_bits(tile[at], before[at]));
        Sum<TestType> sum = {fresh ? TestType{0} : before[at]};
        for (std::size_t x = 0; x < c.features; ++x)
          sum.add(q.rows.at(e, h, x), q.query[h * c.features + x]);
        return sum.ratio(tile[at]);
      });
      CHECK(ratio <= 1);
      CHECK(tile.intact());
      worst = std::max(worst, ratio);
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("edge_scores needs no lanes of its own in a tile", "[edges]", float, double) {
  for_each_case<TestType>(edge_sizes(), [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Queries<TestType> q(c, random);
    const std::size_t pitch = kernels.panels.lanes * c.heads;
    BasicBuffer<TestType> wide(c.edges * pitch);
    BasicBuffer<TestType> narrow(c.edges * c.heads);
    q.score(kernels, 0, c.edges, true, wide.data(), pitch);
    q.score(kernels, 0, c.edges, true, narrow.data(), c.heads);
    CHECK(all(c.edges, c.heads, [&](std::size_t e, std::size_t h) {
      return same_bits(narrow[e * c.heads + h], wide[e * pitch + h]);
    }));
    CHECK((narrow.intact() && wide.intact()));
  });
}

TEMPLATE_TEST_CASE("a score depends on its own edge alone", "[edges]", float, double) {
  for_each_case<TestType>(edge_sizes(), [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Queries<TestType> q(c, random);
    BasicBuffer<TestType> together(c.edges * c.heads);
    BasicBuffer<TestType> alone(c.edges * c.heads);
    q.score(kernels, 0, c.edges, true, together.data(), c.heads);
    for (std::size_t e = 0; e < c.edges; ++e)
      q.score(kernels, e, 1, true, alone.data() + e * c.heads, c.heads);
    CHECK(same_bits(together, alone));
  });
}

TEMPLATE_TEST_CASE("edge_values adds weighted gathered rows, head by head", "[edges]", float,
                   double) {
  for_each_case<TestType>(edge_sizes(), [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Values<TestType> v(c, random);
    double worst = 0;
    for (const bool fresh : {true, false}) {
      INFO((fresh ? "fresh" : "not fresh"));
      const auto sums = v.sums(kernels, fresh);
      const double ratio = worst_of(c.heads, c.features, [&](std::size_t h, std::size_t x) {
        Sum<TestType> sum = {fresh ? TestType{0} : v.before[h * c.features + x]};
        for (std::size_t e = 0; e < c.edges; ++e)
          sum.add(v.rows.at(e, h, x), v.weights[e * c.pitch + h]);
        return sum.ratio(sums[h * c.features + x]);
      });
      CHECK(ratio <= 1);
      CHECK(sums.intact());
      worst = std::max(worst, ratio);
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("edge_values adds what it sums to what is there, bit for bit", "[edges]", float,
                   double) {
  for_each_case<TestType>(edge_sizes(), [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Values<TestType> v(c, random);
    const auto sums = v.sums(kernels, true);
    const auto added = v.sums(kernels, false);
    CHECK(all(sums.size(),
              [&](std::size_t i) { return same_bits<TestType>(added[i], v.before[i] + sums[i]); }));
  });
}
