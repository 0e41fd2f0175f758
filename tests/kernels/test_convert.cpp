// read: elements of any type, as they lie in memory, to numbers of the kernels' type. write: the
// other way, rounded once, to nearest even. quantise: to integers and a scale.
#include "tests/kernels/formats.hpp"
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr Kind kKinds[] = {kF32, kF64, kBf16, kF16, kF8};

/// Elements `stride` apart, some of which are off the alignment of a vector, among `guard` more
/// before and after, and not a byte more. Narrow ones have any bits; a float64 is one that float32
/// has to round, or not, half the time.
class Memory {
 public:
  Memory(const Kind& kind, std::ptrdiff_t stride, std::size_t count, std::size_t guard,
         Random& random)
      : kind_(kind), stride_(stride) {
    const auto step = static_cast<std::size_t>(stride < 0 ? -stride : stride);
    const std::size_t extent = count == 0 ? 0 : (count - 1) * step + 1;
    first_ = guard + count % 3 + (stride < 0 && count > 0 ? extent - 1 : 0);
    bytes_.resize((2 * guard + count % 3 + extent) * kind.size());
    for (std::size_t i = 0; i < bytes_.size(); i += kind.size()) {
      std::uint64_t bits = random.bits();
      if (kind.size() == 8 && random.integer(0, 1) == 0) {
        const auto digits = static_cast<double>(bits >> random.integer(20, 50));
        bits = bits_of(std::ldexp(digits, static_cast<int>(random.integer(-180, 110))));
      }
      std::memcpy(&bytes_[i], &bits, kind.size());
    }
  }

  unsigned char* element(std::size_t i) {
    const std::ptrdiff_t index =
        static_cast<std::ptrdiff_t>(first_) + static_cast<std::ptrdiff_t>(i) * stride_;
    return bytes_.data() + static_cast<std::size_t>(index) * kind_.size();
  }
  double value(std::size_t i) { return kind_.value_at(element(i)); }

  /// Whether the two are the same but for `count` elements.
  bool same_around(Memory other, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(other.element(i), element(i), kind_.size());
    return bytes_ == other.bytes_;
  }

 private:
  Kind kind_;
  std::ptrdiff_t stride_;
  std::size_t first_;
  std::vector<unsigned char> bytes_;
};

/// Numbers of every magnitude, few of which fit narrower types.
template <class Real>
Real draw(Random& random) {
  const std::int64_t kind = random.integer(0, 9);
  if (kind == 0) return real_of<Real>(static_cast<Bits<Real>>(random.bits()));
  const auto exponent =
      static_cast<int>(kind < 4 ? random.integer(-160, 130) : random.integer(-30, 18));
  return std::ldexp(random.normal<Real>(), exponent);
}

/// Numbers that are hard to round to a format: every `step`-th of its own, halfway to the next, and
/// what lies beside these; what lies past all numbers, and what is lost below them.
template <class Real>
std::vector<Real> hard_to_round(const Kind& kind, std::uint64_t step) {
  std::vector<Real> all;
  const auto add = [&](Real x) {
    for (const Real toward : {Real{0}, x, kInf<Real>})
      for (const Real y : {std::nextafter(x, toward), -std::nextafter(x, toward)}) all.push_back(y);
  };
  const auto add_from = [&](std::uint64_t index) {
    const double low = kind.number(index);
    const double high = kind.number(index + 1);
    add(static_cast<Real>(low));
    add(static_cast<Real>(low + (high - low) / 2));
  };
  const std::uint64_t end = kind.finite_count();
  const std::uint64_t normal = std::uint64_t{1} << (kind.format().digits - 1);
  for (std::uint64_t index = 0; index < end; index += step) add_from(index);
  for (const std::uint64_t index : {normal - 2, normal - 1, normal, end - 3, end - 2, end - 1})
    add_from(index);
  for (const Real x : {std::numeric_limits<Real>::denorm_min(), std::numeric_limits<Real>::min(),
                       kMax<Real>, static_cast<Real>(kind.number(end)), kInf<Real>})
    add(x);
  return all;
}

/// The same for an element's type, made once; those of Real itself need no rounding.
template <class Real>
const std::vector<Real>& all_hard_to_round(const Kind& kind) {
  const std::uint64_t rarely = small() ? 1234567 : 65537;
  const std::uint64_t often = small() ? 19 : 1;
  static const std::vector<Real> to_f32 = hard_to_round<Real>(kF32, rarely);
  static const std::vector<Real> to_bf16 = hard_to_round<Real>(kBf16, often);
  static const std::vector<Real> to_f16 = hard_to_round<Real>(kF16, often);
  static const std::vector<Real> to_f8 = hard_to_round<Real>(kF8, 1);
  if (kind.size() == 1) return to_f8;
  return kind.size() == 4 ? to_f32 : kind.type == heed::ElementType::kBf16 ? to_bf16 : to_f16;
}

