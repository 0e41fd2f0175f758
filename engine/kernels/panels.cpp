#include "engine/kernels/activation.hpp"
#include "engine/kernels/adjust.hpp"
#include "engine/kernels/dropout.hpp"
#include "engine/kernels/instance.hpp"
#include "engine/kernels/matmul.hpp"
#include "engine/kernels/pack.hpp"
#include "engine/kernels/softmax.hpp"

namespace heed {
namespace {

template <class V>
struct PanelEntries {
#define HEED_PANEL_KERNEL(result, name, parameters) HEED_BY_VECTORS(heed, result, name)
#include "engine/kernels/list.hpp"
};

template <class V>
constexpr PanelKernels<RealOf<V>> panel_kernels() {
  static_assert(kMaxVectors * kLanes<V> <= kMaxPanel);
  PanelKernels<RealOf<V>> panels{};
  panels.lanes = kLanes<V>;
  panels.max_vectors = kMaxVectors;
  panels.key_block = Isa::kKeyBlock;
  panels.depth = 1;
  panels.parts = 1;
  panels.adds = kAddsToScores<V>;
#define HEED_PANEL_KERNEL(result, name, parameters) panels.name = PanelEntries<V>::name;
#define HEED_PACK_KERNEL(result, name, parameters) panels.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return panels;
}

}  // namespace

const PanelKernels<Real> HEED_FAMILY_TABLE(Panels) = panel_kernels<Vector>();

}  // namespace heed
