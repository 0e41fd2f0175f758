// Thousands of random problems of every operation, each from a seed of its own, against the oracle;
// other tiles and threads change no bit of what they give.
//
//   HEED_TEST_SEED=123   runs only the problem of that seed, and prints it
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

/// The worst error / bound per option and result, and how many problems had it.
class OptionReport {
 public:
  OptionReport() = default;
  OptionReport(const OptionReport&) = delete;
  OptionReport& operator=(const OptionReport&) = delete;
  ~OptionReport() {
    for (const auto& [what, seen] : seen_)
      report(what.c_str(), (std::to_string(seen.problems) + "x").c_str(), seen.worst);
  }
  void add(const std::string& what, double ratio) {
    Seen& seen = seen_[what];
    seen.worst = std::max(seen.worst, ratio);
    ++seen.problems;
  }

 private:
  struct Seen {
    double worst = 0;
    std::size_t problems = 0;
  };
  std::map<std::string, Seen> seen_;
};

/// Which options of attention met which in a problem.
class OptionPairs {
 public:
  void add(const std::vector<const char*>& options) {
    for (const char* const a : options)
      for (const char* const b : options) ++met_[a][b];
  }
  /// Two that did not although both occurred, and no problem rules them out together.
  std::string missing() const {
    const auto type = [](const std::string& name) {
      return name == "float32" || name == "float64" || name == "16 bits";
    };
    const std::vector<std::pair<std::string, std::string>> exclusive = {
        {"dropout", "hard"}, {"hard", "sinks"}, {"hard", "temperature"}, {"packed keys", "pages"}};
    for (const auto& [a, with] : met_)
      for (const auto& [b, also] : met_) {
        const bool ruled_out =
            (type(a) && type(b)) ||
            std::find(exclusive.begin(), exclusive.end(), std::pair(a, b)) != exclusive.end();
        if (a < b && !ruled_out && with.count(b) == 0) return a + " and " + b;
      }
    return "";
  }

 private:
  std::map<std::string, std::map<std::string, std::size_t>> met_;
};

/// What the checks of a sweep share.
struct Sweep {
  bool every_pair = false;  ///< of options must meet
  Contexts contexts;
  OptionReport options;
  OptionPairs pairs;
  std::size_t elements = 0;
  std::size_t unspecified = 0;
};

/// Whether results are within the bounds of the oracle, as the report says of every option.
bool check_bounds(const std::string& what, const Results& got, const Wanted& want,
                  const std::string& isa, const std::vector<const char*>& options, Sweep& sweep) {
  double worst = 0;
  for (const Result& result : got) {
    const std::vector<Element> elements = want(isa, result);
    const double ratio =
        check_elements(what + ", " + result.name, result.numbers, elements, Unspecified::kAllowed);
    sweep.options.add(result.name, ratio);
    worst = std::max(worst, ratio);
    sweep.elements += elements.size();
    sweep.unspecified += static_cast<std::size_t>(std::count_if(
        elements.begin(), elements.end(), [](Element e) { return std::isinf(e.bound); }));
  }
  for (const char* const option : options) sweep.options.add(option, worst);
  return worst <= 1;
}

std::vector<const char*> options_of(const BackwardProblem& p) { return options_of(p.forward); }
/// Of other operations the report tells results alone.
template <class AnyProblem>
std::vector<const char*> options_of(const AnyProblem&) {
  return {};
}

/// Products that are not heed's own are as right, to other bits.
template <class AnyProblem>
constexpr bool kMultiplies =
    std::is_same_v<AnyProblem, Block> || std::is_same_v<AnyProblem, BlockBackward> ||
    std::is_same_v<AnyProblem, Projection>;

/// Runs a problem of a seed everywhere, and says whether all was right.
template <class AnyProblem>
bool check_seed(AnyProblem p, std::uint64_t seed, Sweep& sweep) {
  Random random(seed ^ 0x5eed);
  Choices choices = draw_choices(random);
  const std::string line = line_of(p);
  INFO("HEED_TEST_SEED=" << seed << ": " << line << "; " << choices.executor << ", tiles "
                         << choices.tile_q << " x " << choices.tile_kv);
  const Wanted want = wanted(p);
  const std::vector<const char*> options = options_of(p);
  if (sweep.every_pair) sweep.pairs.add(options);
  bool good = true;
  for (const char* const isa : isa_names()) {
    const auto got = try_run(p, sweep.contexts.get(isa, choices));
    const auto again = try_run(p, sweep.contexts.get(isa, {}));
    if (!got || !again) return false;
    good = check_bounds(isa + (": " + line), *got, want, isa, options, sweep) && good;
    good = check_bits(isa + std::string(", other tiles and threads"), *again, *got) && good;
  }
  for (std::size_t i = 1; kMultiplies<AnyProblem> && i < heed_product_count(); ++i) {
    choices.product = heed_product_name(i);
    const char* const isa = isa_names().back();
    const auto got = try_run(p, sweep.contexts.get(isa, choices));
    if (!got) return false;
    good = check_bounds(choices.product + (": " + line), *got, want, isa, options, sweep) && good;
  }
  return good;
}

