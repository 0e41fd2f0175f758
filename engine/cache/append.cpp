#include <algorithm>
#include <cstring>

#include "engine/cache/sequences.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// New rows of keys, or of values.
struct GivenRows {
  const Storage& stored;
  const void* data;
  const Layout& layout;
};

/// Turns new rows and converts them to the type that is stored.
class Appending {
 public:
  Appending(const heed_cache& cache, const Growth& growth, const Append& append)
      : cache_(cache), growth_(growth), append_(append) {}

  void run() {
    const Threads& threads = cache_.context->threads;
    const std::int64_t rows = growth_.end() - growth_.begin();
    const double values = static_cast<double>(rows) * static_cast<double>(problem_.key_heads) *
                          static_cast<double>(key_.stored.features + value_.stored.features);
    const Tasks tasks = share_evenly(threads, rows, values);
    if (!as_it_is(key_) || !as_it_is(value_)) {
      pitch_ = std::max(key_.stored.features, value_.stored.features) + problem_.rotary.features;
      buffers_ = Array<float>(cache_.context->allocator, tasks.workers * pitch_);
    }
    parallel_each(threads, tasks, [&](std::int64_t i, std::uint32_t worker) {
      write_row(i, buffers_.data() + worker * pitch_);
    });
  }

 private:
  bool turns(const GivenRows& given) const { return problem_.rotary.turns() && &given == &key_; }

  /// Whether rows are stored as they lie.
  bool as_it_is(const GivenRows& given) const {
    return given.layout.type == problem_.type && given.layout.strides.feature == 1 && !turns(given);
  }

  /// Writes the row of all heads. The buffer is for the cosines and sines of its position, and for
  /// a row.
  void write_row(std::int64_t i, float* buffer) const {
    const Rotary& rotary = problem_.rotary;
    const std::int64_t t = growth_.begin() + i;
    if (rotary.turns())
      fill_angles(rotary, cache_.frequencies, append_.positions.of(i, t), buffer,
                  buffer + rotary.angles());
    for (std::int64_t head = 0; head < problem_.key_heads; ++head)
      for (const GivenRows* const given : {&key_, &value_})
        write(*given, row_at(given->data, given->layout, 0, head, i), t, head, buffer);
  }

  void write(const GivenRows& given, const std::byte* from, std::int64_t t, std::int64_t head,
             float* buffer) const {
    std::byte* const to = cache_.row(given.stored, append_.layer, growth_.page_of(t), head, t);
    if (as_it_is(given)) {
      std::memcpy(to, from, given.stored.row_bytes);
      return;
    }
    const NumberKernels<float>& numbers = cache_.context->kernels->f32.numbers;
    const Rotary& rotary = problem_.rotary;
    const auto count = static_cast<std::size_t>(given.stored.features);
    const bool in_place = problem_.type == ElementType::kF32;
    float* const row = in_place ? reinterpret_cast<float*>(to) : buffer + rotary.features;
    numbers.read(given.layout.type, from, given.layout.strides.feature, count, row);
    if (turns(given)) turn_row(rotary, buffer, buffer + rotary.angles(), row);
    if (in_place) return;
    if (problem_.rows_have_scales())
      return numbers.quantise(
          row, count, reinterpret_cast<std::int8_t*>(to),
          cache_.scale(given.stored, append_.layer, growth_.page_of(t), head, t));
    if (given.stored.scale != 1)
      for (std::size_t x = 0; x < count; ++x) row[x] /= given.stored.scale;
    numbers.write(problem_.type, row, count, to, 1);
  }

  const heed_cache& cache_;
  const CacheProblem& problem_ = cache_.problem;
  const Growth& growth_;
  const Append& append_;
  const GivenRows key_ = {problem_.key, append_.given.key, append_.key};
  const GivenRows value_ = {problem_.value, append_.given.value, append_.value};
  std::int64_t pitch_ = 0;
  Array<float> buffers_;  ///< [workers][pitch_]; empty if rows are stored as they lie
};

}  // namespace

Append validate(const heed_cache& cache, const heed_cache_append_desc& desc, const void* key,
                const void* value) {
  const CacheProblem& p = cache.problem;
  check_reserved("desc.reserved", desc.reserved);
  check_layer(cache, "desc.layer", desc.layer);
  check_size("rows", desc.rows, 0);
  const Positions positions = {p.rotary, desc.position_offset, desc.positions};
  positions.check();
  Append append = {p, desc.layer, desc.rows, positions, {key, value}, {}, {}};
  const auto check = [&](const Operand<Append>& operand, std::uint32_t dtype) {
    if (dtype > HEED_DTYPE_F16 || dtype == HEED_DTYPE_F64)  // the arithmetic is float32
      refuse(
          "%s.dtype is %u; it must be 0, HEED_DTYPE_F32 (1), HEED_DTYPE_BF16 (3) or "
          "HEED_DTYPE_F16 (4)",
          operand.desc, dtype);
    resolve_layout_of(operand, &desc, false, append);
    check_pointer(operand, append, &append.given, false, {&append.given});
  };
  check(kAppendOperands[0], desc.key.dtype);
  check(kAppendOperands[1], desc.value.dtype);
  return append;
}

void run_append(heed_cache& cache, heed_sequence sequence, const Append& append) {
  if (append.rows == 0) {
    const Use use(cache, sequence, Access::kChange);
    return;
  }
  Growth growth(cache, sequence, append.layer, append.rows);
  append.positions.check_rows(0, growth.begin(), append.rows);
  growth.copy_shared();
  Appending(cache, growth, append).run();
  growth.keep();
}

}  // namespace heed
