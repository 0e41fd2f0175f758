// What random sweeps share: contexts of every choice, runs that may fail, and how much is checked.
#pragma once

#include <map>
#include <optional>
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
  const Context& get(const char* isa, const Choices& choices);

 private:
  std::map<std::string, Context> all_;
};

Choices draw_choices(Random& random);

/// How much of all that was computed nobody could bound.
struct Coverage {
  std::size_t elements = 0;
  std::size_t unspecified = 0;

  void add(const std::vector<Element>& want);
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

bool same_bits(const Outputs& a, const Outputs& b);

}  // namespace heed_test
