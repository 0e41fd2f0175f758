// What is not finite reaches nobody who may not see it: numbers of inputs become NaN or infinite,
// and all results of which the oracle says that they stay what they were keep their bits, whatever
// keeps those numbers from them: masks, -inf in biases, windows, lengths, packed neighbours, pages,
// edges that are not there, hard attention's choice.
#include <cmath>

#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

constexpr double kSpecials[] = {kNaN, kInfinity, -kInfinity};

double any_special(Random& random) { return kSpecials[random.integer(0, 2)]; }

/// Makes an element special, with those that share its place.
void spoil(Tensor& tensor, Random& random) {
  Axes at{};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.shape()[axis] == 0) return;
    at[axis] = random.integer(0, tensor.shape()[axis] - 1);
  }
  tensor.set(at, any_special(random));
}

/// Of 8 bits as they can be.
void spoil(Problem& p, Tensor Problem::*tensor, Random& random) {
  if (!is_scaled((p.*tensor).dtype())) return spoil(p.*tensor, random);
  const Axes& n = (p.*tensor).shape();
  const Index row = random.integer(0, std::max<Index>(n[2] - 1, 0));
  const Index head = random.integer(0, n[1] - 1);
  p.spoil(
      tensor, [&](const Axes& at) { return at[1] == head && at[2] == row && at[3] == 0; }, kNaN);
}

/// Makes every score 1, those too that a bias of -inf has masked, and NaN.
struct Level : SureSlope<Level> {
  static constexpr const char* kName = "level";
  template <class Real>
  static Real change(Real, const Place&) {
    return 1;
  }
  template <class Real>
  static Real slope(Real, const Place&) {
    return 0;
  }
  static WideScore expect(const WideScore&, const Place&, long double) { return {1, 0}; }
};

// ---- Inputs of each operation: whether bits stay, and not numbers alone ----

/// A query that is not finite has the rows beside it computed in other steps.
bool spoil_inputs(Problem& p, Random& random) {
  const bool query = random.integer(0, 5) == 0;
  if (query) spoil(p.query, random);
  for (std::int64_t n = random.integer(1, 3); n > 0; --n)
    if (p.bias && random.integer(0, 3) == 0)
      spoil(*p.bias, random);
    else
      spoil(p, random.integer(0, 1) == 0 ? &Problem::key : &Problem::value, random);
  return !query;
}

bool spoil_inputs(Block& b, Random& random) {
  spoil(b.input_key ? *b.input_key : b.input_query, random);
  if (b.attention.bias && random.integer(0, 2) == 0) spoil(*b.attention.bias, random);
  return b.input_key.has_value();
}

/// One tensor alone: where all scores of a node have become -inf, heed does not look at NaN in what
/// edge data add to values, and the oracle does.
bool spoil_one(std::initializer_list<std::optional<Tensor>*> tensors, Random& random) {
  std::vector<Tensor*> all;
  for (auto* const tensor : tensors)
    if (*tensor) all.push_back(&**tensor);
  spoil(*random.pick(all), random);
  return true;
}

bool spoil_inputs(GraphProblem& p, Random& random) {
  return spoil_one({&p.query, &p.key, &p.value, &p.data, &p.edge_data, &p.edge_bias, &p.w_edge_key,
                    &p.w_edge_value, &p.w_query, &p.w_key, &p.w_value},
                   random);
}

/// What is not finite has sums of gradients made in another order.
bool spoil_inputs(BackwardProblem& p, Random& random) {
  if (random.integer(0, 3) == 0)
    spoil(p.grad_out, random);
  else
    spoil_inputs(p.forward, random);
  p.attend(plain_contexts()[0]);
  return false;
}
bool spoil_inputs(BlockBackward& p, Random& random) {
  spoil_inputs(p.block, random);
  return false;
}
/// Not the matrix of edge keys: where it makes all scores of a node -inf, heed's gradient of the
/// query is NaN, and the oracle's 0.
bool spoil_inputs(GraphBackwardProblem& p, Random& random) {
  GraphProblem& f = p.forward;
  spoil_one({&f.query, &f.key, &f.value, &f.data, &f.edge_data, &f.edge_bias, &f.w_edge_value,
             &f.w_query, &f.w_key, &f.w_value},
            random);
  return false;
}

// ---- What stays ----

using Wants = std::vector<std::vector<Element>>;

/// For every element whether it should be what it was.
using Stays = std::vector<std::vector<bool>>;

template <class AnyProblem>
Stays stays(const AnyProblem&, const Results&, const Wants& want, const Wants& before) {
  Stays all;
  for (std::size_t k = 0; k < want.size(); ++k) {
    all.emplace_back();
    for (std::size_t i = 0; i < want[k].size(); ++i) {
      const Element &a = want[k][i], &b = before[k][i];
      all[k].push_back(a.written == b.written && a.value == b.value && a.bound == b.bound &&
                       !std::isinf(a.bound));
    }
  }
  return all;
}

