// Rows to turn, where they go, and the one line that describes them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/oracle/rotate.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

struct RotationTypes {
  std::uint32_t from = HEED_DTYPE_DEFAULT;
  std::uint32_t to = HEED_DTYPE_DEFAULT;
};

struct RotationPlaces {
  Arrangement from = Arrangement::kDefault;
  Arrangement to = Arrangement::kDefault;
  std::size_t misalign = 0;
};

/// Rows to turn and where they go.
struct Rotation {
  Rotation(const Axes& shape, std::uint32_t pairs, const RotationTypes& types = {},
           const RotationPlaces& places = {})
      : from(placed(shape, places.from, types.from, places.misalign)),
        to(placed(shape, places.to, types.to, places.misalign)) {
    desc.batch = shape[0];
    desc.heads = shape[1];
    desc.rows = shape[2];
    desc.features = shape[3];
    desc.from = layout_of(from, places.from, types.from);
    desc.to = layout_of(to, places.to, types.to);
    desc.rotary.pairs = pairs;
    Random random(static_cast<std::uint64_t>(shape[3]) + pairs);
    from.fill([&] { return random.normal<double>(); });
  }

  /// Tables of any numbers, not only of cosines and sines.
  void give_tables(Index rows, Index gap) {
    const Index angles = (desc.rotary.features == 0 ? desc.features : desc.rotary.features) / 2;
    const Index stride = angles + gap;
    Random random(7);
    for (std::vector<float>* const table : {&cosines, &sines}) {
      table->resize(static_cast<std::size_t>((rows - 1) * stride + angles));
      for (float& number : *table) number = random.normal();
    }
    desc.rotary.cosines = cosines.data();
    desc.rotary.sines = sines.data();
    desc.rotary.table_rows = rows;
    desc.rotary.table_stride = gap == 0 ? 0 : stride;
  }

  void draw_positions(Index below) {
    Random random(9);
    positions.resize(static_cast<std::size_t>(desc.batch * desc.rows));
    for (Index& position : positions) position = random.integer(0, below - 1);
  }

  const Index* positions_or_null() const { return positions.empty() ? nullptr : positions.data(); }

  std::vector<Element> wanted() const {
    return expect_rotate(desc, from.source(), positions_or_null());
  }

  heed_status call(const Context& context, void* target) {
    return heed_rotate(context.get(), &desc, from.data(), positions_or_null(), target);
  }

  Numbers run_all(const Context& context) {
    to.clear();
    require_ok(call(context, to.data()));
    if (!to.padding_intact()) throw std::runtime_error("a rotation wrote outside its output");
    return to.numbers();
  }

  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  Tensor from, to;
  std::vector<float> cosines, sines;
  std::vector<Index> positions;
};

inline std::string line_of(const Rotation& r) {
  const heed_rotate_desc& d = r.desc;
  return std::to_string(d.batch) + "x" + std::to_string(d.heads) + "x" + std::to_string(d.rows) +
         "x" + std::to_string(d.features) + " " + name_of_dtype(d.from.dtype) + " to " +
         name_of_dtype(d.to.dtype) + ", R " + std::to_string(d.rotary.features) + ", pairs " +
         std::to_string(d.rotary.pairs) + ", position " + std::to_string(d.position);
}

}  // namespace heed_test
