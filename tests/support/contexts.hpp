// What random sweeps share: contexts of every choice, and how much is checked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/problem/attention.hpp"
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

bool same_bits(const Outputs& a, const Outputs& b);

}  // namespace heed_test
