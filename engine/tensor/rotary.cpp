#include "engine/tensor/rotary.hpp"

#include <algorithm>
#include <cmath>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/text.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

constexpr std::int64_t kLastPosition = std::int64_t{1} << 40;
constexpr double kDefaultBase = 10000;

/// With less, angles of the last position might overflow.
constexpr double kLeastBase = 1e-256;

/// "desc.rotary" and "base" as one name.
struct FieldName {
  FieldName(const char* field, const char* member) { text.add("%s.%s", field, member); }
  operator const char*() const { return text.c_str(); }
  Text text;
};

/// Throws unless nothing but `pairs` is given.
void check_absent(const char* field, const heed_rotary& r) {
  constexpr const char* kBound = "it must be 0 with HEED_ROTARY_NONE";
  const struct {
    const char* name;
    std::int64_t value;
  } numbers[] = {
      {"features", r.features}, {"table_rows", r.table_rows}, {"table_stride", r.table_stride}};
  for (const auto& number : numbers)
    if (number.value != 0)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.%s is %lld; %s", field, number.name,
           static_cast<long long>(number.value), kBound);
  if (r.base != 0) fail(HEED_STATUS_INVALID_ARGUMENT, "%s.base is %g; %s", field, r.base, kBound);
  for (const auto& [name, table] : {std::pair{"cosines", r.cosines}, {"sines", r.sines}})
    if (table != nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.%s is %p; %s", field, name,
           static_cast<const void*>(table), kBound);
}

std::int64_t resolve_features(const char* field, std::int64_t given, std::int64_t row_features) {
  if (given == 0 && row_features % 2 != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.features is 0, for all %lld of a row; that must be even",
         field, static_cast<long long>(row_features));
  if (given < 0 || given > row_features || given % 2 != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.features is %lld; it must be even, 0 to %lld", field,
         static_cast<long long>(given), static_cast<long long>(row_features));
  return given == 0 ? row_features : given;
}

void resolve_tables(const char* field, const heed_rotary& given, Rotary& r) {
  if (given.base != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.base is %g; it must be 0 with tables", field,
         given.base);
  for (const auto& [name, table] : {std::pair{"cosines", given.cosines}, {"sines", given.sines}}) {
    if (table == nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.%s is NULL; with %s.table_rows it must be a table",
           field, name, field);
    check_alignment(FieldName(field, name), table, sizeof(float));
  }
  if (given.table_stride != 0 && given.table_stride < r.angles())
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.table_stride is %lld; it must be 0 or at least %lld",
         field, static_cast<long long>(given.table_stride), static_cast<long long>(r.angles()));
  r.table_stride = given.table_stride == 0 ? r.angles() : given.table_stride;
  (Size(given.table_rows) * r.table_stride)
      .checked("a table", {{FieldName(field, "table_rows"), given.table_rows},
                           {FieldName(field, "table_stride"), r.table_stride}});
  r.cosines = given.cosines;
  r.sines = given.sines;
  r.last_position = given.table_rows - 1;
}

void resolve_base(const char* field, const heed_rotary& given, Rotary& r) {
  for (const auto& [name, table] : {std::pair{"cosines", given.cosines}, {"sines", given.sines}})
    if (table != nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.%s is %p; it must be NULL without %s.table_rows",
           field, name, static_cast<const void*>(table), field);
  if (given.table_stride != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s.table_stride is %lld; it must be 0 without %s.table_rows", field,
         static_cast<long long>(given.table_stride), field);
  r.base = given.base == 0 ? kDefaultBase : given.base;
  if (!(r.base >= kLeastBase && std::isfinite(r.base)))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s.base is %g; it must be finite and at least %g, or 0 for the default %g", field,
         given.base, kLeastBase, kDefaultBase);
  r.last_position = kLastPosition;
}

}  // namespace

Rotary resolve_rotary(const char* field, const heed_rotary& given, std::int64_t row_features) {
  if (given.pairs > HEED_ROTARY_INTERLEAVED)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.pairs is %u; it must be a heed_rotary_pairs, 0 to 2",
         field, given.pairs);
  check_reserved(FieldName(field, "reserved"), given.reserved);
  Rotary r;
  if (given.pairs == HEED_ROTARY_NONE) {
    check_absent(field, given);
    return r;
  }
  r.pairs = given.pairs;
  r.features = resolve_features(field, given.features, row_features);
  if (given.table_rows < 0 || given.table_rows > kLastPosition + 1)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.table_rows is %lld; it must be 0 to %lld", field,
         static_cast<long long>(given.table_rows), static_cast<long long>(kLastPosition) + 1);
  given.table_rows > 0 ? resolve_tables(field, given, r) : resolve_base(field, given, r);
  return r;
}

void check_position(const char* field, const Rotary& rotary, std::int64_t position) {
  if (!rotary.has(position))
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is %lld; it must be 0 to %lld%s", field,
         static_cast<long long>(position), static_cast<long long>(rotary.last_position),
         rotary.base == 0 ? ", which the tables have" : "");
}

void fill_frequencies(const Rotary& rotary, double* frequencies) {
  const auto features = static_cast<double>(rotary.features);
  for (std::int64_t i = 0; i < rotary.angles(); ++i)
    frequencies[i] = std::pow(rotary.base, static_cast<double>(-2 * i) / features);
}

template <class Real>
void fill_angles(const Rotary& rotary, const double* frequencies, std::int64_t position,
                 Real* cosines, Real* sines) {
  if (rotary.base == 0) {
    const std::int64_t row = position * rotary.table_stride;
    std::copy_n(rotary.cosines + row, rotary.angles(), cosines);
    std::copy_n(rotary.sines + row, rotary.angles(), sines);
    return;
  }
  for (std::int64_t i = 0; i < rotary.angles(); ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cosines[i] = static_cast<Real>(std::cos(angle));
    sines[i] = static_cast<Real>(std::sin(angle));
  }
}

template <class Real>
void turn_row(const Rotary& rotary, const Real* cosines, const Real* sines, Real* row) {
  const std::int64_t count = rotary.angles();
  const bool halves = rotary.pairs == HEED_ROTARY_HALVES;
  const std::int64_t step = halves ? 1 : 2;
  Real* const second = row + (halves ? count : 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real a = row[i * step];
    const Real b = second[i * step];
    row[i * step] = a * cosines[i] - b * sines[i];
    second[i * step] = a * sines[i] + b * cosines[i];
  }
}

template void fill_angles(const Rotary&, const double*, std::int64_t, float*, float*);
template void fill_angles(const Rotary&, const double*, std::int64_t, double*, double*);
template void turn_row(const Rotary&, const float*, const float*, float*);
template void turn_row(const Rotary&, const double*, const double*, double*);

}  // namespace heed
