// What the tests of forms share: the types that problems come in, and results that must be the
// same, to the bit or but for rounding.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/checks.hpp"

namespace heed_test {

/// A choice of types for the four tensors.
struct Kind {
  const char* name;
  Types types;
};

const std::vector<Kind>& kinds();

/// The same, and those with keys or values of 8 bits.
std::vector<Kind> all_kinds();

/// Of one head, and nothing but sizes.
heed_attention_desc desc_of(std::int64_t query_length, std::int64_t key_length,
                            std::int64_t features, std::int64_t value_features);

Sizes sizes_of(std::int64_t queries, std::int64_t keys, const Types& types = {});

/// A problem with normally distributed numbers.
Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude = 1);

/// A window around positions that lie `offset` keys after their rows.
void set_window(Problem& p, std::int64_t left, std::int64_t right, std::int64_t offset);

/// All outputs that a problem may have.
void want_all(Problem& p, heed_weights_point point = HEED_WEIGHTS_PROBABILITIES);

/// Calls check(outputs), or check(outputs, n), with what a problem, block or merge gives on the
/// n-th instruction set.
template <class Runnable, class Check>
void on_every_isa(Runnable& problem, Check&& check) {
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    INFO(IsaContexts::name(n) << ": " << line_of(problem));
    const auto outputs = problem.run_all(plain_contexts()[n]);
    if constexpr (std::is_invocable_v<Check, decltype(outputs)>)
      check(outputs);
    else
      check(outputs, n);
  }
}

/// Whether element i of one and element k of the other were written alike and have the same bits;
/// of NaN the payload does not matter.
bool same_element(const Numbers& a, std::size_t i, const Numbers& b, std::size_t k);

/// Whether both are the same number, the sign of 0 included, or both NaN.
bool same_number(double a, double b);

bool check_same(const std::string& what, const Outputs& a, const Outputs& b);

/// Whether both give the same on every instruction set.
template <class AnyProblem>
bool check_same(AnyProblem& a, AnyProblem& b) {
  bool same = true;
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const Context& context = plain_contexts()[n];
    same = check_same_numbers(IsaContexts::name(n) + (": " + line_of(a)), run(a, context),
                              run(b, context)) &&
           same;
  }
  return same;
}

}  // namespace heed_test
