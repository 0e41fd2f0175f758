// Problems that are the same in exact arithmetic: their results lie within the sum of their bounds
// of each other. Nothing but the bounds is taken from the oracle.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/dense/kinds.hpp"

namespace heed_test {

using Index = std::int64_t;

constexpr Index kQueries = 30;
constexpr Index kKeys = 200;  // two steps

const std::vector<Kind>& exact_kinds();

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

Problem drawn(const Types& types, std::uint64_t seed, Index queries = kQueries, Index keys = kKeys);

// ---- Options that may be combined with a property ----

struct Option {
  const char* name;
  void (*set)(Problem&);
};

/// Those that do not care where a key stands.
const std::vector<Option>& free_options();

/// All of them.
const std::vector<Option>& options();

template <class Check>
void check_options(const std::vector<Option>& list, Check&& check) {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const Option& option : list) {
      if (!keep(index++)) continue;
      INFO(kind.name << ", " << option.name);
      Problem p = drawn(kind.types, 70 + index);
      option.set(p);
      check(p);
    }
}

// ---- Two problems ----

/// Row i and key j of one problem are row rows[i] and key keys[j] of another.
struct Order {
  std::vector<Index> rows;
  std::vector<Index> keys;
};

std::vector<Index> in_order(Index size);
std::vector<Index> shuffled(Index size, std::uint64_t seed);

/// All outputs of a and b are the same but for rounding, on every instruction set.
void check_equal(Problem& a, Problem& b, const Order& order);
void check_equal(Problem& a, Problem& b);
Problem reordered(const Problem& p, const Order& order);

}  // namespace heed_test
