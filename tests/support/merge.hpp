// A merge of partial results, and the one line that describes it.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// heed_dtypes of a merge.
struct MergeTypes {
  std::uint32_t part_out = HEED_DTYPE_DEFAULT;
  std::uint32_t part_lse = HEED_DTYPE_DEFAULT;
  std::uint32_t out = HEED_DTYPE_DEFAULT;
  std::uint32_t lse = HEED_DTYPE_DEFAULT;
};

/// Where the tensors of a merge lie.
struct MergeLayouts {
  Arrangement part_out = Arrangement::kDefault;
  Arrangement part_lse = Arrangement::kDefault;
  Arrangement out = Arrangement::kDefault;
  Arrangement lse = Arrangement::kDefault;
  std::size_t misalign = 0;
};

struct Merged {
  Numbers out, lse;
};

/// Parts, what they are merged into, and what that should be.
class Merge {
 public:
  Merge(const Axes& shape, std::size_t parts, const MergeTypes& types = {},
        const MergeLayouts& layouts = {})
      : out(placed(shape, layouts.out, types.out, layouts.misalign)),
        lse(placed(lse_shape(shape), layouts.lse, types.lse, layouts.misalign)) {
    for (std::size_t k = 0; k < parts; ++k) {
      outs.push_back(placed(shape, layouts.part_out, types.part_out, layouts.misalign));
      lses.push_back(placed(lse_shape(shape), layouts.part_lse, types.part_lse, layouts.misalign));
    }
    desc.batch = shape[0];
    desc.heads = shape[1];
    desc.rows = shape[2];
    desc.features = shape[3];
    if (parts > 0) {
      desc.part_out = layout_of(outs[0], layouts.part_out, types.part_out);
      desc.part_lse = layout_of(lses[0], layouts.part_lse, types.part_lse);
    }
    desc.out = layout_of(out, layouts.out, types.out);
    desc.lse = layout_of(lse, layouts.lse, types.lse);
  }

  void fill(std::uint64_t seed, double spread = 3) {
    Random random(seed);
    for (std::size_t k = 0; k < outs.size(); ++k) {
      outs[k].fill([&] { return random.normal(); });
      lses[k].fill([&] { return static_cast<double>(random.normal()) * spread; });
    }
  }

  heed_status call(const Context& context, void* to, void* to_lse) {
    std::vector<const void*> part_outs;
    std::vector<const void*> part_lses;
    for (const Tensor& tensor : outs) part_outs.push_back(tensor.data());
    for (const Tensor& tensor : lses) part_lses.push_back(tensor.data());
    return heed_merge(context.get(), &desc, outs.size(), part_outs.data(), part_lses.data(), to,
                      to_lse);
  }

  Merged run_all(const Context& context, bool with_lse = true) {
    out.clear();
    lse.clear();
    require_ok(call(context, out.data(), with_lse ? lse.data() : nullptr));
    if (!out.padding_intact() || !lse.padding_intact())
      throw std::runtime_error("a merge wrote outside its outputs");
    return {out.numbers(), lse.numbers()};
  }

  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  std::vector<Tensor> outs, lses;
  Tensor out, lse;

 private:
  static Axes lse_shape(const Axes& shape) { return {shape[0], shape[1], shape[2], 1}; }
};

/// One line that identifies a merge but for its numbers.
inline std::string line_of(const Merge& m) {
  std::ostringstream line;
  line << m.outs.size() << " parts [" << m.desc.batch << "," << m.desc.heads << "," << m.desc.rows
       << "," << m.desc.features << "] " << name_of_dtype(m.desc.part_out.dtype) << "/"
       << name_of_dtype(m.desc.part_lse.dtype) << " to " << name_of_dtype(m.desc.out.dtype) << "/"
       << name_of_dtype(m.desc.lse.dtype);
  return line.str();
}

}  // namespace heed_test
