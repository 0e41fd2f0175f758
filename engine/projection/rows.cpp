#include "engine/projection/rows.hpp"

#include <algorithm>

#include "engine/dense/cut.hpp"
#include "engine/dense/tile.hpp"
#include "engine/parallel/tasks.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// Features transposed at a time: so few of a panel's rows stay in the L1 cache.
constexpr std::int64_t kPackFeatures = 128;

/// Panels of a claim, so that it is worth its atomic increment.
constexpr std::int64_t kPanelsPerClaim = 2;

struct Run {
  const Kernels& kernels;
  const PackJob& job;
  ItemCut cut;
  std::byte* slabs;
  std::size_t slab_bytes;

  template <class Real>
  void pack(std::int64_t p, std::uint32_t worker) const {
    const KernelTable<Real>& table = kernels_of<Real>(kernels);
    const ItemCut::Place place = cut.at(p);
    const auto rows = static_cast<std::size_t>(place.rows);
    const std::int64_t pitch = round_up(place.rows, table.lanes);
    const std::int64_t width = round_up(job.features, kRowPadding);
    Real* const panel = static_cast<Real*>(job.panels) + place.before * width;
    auto* const wide = reinterpret_cast<Real*>(slabs + worker * slab_bytes);
    for (std::int64_t k = 0; k < job.features; k += kPackFeatures)
      pack_rows(table, job.from, place.first, rows, k, std::min(kPackFeatures, job.features - k),
                wide, panel + k * pitch);
  }
};

template <class Real>
ItemCut cut_of(const KernelTable<Real>& kernels, const PackJob& job) {
  return {job.items, job.rows, std::int64_t{kernels.lanes} * kernels.max_vectors, kernels.lanes};
}

}  // namespace

template <class Real>
void pack_rows(const KernelTable<Real>& kernels, const InputRows& from, std::int64_t first,
               std::size_t rows, std::int64_t k, std::int64_t count, Real* wide, Real* panel) {
  const Layout& layout = from.layout;
  const bool in_place = layout.type == kTypeOf<Real>;
  const Real* at[kMaxPanel] = {};
  for (std::size_t i = 0; i < rows; ++i) {
    const std::byte* const row =
        from.at(first + static_cast<std::int64_t>(i)) + k * layout.strides.feature * layout.bytes;
    Real* const to = wide + static_cast<std::int64_t>(i) * count;
    if (!in_place)
      kernels.read(layout.type, row, layout.strides.feature, static_cast<std::size_t>(count), to);
    at[i] = in_place ? reinterpret_cast<const Real*>(row) : to;
  }
  kernels.pack_query(at, rows, in_place ? layout.strides.feature : 1,
                     static_cast<std::size_t>(count), Real{1}, panel,
                     (rows + kernels.lanes - 1) / kernels.lanes);
}

template void pack_rows(const KernelTable<float>&, const InputRows&, std::int64_t, std::size_t,
                        std::int64_t, std::int64_t, float*, float*);
template void pack_rows(const KernelTable<double>&, const InputRows&, std::int64_t, std::size_t,
                        std::int64_t, std::int64_t, double*, double*);

std::size_t pack_slab_bytes(const heed_context& context, bool float64) {
  const std::size_t lanes = float64 ? context.kernels->f64.lanes : context.kernels->f32.lanes;
  const std::size_t vectors =
      float64 ? context.kernels->f64.max_vectors : context.kernels->f32.max_vectors;
  return lanes * vectors * kPackFeatures * (float64 ? sizeof(double) : sizeof(float));
}

void pack_panels(const heed_context& context, const PackJob& job, std::uint32_t workers,
                 std::byte* slabs, std::size_t slab_bytes) {
  const Kernels& kernels = *context.kernels;
  Run run{kernels, job, job.float64 ? cut_of(kernels.f64, job) : cut_of(kernels.f32, job), slabs,
          slab_bytes};
  run_tasks(
      context, {run.cut.panels(), kPanelsPerClaim, workers},
      [](void* argument, std::int64_t begin, std::int64_t end, std::uint32_t worker) {
        const Run& r = *static_cast<const Run*>(argument);
        for (std::int64_t p = begin; p < end; ++p)
          r.job.float64 ? r.pack<double>(p, worker) : r.pack<float>(p, worker);
      },
      &run);
}

}  // namespace heed
