#include "engine/dense/rotate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

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
  } fields[] = {
      {"features", r.features}, {"table_rows", r.table_rows}, {"table_stride", r.table_stride}};
  for (const auto& [name, value] : fields)
    if (value != 0) refuse("%s.%s is %lld; %s", field, name, lld(value), kBound);
  if (r.base != 0) refuse("%s.base is %g; %s", field, r.base, kBound);
  for (const auto& [name, table] : {std::pair{"cosines", r.cosines}, {"sines", r.sines}})
    if (table != nullptr)
      refuse("%s.%s is %p; %s", field, name, static_cast<const void*>(table), kBound);
}

std::int64_t resolve_features(const char* field, std::int64_t given, std::int64_t row_features) {
  if (given == 0 && row_features % 2 != 0)
    refuse("%s.features is 0, for all %lld of a row; that must be even", field, lld(row_features));
  if (given < 0 || given > row_features || given % 2 != 0)
    refuse("%s.features is %lld; it must be even, 0 to %lld", field, lld(given), lld(row_features));
  return given == 0 ? row_features : given;
}

void resolve_tables(const char* field, const heed_rotary& given, Rotary& r) {
  if (given.base != 0) refuse("%s.base is %g; it must be 0 with tables", field, given.base);
  for (const auto& [name, table] : {std::pair{"cosines", given.cosines}, {"sines", given.sines}}) {
    if (table == nullptr)
      refuse("%s.%s is NULL; with %s.table_rows it must be a table", field, name, field);
    check_alignment(FieldName(field, name), table, sizeof(float));
  }
  if (given.table_stride != 0 && given.table_stride < r.angles())
    refuse("%s.table_stride is %lld; it must be 0 or at least %lld", field, lld(given.table_stride),
           lld(r.angles()));
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
      refuse("%s.%s is %p; it must be NULL without %s.table_rows", field, name,
             static_cast<const void*>(table), field);
  if (given.table_stride != 0)
    refuse("%s.table_stride is %lld; it must be 0 without %s.table_rows", field,
           lld(given.table_stride), field);
  r.base = given.base == 0 ? kDefaultBase : given.base;
  if (!(r.base >= kLeastBase && std::isfinite(r.base)))
    refuse("%s.base is %g; it must be finite and at least %g, or 0 for the default %g", field,
           given.base, kLeastBase, kDefaultBase);
  r.last_position = kLastPosition;
}

/// For messages.
Text last_position_of(const Rotary& rotary) {
  Text text;
  if (rotary.last_position == kLastPosition)
    text.add("2^40");
  else
    text.add("%lld", lld(rotary.last_position));
  return text;
}

/// Throws unless rows may stand there; `field` is as in "desc.position".
void check_position(const char* field, const Rotary& rotary, std::int64_t position) {
  if (!rotary.has(position))
    refuse("%s is %lld; it must be 0 to %s%s", field, lld(position),
           last_position_of(rotary).c_str(), rotary.base == 0 ? ", which the tables have" : "");
}

/// A cosine and a sine take as long as turning so many values.
constexpr double kValuesPerAngle = 32;

}  // namespace

Rotary resolve_rotary(const char* field, const heed_rotary& given, std::int64_t row_features) {
  if (given.pairs > HEED_ROTARY_INTERLEAVED)
    refuse("%s.pairs is %u; it must be a heed_rotary_pairs, 0 to 2", field, given.pairs);
  check_reserved(FieldName(field, "reserved"), given.reserved);
  Rotary r;
  if (given.pairs == HEED_ROTARY_NONE) {
    check_absent(field, given);
    return r;
  }
  r.pairs = given.pairs;
  r.features = resolve_features(field, given.features, row_features);
  if (given.table_rows < 0 || given.table_rows > kLastPosition + 1)
    refuse("%s.table_rows is %lld; it must be 0 to 2^40 + 1", field, lld(given.table_rows));
  given.table_rows > 0 ? resolve_tables(field, given, r) : resolve_base(field, given, r);
  return r;
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

void Positions::check() const {
  if (!rotary.turns() && given != nullptr)
    refuse("desc.positions is given; it must be NULL: the cache has no rotary embedding");
  if (offset != 0 && (given != nullptr || !rotary.turns()))
    refuse("desc.position_offset is %lld; it must be 0 %s", lld(offset),
           given != nullptr ? "with desc.positions" : "without rotary embedding");
  check_alignment("desc.positions", given, sizeof(std::int64_t));
}

void Positions::check_rows(std::int64_t i, std::int64_t t, std::int64_t count) const {
  if (!rotary.turns() || count == 0) return;
  for (std::int64_t k = i; given != nullptr && k < i + count; ++k) {
    if (rotary.has(given[k])) continue;
    char field[48];
    std::snprintf(field, sizeof field, "desc.positions[%lld]", lld(k));
    check_position(field, rotary, given[k]);
  }
  if (given != nullptr) return;
  std::int64_t first = 0;
  std::int64_t last = 0;
  if (__builtin_add_overflow(t, offset, &first) ||
      __builtin_add_overflow(t + count - 1, offset, &last) || !rotary.has(first) ||
      !rotary.has(last))
    refuse("desc.position_offset is %lld; rows that lie at %lld to %lld must stand at 0 to %s",
           lld(offset), lld(t), lld(t + count - 1), last_position_of(rotary).c_str());
}

RotateProblem validate(const heed_rotate_desc& d) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("heads", d.heads, 0);
  check_size("rows", d.rows, 0);
  check_size("features", d.features, 2);
  RotateProblem p{};
  const Shape sizes = {d.batch, d.heads, d.rows, d.features};
  std::copy_n(sizes, 4, p.sizes);
  resolve_layouts<kRotateOperands>(&d, false, p);
  p.float64 = p.to.type == ElementType::kF64;
  if ((p.from.type == ElementType::kF64) != p.float64)
    refuse("desc.%s.dtype is %u; it must be HEED_DTYPE_F64 (2) as that of another tensor is",
           p.float64 ? "from" : "to", p.float64 ? d.from.dtype : d.to.dtype);
  p.rows = (Size(d.batch) * d.heads * d.rows)
               .checked("the number of rows",
                        {{"desc.batch", d.batch}, {"desc.heads", d.heads}, {"desc.rows", d.rows}});
  p.rotary = resolve_rotary("desc.rotary", d.rotary, d.features);
  if (!p.rotary.turns())
    refuse(
        "desc.rotary.pairs is 0; it must be HEED_ROTARY_HALVES (1) or HEED_ROTARY_INTERLEAVED (2)");
  p.position = d.position;
  check_position("desc.position", p.rotary, d.position);
  return p;
}

