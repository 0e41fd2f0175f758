// What random sweeps share: contexts of every choice.
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

}  // namespace heed_test
