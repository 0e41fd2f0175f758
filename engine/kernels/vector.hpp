// Fills the kernel tables of one xsimd architecture. An <isa>.cpp includes this, names its
// architecture and is compiled with that architecture's flags.
#pragma once

#include "engine/kernels/adjust.hpp"
#include "engine/kernels/argmax.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/edges.hpp"
#include "engine/kernels/matmul.hpp"
#include "engine/kernels/nodes.hpp"
#include "engine/kernels/numbers.hpp"
#include "engine/kernels/pack.hpp"
#include "engine/kernels/rows.hpp"
#include "engine/kernels/softmax.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// The panels' kernels.
template <class V>
struct PanelEntries {
#define HEED_PANEL_KERNEL(result, name, parameters) HEED_BY_VECTORS(heed, result, name)
#include "engine/kernels/list.hpp"
};

template <class V>
constexpr NodeKernels<RealOf<V>> node_kernels() {
  NodeKernels<RealOf<V>> kernels{};
#define HEED_NODE_KERNEL(result, name, parameters) kernels.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return kernels;
}

template <class V>
constexpr NodeKernels<RealOf<V>> kNodeKernels = node_kernels<V>();

template <class V>
constexpr KernelTable<RealOf<V>> vector_table(const char* isa, std::uint32_t key_block) {
  static_assert(kMaxVectors * kLanes<V> <= kMaxPanel);
  KernelTable<RealOf<V>> table{};
  table.isa = isa;
  table.panels.lanes = kLanes<V>;
  table.panels.max_vectors = kMaxVectors;
  table.panels.key_block = key_block;
  table.panels.depth = 1;
  table.panels.parts = 1;
  table.rows.lanes = kLanes<V>;
  table.rows.queries = kLanes<V> / 2;
  if constexpr (kIsFloat<V>) table.nodes = &kNodeKernels<V>;
#define HEED_PANEL_KERNEL(result, name, parameters) table.panels.name = PanelEntries<V>::name;
#define HEED_PACK_KERNEL(result, name, parameters) table.panels.name = heed::name<V>;
#define HEED_ROW_KERNEL(result, name, parameters) table.rows.name = heed::name<V>;
#define HEED_NUMBER_KERNEL(result, name, parameters) table.numbers.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return table;
}

/// `key_block` keys of a full panel should fill about a third of the L1 cache with scores, which
/// are as many bytes for either type.
template <class Arch>
constexpr Kernels vector_kernels(const char* isa, std::uint32_t key_block,
                                 const ProductKernels<float>* pairs = nullptr,
                                 const RowProducts<float>* row_pairs = nullptr,
                                 const PartKernels<float>& by_parts = {}) {
  Kernels kernels = {vector_table<Vec<float, Arch>>(isa, key_block),
                     vector_table<Vec<double, Arch>>(isa, key_block)};
  kernels.f32.pairs = pairs;
  kernels.f32.row_pairs = row_pairs;
  kernels.f32.by_parts = by_parts;
  return kernels;
}

}  // namespace
}  // namespace heed
