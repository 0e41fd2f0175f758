// Rows, and nodes with them: both go along edges.
#include "engine/kernels/rows.hpp"

#include "engine/kernels/edges.hpp"
#include "engine/kernels/instance.hpp"
#include "engine/kernels/nodes.hpp"

namespace heed {
namespace {

template <class V>
constexpr RowKernels<RealOf<V>> row_kernels() {
  RowKernels<RealOf<V>> rows{};
  rows.lanes = kLanes<V>;
  rows.queries = kLanes<V> / 2;
#define HEED_ROW_KERNEL(result, name, parameters) rows.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  return rows;
}

template <class V>
constexpr NodeKernels<RealOf<V>> node_kernels() {
  NodeKernels<RealOf<V>> nodes{};
  if constexpr (kIsFloat<V>) {
#define HEED_NODE_KERNEL(result, name, parameters) nodes.name = heed::name<V>;
#include "engine/kernels/list.hpp"
  }
  return nodes;
}

}  // namespace

const RowKernels<Real> HEED_FAMILY_TABLE(Rows) = row_kernels<Vector>();
const NodeKernels<Real> HEED_FAMILY_TABLE(Nodes) = node_kernels<Vector>();

}  // namespace heed
