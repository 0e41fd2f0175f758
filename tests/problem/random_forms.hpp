// Random problems of every form: each option is drawn on its own, so that any may meet any other.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/problem/attention.hpp"

namespace heed_test {

/// Whether keys may be as many as they like, are the queries' own rows, are thousands for few
/// queries, or some hundreds for so few that rows are decoded, where they lie, on most instruction
/// sets; or as any, for so many heads that ranks share them.
enum class Lengths { kAny, kSelf, kLong, kFew, kShared };

class RandomForms {
 public:
  explicit RandomForms(std::uint64_t seed, Lengths lengths = Lengths::kAny)
      : seed_(seed), lengths_(lengths) {}

  Problem draw() const;

 private:
  std::uint64_t seed_;
  Lengths lengths_;
};

/// The options that a problem has, in words.
std::vector<const char*> options_of(const Problem& p);

/// Those of thousands of keys.
class LongForms : public RandomForms {
 public:
  explicit LongForms(std::uint64_t seed) : RandomForms(seed, Lengths::kLong) {}
};

/// Those of few rows.
class FewForms : public RandomForms {
 public:
  explicit FewForms(std::uint64_t seed) : RandomForms(seed, Lengths::kFew) {}
};

}  // namespace heed_test
