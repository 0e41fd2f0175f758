// HEED_VERBOSE=1: one line on stderr for each run.
#pragma once

#include "engine/dense/plan.hpp"

namespace heed {

/// Words and numbers, " word word=value"; what does not fit is cut.
class Words {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  void add_if(bool condition, const char* word) {
    if (condition) add("%s", word);
  }
  const char* c_str() const { return text_; }

 private:
  char text_[384] = "";
  std::size_t used_ = 0;
};

/// "f32", "f64", "bf16", "f16" or "mask".
const char* name_of(ElementType type);

/// The options in force.
Words options_of(const Problem& problem, const heed_attention_args& args);

/// The speed counts every pair that windows allow, masked or not, in sequences of full length.
void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept;

}  // namespace heed
