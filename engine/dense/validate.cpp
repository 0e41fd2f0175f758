#include <cmath>
#include <utility>

#include "engine/dense/problem.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

using Shape = std::int64_t[4];

void check_size(const char* field, std::int64_t value, std::int64_t low) {
  if (value < low || value > kMaxSize)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %lld; it must be %lld to %lld", field,
         static_cast<long long>(value), static_cast<long long>(low),
         static_cast<long long>(kMaxSize));
}

void check_dtype(const char* tensor, const heed_layout& layout) {
  if (layout.reserved != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s.reserved is %u; it must be 0", tensor,
         layout.reserved);
  switch (layout.dtype) {
    case HEED_DTYPE_DEFAULT:
    case HEED_DTYPE_F32:
      return;
    case HEED_DTYPE_F64:
    case HEED_DTYPE_BF16:
    case HEED_DTYPE_F16:
      fail(HEED_STATUS_UNSUPPORTED,
           "desc.%s.dtype is %u; this version computes HEED_DTYPE_F32 (1) only", tensor,
           layout.dtype);
    default:
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s.dtype is %u; it must be a heed_dtype, 0 to 4",
           tensor, layout.dtype);
  }
}

bool is_empty(const Shape& shape) {
  return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

/// shape[axis] - 1 steps of |stride|, as a distance; fails where it leaves 62 bits of bytes.
std::int64_t reach(const char* tensor, std::int64_t size, std::int64_t stride) {
  std::int64_t distance = 0;
  const std::int64_t magnitude = stride < 0 ? (stride == INT64_MIN ? INT64_MAX : -stride) : stride;
  if (__builtin_mul_overflow(size - 1, magnitude, &distance) || distance > (INT64_MAX >> 4))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.%s steps %lld times by a stride of %lld elements; that overflows an address", tensor,
         static_cast<long long>(size - 1), static_cast<long long>(stride));
  return distance;
}

/// The strides that the descriptor means, contiguous if all are 0, with every address in range.
Strides resolve_strides(const char* tensor, const heed_layout& layout, const Shape& shape) {
  Strides strides = {layout.stride_batch, layout.stride_head, layout.stride_row,
                     layout.stride_feature};
  if (strides.batch == 0 && strides.head == 0 && strides.row == 0 && strides.feature == 0) {
    std::int64_t elements = 1;
    std::int64_t* const of[4] = {&strides.batch, &strides.head, &strides.row, &strides.feature};
    for (int axis = 3; axis >= 0; --axis) {
      *of[axis] = elements;
      const std::int64_t size = shape[axis] == 0 ? 1 : shape[axis];
      if (__builtin_mul_overflow(elements, size, &elements) || elements > (INT64_MAX >> 4))
        fail(HEED_STATUS_INVALID_ARGUMENT,
             "desc.%s has %lld x %lld x %lld x %lld elements; that overflows an address", tensor,
             static_cast<long long>(shape[0]), static_cast<long long>(shape[1]),
             static_cast<long long>(shape[2]), static_cast<long long>(shape[3]));
    }
  }
  if (is_empty(shape)) return strides;
  const std::int64_t all[4] = {strides.batch, strides.head, strides.row, strides.feature};
  std::int64_t farthest = 0;
  for (int axis = 0; axis < 4; ++axis) {
    farthest += reach(tensor, shape[axis], all[axis]);
    if (farthest > (INT64_MAX >> 4))
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s reaches %lld elements; that overflows an address",
           tensor, static_cast<long long>(farthest));
  }
  return strides;
}

/// Distinct elements of out lie apart if, ordered by size, every stride steps past all that
/// the smaller ones reach. Exact for layouts made by permuting, slicing and padding axes.
void check_output_apart(const Strides& strides, const Shape& shape) {
  const char* const names[4] = {"batch", "head", "row", "feature"};
  const std::int64_t given[4] = {strides.batch, strides.head, strides.row, strides.feature};
  int order[4];
  int count = 0;
  for (int axis = 0; axis < 4; ++axis)
    if (shape[axis] > 1) order[count++] = axis;
  const auto magnitude = [&](int axis) { return given[axis] < 0 ? -given[axis] : given[axis]; };
  for (int i = 1; i < count; ++i)
    for (int k = i; k > 0 && magnitude(order[k]) < magnitude(order[k - 1]); --k)
      std::swap(order[k], order[k - 1]);
  std::int64_t reached = 0;
  for (int i = 0; i < count; ++i) {
    const int axis = order[i];
    if (magnitude(axis) <= reached)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "desc.out.stride_%s is %lld; it must exceed %lld, or elements of out overlap",
           names[axis], static_cast<long long>(given[axis]), static_cast<long long>(reached));
    reached += magnitude(axis) * (shape[axis] - 1);
  }
}

