// Gradients of an attention problem, and the one line that describes them.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tests/oracle/backward.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/gradients.hpp"

namespace heed_test {

/// The gradients that a run wrote; empty: not asked for.
using Gradients = std::array<Numbers, kGradients>;

const char* name_of(GradientOf gradient);

/// Whether row i of a gradient belongs to a sequence: those that are packed may not.
bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i);

/// Whether attention has what a gradient is of.
bool has_input_of(GradientOf gradient, const Problem& p);

/// Of bias and what follows it, of attention itself or within a block; grad_bias is the bias's.
std::optional<LaidOut> laid_out(GradientOf gradient, heed_score_layout& grad_bias,
                                const heed_attention_desc& attention, std::uint32_t real);

/// The layouts of a descriptor, which points at its attention's.
LaidOutGradients<kGradients> laid_out(heed_attention_backward_desc& desc);

/// Of an attention problem whose outputs are out and lse.
class BackwardProblem final
    : public GradientProblem<heed_attention_backward_desc, heed_attention_backward_args, GradientOf,
                             kGradients> {
 public:
  explicit BackwardProblem(Problem problem, std::uint64_t seed = 1, const Form& of_out = {});
  /// Of a valid descriptor, and of tensors that are yet to be drawn.
  BackwardProblem(Problem problem, const heed_attention_backward_desc& desc);

  bool can_want(GradientOf of) const override { return has_input_of(of, forward); }

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

 protected:
  LaidOutGradients<kGradients> laid_out() override;
  bool owns(GradientOf gradient, Index row) const override {
    return in_sequence(gradient, forward, row);
  }

 private:
  heed_attention_args forward_args_{};
};

inline std::array<GradientOf, kGradients> all_gradients() { return BackwardProblem::all(); }

std::string line_of(const BackwardProblem& p);

using GradientComparison = Comparisons<kGradients>;

}  // namespace heed_test
