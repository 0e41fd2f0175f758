// Weights of a row sum to 1 however large its scores are, whatever each of them is off by: they are
// computed a second time where they are shown, summed over rows or differentiated, and what they
// are divided by must be the sum of those. The oracle cannot see it, because its bounds grow with
// what scores lose.
#include <algorithm>
#include <cmath>

#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

bool is_finite(const Tensor& tensor) {
  bool finite = true;
  tensor.each([&](const Axes& at) { finite = finite && std::isfinite(tensor.get(at)); });
  return finite;
}

/// Queries times a power of ten, from 1 to 10^4.
void scale_up(Tensor& query, std::uint64_t seed) {
  const double factor = std::pow(10.0, static_cast<double>(seed % 5));
  const double most = query.dtype() == HEED_DTYPE_F16 ? 65504 : kInfinity;
  // Where elements share a place, each is multiplied once.
  std::vector<double> numbers;
  query.each([&](const Axes& at) { numbers.push_back(query.get(at)); });
  std::size_t n = 0;
  query.fill([&] { return std::clamp(numbers[n++] * factor, -most, most); });
}

/// Of a number of the arithmetic.
struct Digits {
  /// Weights of `narrow` keys may be rounded to bfloat16, and their sum is then of those.
  Digits(bool float64, bool narrow)
      : unit(format_of(float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32).unit),
        far(float64 ? kFarLse<double> : kFarLse<float>),
        rounding(narrow ? format_of(HEED_DTYPE_BF16).unit : 0) {}

  /// How far a sum of so many weights may be off.
  double of_sum(Index terms) const {
    return unit * (2 * static_cast<double>(terms) + 100) + rounding;
  }
  /// How far each weight may be off that a log-sum-exp normalises: by what that, and products of so
  /// many features, lose before they are far.
  double of_lse(Index features) const {
    return unit * far * (3 * static_cast<double>(features) + 16) + rounding;
  }

  double unit, far, rounding;
};

/// The sums of every head's first features.
std::vector<double> sums_of_heads(const Numbers& numbers) {
  const auto heads = static_cast<std::size_t>(numbers.shape[1]);
  const auto rows = static_cast<std::size_t>(numbers.shape[2]);
  const auto features = static_cast<std::size_t>(numbers.shape[3]);
  std::vector<double> sums(heads, 0.0);
  for (std::size_t i = 0; i < numbers.size(); i += features)
    if (numbers.written(i)) sums[i / features / rows % heads] += numbers[i];
  return sums;
}

/// A problem that has nothing but what sums of weights are of; false: there is nothing to see.
bool simplify(Problem& p, std::uint64_t seed) {
  if (p.desc.hard != 0 || is_scaled(p.desc.key.dtype) || is_scaled(p.desc.value.dtype))
    return false;
  if (!is_finite(p.query) || !is_finite(p.key) || !is_finite(p.value)) return false;
  p.keep_all_weights();
  p.sinks.numbers.clear();
  p.slopes.numbers.clear();
  p.bias.reset();
  p.function = {};
  p.want_nothing_else();
  scale_up(p.query, seed);
  return true;
}

template <class AnyProblem>
Digits digits_of(const AnyProblem& p) {
  const std::uint32_t real = real_dtype(p.desc);
  return {real == HEED_DTYPE_F64, dtype_of(p.desc.key.dtype, real) != real};
}

/// How many rows have weights, by head; all sum to 1 or 0.
std::vector<double> check_weights(Problem& p, const Context& context) {
  const Digits digits = digits_of(p);
  p.want_weights(HEED_WEIGHTS_PROBABILITIES, real_dtype(p.desc));
  p.want_column_sums(real_dtype(p.desc));
  const Outputs got = p.run_all(context);
  p.want_nothing_else();
  std::vector<double> rows(static_cast<std::size_t>(p.desc.query_heads), 0.0);
  const auto keys = static_cast<std::size_t>(p.desc.key_length);
  std::size_t wrong = 0;
  for (std::size_t row = 0; keys > 0 && row < got.weights.size() / keys; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j)
      if (got.weights.written(row * keys + j)) sum += got.weights[row * keys + j];
    const double whole = sum == 0 ? 0 : 1;
    if (!(std::fabs(sum - whole) <= digits.of_sum(p.desc.key_length))) ++wrong;
    rows[row / static_cast<std::size_t>(p.desc.query_length) % rows.size()] += whole;
  }
  CHECK(wrong == 0);
  double columns = 0;
  for (std::size_t i = 0; i < got.column_sums.size(); ++i)
    if (got.column_sums.written(i)) columns += got.column_sums[i];
  double all = 0;
  for (const double n : rows) all += n;
  CHECK(std::fabs(columns - all) <= digits.of_sum(p.desc.key_length + p.desc.query_length) * all);
  return rows;
}

