// What the tests of forms share: the types that problems come in, and results that must be the
// same, to the bit or but for rounding.
#pragma once

#include <cstdint>
#include <iomanip>
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

/// Those with keys or values of 8 bits, and all together.
const std::vector<Kind>& eight_bit_kinds();
std::vector<Kind> all_kinds();

/// Of one head, and nothing but sizes.
heed_attention_desc desc_of(std::int64_t query_length, std::int64_t key_length,
                            std::int64_t features, std::int64_t value_features);

/// A problem with normally distributed numbers.
Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude = 1);

/// Compares it with the oracle on every instruction set.
void check_filled(const Sizes& sizes, std::uint64_t seed, Report& report);

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

bool check_same(const std::string& what, const Numbers& a, const Numbers& b);
bool check_same(const std::string& what, const Outputs& a, const Outputs& b);

/// What a problem, or a block, gives in each context.
template <class Runnable>
std::vector<Outputs> run_everywhere(Runnable& problem,
                                    const IsaContexts& contexts = plain_contexts()) {
  std::vector<Outputs> all;
  for (std::size_t n = 0; n < contexts.size(); ++n) all.push_back(problem.run_all(contexts[n]));
  return all;
}

/// Whether a problem gives what one gave in each context.
template <class Runnable>
bool check_same(Runnable& problem, const std::vector<Outputs>& want,
                const IsaContexts& contexts = plain_contexts()) {
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    const std::string what = IsaContexts::name(n) + (": " + line_of(problem));
    if (!check_same(what, problem.run_all(contexts[n]), want[n])) return false;
  }
  return true;
}

/// Whether both give the same in each context.
template <class Runnable>
bool check_same(Runnable& a, Runnable& b, const IsaContexts& contexts = plain_contexts()) {
  return check_same(a, run_everywhere(b, contexts), contexts);
}

/// How far apart a and b are, in units of what they may be.
double distance(double a, double b, double allowed);

/// A bound that says something: far below the number, or 1.
bool is_tight(double bound, double x, std::uint32_t dtype);

/// Element i of `a` and element `place(i)` of `b` are the same number but for rounding: each lies
/// within its oracle's bound of it. Of the oracle no value is used, only the bounds.
template <class Place>
bool check_close(const std::string& what, const Numbers& a, const std::vector<Element>& bounds_a,
                 const Numbers& b, const std::vector<Element>& bounds_b, Place&& place) {
  if (a.size() != b.size() || a.size() != bounds_a.size() || b.size() != bounds_b.size()) {
    FAIL_CHECK(what << ": " << a.size() << " and " << b.size() << " elements");
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t k = place(i);
    const double allowed = bounds_a[i].bound + bounds_b[k].bound;
    const bool tight = is_tight(allowed, bounds_a[i].value, a.dtype);
    if (tight && a.written(i) == b.written(k) && distance(a[i], b[k], allowed) <= 1) continue;
    FAIL_CHECK(what << ": element " << i << " is " << std::setprecision(17) << a[i] << " and "
                    << b[k] << " in the other, " << allowed << " apart allowed");
    return false;
  }
  return true;
}

bool check_close(const std::string& what, const Numbers& a, const std::vector<Element>& bounds_a,
                 const Numbers& b, const std::vector<Element>& bounds_b);

}  // namespace heed_test
