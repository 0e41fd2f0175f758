#include "tests/support/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace heed_test {
namespace {

/// Strides for axes nested in the given order, outermost first, `gap` elements after every axis.
Axes nested(const Axes& shape, const std::array<std::size_t, 4>& order, std::int64_t gap) {
  Axes strides{};
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides[order[i]] = step;
    step = step * std::max(shape[order[i]], std::int64_t{1}) + gap;
  }
  return strides;
}

}  // namespace

Axes strides_of(Arrangement arrangement, const Axes& shape) {
  Axes strides = nested(shape, {0, 1, 2, 3}, arrangement == Arrangement::kPadded ? 5 : 0);
  if (arrangement == Arrangement::kRowsOutside) strides = nested(shape, {0, 2, 1, 3}, 0);
  if (arrangement == Arrangement::kTransposed) strides = nested(shape, {0, 1, 3, 2}, 0);
  if (arrangement == Arrangement::kBatchInside) strides = nested(shape, {1, 2, 3, 0}, 0);
  if (arrangement == Arrangement::kRowsReversed) strides[2] = -strides[2];
  if (arrangement == Arrangement::kFeaturesReversed) strides[3] = -strides[3];
  return strides;
}

Memory::Memory(const Memory& other)
    : Memory(other.dtype_, other.size_, other.misalign_, FencedTensors::fence()) {
  std::copy_n(other.data(), size_ * width(), data());
}

void Memory::fill_with_canaries(unsigned char* to, std::size_t bytes) const {
  store_bits(dtype_, to, 0, canary());
  for (std::size_t filled = width(); filled < bytes; filled *= 2)
    std::memcpy(to + filled, to, std::min(filled, bytes - filled));
}

bool Memory::guards_intact() const {
  if (fenced_) return true;
  const std::size_t before = kGuard / 2 / width();
  bool intact = true;
  open();
  for (std::size_t i = 0; intact && i < before; ++i)
    intact = load_bits(dtype_, guard(), index(i)) == canary() && is_canary(size_ + i);
  close();
  return intact;
}

double Numbers::operator[](std::size_t i) const { return decode(dtype, bits[i]); }

bool Numbers::written(std::size_t i) const { return bits[i] != canary_bits(dtype); }

bool same_bits(const Numbers& a, const Numbers& b) { return a.bits == b.bits; }

bool same_bits(const Outputs& a, const Outputs& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.weights, b.weights) &&
         same_bits(a.column_sums, b.column_sums);
}

std::uint32_t strides_said(const Axes& strides) {
  const bool repeats = std::count(strides.begin(), strides.end(), 0) > 0 && strides != Axes{};
  return repeats ? HEED_STRIDES_EXPLICIT : HEED_STRIDES_DEFAULT;
}

Tensor::Tensor(const Axes& shape, const Axes& strides, std::size_t misalign, std::uint32_t dtype)
    : dtype_(dtype),
      shape_(shape),
      strides_(strides),
      memory_(dtype, extent(), misalign, FencedTensors::fence()) {}

void* Tensor::data() { return const_cast<void*>(static_cast<const Tensor&>(*this).data()); }

const void* Tensor::data() const {
  return empty() ? nullptr : memory_.data() + static_cast<std::ptrdiff_t>(origin()) * width();
}

double Tensor::get(const Axes& index) const { return decode(dtype_, memory_.bits(offset(index))); }

void Tensor::set(const Axes& index, double x) {
  memory_.set_bits(offset(index), encode(dtype_, x));
}

float& Tensor::at(const Axes& index) {
  require_float32();
  return *reinterpret_cast<float*>(memory_.data() + offset(index) * sizeof(float));
}

bool Tensor::repeats() const {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (shape_[axis] > 1 && strides_[axis] == 0) return true;
  return false;
}

heed_layout Tensor::layout() const {
  return {dtype_, strides_said(strides_), strides_[0], strides_[1], strides_[2], strides_[3]};
}

void Tensor::clear() {
  for (std::size_t i = 0; i < memory_.size(); ++i) memory_.set_bits(i, memory_.canary());
}

Numbers Tensor::numbers() const {
  Numbers all{dtype_, {}, shape_};
  each([&](const Axes& index) { all.bits.push_back(memory_.bits(offset(index))); });
  return all;
}

bool Tensor::padding_intact() const {
  if (!memory_.guards_intact()) return false;
  std::vector<bool> used(memory_.size(), false);
  each([&](const Axes& at) { used[offset(at)] = true; });
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i] && !memory_.is_canary(i)) return false;
  return true;
}

void Tensor::require_float32() const {
  if (dtype_ != HEED_DTYPE_F32) throw std::logic_error("this tensor is not float32");
}

std::size_t Tensor::extent() const {
  if (empty()) return 0;
  std::int64_t size = 1;
  for (std::size_t axis = 0; axis < 4; ++axis)
    size += (shape_[axis] - 1) * (strides_[axis] < 0 ? -strides_[axis] : strides_[axis]);
  return static_cast<std::size_t>(size);
}

std::size_t Tensor::origin() const {
  std::int64_t before = 0;
  for (std::size_t axis = 0; axis < 4 && !empty(); ++axis)
    before -= strides_[axis] < 0 ? (shape_[axis] - 1) * strides_[axis] : 0;
  return static_cast<std::size_t>(before);
}

std::size_t Tensor::offset(const Axes& at) const {
  std::int64_t offset = static_cast<std::int64_t>(origin());
  for (std::size_t axis = 0; axis < 4; ++axis) offset += at[axis] * strides_[axis];
  return static_cast<std::size_t>(offset);
}

Tensor placed(const Axes& shape, Arrangement arrangement, std::uint32_t dtype,
              std::size_t misalign) {
  return {shape, strides_of(arrangement, shape), misalign, dtype_of(dtype, HEED_DTYPE_F32)};
}

heed_layout layout_of(const Tensor& tensor, Arrangement arrangement, std::uint32_t dtype) {
  heed_layout layout = arrangement == Arrangement::kDefault ? heed_layout{} : tensor.layout();
  layout.dtype = dtype;
  return layout;
}

heed_score_layout score_layout_of(const Tensor& tensor, Arrangement arrangement,
                                  std::uint32_t dtype) {
  const Axes& n = tensor.shape();
  Axes s{};
  if (arrangement != Arrangement::kDefault) s = tensor.strides();
  return {dtype, strides_said(s), n[0], n[1], n[2], n[3], s[0], s[1], s[2], s[3]};
}

std::vector<Source> sources_of(const std::vector<Tensor>& tensors) {
  std::vector<Source> sources;
  for (const Tensor& tensor : tensors) sources.push_back(tensor.source());
  return sources;
}

}  // namespace heed_test
