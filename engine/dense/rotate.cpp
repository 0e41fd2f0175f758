#include "engine/dense/rotate.hpp"

#include <algorithm>
#include <cstdio>

#include "engine/parallel/ranges.hpp"
#include "engine/runtime/array.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/element.hpp"

namespace heed {
namespace {

/// A cosine and a sine take as long as turning so many numbers.
constexpr double kNumbersPerAngle = 32;

/// The rows that one worker turns.
template <class Real>
class Rows {
 public:
  /// Numbers of `buffer`: cosines, sines, a row.
  static std::int64_t buffer_size(const RotateProblem& p) {
    return 2 * p.rotary.angles() + p.sizes[3];
  }

  Rows(const heed_context& context, const RotateProblem& problem, const Rotate& rotate,
       const double* frequencies, Real* buffer)
      : kernels_(kernels_of<Real>(*context.kernels)),
        problem_(problem),
        rotate_(rotate),
        frequencies_(frequencies),
        cosines_(buffer),
        sines_(cosines_ + problem.rotary.angles()),
        row_(sines_ + problem.rotary.angles()) {}

  /// The rows of all heads at one position.
  void turn(std::int64_t b, std::int64_t row) {
    const std::int64_t position = rotate_.positions == nullptr
                                      ? problem_.position + row
                                      : rotate_.positions[b * problem_.sizes[2] + row];
    if (position != position_)
      fill_angles(problem_.rotary, frequencies_, position, cosines_, sines_);
    position_ = position;
    for (std::int64_t h = 0; h < problem_.sizes[1]; ++h)
      turn(row_at(rotate_.from, problem_.from, b, h, row),
           row_at(rotate_.to, problem_.to, b, h, row));
  }

 private:
  void turn(const std::byte* from, std::byte* to) {
    const auto features = static_cast<std::size_t>(problem_.sizes[3]);
    const Layout& layout = problem_.to;
    const bool where_it_lies = layout.type == kTypeOf<Real> && layout.strides.feature == 1;
    Real* const row = where_it_lies ? reinterpret_cast<Real*>(to) : row_;
    if (!where_it_lies || from != to)
      kernels_.numbers.read(problem_.from.type, from, problem_.from.strides.feature, features, row);
    turn_row(problem_.rotary, cosines_, sines_, row);
    if (!where_it_lies)
      kernels_.numbers.write(layout.type, row, features, to, layout.strides.feature);
  }

  const KernelTable<Real>& kernels_;
  const RotateProblem& problem_;
  const Rotate& rotate_;
  const double* const frequencies_;
  Real* const cosines_;
  Real* const sines_;
  Real* const row_;
  std::int64_t position_ = -1;  ///< whose angles these are
};

}  // namespace

RotateProblem validate(const heed_rotate_desc& d) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("heads", d.heads, 0);
  check_size("rows", d.rows, 0);
  check_size("features", d.features, 2);
  RotateProblem p{};
  const Shape sizes = {d.batch, d.heads, d.rows, d.features};
  std::copy_n(sizes, 4, p.sizes);
  p.from = input_layout("desc.from", d.from, p.sizes, ElementType::kF32);
  p.to = output_layout("desc.to", d.to, p.sizes, ElementType::kF32);
  p.float64 = p.to.type == ElementType::kF64;
  if ((p.from.type == ElementType::kF64) != p.float64)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.%s.dtype is %u; it must be HEED_DTYPE_F64 (2) as that of another tensor is",
         p.float64 ? "from" : "to", p.float64 ? d.from.dtype : d.to.dtype);
  p.rows = (Size(d.batch) * d.heads * d.rows)
               .checked("the number of rows",
                        {{"desc.batch", d.batch}, {"desc.heads", d.heads}, {"desc.rows", d.rows}});
  p.rotary = resolve_rotary("desc.rotary", d.rotary, d.features);
  if (!p.rotary.turns())
    fail(
        HEED_STATUS_INVALID_ARGUMENT,
        "desc.rotary.pairs is 0; it must be HEED_ROTARY_HALVES (1) or HEED_ROTARY_INTERLEAVED (2)");
  p.position = d.position;
  check_position("desc.position", p.rotary, d.position);
  return p;
}

void validate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  const std::int64_t rows = p.sizes[2];
  const SizeField sizes[] = {{"batch", p.sizes[0]}, {"heads", p.sizes[1]}, {"rows", rows}};
  check_tensor("from", rotate.from, p.from, sizes);
  check_tensor("to", rotate.to, p.to, sizes);
  if (p.rows == 0) return;
  if (rotate.positions == nullptr) {
    check_position("desc.position + desc.rows - 1", p.rotary, p.position + rows - 1);
    return;
  }
  if (p.position != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.position is %lld; it must be 0 with positions",
         static_cast<long long>(p.position));
  check_alignment("positions", rotate.positions, sizeof(std::int64_t));
  const std::int64_t wrong = first_where(context.threads, p.sizes[0] * rows, [&](std::int64_t i) {
    return !p.rotary.has(rotate.positions[i]);
  });
  if (wrong == p.sizes[0] * rows) return;
  char field[64];
  std::snprintf(field, sizeof field, "positions[%lld][%lld]", static_cast<long long>(wrong / rows),
                static_cast<long long>(wrong % rows));
  check_position(field, p.rotary, rotate.positions[wrong]);
}

void run_rotate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  if (p.rows == 0) return;
  const std::int64_t batch = p.sizes[0];
  const std::int64_t angles = p.rotary.angles();
  const std::int64_t tasks = batch * p.sizes[2];
  const double numbers =
      static_cast<double>(p.rows) * static_cast<double>(p.sizes[3]) +
      static_cast<double>(tasks) * static_cast<double>(angles) * kNumbersPerAngle;
  const Tasks shared = share_evenly(context.threads, tasks, numbers);
  const bool unknown = p.rotary.base != 0 && rotate.frequencies == nullptr;
  Array<double> frequencies(context.allocator, unknown ? angles : 0);
  if (unknown) fill_frequencies(p.rotary, frequencies.data());
  const double* const known = unknown ? frequencies.data() : rotate.frequencies;
  with_real(p.float64, [&](auto real) {
    using Real = decltype(real);
    const std::int64_t each = Rows<Real>::buffer_size(p);
    Array<Real> buffers(context.allocator, shared.workers * each);
    // Row by row, so that sequences at the same position, one after the other, share its angles.
    parallel_for(context.threads, shared,
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   Rows<Real> some(context, p, rotate, known, buffers.data() + worker * each);
                   for (std::int64_t t = begin; t < end; ++t) some.turn(t % batch, t / batch);
                 });
  });
}

}  // namespace heed