void validate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  const std::int64_t rows = p.sizes[2];
  check_pointers<kRotateOperands>(p, &rotate, p.float64);
  if (p.rows == 0) return;
  if (rotate.positions == nullptr) {
    check_position("desc.position + desc.rows - 1", p.rotary, p.position + rows - 1);
    return;
  }
  if (p.position != 0)
    refuse("desc.position is %lld; it must be 0 with positions", lld(p.position));
  check_alignment("positions", rotate.positions, sizeof(std::int64_t));
  const std::int64_t wrong = first_where(context.threads, p.sizes[0] * rows, [&](std::int64_t i) {
    return !p.rotary.has(rotate.positions[i]);
  });
  if (wrong == p.sizes[0] * rows) return;
  char field[64];
  std::snprintf(field, sizeof field, "positions[%lld][%lld]", lld(wrong / rows), lld(wrong % rows));
  check_position(field, p.rotary, rotate.positions[wrong]);
}

void run_rotate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  if (p.rows == 0) return;
  const std::int64_t batch = p.sizes[0];
  const std::int64_t angles = p.rotary.angles();
  const std::int64_t tasks = batch * p.sizes[2];
  const double values = static_cast<double>(p.rows) * static_cast<double>(p.sizes[3]) +
                        static_cast<double>(tasks) * static_cast<double>(angles) * kValuesPerAngle;
  const Tasks shared = share_evenly(context.threads, tasks, values);
  const bool unknown = p.rotary.base != 0 && rotate.frequencies == nullptr;
  Array<double> frequencies(context.allocator, unknown ? angles : 0);
  if (unknown) fill_frequencies(p.rotary, frequencies.data());
  const double* const known = unknown ? frequencies.data() : rotate.frequencies;
  with_real(p.float64, [&](auto real) {
    using Real = decltype(real);
    const KernelTable<Real>& kernels = kernels_of<Real>(*context.kernels);
    const auto features = static_cast<std::size_t>(p.sizes[3]);
    const bool where_it_lies = has_rows_of(kTypeOf<Real>, p.to);
    const std::int64_t each = 2 * angles + p.sizes[3];  // cosines, sines, a row
    Array<Real> buffers(context.allocator, shared.workers * each);
    const auto turn = [&](const std::byte* from, std::byte* to, const Real* cosines,
                          const Real* sines, Real* buffer) {
      Real* const row = where_it_lies ? reinterpret_cast<Real*>(to) : buffer;
      if (!where_it_lies || from != to)
        kernels.numbers.read(p.from.type, from, p.from.strides.feature, features, row);
      turn_row(p.rotary, cosines, sines, row);
      if (!where_it_lies) kernels.numbers.write(p.to.type, row, features, to, p.to.strides.feature);
    };
    // Row by row, so that sequences at the same position, one after the other, share its angles.
    parallel_for(context.threads, shared,
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   Real* const cosines = buffers.data() + worker * each;
                   Real* const sines = cosines + angles;
                   std::int64_t turned = -1;  // the position whose angles these are
                   for (std::int64_t t = begin; t < end; ++t) {
                     const std::int64_t b = t % batch;
                     const std::int64_t row = t / batch;
                     const std::int64_t position = rotate.positions == nullptr
                                                       ? p.position + row
                                                       : rotate.positions[b * p.sizes[2] + row];
                     if (position != turned) fill_angles(p.rotary, known, position, cosines, sines);
                     turned = position;
                     for (std::int64_t h = 0; h < p.sizes[1]; ++h)
                       turn(row_at(rotate.from, p.from, b, h, row),
                            row_at(rotate.to, p.to, b, h, row), cosines, sines, sines + angles);
                   }
                 });
  });
}

}  // namespace heed
