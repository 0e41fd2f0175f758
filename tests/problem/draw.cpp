#include "tests/problem/draw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace heed_test {

std::uint64_t Draw::below(std::uint64_t most) {
  std::uint64_t drawn = 0;
  for (unsigned shift = 0; shift < 64 && most >> shift > 0; shift += 8) {
    if (!seeded_ && size_ == 0) break;
    drawn = drawn << 8U | (seeded_ ? random_.bits() & 0xffU : bytes_[--size_]);
  }
  return most == ~std::uint64_t{0} ? drawn : drawn % (most + 1);
}

char Draw::first() {
  if (seeded_) return static_cast<char>(below(0xff));
  --size_;
  return static_cast<char>(*bytes_++);
}

std::uint32_t Draw::from_front(std::uint32_t most) {
  if (!seeded_ && size_ == 0) return 0;
  return static_cast<unsigned char>(first()) % (most + 1);
}

std::string Draw::text(std::size_t most) {
  const auto more = [&] { return seeded_ || size_ > 0; };
  std::string text;
  while (text.size() < most && more()) {
    const char next = first();
    if (next == '\\' && more() && first() != '\\') break;
    text.push_back(next);
  }
  return text;
}

std::string Draw::rest() {
  std::string rest(seeded_ ? index(256) : size_, '\0');
  for (char& c : rest) c = first();
  return rest;
}

std::int64_t Draw::hostile() {
  if (one_in(8)) return static_cast<std::int64_t>(bits());
  const std::int64_t exponent =
      one_in(2) ? pick({31, 32, 40, 41, 59, 60, 61, 62, 63}) : integer(0, 63);
  const std::uint64_t power = std::uint64_t{1} << exponent;
  const auto near = power + static_cast<std::uint64_t>(integer(-2, 2));  // wraps around at 2^63
  return static_cast<std::int64_t>(one_in(3) ? ~near + 1 : near);
}

double Draw::real() {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (one_in(4)) {
    const std::uint64_t any = bits();
    double x = 0;
    std::memcpy(&x, &any, sizeof x);
    return x;
  }
  return pick<double>({0, -0.0, 1, -1, 0.5, 30, kInfinite, -kInfinite,
                       std::numeric_limits<double>::quiet_NaN(), 5e-324, 1e-310, 1e-40, 1e-30, 1e30,
                       1e38, 3.5e38, 1e300, 1.7e308, -1e300});
}

std::uint32_t Draw::dtype(bool float64, bool arithmetic_is_default) {
  if (float64) return arithmetic_is_default && one_in(2) ? HEED_DTYPE_DEFAULT : HEED_DTYPE_F64;
  return pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
}

Axes Draw::strides(const Axes& shape, Use use) {
  if (!one_in(2)) return {};
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  for (std::size_t i = 4; i-- > 1;)
    std::swap(order[i], order[choice(static_cast<std::uint32_t>(i))]);
  // Numbers of a row side by side, as most have them.
  if (one_in(2)) std::swap(order[0], *std::find(order.begin(), order.end(), std::size_t{3}));
  Axes strides{};
  std::int64_t step = 1;
  for (const std::size_t axis : order) {
    step += one_in(4) ? integer(0, 5) : 0;
    strides[axis] = one_in(4) ? -step : step;
    step *= shape[axis] > 1 ? shape[axis] : 1;
    if (shape[axis] <= 1 && one_in(3)) strides[axis] = hostile();
    if (use == Use::kRead && one_in(16)) strides[axis] = 0;
  }
  return strides;
}

std::uint32_t Draw::reserved(const Axes& strides, Use use) {
  if (strides == Axes{} && (use == Use::kWritten || !one_in(16))) return HEED_STRIDES_DEFAULT;
  const bool said = strides == Axes{} || one_in(4);
  return said ? std::uint32_t{HEED_STRIDES_EXPLICIT} : strides_said(strides);
}

heed_score_layout Draw::score_layout(const Axes& pairs, std::uint32_t dtype) {
  Axes sizes = pairs;
  for (std::int64_t& size : sizes) size = one_in(3) ? 1 : size;
  const Axes s = strides(sizes, Use::kRead);
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (sizes[axis] == pairs[axis] && one_in(2)) sizes[axis] = 0;
  return {dtype, reserved(s, Use::kRead), sizes[0], sizes[1], sizes[2], sizes[3], s[0], s[1], s[2],
          s[3]};
}

void Draw::plant(const std::vector<Tensor*>& tensors) {
  Tensor& tensor = *pick(tensors);
  Axes at{};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.shape()[axis] == 0) return;
    at[axis] = integer(0, tensor.shape()[axis] - 1);
  }
  tensor.set(at, pick<double>({kNaN, kInfinity, -kInfinity}));
}

double Draw::far_away(std::uint32_t dtype) {
  const double far =
      pick<double>({1e4, 1e6, 1e9, 1e30, 0x1.fffffep127, 1e39, 0x1.fffffffffffffp1023});
  const double most = dtype == HEED_DTYPE_F64 ? far : format_of(dtype).largest;
  return (one_in(3) ? 1 : -1) * std::min(far, most);
}

void Draw::move_rows(Tensor& bias, std::size_t axis) {
  const double far = far_away(bias.dtype());
  const bool alike = one_in(2);
  const std::uint64_t salt = bits();
  bias.each([&](const Axes& at) {
    const double x = bias.get(at);
    if (x == -kInfinity || Random(salt + static_cast<std::uint64_t>(at[axis])).bits() % 3 == 0)
      return;
    bias.set(at, alike || std::fabs(far) > 1e6 ? far : far + x);
  });
}

void Draw::spoil_pointer(unsigned char* bytes, std::size_t end,
                         std::initializer_list<std::size_t> keep) {
  const std::size_t at = 8 * (1 + index(end / 8 - 1));
  for (const std::size_t kept : keep)
    if (at == kept) return;
  std::uintptr_t pointer = 0;
  std::memcpy(&pointer, bytes + at, sizeof pointer);
  pointer = pointer == 0 || one_in(2) ? 0 : pointer + 1;
  std::memcpy(bytes + at, &pointer, sizeof pointer);
}

void Draw::enlarge(unsigned char* bytes, std::size_t first, std::size_t end) {
  constexpr std::size_t kSizes = 80;  // descriptors begin with them
  const std::size_t begin = (first + 7) / 8;
  const std::size_t last = std::max(std::min(end, kSizes) / 8 - 1, begin);
  const std::int64_t size = (std::int64_t{1} << integer(one_in(2) ? 30 : 12, 40)) + integer(-2, 2);
  std::memcpy(bytes + 8 * (begin + index(last - begin + 1)), &size, sizeof size);
}

void Draw::overwrite(unsigned char* bytes, std::size_t first, std::size_t end) {
  const std::size_t width = one_in(3) ? 4 : 8;
  const std::size_t begin = (first + width - 1) / width;
  const std::size_t at = width * (begin + index(end / width - begin));
  const std::uint32_t kind = choice(3);
  if (kind == 3 && width == 8) {
    const double number = real();
    std::memcpy(bytes + at, &number, width);
    return;
  }
  const std::int64_t number = kind == 0 ? integer(-2, 10) : hostile();
  std::memcpy(bytes + at, &number, width);  // little-endian: the low half of it, or all
}

}  // namespace heed_test
