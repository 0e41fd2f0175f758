// A merge of partial results: described, drawn and run; and the one line that describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dense.hpp"
#include "tests/problem/laid_out.hpp"
#include "tests/support/calls.hpp"

namespace heed_test {

/// The layouts of a descriptor.
struct LaidOutMerge {
  explicit LaidOutMerge(heed_merge_desc& desc);
  LaidOut part_out, part_lse, out, lse;

  std::vector<LaidOut> all() const { return {part_out, part_lse, out, lse}; }
};

/// Parts, what they are merged into, and what that should be.
class Merge {
 public:
  /// Parts lie as what they are merged into.
  Merge(const Axes& shape, std::size_t parts, const Form& of_out = {}, const Form& of_lse = {});
  /// Of a valid descriptor.
  static Merge of(const heed_merge_desc& desc, std::size_t parts, std::size_t misalign = 0) {
    return Merge(misalign, desc, parts);
  }

  void fill(std::uint64_t seed, double spread = 3);

  /// Where the parts lie, as a call gets it.
  struct Parts {
    std::vector<const void*> outs, lses;
  };
  Parts parts() const;
  heed_status call(const Context& context, void* to, void* to_lse);
  Outputs run_all(const Context& context, bool with_lse = true);

  Expected expected() const { return expect_merge(desc, sources_of(outs), sources_of(lses)); }

  heed_merge_desc desc;
  std::vector<Tensor> outs, lses;
  Tensor out, lse;

 private:
  Merge(std::size_t misalign, const heed_merge_desc& described, std::size_t parts);
};

/// A valid descriptor; every other one lays parts out as what they may then be merged into.
heed_merge_desc draw_merge_desc(Draw& draw);
void draw_numbers(Draw& draw, Merge& merge);
Merge draw_merge(std::uint64_t seed);

/// One line that identifies a merge but for its numbers.
std::string line_of(const Merge& m);

}  // namespace heed_test
