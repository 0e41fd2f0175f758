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
template <class Function>
void sweep_edges(Function&& function) {
  std::size_t index = 0;
  for (const std::size_t heads : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 16U, 24U})
    for (const std::size_t features : {4U, 8U, 12U, 16U, 20U, 32U, 40U, 64U, 80U, 128U, 256U})
      for (const std::size_t edges : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 31U, 32U})
        for (const Heads layout : {Heads::kSideBySide, Heads::kApart, Heads::kShared}) {
          if (!keep(index++)) continue;
          const EdgeCase c = {heads, features, edges, layout};
          Random random(index);
          INFO(c.line());
          function(c, random);
        }
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

/// A sum of n products and what is there before is within gamma_of(n + 1) of their magnitudes.
template <class Real>
struct Sum {
  Wide<Real> value;
  Wide<Real> magnitude = std::fabs(value);
  Wide<Real> terms = 0;

  void add(Wide<Real> product) {
    value += product;
    magnitude += std::fabs(product);
    terms += 1;
  }
  double ratio(Real got) const {
    const Wide<Real> bound = gamma_of<Real>(terms + 1) * magnitude + terms * kUnderflowOf<Real>;
    return error_ratio(got, value, bound);
  }
};

template <class Real>
BasicBuffer<Real> random_numbers(std::size_t size, Random& random) {
  BasicBuffer<Real> numbers(size);
  numbers.fill([&] { return random.normal<Real>(); });
  return numbers;
}

}  // namespace

TEMPLATE_TEST_CASE("edge_scores multiplies gathered rows by queries, head by head", "[edges]",
                   float, double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    double worst = 0;
    sweep_edges([&](const EdgeCase& c, Random& random) {
      const std::size_t pitch = round_up(c.heads, kernels.panels.lanes);
      const Rows<Real> rows(c, random);
      const BasicBuffer<Real> query = random_numbers<Real>(c.heads * c.features, random);
      const BasicBuffer<Real> before = random_numbers<Real>(c.edges * pitch, random);
      for (const bool fresh : {true, false}) {
        INFO((fresh ? "fresh" : "not fresh"));
        BasicBuffer<Real> tile = before;
        kernels.rows.edge_scores(rows.view(), c.edges, query.data(), c.heads, c.features, fresh,
                                 tile.data(), pitch);
        double ratio = 0;
        bool others_stay = true;
        for (std::size_t e = 0; e < c.edges; ++e) {
          for (std::size_t h = 0; h < c.heads; ++h) {
            Sum<Real> sum = {fresh ? Real{0} : before[e * pitch + h]};
            for (std::size_t x = 0; x < c.features; ++x)
              sum.add(rows.at(e, h, x) * query[h * c.features + x]);
            ratio = std::max(ratio, sum.ratio(tile[e * pitch + h]));
          }
          for (std::size_t i = e * pitch + c.heads; i < (e + 1) * pitch; ++i)
            others_stay = others_stay && same_bits(tile[i], before[i]);
        }
        CHECK(ratio <= 1);
        CHECK((others_stay && tile.intact()));
        worst = std::max(worst, ratio);
      }
    });
    report("edge_scores", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("edge_scores needs no lanes of its own in a tile", "[edges]", float, double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    sweep_edges([&](const EdgeCase& c, Random& random) {
      const Rows<Real> rows(c, random);
      const BasicBuffer<Real> query = random_numbers<Real>(c.heads * c.features, random);
      BasicBuffer<Real> wide(c.edges * kernels.panels.lanes * c.heads);
      BasicBuffer<Real> narrow(c.edges * c.heads);
      const std::size_t pitch = kernels.panels.lanes * c.heads;
      kernels.rows.edge_scores(rows.view(), c.edges, query.data(), c.heads, c.features, true,
                               wide.data(), pitch);
      kernels.rows.edge_scores(rows.view(), c.edges, query.data(), c.heads, c.features, true,
                               narrow.data(), c.heads);
      bool same = true;
      for (std::size_t i = 0; i < c.edges * c.heads; ++i)
        same = same && same_bits(narrow[i], wide[i / c.heads * pitch + i % c.heads]);
      CHECK((same && narrow.intact() && wide.intact()));
    });
  });
}

TEMPLATE_TEST_CASE("a score depends on its own edge alone", "[edges]", float, double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    sweep_edges([&](const EdgeCase& c, Random& random) {
      const Rows<Real> rows(c, random);
      const BasicBuffer<Real> query = random_numbers<Real>(c.heads * c.features, random);
      BasicBuffer<Real> together(c.edges * c.heads);
      BasicBuffer<Real> alone(c.edges * c.heads);
      kernels.rows.edge_scores(rows.view(), c.edges, query.data(), c.heads, c.features, true,
                               together.data(), c.heads);
      for (std::size_t e = 0; e < c.edges; ++e) {
        heed::EdgeRows<Real> one = rows.view();
        one.source += e;
        kernels.rows.edge_scores(one, 1, query.data(), c.heads, c.features, true,
                                 alone.data() + e * c.heads, c.heads);
      }
      CHECK(same_bits(together, alone, 0, c.edges * c.heads));
    });
  });
}

TEMPLATE_TEST_CASE("edge_values adds weighted gathered rows, head by head", "[edges]", float,
                   double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    double worst = 0;
    sweep_edges([&](const EdgeCase& c, Random& random) {
      const std::size_t pitch = round_up(c.heads, kernels.panels.lanes);
      const Rows<Real> rows(c, random);
      const BasicBuffer<Real> weights = random_numbers<Real>(c.edges * pitch, random);
      const BasicBuffer<Real> before = random_numbers<Real>(c.heads * c.features, random);
      for (const bool fresh : {true, false}) {
        INFO((fresh ? "fresh" : "not fresh"));
        auto sums = fresh ? BasicBuffer<Real>(before.size()) : before;  // canaries: never read
        kernels.rows.edge_values(rows.view(), c.edges, weights.data(), pitch, c.heads, c.features,
                                 sums.data(), fresh);
        double ratio = 0;
        for (std::size_t h = 0; h < c.heads; ++h) {
          for (std::size_t x = 0; x < c.features; ++x) {
            Sum<Real> sum = {fresh ? Real{0} : before[h * c.features + x]};
            for (std::size_t e = 0; e < c.edges; ++e)
              sum.add(rows.at(e, h, x) * weights[e * pitch + h]);
            ratio = std::max(ratio, sum.ratio(sums[h * c.features + x]));
          }
        }
        CHECK(ratio <= 1);
        CHECK(sums.intact());
        worst = std::max(worst, ratio);
      }
    });
    report("edge_values", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("edge_values adds what it sums to what is there, bit for bit", "[edges]", float,
                   double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    sweep_edges([&](const EdgeCase& c, Random& random) {
      const Rows<Real> rows(c, random);
      const BasicBuffer<Real> weights = random_numbers<Real>(c.edges * c.heads, random);
      const BasicBuffer<Real> before = random_numbers<Real>(c.heads * c.features, random);
      BasicBuffer<Real> sums(c.heads * c.features);
      BasicBuffer<Real> added = before;
      kernels.rows.edge_values(rows.view(), c.edges, weights.data(), c.heads, c.heads, c.features,
                               sums.data(), true);
      kernels.rows.edge_values(rows.view(), c.edges, weights.data(), c.heads, c.heads, c.features,
                               added.data(), false);
      for (std::size_t i = 0; i < c.heads * c.features; ++i) sums[i] += before[i];
      CHECK(same_bits(sums, added, 0, c.heads * c.features));
    });
  });
}
