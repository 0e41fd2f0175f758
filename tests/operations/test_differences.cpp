// The oracle of gradients against differences of the oracle of attention: a random linear function
// of out and lse, a step forward and one back along a random direction of every input. heed itself
// has no part in it.
#include <cmath>
#include <utility>

#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

// ---- Inputs ----

/// The numbers that a gradient is of, in the order of its elements, and how to set them; where
/// that is empty, no step can be taken.
struct Input {
  std::vector<double> numbers = {};
  std::function<void(const std::vector<double>&)> set = nullptr;
  bool exact = true;        ///< of float64
  bool leaves_out = false;  ///< by -inf
  double most = 100;        ///< that is not too far from 0
};

/// Calls function(n, at) for every element of a tensor, or function(n, m, i, o) of a matrix.
template <class Elements, class Function>
void numbered(const Elements& of, Function&& function) {
  std::size_t n = 0;
  of.each([&](const auto&... at) { function(n++, at...); });
}

template <class Elements>
std::vector<double> numbers_of(const Elements& of) {
  std::vector<double> all;
  of.each([&](const auto&... at) { all.push_back(of.get(at...)); });
  return all;
}

template <class Elements>
Input of_elements(Elements& of) {
  Input input;
  input.numbers = numbers_of(of);
  input.set = [&of](const std::vector<double>& to) {
    numbered(of, [&](std::size_t n, const auto&... at) { of.set(at..., to[n]); });
  };
  return input;
}

Input of_tensor(Tensor& tensor) {
  Input input = of_elements(tensor);
  input.exact = tensor.dtype() == HEED_DTYPE_F64;
  // What is shared moves once for all: no step of its own can be taken.
  if (tensor.repeats()) input.set = nullptr;
  return input;
}
Input of_tensor(std::optional<Tensor>& tensor) { return tensor ? of_tensor(*tensor) : Input{}; }

Input of_bias(std::optional<Tensor>& tensor) {
  Input input = of_tensor(tensor);
  input.exact = input.exact || input.set == nullptr;
  input.leaves_out = true;
  return input;
}

Input of_array(std::vector<double>& array) {
  return {array, [&array](const std::vector<double>& to) { array = to; }};
}

/// 0 stands for `by_default`; what is infinite does not move.
Input of_number(double& number, double by_default) {
  const double at_first = number != 0 ? number : by_default;
  if (!std::isfinite(at_first)) return {};
  Input input = {{at_first}, [&number](const std::vector<double>& to) { number = to[0]; }};
  input.most = kInfinity;
  return input;
}

Input of_scale(heed_attention_desc& d) { return of_number(d.scale, scale_of<double>(d)); }

/// The input of a gradient; without numbers where no step can be taken.
Input input_of(std::size_t gradient, Problem& p) {
  switch (gradient) {
    case kGradQuery:
      return of_tensor(p.query);
    case kGradKey:
      return of_tensor(p.key);
    case kGradValue:
      return of_tensor(p.value);
    case kGradBias:
      return of_bias(p.bias);
    case kGradSinks:
      return of_array(p.sinks.numbers);
    case kGradSlopes:
      return of_array(p.slopes.numbers);
    case kGradScale:
      return of_scale(p.desc);
    case kGradScoreWeights:
      return of_array(p.score_weights.numbers);
    default:
      return of_number(p.desc.temperature, 1);
  }
}

Input input_of(std::size_t gradient, BackwardProblem& of) { return input_of(gradient, of.forward); }

Input input_of(std::size_t gradient, BlockBackward& of) {
  Block& b = of.block;
  WeightMatrix* const matrices[] = {&b.w_query, &b.w_key, &b.w_value,
                                    b.w_out ? &*b.w_out : nullptr};
  if (gradient >= kBlockWQuery && gradient <= kBlockWOut)
    return of_tensor(matrices[gradient - kBlockWQuery]->tensor);
  if (gradient >= kBlockBQuery && gradient <= kBlockBOut)
    return of_tensor(matrices[gradient - kBlockBQuery]->bias);
  switch (gradient) {
    case kBlockInputQuery:
      return of_tensor(b.input_query);
    case kBlockInputKey:
      return of_tensor(b.input_key);
    case kBlockHeadWeights:
      return of_array(b.head_weights.numbers);
    default:
      return input_of(inside(gradient), b.attention);
  }
}