/// NaNs with one bit of payload each, the lowest included, which are not to become infinite.
template <class Real>
std::vector<Real> payloads() {
  std::vector<Real> all;
  for (int bit = 0; bit < std::numeric_limits<Real>::digits - 1; ++bit)
    for (const Real infinity : {kInf<Real>, -kInf<Real>})
      all.push_back(real_of<Real>(bits_of(infinity) | Bits<Real>{1} << bit));
  return all;
}

/// What read() makes of x: the nearest Real, but the largest of what is finite and more.
template <class Real>
Real read_as(double x) {
  const auto near = static_cast<Real>((sizeof(Real) == 4 ? kF32 : kF64).nearest(x));
  return std::isinf(near) && std::isfinite(x) ? std::copysign(kMax<Real>, near) : near;
}

}  // namespace

TEMPLATE_TEST_CASE("read and write: every type, stride and count", "[read][write]", float, double) {
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    std::size_t index = 0;
    for (const Kind& kind : kKinds)
      for (const std::ptrdiff_t stride : {1, 3, -2, 0})
        for (std::size_t n = 0; n <= 70; ++n) {
          if (!keep(index++)) continue;
          INFO(name_of(kind.type) << " stride " << stride << " count " << n);
          Random random(index);
          Memory memory(kind, stride, n, 0, random);
          BasicBuffer<TestType> numbers(n, index % 4);
          kernels.numbers.read(kind.type, memory.element(0), stride, n, numbers.data());
          CHECK((numbers.intact() && all(n, [&](std::size_t i) {
                   return same_number(numbers[i], read_as<TestType>(memory.value(i)));
                 })));
          if (stride == 0) continue;
          numbers.fill([&] { return draw<TestType>(random); });
          Memory to(kind, stride, n, 32, random);
          const Memory before = to;
          kernels.numbers.write(kind.type, numbers.data(), n, to.element(0), stride);
          CHECK(all(n, [&](std::size_t i) {
            return same_number(to.value(i), kind.nearest(static_cast<double>(numbers[i])));
          }));
          CHECK(to.same_around(before, n));
        }
  });
}

TEMPLATE_TEST_CASE("read: all numbers of 16 and 8 bits, exactly, and write gives them back",
                   "[read][write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const Kind& kind : {kBf16, kF16, kF8, kI8})
      for (const std::size_t stride : {1U, 2U, 3U}) {
        INFO(name_of(kind.type) << " stride " << stride);
        const std::size_t n = (std::size_t{1} << (8 * kind.size())) / stride;
        const auto step = static_cast<std::ptrdiff_t>(stride);
        const auto bits_at = [&](std::size_t i) {
          return static_cast<std::int64_t>((i + 1) * stride - 1);
        };
        std::vector<unsigned char> bytes(n * stride * kind.size());
        for (std::int64_t i = 0; i <= bits_at(n - 1); ++i)
          store_bits(kind.dtype, bytes.data(), i, static_cast<std::uint64_t>(i));
        unsigned char* const first = bytes.data() + (stride - 1) * kind.size();
        BasicBuffer<TestType> to(n);
        kernels.numbers.read(kind.type, first, step, n, to.data());
        const std::size_t some = small() && n > 256 ? 7 : 1;  // looked at; read are all
        const auto number = [&](std::size_t i) {
          return decode(kind.dtype, static_cast<std::uint64_t>(bits_at(i)));
        };
        CHECK(all((n - 1) / some + 1, [&](std::size_t i) {
          return same_number(to[i * some], static_cast<TestType>(number(i * some)));
        }));
        if (kind.type == heed::ElementType::kI8) continue;
        std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
        kernels.numbers.write(kind.type, to.data(), n, first, step);
        CHECK(all(n, [&](std::size_t i) {
          const std::uint64_t got = load_bits(kind.dtype, bytes.data(), bits_at(i));
          return std::isnan(to[i]) ? std::isnan(decode(kind.dtype, got))
                                   : got == static_cast<std::uint64_t>(bits_at(i));
        }));
      }
  });
}

