// read: elements of any type, as they lie in memory, to numbers of the kernels' type.
#include "tests/kernels/elements.hpp"

using namespace heed_test;

namespace {

constexpr heed::ElementType kTypes[] = {heed::ElementType::kF32, heed::ElementType::kF64,
                                        heed::ElementType::kBf16, heed::ElementType::kF16};

/// Any bits for narrow types. A float64 is one that float32 has to round, or not, half the time.
void draw(heed::ElementType type, Random& random, unsigned char* at) {
  std::uint64_t bits = random.bits();
  if (type == heed::ElementType::kF64 && random.integer(0, 1) == 0) {
    const auto digits = static_cast<double>(bits >> random.integer(20, 50));
    bits = bits_of(std::ldexp(digits, static_cast<int>(random.integer(-180, 110))));
  }
  std::memcpy(at, &bits, size_of(type));
}

/// Memory with `count` elements and not a byte more, some of which are off the alignment of a
/// vector.
class Elements {
 public:
  Elements(heed::ElementType type, std::ptrdiff_t stride, std::size_t count, Random& random)
      : type_(type), stride_(stride) {
    const auto step = static_cast<std::size_t>(stride < 0 ? -stride : stride);
    const std::size_t extent = count == 0 ? 0 : (count - 1) * step + 1;
    const std::size_t before = count % 3;
    bytes_.resize((before + extent) * size_of(type));
    for (std::size_t i = 0; i < bytes_.size(); i += size_of(type)) draw(type, random, &bytes_[i]);
    first_ = before + (stride < 0 && count > 0 ? extent - 1 : 0);
  }

  const unsigned char* data() const { return bytes_.data() + first_ * size_of(type_); }
  double value(std::size_t i) const {
    return value_at(type_, data() + static_cast<std::ptrdiff_t>(i) * stride_ *
                                        static_cast<std::ptrdiff_t>(size_of(type_)));
  }

 private:
  heed::ElementType type_;
  std::ptrdiff_t stride_;
  std::vector<unsigned char> bytes_;
  std::size_t first_;
};

template <class Real>
bool is_rounded(Real got, double value) {
  return same_number(got, static_cast<Real>(nearest(kFormatOf<Real>, value)));
}

}  // namespace

TEMPLATE_TEST_CASE("read: every type, stride and count", "[read]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    std::size_t index = 0;
    for (const heed::ElementType type : kTypes)
      for (const std::ptrdiff_t stride : {1, 3, -2, 0})
        for (std::size_t n = 0; n <= 70; ++n) {
          if (!keep(index++)) continue;
          INFO(name_of(type) << " stride " << stride << " count " << n);
          Random random(index);
          const Elements elements(type, stride, n, random);
          BasicBuffer<TestType> to(n, index % 4);
          kernels.numbers.read(type, elements.data(), stride, n, to.data());
          bool right = true;
          for (std::size_t i = 0; i < n; ++i) right = right && is_rounded(to[i], elements.value(i));
          CHECK(right);
          CHECK(to.intact());
        }
  });
}

TEMPLATE_TEST_CASE("read: all numbers of 16 bits, exactly", "[read]", float, double) {
  constexpr std::size_t kAll = 65536;
  std::vector<std::uint16_t> patterns;
  for (std::size_t i = 0; i < kAll; ++i) patterns.push_back(static_cast<std::uint16_t>(i));
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (const heed::ElementType type : {heed::ElementType::kBf16, heed::ElementType::kF16}) {
      INFO(name_of(type));
      const std::size_t step = small() ? 7 : 1;  // looked at; read are all
      BasicBuffer<TestType> to(kAll);
      kernels.numbers.read(type, patterns.data(), 1, kAll, to.data());
      BasicBuffer<TestType> apart(kAll / 2);
      kernels.numbers.read(type, patterns.data() + 1, 2, kAll / 2, apart.data());
      bool right = true;
      for (std::size_t i = 0; i < kAll; i += step) {
        const double want = decode16(format_of(type), patterns[i]);
        right = right && same_number(to[i], static_cast<TestType>(want));
        if (i % 2 == 1) right = right && same_number(apart[i / 2], to[i]);
      }
      CHECK(right);
    }
  });
}

TEST_CASE("read rounds float64 to the nearest float32, to even between two", "[read]") {
  static const Roundings<double> cases = roundings<double>(kFloat32, small() ? 1234567 : 65537);
  for_each_table<float>([](const Table<float>& kernels) {
    Buffer to(cases.from.size());
    kernels.numbers.read(heed::ElementType::kF64, cases.from.data(), 1, cases.from.size(),
                         to.data());
    bool right = true;
    for (std::size_t i = 0; i < cases.from.size(); ++i)
      right = right && same_bits(to[i], static_cast<float>(cases.to[i]));
    CHECK(right);
  });
}

TEMPLATE_TEST_CASE("read: NaN stays NaN", "[read]", float, double) {
  const std::vector<float> narrow = payloads<float>();
  const std::vector<double> wide = payloads<double>();
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    BasicBuffer<TestType> from_narrow(narrow.size());
    BasicBuffer<TestType> from_wide(wide.size());
    kernels.numbers.read(heed::ElementType::kF32, narrow.data(), 1, narrow.size(),
                         from_narrow.data());
    kernels.numbers.read(heed::ElementType::kF64, wide.data(), 1, wide.size(), from_wide.data());
    bool right = true;
    for (std::size_t i = 0; i < narrow.size(); ++i) right = right && std::isnan(from_narrow[i]);
    for (std::size_t i = 0; i < wide.size(); ++i) right = right && std::isnan(from_wide[i]);
    CHECK(right);
  });
}
