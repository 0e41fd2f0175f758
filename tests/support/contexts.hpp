// Contexts that tests share: of every instruction set, and of every choice.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/problem/attention.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

/// One context per instruction set, made once.
class IsaContexts {
 public:
  explicit IsaContexts(const Choices& choices = {});
  std::size_t size() const { return all_.size(); }
  const Context& operator[](std::size_t i) const { return all_[i]; }
  static const char* name(std::size_t i);

 private:
  std::vector<Context> all_;
};

/// Those of no special choice.
const IsaContexts& plain_contexts();

/// The contexts that runs choose from; they are made once.
class Contexts {
 public:
  const Context& get(const char* isa, const Choices& choices);

 private:
  std::map<std::string, Context> all_;
};

Choices draw_choices(Random& random);

}  // namespace heed_test
