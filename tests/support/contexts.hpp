// What random sweeps share: contexts of every choice, runs that may fail, and how much is checked.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/attention.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

/// The contexts that runs choose from; they are made once.
class Contexts {
 public:
  const Context& get(const char* isa, const Choices& choices) {
    std::ostringstream key;
    key << isa << choices.executor << choices.threads << "," << choices.tile_q << ","
        << choices.tile_kv << (choices.product == nullptr ? "" : choices.product);
    Context& context = all_[key.str()];
    if (!context) context = make_context(isa, choices);
    return context;
  }

 private:
  std::map<std::string, Context> all_;
};

inline Choices draw_choices(Random& random) {
  Choices choices;
  choices.executor =
      heed_executor_name(static_cast<std::size_t>(random.bits() % heed_executor_count()));
  choices.threads = std::strcmp(choices.executor, "serial") == 0 ? 1 : 2;
  choices.tile_q = random.pick<std::uint32_t>({0, 1, 50, 1000});
  choices.tile_kv = random.pick<std::uint32_t>({0, 1, 100, 1000});
  return choices;
}

/// How much of all that was computed nobody could bound.
struct Coverage {
  std::size_t elements = 0;
  std::size_t unspecified = 0;

  void add(const std::vector<Element>& want) {
    elements += want.size();
    for (const Element& e : want) unspecified += std::isinf(e.bound) ? 1 : 0;
  }
};

/// Runs a problem, or says why that failed. (Messages of Catch2 outlive exceptions: none passes.)
template <class AnyProblem>
std::optional<Outputs> try_run(AnyProblem& problem, const Context& context) {
  try {
    return problem.run_all(context);
  } catch (const std::runtime_error& error) {
    FAIL_CHECK(error.what());
    return std::nullopt;
  }
}

inline bool same_bits(const Outputs& a, const Outputs& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.weights, b.weights) &&
         same_bits(a.column_sums, b.column_sums);
}

}  // namespace heed_test
