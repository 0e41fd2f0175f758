// read: elements of any type, as they lie in memory, to numbers of the kernels' type. write: the
// other way, rounded once, to nearest even.
#include <numeric>

#include "tests/kernels/formats.hpp"
#include "tests/kernels/support.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/// Calls check(kind, stride, count, misalignment, generator).
template <class Check>
void sweep_strides(std::initializer_list<std::ptrdiff_t> strides, Check&& check) {
  std::size_t index = 0;
  for (const Kind& kind : kKinds)
    for (const std::ptrdiff_t stride : strides)
      for (std::size_t n = 0; n <= 70; ++n) {
        if (!keep(index++)) continue;
        INFO(name_of(kind.type) << " stride " << stride << " count " << n);
        Random random(index);
        check(kind, stride, n, index % 4, random);
      }
}

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

#if defined(__x86_64__)
/// The processor's own conversion of a number halfway between 0x7bfe and 0x7bff.
__attribute__((target("f16c"))) unsigned convert_tie() {
  const volatile float tie = 65488;
  const __m128i halves = _mm_cvtps_ph(_mm_set1_ps(tie), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<unsigned>(_mm_cvtsi128_si32(halves)) & 0xffffU;
}
#endif

/// Whether a kernel may round float16 ties as it likes: where it leaves them to a processor that
/// rounds them away from 0, which only the emulator bochs 2.7 is known to do.
bool processor_is_wrong([[maybe_unused]] const Kind& kind, [[maybe_unused]] const char* isa) {
#if defined(__x86_64__)
  const bool uses_conversion = std::strncmp(isa, "avx", 3) == 0;  // these imply F16C
  return kind.type == heed::ElementType::kF16 && uses_conversion && convert_tie() != 0x7bfeU;
#else
  return false;
#endif
}

/// What read() makes of x: the nearest Real, but the largest of what is finite and more.
template <class Real>
Real read_as(double x) {
  const auto near = static_cast<Real>((sizeof(Real) == 4 ? kF32 : kF64).nearest(x));
  return std::isinf(near) && std::isfinite(x) ? std::copysign(kMax<Real>, near) : near;
}

}  // namespace

TEMPLATE_TEST_CASE("read: every type, stride and count", "[read]", float, double) {
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    sweep_strides({1, 3, -2, 0}, [&](const Kind& kind, std::ptrdiff_t stride, std::size_t n,
                                     std::size_t misalign, Random& random) {
      Memory memory(kind, stride, n, 0, random);
      BasicBuffer<TestType> to(n, misalign);
      kernels.numbers.read(kind.type, memory.element(0), stride, n, to.data());
      CHECK(all(n, [&](std::size_t i) {
        return same_number(to[i], read_as<TestType>(memory.value(i)));
      }));
      CHECK(to.intact());
    });
  });
}

TEMPLATE_TEST_CASE("write: every type, stride and count", "[write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_strides({1, 3, -2}, [&](const Kind& kind, std::ptrdiff_t stride, std::size_t n,
                                  std::size_t misalign, Random& random) {
      BasicBuffer<TestType> from(n, misalign);
      from.fill([&] { return draw<TestType>(random); });
      Memory memory(kind, stride, n, 32, random);
      const Memory before = memory;
      kernels.numbers.write(kind.type, from.data(), n, memory.element(0), stride);
      CHECK(all(n, [&](std::size_t i) {
        return same_number(memory.value(i), kind.nearest(static_cast<double>(from[i])));
      }));
      CHECK(memory.same_around(before, n));
    });
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

TEST_CASE("read rounds float64 to the nearest float32, to even between two, and never to infinity",
          "[read]") {
  for_each_table<float>([](const Table<float>& kernels) {
    const std::vector<double>& from = all_hard_to_round<double>(kF32);
    Buffer to(from.size());
    kernels.numbers.read(heed::ElementType::kF64, from.data(), 1, from.size(), to.data());
    CHECK(
        all(from.size(), [&](std::size_t i) { return same_bits(to[i], read_as<float>(from[i])); }));
  });
}

TEMPLATE_TEST_CASE("write rounds to nearest, to even between two", "[write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const Kind& kind : {kF8, kF16, kBf16, kF32}) {
      const std::vector<TestType>& from = all_hard_to_round<TestType>(kind);
      std::vector<unsigned char> bytes(from.size() * kind.size());
      kernels.numbers.write(kind.type, from.data(), from.size(), bytes.data(), 1);
      const bool any_way = processor_is_wrong(kind, kernels.isa);
      std::size_t at = 0;
      const bool right = all(from.size(), [&](std::size_t i) {
        at = i;
        const double got = kind.value_at(&bytes[i * kind.size()]);
        const double want = kind.nearest(static_cast<double>(from[i]));
        const bool tie = std::fabs(got - from[i]) == std::fabs(want - from[i]);
        return same_bits(got, want) || (any_way && tie);
      });
      INFO(name_of(kind.type) << ", if wrong, is so at " << from[at]);
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("read: NaN stays NaN", "[read]", float, double) {
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    const auto check = [&](heed::ElementType type, const auto& from) {
      BasicBuffer<TestType> to(from.size());
      kernels.numbers.read(type, from.data(), 1, from.size(), to.data());
      CHECK(all(from.size(), [&](std::size_t i) { return std::isnan(to[i]); }));
    };
    check(heed::ElementType::kF32, payloads<float>());
    check(heed::ElementType::kF64, payloads<double>());
  });
}

