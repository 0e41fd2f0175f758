// accumulate: weights times values, added to what is there, keys in order.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// The operands of one call.
struct Operands {
  Operands(const Case& c, std::size_t pitch, Random& random)
      : value(c.keys, c.features, c.unit),
        weights(c.keys * pitch),
        before(round_up(c.features, heed::kRowPadding) * pitch) {
    value.fill(c.keys, random);
    weights.fill([&] { return static_cast<float>(random.unit()); });
    before.fill([&] { return random.normal(); });
  }

  heed::ValueView in_place() const {
    const heed::MatrixView view = value.view();
    return {view.data, view.row_stride, view.column_stride,
            static_cast<std::ptrdiff_t>(heed::kValueBlock) * view.column_stride};
  }

  Matrix value;
  Buffer weights;
  Buffer before;
};

/// A sum of n products and a start value is within gamma_of(n + 1) of the sum of magnitudes.
double worst_ratio(const Case& c, const Operands& o, const Buffer& got, bool fresh,
                   std::size_t pitch) {
  double worst = 0;
  for (std::size_t x = 0; x < c.features; ++x) {
    for (std::size_t r = 0; r < pitch; ++r) {
      double sum = fresh ? 0 : static_cast<double>(o.before[x * pitch + r]);
      double magnitude = std::fabs(sum);
      for (std::size_t j = 0; j < c.keys; ++j) {
        const double product = static_cast<double>(o.value.at(j, x)) * o.weights[j * pitch + r];
        sum += product;
        magnitude += std::fabs(product);
      }
      const auto n = static_cast<double>(c.keys);
      const double bound = gamma_of(n + 1) * magnitude + n * kUnderflow;
      worst = std::max(worst, error_ratio(got[x * pitch + r], sum, bound));
    }
  }
  return worst;
}

Buffer accumulate(const heed::KernelTable& kernels, const Case& c, const Operands& o,
                  const heed::ValueView& view, bool fresh) {
  Buffer sums = fresh ? Buffer(o.before.size()) : o.before;  // fresh: canaries, never to be read
  kernels.accumulate(view, c.keys, o.weights.data(), sums.data(), c.features, fresh, c.vectors);
  return sums;
}

bool same_sums(const Buffer& a, const Buffer& b, std::size_t count) {
  bool equal = true;
  for (std::size_t i = 0; i < count; ++i) equal = equal && same_bits(a[i], b[i]);
  return equal;
}

}  // namespace

TEST_CASE("accumulate adds weighted values, in place and packed", "[accumulate]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.lanes;
      const Operands o(c, pitch, random);
      Buffer packed(round_up(c.features, heed::kValueBlock) * c.keys);
      kernels.pack_values(o.value.view(), c.keys, c.features, packed.data());
      const heed::ValueView blocks = {packed.data(), heed::kValueBlock, 1,
                                      static_cast<std::ptrdiff_t>(c.keys * heed::kValueBlock)};
      for (const bool fresh : {true, false}) {
        INFO((fresh ? "fresh" : "not fresh"));
        const Buffer sums = accumulate(kernels, c, o, o.in_place(), fresh);
        const double ratio = worst_ratio(c, o, sums, fresh, pitch);
        CHECK(ratio <= 1);
        CHECK(sums.intact());
        const Buffer from_packed = accumulate(kernels, c, o, blocks, fresh);
        CHECK((same_sums(sums, from_packed, c.features * pitch) && from_packed.intact()));
        worst = std::max(worst, ratio);
      }
    });
    report("accumulate", kernels.isa, worst);
  });
}

TEST_CASE("accumulate in two steps is accumulate in one, bit for bit", "[accumulate]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    sweep([&](const Case& c, Random& random) {
      if (c.keys < 2) return;
      const std::size_t pitch = c.vectors * kernels.lanes;
      const Operands o(c, pitch, random);
      const Buffer once = accumulate(kernels, c, o, o.in_place(), true);
      const std::size_t half = c.keys / 2;
      Buffer twice(o.before.size());
      heed::ValueView view = o.in_place();
      kernels.accumulate(view, half, o.weights.data(), twice.data(), c.features, true, c.vectors);
      view.data += static_cast<std::ptrdiff_t>(half) * view.key_stride;
      kernels.accumulate(view, c.keys - half, o.weights.data() + half * pitch, twice.data(),
                         c.features, false, c.vectors);
      CHECK(same_sums(once, twice, c.features * pitch));
    });
  });
}
