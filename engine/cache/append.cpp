#include "engine/cache/append.hpp"

#include <algorithm>
#include <cstring>

#include "engine/cache/growth.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

/// New rows of keys or of values, as the caller has them.
struct Given {
  const Stored& stored;
  const void* data;
  Layout layout;
};

Given given_rows(const CacheProblem& p, const heed_cache_append_desc& desc, const Stored& stored,
                 const char* field, const heed_layout& layout, const char* name, const void* data) {
  if (layout.dtype > HEED_DTYPE_F16 || layout.dtype == HEED_DTYPE_F64)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s.dtype is %u; it must be 0, HEED_DTYPE_F32 (1), HEED_DTYPE_BF16 (3) or HEED_DTYPE_F16 "
         "(4)",
         field, layout.dtype);
  const Shape shape = {1, p.key_heads, desc.rows, stored.features};
  const Given given = {stored, data, input_layout(field, layout, shape, ElementType::kF32, true)};
  check_pointer(name, data, given.layout, desc.rows > 0);
  return given;
}

void check(const heed_cache& cache, const heed_cache_append_desc& desc) {
  check_reserved("desc.reserved", desc.reserved);
  check_layer(cache, "desc.layer", desc.layer);
  check_size("rows", desc.rows, 0);
  if (desc.position_offset != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.position_offset is %lld; it must be 0: the cache has no rotary embedding",
         static_cast<long long>(desc.position_offset));
  if (desc.positions != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.positions is given; it must be NULL: the cache has no rotary embedding");
}

/// Converts rows into what is stored.
class Appending {
 public:
  Appending(const heed_cache& cache, const Growth& growth, const Given& key, const Given& value)
      : cache_(cache), growth_(growth), key_(key), value_(value) {}

  void run() {
    const CacheProblem& p = cache_.problem;
    const std::int64_t rows = growth_.end() - growth_.begin();
    const auto row_bytes = static_cast<double>(p.key.features + p.value.features) *
                           static_cast<double>(p.key_heads) * sizeof(float);
    const Tasks tasks = copying_tasks(*cache_.context, rows, row_bytes);
    if (!as_it_is(key_) || !as_it_is(value_)) {
      pitch_ = round_up(std::max(p.key.features, p.value.features), kAlignment / sizeof(float));
      buffer_ = Array<float>(cache_.context->allocator, tasks.workers * pitch_);
    }
    parallel_for(cache_.context->threads, tasks,
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   for (std::int64_t i = begin; i < end; ++i) write_row(i, worker);
                 });
  }

 private:
  /// Whether rows are stored as they lie.
  bool as_it_is(const Given& given) const {
    return given.layout.type == cache_.problem.type && given.layout.strides.feature == 1;
  }

  void write_row(std::int64_t i, std::uint32_t worker) {
    float* const buffer = buffer_.data() + worker * pitch_;
    for (std::int64_t head = 0; head < cache_.problem.key_heads; ++head)
      for (const Given* const given : {&key_, &value_})
        write(*given, row_at(given->data, given->layout, 0, head, i),
              growth_.row(given->stored, growth_.begin() + i, head), buffer);
  }

  void write(const Given& given, const std::byte* from, std::byte* to, float* buffer) const {
    if (as_it_is(given)) {
      std::memcpy(to, from, given.stored.row_bytes);
      return;
    }
    const NumberKernels<float>& numbers = cache_.context->kernels->f32.numbers;
    const ElementType type = cache_.problem.type;
    const auto count = static_cast<std::size_t>(given.stored.features);
    float* const read = type == ElementType::kF32 ? reinterpret_cast<float*>(to) : buffer;
    numbers.read(given.layout.type, from, given.layout.strides.feature, count, read);
    if (type != ElementType::kF32) numbers.write(type, read, count, to, 1);
  }

  const heed_cache& cache_;
  const Growth& growth_;
  const Given& key_;
  const Given& value_;
  std::int64_t pitch_ = 0;
  Array<float> buffer_;  ///< [workers][pitch_] a row on its way; empty if none is converted
};

}  // namespace

void append_rows(heed_cache& cache, heed_sequence sequence, const heed_cache_append_desc& desc,
                 const void* key, const void* value) {
  check(cache, desc);
  const CacheProblem& p = cache.problem;
  const Given keys = given_rows(p, desc, p.key, "desc.key", desc.key, "key", key);
  const Given values = given_rows(p, desc, p.value, "desc.value", desc.value, "value", value);
  if (desc.rows == 0) {
    const Use use(cache, sequence, Access::kChange);
    return;
  }
  Growth growth(cache, sequence, desc.layer, desc.rows);
  growth.copy_shared();
  Appending(cache, growth, keys, values).run();
  growth.keep();
}

}  // namespace heed
