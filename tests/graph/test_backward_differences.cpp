// The oracle of gradients over graphs against differences of the oracle of attention: a random
// linear function of out and lse, a step forward and one back along a random direction of every
// input. heed itself has no part in it.
#include <cmath>

#include "tests/problem/random_graph_backward.hpp"
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

struct Loss {
  long double value = 0;
  long double size = 0;
};

/// <grad_out, out> + <grad_lse, lse>; a node that attends nothing has no lse.
Loss loss_of(GraphBackwardProblem& p) {
  const GraphExpected expected = p.forward.expected();
  Loss loss;
  const auto add = [&](const Tensor& gradient, const std::vector<Element>& of) {
    std::size_t n = 0;
    gradient.each([&](const Axes& at) {
      const Element& e = of[n++];
      if (e.value == -kInfinity) return;
      const long double term = static_cast<long double>(gradient.get(at)) * e.value;
      loss.value += term;
      loss.size += std::fabs(term);
    });
  };
  add(p.grad_out, expected.out);
  if (p.grad_lse) add(*p.grad_lse, expected.lse);
  return loss;
}

/// The input that a gradient is of; NULL: head weights.
Tensor* input_of(GraphGradientOf of, GraphProblem& p) {
  const auto maybe = [](std::optional<Tensor>& tensor) { return tensor ? &*tensor : nullptr; };
  std::optional<Tensor>* const inputs[] = {
      &p.query,          &p.key,          &p.value,          &p.data,
      &p.w_query.matrix, &p.w_key.matrix, &p.w_value.matrix, &p.w_query.bias,
      &p.w_key.bias,     &p.w_value.bias, &p.edge_data,      &p.w_edge_key,
      &p.w_edge_value,   &p.edge_bias};
  return of == kGraphHeadWeights ? nullptr : maybe(*inputs[of]);
}

/// The slope along a direction, from steps of h and h / 2, with its error.
template <class Move>
std::pair<long double, long double> slope_of(GraphBackwardProblem& p, Move&& move) {
  constexpr double kStep = 0x1p-16;
  const auto slope = [&](double step) {
    move(step);
    const Loss after = loss_of(p);
    move(-step);
    const Loss before = loss_of(p);
    return std::pair{(after.value - before.value) / (2 * step),
                     0x1p-52L * (after.size + before.size) / step};
  };
  const auto [whole, lost] = slope(kStep);
  const auto [half, lost_of_half] = slope(kStep / 2);
  move(0);
  return {(4 * half - whole) / 3, std::fabs(half - whole) + lost + 2 * lost_of_half};
}

bool shares_places(const Tensor& tensor) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (tensor.strides()[axis] == 0 && tensor.shape()[axis] > 1) return true;
  return false;
}

/// All of at most 100, but what may be left out.
bool near(const Tensor& tensor, bool leaves_out) {
  bool all = true;
  tensor.each([&](const Axes& at) {
    const double x = tensor.get(at);
    all = all && (std::fabs(x) <= 100 || (leaves_out && x == -kInfinity));
  });
  return all;
}

/// A problem of float64 whose inputs are near 0, whatever is left out; the largest of heads has
/// corners.
bool has_differences(GraphProblem& p) {
  if (!is_float64(p.desc) || p.desc.combine == HEED_COMBINE_MAX) return false;
  for (std::size_t of = 0; of < kGraphHeadWeights; ++of) {
    Tensor* const input = input_of(static_cast<GraphGradientOf>(of), p);
    const bool bias = of == kGraphEdgeBias;
    if (input != nullptr && !near(*input, bias)) return false;
    if (input != nullptr && !bias && input->dtype() != HEED_DTYPE_F64) return false;
  }
  return p.edges.nodes > 0;
}

struct Seen {
  std::size_t compared = 0;
  std::size_t tight = 0;
};

void check_gradient(GraphGradientOf of, GraphBackwardProblem& p,
                    const std::vector<Element>& elements, Random& random, Seen& seen) {
  Tensor* const input = input_of(of, p.forward);
  if (input != nullptr && shares_places(*input)) return;
  std::vector<double>& weights = p.forward.head_weights.numbers;
  std::vector<double> at_first;
  if (input != nullptr) {
    input->each([&](const Axes& at) { at_first.push_back(input->get(at)); });
  } else {
    at_first = weights;
  }
  REQUIRE(at_first.size() == elements.size());
  std::vector<double> along(at_first.size());
  for (double& x : along) x = random.normal<double>();
  const auto move = [&](double step) {
    std::size_t n = 0;
    if (input == nullptr)
      for (; n < weights.size(); ++n) weights[n] = at_first[n] + step * along[n];
    if (input != nullptr)
      input->each([&](const Axes& at) {
        input->set(at, at_first[n] + step * along[n]);
        ++n;
      });
  };
  long double want = 0;
  long double bound = 0;
  long double size = 0;
  for (std::size_t n = 0; n < elements.size(); ++n) {
    if (std::isinf(elements[n].bound)) return;
    want += static_cast<long double>(along[n]) * elements[n].value;
    size += std::fabs(along[n] * elements[n].value);
    bound += static_cast<long double>(std::fabs(along[n])) * elements[n].bound;
  }
  const auto [got, lost] = slope_of(p, move);
  const long double error = lost + bound + 0x1p-45L * size;
  ++seen.compared;
  if (error < 1e-4L * size || size == 0) ++seen.tight;
  if (std::fabs(got - want) <= error) return;
  FAIL_CHECK("gradient of " << name_of(of) << ": a difference is " << got << " within " << error
                            << ", the oracle says " << want);
}

}  // namespace

TEST_CASE("gradients over graphs are what differences say", "[backward][oracle]") {
  std::array<Seen, kGraphGradients> seen;
  std::size_t problems = 0;
  for (std::uint64_t seed = 1; problems < count(150); ++seed) {
    GraphProblem forward = differentiable_graph(seed);
    if (!has_differences(forward)) continue;
    ++problems;
    if (forward.edge_bias && !shares_places(*forward.edge_bias)) {
      const Tensor bias = *forward.edge_bias;
      forward.add_edge_bias(HEED_DTYPE_F64);
      forward.edge_bias->assign(bias);
    }
    forward.add_out(HEED_DTYPE_F64);
    forward.want_lse(HEED_DTYPE_F64);
    GraphBackwardProblem p(std::move(forward), seed);
    if (seed % 3 != 0) p.give_grad_lse(seed + 1);
    p.want_all();
    INFO("seed " << seed << ": " << line_of(p));
    const ExpectedGraphGradients want = p.expected();
    Random random(seed ^ 0xd1ff);
    for (const GraphGradientOf of : all_graph_gradients())
      if (p.can_want(of)) check_gradient(of, p, want[of], random, seen[of]);
  }
  for (const GraphGradientOf of : all_graph_gradients()) {
    INFO(name_of(of) << ": " << seen[of].tight << " tight ones of " << seen[of].compared);
    CHECK((small() || seen[of].compared > 5));
    CHECK((small() || seen[of].tight * 2 >= seen[of].compared));
  }
}