std::int64_t resolve_offset(const heed_attention_desc& desc) {
  if (desc.causal > HEED_CAUSAL_OFFSET)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.causal is %u; it must be a heed_causal, 0 to %d",
         desc.causal, static_cast<int>(HEED_CAUSAL_OFFSET));
  if (desc.causal != HEED_CAUSAL_OFFSET && desc.causal_offset != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.causal_offset is %lld with desc.causal %u; it must be 0 unless causal is "
         "HEED_CAUSAL_OFFSET (3)",
         static_cast<long long>(desc.causal_offset), desc.causal);
  const std::int64_t offset = desc.causal == HEED_CAUSAL_BOTTOM_RIGHT
                                  ? desc.key_length - desc.query_length
                                  : desc.causal_offset;
  if (offset < -desc.query_length) return -desc.query_length;
  return offset < desc.key_length ? offset : desc.key_length;
}

}  // namespace

Problem validate(const heed_attention_desc& given) {
  heed_attention_desc desc = given;
  if (desc.key_heads == 0) desc.key_heads = desc.query_heads;
  if (desc.value_features == 0) desc.value_features = desc.features;
  check_size("batch", desc.batch, 0);
  check_size("query_heads", desc.query_heads, 0);
  check_size("key_heads", desc.key_heads, 0);
  check_size("query_length", desc.query_length, 0);
  check_size("key_length", desc.key_length, 0);
  check_size("features", desc.features, 1);
  check_size("value_features", desc.value_features, 1);
  if (desc.query_heads % (desc.key_heads == 0 ? 1 : desc.key_heads) != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.query_heads is %lld; it must be a multiple of desc.key_heads, %lld",
         static_cast<long long>(desc.query_heads), static_cast<long long>(desc.key_heads));
  if (!std::isfinite(desc.scale))
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.scale is %g; it must be finite", desc.scale);
  check_dtype("query", desc.query);
  check_dtype("key", desc.key);
  check_dtype("value", desc.value);
  check_dtype("out", desc.out);

  const Shape query = {desc.batch, desc.query_heads, desc.query_length, desc.features};
  const Shape key = {desc.batch, desc.key_heads, desc.key_length, desc.features};
  const Shape value = {desc.batch, desc.key_heads, desc.key_length, desc.value_features};
  const Shape out = {desc.batch, desc.query_heads, desc.query_length, desc.value_features};

  Problem problem{};
  problem.batch = desc.batch;
  problem.query_heads = desc.query_heads;
  problem.key_heads = desc.key_heads;
  problem.query_length = desc.query_length;
  problem.key_length = desc.key_length;
  problem.features = desc.features;
  problem.value_features = desc.value_features;
  problem.query = resolve_strides("query", desc.query, query);
  problem.key = resolve_strides("key", desc.key, key);
  problem.value = resolve_strides("value", desc.value, value);
  problem.out = resolve_strides("out", desc.out, out);
  if (!is_empty(out)) check_output_apart(problem.out, out);
  problem.scale = desc.scale != 0 ? desc.scale : 1 / std::sqrt(static_cast<double>(desc.features));
  problem.causal = desc.causal != HEED_CAUSAL_NONE;
  problem.causal_offset = resolve_offset(desc);
  return problem;
}

void validate(const Problem& problem, const heed_attention_args& args) {
  if (args.reserved != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.reserved is %u; it must be 0", args.reserved);
  const bool rows = problem.batch > 0 && problem.query_heads > 0 && problem.query_length > 0;
  const bool keys = problem.batch > 0 && problem.key_heads > 0 && problem.key_length > 0;
  const auto check = [](const char* name, const void* pointer, bool has_elements) {
    if (pointer == nullptr && has_elements)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is NULL; its tensor has elements", name);
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignof(float) != 0)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is %p; it must be a multiple of %zu", name,
           pointer, alignof(float));
  };
  check("query", args.query, rows);
  check("key", args.key, keys);
  check("value", args.value, keys);
  check("out", args.out, rows);
}

}  // namespace heed