TEMPLATE_TEST_CASE("write: NaN stays NaN", "[write]", float, double) {
  const std::vector<TestType> from = payloads<TestType>();
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
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

namespace {

/// A row as quantise leaves it.
template <class Real>
struct Quantised {
  Quantised(const Table<Real>& kernels, const BasicBuffer<Real>& from)
      : integers(from.size() + 2, kUntouched) {
    kernels.numbers.quantise(from.data(), from.size(), integers.data() + 1, &scale);
    CHECK((integers.front() == kUntouched && integers.back() == kUntouched && from.intact()));
  }
  int operator[](std::size_t i) const { return integers[i + 1]; }
  bool is_zero() const {
    return std::all_of(integers.begin() + 1, integers.end() - 1, [](int q) { return q == 0; });
  }

  static constexpr std::int8_t kUntouched = 99;
  std::vector<std::int8_t> integers;
  float scale = -1;
};

}  // namespace

TEMPLATE_TEST_CASE("quantise: the largest becomes 127, the others what is nearest", "[quantise]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t n = 1; n <= 70; ++n)
      for (const int exponent : {-115, -3, 0, 40, 120}) {
        if (!keep(n)) continue;
        Random random(n);
        BasicBuffer<TestType> from(n, n % 4);
        from.fill([&] { return std::ldexp(random.normal<TestType>(), exponent); });
        const Quantised<TestType> row(kernels, from);
        double most = 0;
        for (std::size_t i = 0; i < n; ++i)
          most = std::max(most, std::fabs(static_cast<double>(from[i])));
        CHECK(std::fabs(row.scale - most / 127) <= 0x1p-23 * most / 127);
        const double half = 0.5 * (1 + 0x1p-15);  // a quotient is rounded before it is
        CHECK(all(n, [&](std::size_t i) {
          const double quotient = static_cast<double>(from[i]) / static_cast<double>(row.scale);
          return std::fabs(quotient - row[i]) <= half && std::abs(row[i]) <= 127;
        }));
        CHECK(std::any_of(row.integers.begin(), row.integers.end(),
                          [](int q) { return std::abs(q) == 127; }));
      }
  });
}

TEMPLATE_TEST_CASE("quantise rounds to nearest, to even between two", "[quantise]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const TestType scale : {TestType{1}, static_cast<TestType>(0x1p-126)}) {
      BasicBuffer<TestType> from(4 * 127 * 2 + 1);  // quarters from -127 to 127
      for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = (static_cast<TestType>(i) - 4 * 127) / 4 * scale;
      const Quantised<TestType> row(kernels, from);
      CHECK(static_cast<TestType>(row.scale) == scale);
      CHECK(all(from.size(), [&](std::size_t i) {
        return row[i] == static_cast<int>(std::nearbyint(from[i] / scale));
      }));
    }
  });
}

TEMPLATE_TEST_CASE("quantise: rows of zeros, and what is not finite or too small", "[quantise]",
                   float, double) {
  const auto tiny = static_cast<TestType>(0x1p-126 * 126);  // its scale would not be normal
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (const std::size_t n : {0U, 1U, 5U, 16U, 67U})
      for (std::size_t at = 0; at < std::max<std::size_t>(n, 1); ++at) {
        const auto row_with = [&](TestType special, TestType others) {
          BasicBuffer<TestType> from(n);
          for (std::size_t i = 0; i < n; ++i) from[i] = i == at ? special : others;
          return Quantised<TestType>(kernels, from);
        };
        for (const TestType small : {TestType{0}, TestType{-0.0F}, tiny, -tiny}) {
          const Quantised<TestType> row = row_with(small, 0);
          CHECK((row.scale == 0 && row.is_zero()));
        }
        if (n == 0) continue;
        for (const TestType special : {kInf<TestType>, -kInf<TestType>, not_a_number<TestType>(),
                                       -not_a_number<TestType>()}) {
          const Quantised<TestType> row = row_with(special, 1);
          CHECK((std::isnan(row.scale) && row.is_zero()));
        }
        const Quantised<TestType> row = row_with(-std::numeric_limits<float>::max(), 1);
        CHECK((std::isfinite(row.scale) && row[at] == -127));
      }
  });
}