/// Checks the problems that seeds from 1 on draw, as many as there are cases. Stops at the tenth
/// failure. One element in `rare` may have no bound.
template <class Draw>
void sweep_seeds(std::size_t cases, Draw&& draw, bool every_pair = false, std::size_t rare = 20) {
  Sweep sweep;
  sweep.every_pair = every_pair;
  if (const char* const only = std::getenv("HEED_TEST_SEED")) {
    const std::uint64_t seed = std::strtoull(only, nullptr, 10);
    WARN("seed " << seed << ": " << line_of(draw(seed)));
    CHECK(check_seed(draw(seed), seed, sweep));
    return;
  }
  std::size_t failures = 0;
  for (std::uint64_t seed = 1; seed <= cases && failures < 10; ++seed)
    failures += check_seed(draw(seed), seed, sweep) ? 0 : 1;
  CHECK(failures == 0);
  // Few enough that the sweep checks what it seems to.
  INFO(sweep.unspecified << " of " << sweep.elements << " elements without a bound");
  CHECK(sweep.unspecified * rare < sweep.elements);
  if (!small()) CHECK(sweep.pairs.missing().empty());
}

/// Of a hub; every other one weighs cosines by head, and asks for the gradients of that.
GraphBackwardProblem draw_gradients_of_hub(std::uint64_t seed) {
  for (std::uint64_t next = seed;; next += 1000) {
    GraphBackwardProblem p = draw_graph_backward(next, Graphs::kHub);
    const bool weighs = p.forward.desc.score == HEED_SCORE_COSINE;
    if (seed % 2 == 1 || (weighs && p.gradients[kGraphScoreWeights])) return p;
  }
}

}  // namespace

TEST_CASE("random problems of every form", "[sweep][forms]") {
  sweep_seeds(count_forms(20000), draw_form, true);
}

TEST_CASE("random problems of few rows", "[sweep][forms]") {
  sweep_seeds(count_forms(2000), drawn<Lengths::kFew>);
}

TEST_CASE("random problems of few rows and thousands of keys", "[sweep][forms]") {
  sweep_seeds(count_forms(brief() ? 150 : 1000), drawn<Lengths::kLong>);
}

TEST_CASE("random problems of sizes about those of vectors, panels and steps", "[sweep][forms]") {
  sweep_seeds(count_forms(1600), drawn<Lengths::kEdges>);
}

TEST_CASE("random problems that threads share", "[sweep][forms][large]") {
  sweep_seeds(count_forms(640), drawn<Lengths::kLarge>);
}

TEST_CASE("random problems that may have nothing at all", "[sweep][forms][zero]") {
  sweep_seeds(count_forms(8000), drawn<Lengths::kSmall>);
  sweep_seeds(count_forms(8000),
              [](std::uint64_t seed) { return draw_gradients(seed, Lengths::kSmall); });
}

TEST_CASE("scores that climb, are alike, lie far out or have no end", "[sweep][forms][special]") {
  sweep_seeds(count_forms(8000), drawn<Lengths::kScores>, false, 2);
}

TEST_CASE("random blocks of every form", "[sweep][blocks]") {
  sweep_seeds(count(3000), draw_block);
}

TEST_CASE("random graphs and random attention over them", "[sweep][graphs]") {
  sweep_seeds(count(6000), draw_graph);
  sweep_seeds(count(600), drawn<Graphs::kEdges>);
  sweep_seeds(count(48), drawn<Graphs::kHub>);
}

TEST_CASE("gradients of random problems of every form", "[sweep][backward][forms]") {
  sweep_seeds(count_forms(20000), draw_any_gradients, true);
  sweep_seeds(
      count_forms(640), [](std::uint64_t seed) { return draw_gradients(seed, Lengths::kLarge); },
      false, 5);
}

TEST_CASE("gradients of random blocks of every form", "[sweep][backward][blocks]") {
  sweep_seeds(count_forms(5000), draw_block_gradients);
}

TEST_CASE("gradients over random graphs", "[sweep][backward][graphs]") {
  sweep_seeds(count_forms(5000), draw_graph_gradients);
  sweep_seeds(count(400),
              [](std::uint64_t seed) { return draw_graph_backward(seed, Graphs::kEdges); });
  sweep_seeds(count(16), draw_gradients_of_hub, false, 2);
}

TEST_CASE("random products with prepared matrices", "[sweep][project]") {
  sweep_seeds(count(400), draw_projection);
}

TEST_CASE("random merges", "[sweep][merge]") { sweep_seeds(count(1000), draw_merge); }
