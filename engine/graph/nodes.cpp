#include "engine/graph/nodes.hpp"

#include <algorithm>

#include "engine/graph/softmax.hpp"
#include "engine/graph/splits.hpp"

namespace heed {
namespace {

template <class Real>
class Nodes {
 public:
  Nodes(const GraphStep& step, std::byte* slab)
      : step_(step), graph_(*step.plan.graph), softmax_(step, slab) {}

  void attend(const Part& part) {
    if (part.split != kNoSplit) {
      softmax_.attend(part.first, part.begin, part.end, false);
      Split<Real>(step_, part.split).store(softmax_);
      return;
    }
    for (std::int64_t n = part.first; n < part.last; ++n) {
      const std::int64_t begin = graph_.offsets[n];
      const std::int64_t end = graph_.offsets[n + 1];
      if (softmax_.attend_at_once(n, begin, end)) continue;
      const bool at_once = step_.wants_weights() && !step_.plan.problem.hard &&
                           end - begin <= static_cast<std::int64_t>(kBatch);
      softmax_.attend(n, begin, end, at_once);
      softmax_.finish(n, false);
      if (step_.wants_weights() && !at_once) softmax_.recompute_weights(begin, end);
    }
  }

  void merge(const Hub& hub) {
    merge_splits(step_, hub, softmax_);
    softmax_.finish(hub.node, !step_.plan.problem.hard);
    if (step_.wants_weights()) Split<Real>(step_, hub.first_split).store_softmax(softmax_);
  }

  void recompute_weights(const Part& part) {
    if (part.split == kNoSplit) return;
    const Hub* const hub =
        std::lower_bound(graph_.hubs.data(), graph_.hubs.data() + graph_.hubs.size(), part.first,
                         [](const Hub& of, std::int32_t node) { return of.node < node; });
    Split<Real>(step_, hub->first_split).load_softmax(softmax_);
    softmax_.recall(part.first);
    softmax_.recompute_weights(part.begin, part.end);
  }

 private:
  const GraphStep& step_;
  const heed_graph& graph_;
  NodeSoftmax<Real> softmax_;
};

/// Calls function(nodes), in the type of the arithmetic.
template <class Function>
void with_nodes(const GraphStep& step, std::byte* slab, Function&& function) {
  with_real(step.plan.problem.float64, [&](auto real) {
    Nodes<decltype(real)> nodes(step, slab);
    function(nodes);
  });
}

}  // namespace

void attend_parts(const GraphStep& step, std::int64_t begin, std::int64_t end,
                  std::byte* slab) noexcept {
  with_nodes(step, slab, [&](auto& nodes) {
    for (std::int64_t i = begin; i < end; ++i) nodes.attend(step.plan.graph->parts[i]);
  });
}

void merge_hubs(const GraphStep& step, std::int64_t begin, std::int64_t end,
                std::byte* slab) noexcept {
  with_nodes(step, slab, [&](auto& nodes) {
    for (std::int64_t i = begin; i < end; ++i) nodes.merge(step.plan.graph->hubs[i]);
  });
}

void recompute_hub_weights(const GraphStep& step, std::int64_t begin, std::int64_t end,
                           std::byte* slab) noexcept {
  with_nodes(step, slab, [&](auto& nodes) {
    for (std::int64_t i = begin; i < end; ++i) nodes.recompute_weights(step.plan.graph->parts[i]);
  });
}

}  // namespace heed
