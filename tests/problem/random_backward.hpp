// Random problems to differentiate: each option is drawn on its own.
#pragma once

#include <cstdint>

#include "tests/problem/attention_backward.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {

/// A form of attention that has gradients.
Problem differentiable(std::uint64_t seed, Lengths lengths = Lengths::kAny);

/// One with gradients that are asked for and lie anyhow. out and lse are yet to be set.
BackwardProblem draw_backward(std::uint64_t seed, Lengths lengths = Lengths::kAny);

}  // namespace heed_test
