// Gradients of an attention problem: what is given besides it, where they are written, and the one
// line that describes them.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tests/oracle/backward.hpp"
#include "tests/problem/attention.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {

/// The gradients that a run wrote; empty: not asked for.
using Gradients = std::array<Numbers, kGradients>;

const char* name_of(GradientOf gradient);

inline std::array<GradientOf, kGradients> all_gradients() {
  return {kGradQuery, kGradKey,    kGradValue, kGradBias,
          kGradSinks, kGradSlopes, kGradScale, kGradTemperature};
}

/// Whether row i of a gradient belongs to a sequence: those that are packed may not.
bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i);

/// How a gradient lies.
struct Form {
  std::uint32_t dtype = HEED_DTYPE_DEFAULT;
  Arrangement arrangement = Arrangement::kDefault;
  std::size_t misalign = 0;
};

/// Of an attention problem whose outputs are out and lse. The gradient of out is given, normally
/// distributed; that of lse is not, and no gradient is asked for.
class BackwardProblem {
 public:
  explicit BackwardProblem(Problem problem, std::uint64_t seed = 1, const Form& of_out = {});

  void give_grad_lse(std::uint64_t seed, const Form& form = {});

  /// Whether the problem has what this is the gradient of.
  bool can_want(GradientOf gradient) const;
  void want(GradientOf gradient, const Form& form = {});
  void want_all();
  void want_nothing();

  /// Adds to numbers that are there: random ones, or others'.
  void accumulate(std::uint64_t seed);
  void accumulate(std::array<std::optional<Tensor>, kGradients> before) {
    desc_.accumulate = 1;
    before_ = std::move(before);
  }
  const std::array<std::optional<Tensor>, kGradients>& before() const { return before_; }

  /// Sets out and lse to what attention makes them: as heed computes them, or as the oracle does.
  void attend(const Context& context) { forward.run_all(context); }
  void attend_as_expected();

  /// What heed gets; valid until the problem is changed.
  heed_attention_backward_args args();

  ExpectedGradients expected();

  /// Everything that a run writes; throws if it writes anything else.
  Gradients run(const Context& context);
  Gradients run(const std::function<heed_status(const heed_attention_backward_args&)>& call);

  /// As heed reads it; valid as long as the problem stays where it is.
  const heed_attention_backward_desc& desc();

  Problem forward;
  Tensor grad_out;
  std::optional<Tensor> grad_lse;
  std::array<std::optional<Tensor>, kGradients> gradients;

 private:
  /// Puts into gradients what is there before a run.
  void begin();

  heed_attention_backward_desc desc_ = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_args forward_args_{};
  std::array<std::optional<Tensor>, kGradients> before_;  ///< what is there
};

inline std::array<GradientOf, kGradients> gradients_of(const BackwardProblem&) {
  return all_gradients();
}

std::string line_of(const BackwardProblem& p);

/// How gradients compare with the oracle's: the worst error / bound of each, and what is wrong.
template <std::size_t count>
struct Comparisons {
  std::array<double, count> ratios{};
  std::string wrong;
  double worst() const { return *std::max_element(ratios.begin(), ratios.end()); }
};
using GradientComparison = Comparisons<kGradients>;

/// Of a problem, or of a block, whose gradients have names.
template <class AProblem, class Got, class Want>
auto compare_gradients(const std::string& what, const AProblem& p, const Got& got, const Want& want,
                       Unspecified unspecified = Unspecified::kForbidden) {
  Comparisons<std::tuple_size_v<Got>> all;
  for (const auto gradient : gradients_of(p)) {
    if (!p.gradients[gradient]) continue;
    const Comparison one = compare_elements(what + ", gradient of " + name_of(gradient),
                                            p.gradients[gradient]->shape(), got[gradient],
                                            want[gradient], unspecified);
    all.ratios[gradient] = one.ratio;
    if (all.wrong.empty()) all.wrong = one.wrong;
  }
  return all;
}

/// What line_of says of gradients, those of a block too.
template <class AProblem>
std::string line_of_gradients(const AProblem& p) {
  std::string line = ", gradients of";
  for (const auto gradient : gradients_of(p))
    if (p.gradients[gradient])
      line += std::string(" ") + name_of(gradient) + " " +
              name_of_dtype(p.gradients[gradient]->dtype());
  return line + (p.grad_lse ? ", from lse too" : "");
}

bool same_bits(const Gradients& a, const Gradients& b);

/// Random numbers for a gradient, if it is asked for, to be added to: in the rows that are written.
template <class Written>
std::optional<Tensor> drawn_before(const std::optional<Tensor>& gradient, Random& random,
                                   Written&& written) {
  if (!gradient) return std::nullopt;
  Tensor before = *gradient;
  before.clear();
  before.each([&](const Axes& at) {
    if (written(at[2])) before.set(at, random.normal());
  });
  return before;
}

}  // namespace heed_test