TEMPLATE_TEST_CASE(
    "numbers are rounded to nearest, to even between two, and read never to infinity",
    "[read][write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    const std::vector<double>& wide = all_hard_to_round<double>(kF32);
    BasicBuffer<TestType> to(wide.size());
    kernels.numbers.read(heed::ElementType::kF64, wide.data(), 1, wide.size(), to.data());
    CHECK(all(wide.size(),
              [&](std::size_t i) { return same_number(to[i], read_as<TestType>(wide[i])); }));
    for (const Kind& kind : {kF8, kF16, kBf16, kF32}) {
      const std::vector<TestType>& from = all_hard_to_round<TestType>(kind);
      std::vector<unsigned char> bytes(from.size() * kind.size());
      kernels.numbers.write(kind.type, from.data(), from.size(), bytes.data(), 1);
      std::size_t at = 0;
      const bool right = all(from.size(), [&](std::size_t i) {
        at = i;
        const double got = kind.value_at(&bytes[i * kind.size()]);
        return same_bits(got, kind.nearest(static_cast<double>(from[i])));
      });
      INFO(name_of(kind.type) << ", if wrong, is so at " << from[at]);
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("NaN stays NaN, read and written", "[read][write]", float, double) {
  const std::vector<TestType> from = payloads<TestType>();
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    const auto check_read = [&](heed::ElementType type, const auto& elements) {
      BasicBuffer<TestType> to(elements.size());
      kernels.numbers.read(type, elements.data(), 1, elements.size(), to.data());
      CHECK(all(elements.size(), [&](std::size_t i) { return std::isnan(to[i]); }));
    };
    check_read(heed::ElementType::kF32, payloads<float>());
    check_read(heed::ElementType::kF64, payloads<double>());
    for (const Kind& kind : kKinds)
      for (const std::ptrdiff_t stride : {1, 3}) {
        INFO(name_of(kind.type) << " stride " << stride);
        Random random(1);
        Memory memory(kind, stride, from.size(), 0, random);
        kernels.numbers.write(kind.type, from.data(), from.size(), memory.element(0), stride);
        CHECK(all(from.size(), [&](std::size_t i) { return std::isnan(memory.value(i)); }));
      }
  });
}

// Numbers are of any magnitude, or quarters of a scale, between two of which some lie; or all are
// too small for a scale, or one is not finite, wherever it is.
TEMPLATE_TEST_CASE(
    "quantise: the largest becomes 127, the others what is nearest, even between two", "[quantise]",
    float, double) {
  using Real = TestType;
  const auto tiny = static_cast<Real>(0x1p-126 * 126);  // its scale would not be normal
  const std::vector<Real> special = {kInf<Real>,
                                     -kInf<Real>,
                                     not_a_number<Real>(),
                                     -not_a_number<Real>(),
                                     -std::numeric_limits<float>::max(),
                                     tiny,
                                     -tiny,
                                     0,
                                     Real{-0.0F}};
  for_each_table<Real>([&](const Table<Real>& kernels) {
    for (std::size_t index = 0; index < 71 * 8; ++index) {
      const std::size_t n = index / 8, kind = index % 8;
      if (!keep(index)) continue;
      INFO("numbers " << n << " kind " << kind);
      Random random(index);
      constexpr int kExponents[] = {-115, -3, 0, 40, 120};
      const Real unit = kind == 5 ? 1 : static_cast<Real>(0x1p-126);
      auto from = filled<Real>(n, [&] {
        if (kind < 5) return std::ldexp(random.normal<Real>(), kExponents[kind]);
        if (kind < 7) return static_cast<Real>(random.integer(-508, 508)) / 4 * unit;
        return Real{0};
      });
      if (n > 0 && kind >= 5 && kind < 7) from[random.bits() % n] = -127 * unit;
      if (n > 0 && (kind == 7 || random.integer(0, 9) == 0))
        from[random.bits() % n] = random.pick(special);
      std::vector<std::int8_t> to(n + 2, 99);
      float scale = -1;
      kernels.numbers.quantise(from.data(), n, to.data() + 1, &scale);
      CHECK((from.intact() && to.front() == 99 && to.back() == 99));

      Real most = 0;
      bool finite = true;
      for (std::size_t i = 0; i < n; ++i) {
        finite = finite && std::isfinite(from[i]);
        most = std::max(most, std::fabs(from[i]));
      }
      if (!finite || most <= tiny) {
        CHECK((finite ? scale == 0 : std::isnan(scale)));
        CHECK(std::all_of(to.begin() + 1, to.end() - 1, [](int q) { return q == 0; }));
        continue;
      }
      const double exact = static_cast<double>(most) / 127;
      CHECK(std::fabs(scale - exact) <= 0x1p-23 * exact);
      int largest = 0;
      CHECK(all(n, [&](std::size_t i) {
        largest = std::max(largest, std::abs(to[i + 1]));
        const double quotient = static_cast<double>(from[i]) / static_cast<double>(scale);
        // Quarters are exact; another quotient is rounded before it is.
        return kind >= 5 && kind < 7 && scale == exact
                   ? to[i + 1] == static_cast<int>(std::nearbyint(quotient))
                   : std::fabs(quotient - to[i + 1]) <= 0.5 * (1 + 0x1p-15);
      }));
      CHECK(largest == 127);
    }
  });
}