Input input_of(std::size_t gradient, GraphBackwardProblem& of) {
  std::optional<Tensor>& input = of.forward.at(gradient);
  return gradient == kGraphEdgeBias ? of_bias(input) : of_tensor(input);
}

// ---- Problems of float64, whose out and lse no step is lost in ----

/// In float64, what is no input besides.
void widen_bias(Problem& p) {
  if (!p.bias) return;
  const Tensor bias = *p.bias;
  p.add_bias(bias.shape(), HEED_DTYPE_F64).assign(bias);
}

/// No score function has a corner, and no activation.
bool is_smooth(const Problem& p) {
  return p.function.name != score_function<Ceiling>().name &&
         p.desc.activation != HEED_ACTIVATION_LEAKY_RELU;
}

std::optional<BackwardProblem> draw_attention(std::uint64_t seed) {
  Problem p = draw_problem(seed, {Lengths::kAny, true});
  if (!is_float64(p.desc) || !is_smooth(p)) return std::nullopt;
  p.want_lse(HEED_DTYPE_F64);
  widen_bias(p);
  if (p.function.call != nullptr && seed % 2 == 0) p.function = score_function<Bend>();
  return BackwardProblem(std::move(p), seed);
}

std::optional<BlockBackward> draw_smooth_block(std::uint64_t seed) {
  Block b = draw_differentiable_block(seed);
  if (b.real != HEED_DTYPE_F64 || !is_smooth(b.attention)) return std::nullopt;
  widen_bias(b.attention);
  return BlockBackward(std::move(b), seed);
}

/// The largest of heads has corners.
std::optional<GraphBackwardProblem> draw_smooth_graph(std::uint64_t seed) {
  GraphProblem p = draw_differentiable_graph(seed);
  if (!is_float64(p.desc) || p.desc.combine == HEED_COMBINE_MAX || p.edges.nodes == 0)
    return std::nullopt;
  if (p.edge_bias && !p.edge_bias->repeats()) {
    const Tensor bias = *p.edge_bias;
    p.desc.edge_bias.dtype = HEED_DTYPE_F64;
    p.add({kGraphEdgeBias});
    p.edge_bias->assign(bias);
  }
  p.desc.lse.dtype = HEED_DTYPE_F64;
  p.add({kGraphLse});
  return GraphBackwardProblem(std::move(p), seed);
}

/// Inputs that are finite, if not left out by -inf, and not far from 0.
template <class AnyProblem>
bool has_differences(AnyProblem& p) {
  for (const auto of : p.all()) {
    const Input input = p.can_want(of) ? input_of(of, p) : Input{};
    if (!input.exact) return false;
    for (const double x : input.numbers)
      if (!(std::fabs(x) <= input.most) && !(input.leaves_out && x == -kInfinity)) return false;
  }
  return true;
}

// ---- What is differentiated ----

Expected outputs_of(BackwardProblem& p) { return p.forward.expected(); }
Expected outputs_of(BlockBackward& p) {
  GivenBlock given = p.block.given();
  given.attention.lse = HEED_LAYOUT_INIT;
  given.attention.lse.dtype = HEED_DTYPE_F64;
  return expect(given);
}
Expected outputs_of(GraphBackwardProblem& p) { return p.forward.expected(); }

struct Loss {
  long double value = 0;
  long double size = 0;  ///< of which rounding may lose a part

  /// A row that attends nothing has no lse.
  void add(const Tensor& gradient, const std::vector<Element>& of) {
    numbered(gradient, [&](std::size_t n, const Axes& at) {
      const Element& e = of[n];
      if (!e.written || e.value == -kInfinity) return;
      const long double term = static_cast<long double>(gradient.get(at)) * e.value;
      value += term;
      size += std::fabs(term);
    });
  }
};

/// <grad_out, out> + <grad_lse, lse>
template <class AnyProblem>
Loss loss_of(AnyProblem& p) {
  const auto outputs = outputs_of(p);
  Loss loss;
  loss.add(p.grad_out, outputs.out);
  if (p.grad_lse) loss.add(*p.grad_lse, outputs.lse);
  return loss;
}

struct Difference {
  long double value;
  long double error;
};