/// The heads of a node are computed together: it stays if all of it does. Weights are of edges.
Stays stays(const GraphProblem& p, const Results& results, const Wants& want, const Wants& before) {
  Stays all = stays<GraphProblem>(p, results, want, before);
  std::vector<bool> nodes(static_cast<std::size_t>(p.edges.nodes), true);
  const auto node = [&](std::size_t k, std::size_t i) {
    return i / static_cast<std::size_t>(results[k].numbers.shape[3]) % nodes.size();
  };
  for (const bool spread : {false, true})
    for (std::size_t k = 0; k < all.size(); ++k)
      for (std::size_t i = 0; i < all[k].size(); ++i) {
        const bool of_edge = results[k].of == 2;
        if (spread)
          all[k][i] = !of_edge && nodes[node(k, i)];
        else if (!of_edge && !all[k][i])
          nodes[node(k, i)] = false;
      }
  return all;
}

/// How many elements kept what they were, and how many did not.
struct Seen {
  std::size_t kept = 0;
  std::size_t changed = 0;
};

/// Whether what should stay has the bits that it had.
void check_kept(const std::string& what, const Result& got, const Result& clean,
                const std::vector<bool>& stays, Seen& seen) {
  for (std::size_t i = 0; i < stays.size(); ++i) {
    ++(stays[i] ? seen.kept : seen.changed);
    if (!stays[i] || same_element(got.numbers, i, clean.numbers, i)) continue;
    FAIL_CHECK(what << ", " << got.name << ": element " << i << " is " << got.numbers[i]
                    << ", and was " << clean.numbers[i]);
    return;
  }
}

Wants wants_of(const Wanted& wanted, const char* isa, const Results& got) {
  Wants all;
  for (const Result& result : got) all.push_back(wanted(isa, result));
  return all;
}

template <class AnyProblem>
void check_leaks(std::size_t full, AnyProblem (*draw)(std::uint64_t)) {
  Seen seen;
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    AnyProblem p = draw(seed);
    const std::string line = line_of(p);
    INFO("seed " << seed << ": " << line);
    const Wanted before = wanted(p);
    std::vector<Results> clean;
    for (std::size_t n = 0; n < plain_contexts().size(); ++n)
      clean.push_back(run(p, plain_contexts()[n]));
    Random random(seed ^ 0x1ea5);
    const bool bits = spoil_inputs(p, random);
    const Wanted after = wanted(p);
    for (std::size_t n = 0; n < clean.size(); ++n) {
      const char* const isa = IsaContexts::name(n);
      const Results got = run(p, plain_contexts()[n]);
      const Wants want = wants_of(after, isa, got);
      for (std::size_t k = 0; k < got.size(); ++k)
        check_elements(isa + (": " + line), got[k].numbers, want[k], Unspecified::kAllowed);
      // Instruction sets that multiply pairs multiply only finite ones so.
      if (!bits || multiplies_pairs(isa)) continue;
      const Stays stay = stays(p, got, want, wants_of(before, isa, clean[n]));
      for (std::size_t k = 0; k < got.size(); ++k)
        check_kept(isa, got[k], clean[n][k], stay[k], seen);
    }
  }
  INFO(seen.kept << " kept, " << seen.changed << " changed");
  CHECK(seen.kept >= seen.changed / 20);
  CHECK((small() || seen.changed >= seen.kept / 100));
}

/// Without sinks near the end of float32, beside which NaN may become nothing.
Problem moderate(Problem p) {
  for (double& x : p.sinks.numbers)
    if (std::fabs(x) > 1e30 && std::isfinite(x)) x = 1;
  return p;
}

Problem draw_moderate(std::uint64_t seed) { return moderate(draw_form(seed)); }
Problem draw_few_moderate(std::uint64_t seed) { return moderate(drawn<Lengths::kFew>(seed)); }

/// With scores that a function makes finite.
Problem draw_level(std::uint64_t seed) {
  Problem p = draw_moderate(seed);
  p.function = score_function<Level>();
  return p;
}

BackwardProblem draw_moderate_gradients(std::uint64_t seed) {
  BackwardProblem p = draw_gradients(seed);
  p.forward = moderate(std::move(p.forward));
  p.attend(plain_contexts()[0]);
  return p;
}

}  // namespace

TEST_CASE("what is not finite reaches nobody who may not attend it", "[leaks]") {
  check_leaks(2000, draw_moderate);
  check_leaks(500, draw_level);
  check_leaks(500, draw_few_moderate);
}

TEST_CASE("what is not finite reaches nobody who may not attend it in a block", "[leaks]") {
  check_leaks(500, draw_block);
}

TEST_CASE("what is not finite reaches no node that it has no edge to", "[leaks]") {
  check_leaks(1500, draw_graph);
}

TEST_CASE("what is not finite reaches no gradient that it is no part of", "[leaks][backward]") {
  check_leaks(300, draw_moderate_gradients);
  check_leaks(150, draw_block_gradients);
  check_leaks(300, draw_graph_gradients);
}
