// write: numbers of the kernels' type to elements of any type, rounded once, to nearest even.
#include "tests/kernels/elements.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace heed_test;

namespace {

constexpr heed::ElementType kTypes[] = {heed::ElementType::kF32, heed::ElementType::kF64,
                                        heed::ElementType::kBf16, heed::ElementType::kF16};

/// Numbers of every magnitude, few of which fit narrower types.
template <class Real>
Real draw(Random& random) {
  const std::int64_t kind = random.integer(0, 9);
  if (kind == 0) return real_of<Real>(static_cast<Bits<Real>>(random.bits()));
  const auto exponent =
      static_cast<int>(kind < 4 ? random.integer(-160, 130) : random.integer(-30, 18));
  return std::ldexp(random.normal<Real>(), exponent);
}

/// Random bytes, among which elements lie `stride` apart.
class Memory {
 public:
  Memory(heed::ElementType type, std::ptrdiff_t stride, std::size_t count, Random& random)
      : type_(type), stride_(stride) {
    const auto step = static_cast<std::size_t>(stride < 0 ? -stride : stride);
    const std::size_t extent = count == 0 ? 0 : (count - 1) * step + 1;
    first_ = kGuard + count % 3 + (stride < 0 && count > 0 ? extent - 1 : 0);
    bytes_.resize((2 * kGuard + 2 + extent) * size_of(type));
    for (unsigned char& byte : bytes_) byte = static_cast<unsigned char>(random.bits());
  }

  unsigned char* element(std::size_t i) {
    const std::ptrdiff_t index =
        static_cast<std::ptrdiff_t>(first_) + static_cast<std::ptrdiff_t>(i) * stride_;
    return bytes_.data() + static_cast<std::size_t>(index) * size_of(type_);
  }
  double value(std::size_t i) { return value_at(type_, element(i)); }

  /// Whether the two are the same but for `count` elements.
  bool same_around(Memory other, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(other.element(i), element(i), size_of(type_));
    return bytes_ == other.bytes_;
  }

 private:
  static constexpr std::size_t kGuard = 32;

  heed::ElementType type_;
  std::ptrdiff_t stride_;
  std::size_t first_;
  std::vector<unsigned char> bytes_;
};

/// Numbers that are hard to round to a type; those of Real itself need no rounding.
template <class Real>
const Roundings<Real>& roundings_to(heed::ElementType type) {
  static const Roundings<Real> kF16 = roundings<Real>(kFloat16, small() ? 19 : 1);
  static const Roundings<Real> kBf16 = roundings<Real>(kBfloat16, small() ? 19 : 1);
  static const Roundings<Real> kF32 = roundings<Real>(kFloat32, small() ? 1234567 : 65537);
  return type == heed::ElementType::kF16 ? kF16 : type == heed::ElementType::kBf16 ? kBf16 : kF32;
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
bool processor_is_wrong(heed::ElementType type, const char* isa) {
#if defined(__x86_64__)
  const bool uses_conversion = std::strncmp(isa, "avx", 3) == 0;  // these imply F16C
  return type == heed::ElementType::kF16 && uses_conversion && convert_tie() != 0x7bfeU;
#else
  static_cast<void>(type);
  static_cast<void>(isa);
  return false;
#endif
}

}  // namespace

TEMPLATE_TEST_CASE("write: every type, stride and count", "[write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    std::size_t index = 0;
    for (const heed::ElementType type : kTypes)
      for (const std::ptrdiff_t stride : {1, 3, -2})
        for (std::size_t n = 0; n <= 70; ++n) {
          if (!keep(index++)) continue;
          INFO(name_of(type) << " stride " << stride << " count " << n);
          Random random(index);
          BasicBuffer<TestType> from(n, index % 4);
          from.fill([&] { return draw<TestType>(random); });
          Memory memory(type, stride, n, random);
          const Memory before = memory;
          kernels.numbers.write(type, from.data(), n, memory.element(0), stride);
          bool right = true;
          for (std::size_t i = 0; i < n; ++i)
            right = right && same_number(memory.value(i), nearest(format_of(type), from[i]));
          CHECK(right);
          CHECK(memory.same_around(before, n));
        }
  });
}

TEMPLATE_TEST_CASE("write rounds to nearest, to even between two", "[write]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const heed::ElementType type :
         {heed::ElementType::kF16, heed::ElementType::kBf16, heed::ElementType::kF32}) {
      INFO(name_of(type));
      const Roundings<TestType>& cases = roundings_to<TestType>(type);
      const std::size_t n = cases.from.size();
      std::vector<unsigned char> bytes(n * size_of(type));
      kernels.numbers.write(type, cases.from.data(), n, bytes.data(), 1);
      const bool any_way = processor_is_wrong(type, kernels.isa);
      std::size_t wrong = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double got = value_at(type, &bytes[i * size_of(type)]);
        const double x = cases.from[i];
        const bool tie = std::fabs(got - x) == std::fabs(cases.to[i] - x);
        if (!same_bits(got, cases.to[i]) && !(any_way && tie)) {
          ++wrong;
          at = i;
        }
      }
      INFO(wrong << " wrong, as " << cases.from[at] << ", which should be " << cases.to[at]);
      CHECK(wrong == 0);
    }
  });
}

TEMPLATE_TEST_CASE("write gives all numbers of 16 bits back that read has read", "[write]", float,
                   double) {
  constexpr std::size_t kAll = 65536;
  std::vector<std::uint16_t> patterns;
  for (std::size_t i = 0; i < kAll; ++i) patterns.push_back(static_cast<std::uint16_t>(i));
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (const heed::ElementType type : {heed::ElementType::kBf16, heed::ElementType::kF16}) {
      INFO(name_of(type));
      BasicBuffer<TestType> numbers(kAll);
      kernels.numbers.read(type, patterns.data(), 1, kAll, numbers.data());
      for (const std::ptrdiff_t stride : {1, 2}) {
        std::vector<std::uint16_t> back(kAll * static_cast<std::size_t>(stride));
        kernels.numbers.write(type, numbers.data(), kAll, back.data(), stride);
        const std::uint64_t infinity = finite_count(format_of(type));
        bool right = true;
        for (std::size_t i = 0; i < kAll; ++i) {
          const std::uint16_t got = back[i * static_cast<std::size_t>(stride)];
          right = right && ((patterns[i] & 0x7fffU) <= infinity ? got == patterns[i]
                                                                : (got & 0x7fffU) > infinity);
        }
        CHECK(right);
      }
    }
  });
}

TEMPLATE_TEST_CASE("write: NaN stays NaN", "[write]", float, double) {
  const std::vector<TestType> from = payloads<TestType>();
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (const heed::ElementType type : kTypes)
      for (const std::ptrdiff_t stride : {1, 3}) {
        INFO(name_of(type) << " stride " << stride);
        Random random(1);
        Memory memory(type, stride, from.size(), random);
        kernels.numbers.write(type, from.data(), from.size(), memory.element(0), stride);
        bool right = true;
        for (std::size_t i = 0; i < from.size(); ++i) right = right && std::isnan(memory.value(i));
        CHECK(right);
      }
  });
}
