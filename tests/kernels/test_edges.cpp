// edge_scores and edge_values: gathered rows times queries, and weights times gathered rows, in
// every type that the rows may be stored in.
#include "tests/kernels/formats.hpp"
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// How the heads of a row follow each other.
enum class Heads { kSideBySide, kApart, kShared };

struct EdgeCase {
  Kind kind;
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
    text << name_of(kind.type) << " heads " << heads << " features " << features << " edges "
         << edges << " " << names[static_cast<int>(layout)];
    return text.str();
  }
};

/// Every power of two that heads are taken in, and what is left of it; features that fill vectors
/// of 64, 32 and 16 bytes.
template <class Real>
std::vector<EdgeCase> edge_sizes() {
  std::vector<Kind> kinds = {kF64};
  if constexpr (std::is_same_v<Real, float>) kinds = {kF32, kBf16, kF16};
  std::vector<EdgeCase> cases;
  std::size_t index = 0;
  for (const Kind& kind : kinds)
    for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U, 24U})
      for (const std::size_t features : {4U, 8U, 12U, 16U, 20U, 32U, 40U, 64U, 80U, 128U, 256U})
        for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 31U, 32U})
          for (const Heads layout : {Heads::kSideBySide, Heads::kApart, Heads::kShared})
            if (keep(index++)) cases.push_back({kind, heads, features, edges, layout, index});
  return cases;
}

/// Rows of some nodes, NaN between them, and the edges that point at them, some at the same.
template <class Real>
class Rows {
 public:
  Rows(const Table<Real>& kernels, const EdgeCase& c, Random& random)
      : kind_(c.kind),
        head_stride_(c.layout == Heads::kShared ? 0 : c.features + (c.layout == Heads::kApart) * 5),
        stride_((c.layout == Heads::kShared ? c.features : c.heads * head_stride_) + 3),
        memory_(kNodes * stride_ * kind_.size(), 0xff) {
    const std::size_t heads = c.layout == Heads::kShared ? 1 : c.heads;
    for (std::size_t n = 0; n < kNodes; ++n)
      for (std::size_t h = 0; h < heads; ++h) {
        const auto row = normals<Real>(c.features, random);
        kernels.numbers.write(kind_.type, row.data(), c.features, memory_.data() + place(n, h), 1);
      }
    for (std::size_t e = 0; e < c.edges; ++e)
      source_.push_back(static_cast<std::int32_t>(random.integer(0, kNodes - 1)));
  }

  /// From an edge on.
  heed::EdgeRows from(std::size_t edge) const {
    return {kind_.type, memory_.data(), source_.data() + edge,
            static_cast<std::ptrdiff_t>(stride_ * kind_.size()),
            static_cast<std::ptrdiff_t>(head_stride_ * kind_.size())};
  }
  Wide<Real> at(std::size_t edge, std::size_t head, std::size_t x) const {
    const std::size_t begin = place(static_cast<std::size_t>(source_[edge]), head);
    return static_cast<Wide<Real>>(kind_.value_at(memory_.data() + begin + x * kind_.size()));
  }

 private:
  static constexpr std::size_t kNodes = 11;
  std::size_t place(std::size_t node, std::size_t head) const {
    return (node * stride_ + head * head_stride_) * kind_.size();
  }

  Kind kind_;
  std::size_t head_stride_, stride_;
  std::vector<unsigned char> memory_;
  std::vector<std::int32_t> source_;
};

}  // namespace

TEMPLATE_TEST_CASE("edge_scores multiplies gathered rows by queries, each edge and head by itself",
                   "[edges]", float, double) {
  const auto check = [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Rows<TestType> rows(kernels, c, random);
    const auto query = normals<TestType>(c.heads * c.features, random);
    const auto before = normals<TestType>(c.edges * c.pitch, random);
    const auto score = [&](std::size_t first, std::size_t edges, bool fresh, auto& to,
                           std::size_t pitch) {
      kernels.rows.edge_scores(rows.from(first), edges, query.data(), c.heads, c.features, fresh,
                               to.data() + first * pitch, pitch);
    };
    BasicBuffer<TestType> alone(c.edges * c.heads);
    for (std::size_t e = 0; e < c.edges; ++e) score(e, 1, true, alone, c.heads);
    BasicBuffer<TestType> narrow(c.edges * c.heads);  // without lanes that belong to no head
    score(0, c.edges, true, narrow, c.heads);
    CHECK((alone.intact() && same_bits(narrow, alone)));
    double worst = 0;
    for (const bool fresh : {true, false}) {
      INFO((fresh ? "fresh" : "not fresh"));
      auto tile = before;
      score(0, c.edges, fresh, tile, c.pitch);
      CHECK(tile.intact());
      worst = std::max(worst, worst_of(c.edges, c.pitch, [&](std::size_t e, std::size_t h) {
                         const std::size_t at = e * c.pitch + h;
                         if (h >= c.heads) return wrong_unless(same_bits(tile[at], before[at]));
                         if (fresh && !same_bits(tile[at], alone[e * c.heads + h])) return HUGE_VAL;
                         Sum<TestType> sum = {fresh ? TestType{0} : before[at]};
                         for (std::size_t x = 0; x < c.features; ++x)
                           sum.add(rows.at(e, h, x), query[h * c.features + x]);
                         return sum.ratio(tile[at]);
                       }));
    }
    return worst;
  };
  for_each_case<TestType>(edge_sizes<TestType>(), check);
}

TEMPLATE_TEST_CASE("edge_values adds weighted gathered rows to what is there, head by head",
                   "[edges]", float, double) {
  const auto check = [](const auto& kernels, const EdgeCase& c, Random& random) {
    const Rows<TestType> rows(kernels, c, random);
    const auto weights = normals<TestType>(c.edges * c.pitch, random);
    const auto before = normals<TestType>(c.heads * c.features, random);
    auto added = before;
    BasicBuffer<TestType> sums(before.size());  // canaries: never read
    for (auto* const to : {&sums, &added})
      kernels.rows.edge_values(rows.from(0), c.edges, weights.data(), c.pitch, c.heads, c.features,
                               to->data(), to == &sums);
    CHECK((sums.intact() && added.intact()));
    CHECK(all(sums.size(),
              [&](std::size_t i) { return same_bits<TestType>(added[i], before[i] + sums[i]); }));
    return worst_of(c.heads, c.features, [&](std::size_t h, std::size_t x) {
      Sum<TestType> sum;
      for (std::size_t e = 0; e < c.edges; ++e) sum.add(rows.at(e, h, x), weights[e * c.pitch + h]);
      return sum.ratio(sums[h * c.features + x]);
    });
  };
  for_each_case<TestType>(edge_sizes<TestType>(), check);
}
