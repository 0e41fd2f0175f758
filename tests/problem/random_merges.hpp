// Random merges: each choice is drawn on its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/problem/draw.hpp"
#include "tests/support/merge.hpp"

namespace heed_test {

class RandomMerges : Draw {
 public:
  explicit RandomMerges(std::uint64_t seed) : Draw(seed) {}

  Merge draw() {
    Axes shape = {integer(1, 3), integer(1, 3), integer(1, 8), integer(1, 40)};
    if (one_in(10)) shape[2] = integer(9, 100);
    if (one_in(10)) shape[3] = integer(250, 700);  // more than fit a strip
    if (one_in(20)) shape[index(3)] = 0;
    const Index parts = one_in(10) ? integer(8, 40) : integer(1, 7);
    Merge m(shape, static_cast<std::size_t>(parts), draw_types(), draw_layouts());
    if (one_in(12)) repeat_axis(m);
    m.fill(bits(), pick<double>({0, 1, 3, 3, 300, 1e5}));
    if (one_in(2)) empty_parts(m);
    if (one_in(4))
      for (Index n = integer(1, 4); n > 0; --n) plant(one_in(2) ? any_of(m.outs) : any_of(m.lses));
    return m;
  }

 private:
  MergeTypes draw_types() {
    const auto any = [&] { return static_cast<std::uint32_t>(integer(0, 4)); };
    const auto real = [&] {
      return pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
    };
    const MergeTypes drawn = {any(), real(), any(), real()};
    // Alike they may be merged in place.
    return one_in(2) ? drawn : MergeTypes{drawn.out, drawn.lse, drawn.out, drawn.lse};
  }

  MergeLayouts draw_layouts() {
    const Arrangement out = arrangement(), lse = arrangement();
    const auto misalign = index(4);
    if (one_in(2)) return {out, lse, out, lse, misalign};
    return {arrangement(), arrangement(), out, lse, misalign};
  }

  void repeat_axis(Merge& m) {
    Axes strides = strides_of(Arrangement::kContiguous, m.out.shape());
    strides[index(4)] = 0;
    if (strides == Axes{}) return;  // that would mean the default
    const std::uint32_t dtype = m.desc.part_out.dtype;
    for (Tensor& out : m.outs) out = Tensor(out.shape(), strides, 0, out.dtype());
    m.desc.part_out = m.outs[0].layout();
    m.desc.part_out.dtype = dtype;
  }

  /// Some rows of parts over no keys, which may hold anything.
  void empty_parts(Merge& m) {
    const auto percent = pick<Index>({10, 50, 90, 100});
    for (std::size_t k = 0; k < m.outs.size(); ++k)
      m.lses[k].each([&](const Axes& at) {
        if (integer(0, 99) < percent) m.lses[k].set(at, -kInfinity);
      });
    const Axes& strides = m.outs[0].strides();
    if (std::find(strides.begin(), strides.end(), 0) != strides.end()) return;  // others' too
    for (std::size_t k = 0; k < m.outs.size(); ++k)
      m.outs[k].set_where(
          [&](const Axes& at) {
            return m.lses[k].get({at[0], at[1], at[2], 0}) == -kInfinity;
          },
          integer(0, 1) == 0 ? kNaN : kInfinity);
  }

  Tensor& any_of(std::vector<Tensor>& tensors) { return tensors[index(tensors.size())]; }
};

}  // namespace heed_test
