// What a problem comes to in the library under comparison: a hash per run, or every number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/support/tensor.hpp"

namespace heed_test {

class Record {
 public:
  /// `numbers`: keep every number and word, not only their hash.
  explicit Record(bool numbers = false) : keeps_(numbers) {}

  void describe(const std::string& line) { description_ = line; }

  /// What is added from here on belongs to this run, on an instruction set or another kind of call.
  void begin_run(const std::string& name);
  /// An output as it lies in memory. All NaN are alike, but for those that nobody wrote: compilers
  /// choose which operand's payload survives.
  void add(const char* name, const Numbers& numbers);
  void add(const char* name, const std::string& words);
  /// The status, and of a refusal its message, in which addresses count for nothing.
  void add(const char* call, heed_status status);

  /// "avx2=0123456789abcdef ... | description"; "avx2=unknown" of a request that the library is too
  /// old for.
  std::string line() const;
  /// One number or text a line, under the run and output that it belongs to.
  const std::string& numbers() const { return text_; }

 private:
  struct Run {
    std::string name;
    std::uint64_t hash;
    bool known;  ///< to the library, by all fields that it was given
  };
  void mix(std::uint64_t bits);
  void mix(const std::string& words);

  bool keeps_;
  std::string description_, text_;
  std::vector<Run> runs_;
};

}  // namespace heed_test