bool check_sums(Problem p, std::uint64_t seed, bool differentiable) {
  if (!simplify(p, seed)) return false;
  const double each = digits_of(p).of_lse(p.desc.features);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    INFO(IsaContexts::name(n));
    const std::vector<double> rows = check_weights(p, plain_contexts()[n]);
    if (!differentiable) continue;
    BackwardProblem gradients(p);
    gradients.grad_out.fill([] { return 1; });
    gradients.want(kGradValue);
    gradients.attend(plain_contexts()[n]);
    const Numbers got = gradients.run(plain_contexts()[n])[kGradValue];
    const std::vector<double> sums = sums_of_heads(got);
    for (std::size_t g = 0; g < sums.size(); ++g) {
      double want = 0;
      const std::size_t group = rows.size() / sums.size();
      for (std::size_t h = 0; h < group; ++h) want += rows[g * group + h];
      CHECK(std::fabs(sums[g] - want) <= each * want);
    }
  }
  return true;
}

/// How many nodes have weights, by head, if those of each sum to 1.
std::vector<double> sums_of_weights(GraphProblem p, const Context& context) {
  p.desc.weights = {};
  p.add({kGraphWeights});
  return sums_of_heads(p.run(context).weights);
}

/// Edges of a node, at most.
constexpr Index kMostEdges = 1000;

bool check_graph_sums(GraphProblem p, std::uint64_t seed) {
  const auto finite = [](const std::optional<Tensor>& tensor) {
    return !tensor || is_finite(*tensor);
  };
  if (p.desc.inputs != HEED_GRAPH_PROJECTED || p.desc.combine != HEED_COMBINE_CONCAT) return false;
  if (p.desc.hard != 0 || p.desc.steps > 1 || p.in_place) return false;
  if (!finite(p.query) || !finite(p.key) || !finite(p.value) || !finite(p.edge_data)) return false;
  if (!finite(p.edge_bias) || !finite(p.w_edge_key)) return false;
  p.lse.reset();
  p.weights.reset();
  p.keep_all_weights();
  scale_up(*p.query, seed);
  const Digits digits = digits_of(p);
  const double each = digits.of_lse(p.desc.features + p.desc.edge_width);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    INFO(IsaContexts::name(n));
    const std::vector<double> nodes = sums_of_weights(p, plain_contexts()[n]);
    GraphBackwardProblem gradients(p);
    gradients.grad_out.fill([] { return 1; });
    gradients.want(kGraphValue);
    const std::vector<double> sums = sums_of_heads(gradients.run(plain_contexts()[n])[kGraphValue]);
    for (std::size_t h = 0; h < sums.size(); ++h) {
      const double whole = std::round(nodes[h]);
      CHECK(std::fabs(nodes[h] - whole) <= digits.of_sum(kMostEdges) * whole);
      CHECK(std::fabs(sums[h] - whole) <= each * whole);
    }
  }
  return true;
}

}  // namespace

TEST_CASE("weights of a row sum to 1 however large scores are", "[sums]") {
  for (const Lengths lengths : {Lengths::kAny, Lengths::kFew, Lengths::kLong})
    check_drawn(
        lengths == Lengths::kLong ? 40 : 400, 10,
        [=](std::uint64_t seed) { return draw_problem(seed, {lengths}); },
        [](const Problem& p, std::uint64_t seed) { return check_sums(p, seed, false); });
}

TEST_CASE("so do those that gradients of values are made of", "[sums][backward]") {
  for (const Lengths lengths : {Lengths::kAny, Lengths::kFew})
    check_drawn(
        400, 10,
        [=](std::uint64_t seed) {
          return draw_problem(seed, {lengths, true});
        },
        [](const Problem& p, std::uint64_t seed) { return check_sums(p, seed, true); });
}

TEST_CASE("so do those of few rows with many features, which a forward run adds up otherwise",
          "[sums][backward]") {
  for (const Index queries : {1, 2})
    check_drawn(
        40, 40,
        [=](std::uint64_t seed) {
          return filled({queries, 64, 64, 4}, seed, 300);
        },
        [](const Problem& p, std::uint64_t) { return check_sums(p, 0, true); });
}

TEST_CASE("so do those of edges, and those that gradients over graphs are made of",
          "[sums][backward][graphs]") {
  check_drawn(1600, 20, draw_differentiable_graph, check_graph_sums);
  check_drawn(
      400, 5, [](std::uint64_t seed) { return draw_graph_backward(seed, Graphs::kEdges).forward; },
      check_graph_sums);
}