/// Steps of h and h / 2: together they are off by O(h^4), and by less than they differ.
template <class AnyProblem>
Difference difference_of(AnyProblem& p, const Input& input, const std::vector<double>& along) {
  constexpr double kStep = 0x1p-16;
  const auto after = [&](double step) {
    std::vector<double> moved = input.numbers;
    for (std::size_t n = 0; n < moved.size(); ++n) moved[n] += step * along[n];
    input.set(moved);
    return loss_of(p);
  };
  const auto slope = [&](double step) {
    const Loss up = after(step);
    const Loss down = after(-step);
    // The outputs are float64 numbers.
    return std::pair{(up.value - down.value) / (2 * step), 0x1p-52L * (up.size + down.size) / step};
  };
  const auto [whole, lost] = slope(kStep);
  const auto [half, lost_of_half] = slope(kStep / 2);
  return {(4 * half - whole) / 3, std::fabs(half - whole) + lost + 2 * lost_of_half};
}

/// How many were compared, and how many of them within a difference that says something.
struct Seen {
  std::size_t compared = 0;
  std::size_t tight = 0;
};

/// Holds a gradient against a difference along a random direction of its input.
template <class AnyProblem>
void check_slope(const char* name, AnyProblem& p, const Input& input,
                 const std::vector<Element>& gradient, Random& random, Seen& seen) {
  REQUIRE(input.numbers.size() == gradient.size());
  std::vector<double> along;
  long double want = 0;
  long double bound = 0;
  long double size = 0;
  for (const Element& e : gradient) {
    along.push_back(random.normal<double>());
    if (!e.written) continue;
    if (std::isinf(e.bound)) return;
    want += static_cast<long double>(along.back()) * e.value;
    size += std::fabs(along.back() * e.value);
    bound += static_cast<long double>(std::fabs(along.back())) * e.bound;
  }
  const Difference got = difference_of(p, input, along);
  const long double error = got.error + bound + 0x1p-45L * size;
  ++seen.compared;
  if (error < 1e-4L * size || size == 0) ++seen.tight;
  if (std::fabs(got.value - want) <= error) return;
  FAIL_CHECK("gradient of " << name << ": a difference is " << got.value << " within " << error
                            << ", the oracle says " << want);
}

void attend(BackwardProblem& p) { p.attend_as_expected(); }
void attend(BlockBackward&) {}
void attend(GraphBackwardProblem&) {}

/// Checks so many problems that are drawn; of each gradient at least one in `rare`.
template <class AnyProblem>
void check_differences(std::size_t full, std::optional<AnyProblem> (*draw)(std::uint64_t),
                       std::size_t rare) {
  std::vector<Seen> seen(32);
  std::vector<const char*> names(32);
  std::size_t problems = 0;
  for (std::uint64_t seed = 1; problems < count(full); ++seed) {
    std::optional<AnyProblem> p = draw(seed);
    if (!p || !has_differences(*p)) continue;
    ++problems;
    if (seed % 3 != 0) p->give_grad_lse(seed + 1);
    p->want_all();
    INFO("seed " << seed << ": " << line_of(*p));
    attend(*p);
    const auto want = p->expected();
    Random random(seed ^ 0xd1ff);
    for (const auto of : p->all()) {
      names[of] = name_of(of);
      AnyProblem moved = *p;
      const Input input = p->can_want(of) ? input_of(of, moved) : Input{};
      if (input.set) check_slope(names[of], moved, input, want[of], random, seen[of]);
    }
  }
  for (std::size_t of = 0; of < seen.size() && names[of] != nullptr; ++of) {
    INFO(names[of] << ": " << seen[of].tight << " tight ones of " << seen[of].compared);
    CHECK((small() || seen[of].compared >= problems / rare));
    CHECK((small() || seen[of].tight * 2 >= seen[of].compared));
  }
}

}  // namespace

TEST_CASE("gradients of attention are what differences say", "[backward][oracle]") {
  check_differences(400, draw_attention, 14);
}

TEST_CASE("gradients of blocks are what differences say", "[backward][oracle]") {
  check_differences(60, draw_smooth_block, 20);
}

TEST_CASE("gradients over graphs are what differences say", "[backward][oracle]") {
  check_differences(150, draw_smooth_graph, 30);
}
