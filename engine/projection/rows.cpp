#include "engine/projection/rows.hpp"

#include <algorithm>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// Features transposed at a time: this many of a panel's rows stay in the L1 cache.
constexpr std::int64_t kPackFeatures = 128;

/// Lines that lie apart are fetched so many early.
constexpr std::int64_t kLinesAhead = 12;
constexpr std::int64_t kCacheLine = 64;

/// Panels of a claim, so that it is worth its atomic increment.
constexpr std::int64_t kPanelsPerClaim = 2;

/// Packs panels, each in a thread's slab.
template <class Real>
void pack(const heed_context& context, const PackJob& job, std::uint32_t workers, std::byte* slabs,
          std::size_t slab_bytes) {
  const KernelTable<Real>& kernels = kernels_of<Real>(*context.kernels);
  const ItemCut cut(job.items, job.rows,
                    std::int64_t{kernels.panels.lanes} * kernels.panels.max_vectors,
                    kernels.panels.lanes);
  const std::int64_t width = round_up(job.features, PanelGeometry::row_padding);
  parallel_each(context.threads, {cut.panels(), kPanelsPerClaim, workers},
                [&](std::int64_t p, std::uint32_t worker) {
                  auto* const wide = reinterpret_cast<Real*>(slabs + worker * slab_bytes);
                  const ItemCut::RowSpan place = cut.at(p);
                  const PanelRows panel =
                      PanelRows::of(place.first, place.rows, kernels.panels.lanes);
                  Real* const to = static_cast<Real*>(job.panels) + place.before * width;
                  for (std::int64_t k = 0; k < job.features; k += kPackFeatures)
                    pack_rows<Real>(kernels, kernels.panels, job.from, panel, k,
                                    std::min(kPackFeatures, job.features - k), wide,
                                    to + k * static_cast<std::int64_t>(panel.pitch));
                });
}

}  // namespace

template <class Real>
void pack_rows(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const InputRows& from, const PanelRows& panel, std::int64_t k, std::int64_t count,
               Real* wide, Real* to) {
  const Layout& layout = from.layout;
  const std::int64_t feature_bytes = layout.strides.feature * layout.bytes;
  const auto rows = static_cast<std::int64_t>(panel.rows);
  if (products.depth == 1 && layout.strides.row == 1 &&
      from.in_step(panel.first, panel.first + rows) == rows) {
    // The rows lie side by side already, as those of a transposed matrix do.
    const std::byte* const first = from.at(panel.first) + k * feature_bytes;
    const std::int64_t bytes = rows * layout.bytes;
    for (std::int64_t f = 0; f < count; ++f) {
      Real* const line = to + f * static_cast<std::int64_t>(panel.pitch);
      const std::byte* const from = first + f * feature_bytes;
      // Lines are too short for the processor to see the next ones coming.
      for (std::int64_t at = 0; f + kLinesAhead < count && at < bytes; at += kCacheLine)
        __builtin_prefetch(from + kLinesAhead * feature_bytes + at);
      kernels.numbers.read(layout.type, from, 1, panel.rows, line);
      std::fill(line + panel.rows, line + panel.pitch, Real{0});
    }
    return;
  }
  const bool in_place = layout.type == kTypeOf<Real>;
  const Real* at[kMaxPanel] = {};
  for (std::size_t i = 0; i < panel.rows; ++i) {
    const std::byte* const row =
        from.at(panel.first + static_cast<std::int64_t>(i)) + k * feature_bytes;
    Real* const widened = wide + static_cast<std::int64_t>(i) * count;
    if (!in_place)
      kernels.numbers.read(layout.type, row, layout.strides.feature,
                           static_cast<std::size_t>(count), widened);
    at[i] = in_place ? reinterpret_cast<const Real*>(row) : widened;
  }
  products.pack_query(panel.vectors, at, panel.rows, in_place ? layout.strides.feature : 1,
                      static_cast<std::size_t>(count), Real{1}, to);
}

template void pack_rows(const KernelTable<float>&, const ProductKernels<float>&, const InputRows&,
                        const PanelRows&, std::int64_t, std::int64_t, float*, float*);
template void pack_rows(const KernelTable<double>&, const ProductKernels<double>&, const InputRows&,
                        const PanelRows&, std::int64_t, std::int64_t, double*, double*);

std::size_t pack_slab_bytes(const heed_context& context, bool float64) {
  return with_real(float64, [&](auto real) -> std::size_t {
    const KernelTable<decltype(real)>& kernels = kernels_of<decltype(real)>(*context.kernels);
    return kernels.panels.lanes * kernels.panels.max_vectors * kPackFeatures * sizeof real;
  });
}

void pack_panels(const heed_context& context, const PackJob& job, std::uint32_t workers,
                 std::byte* slabs, std::size_t slab_bytes) {
  with_real(job.float64,
            [&](auto real) { pack<decltype(real)>(context, job, workers, slabs, slab_bytes); });
}

}  // namespace heed
