// What a thread does of attention over a graph: the nodes of some parts against all their edges.
#pragma once

#include <algorithm>

#include "engine/graph/softmax.hpp"
#include "engine/graph/splits.hpp"

namespace heed {

template <class Real>
class Nodes {
 public:
  /// The slab is the thread's.
  Nodes(const GraphStep& step, std::byte* slab) : on_{step, slab} {}

  void attend(const Part& part) {
    if (part.split != kNoSplit) {
      softmax_.attend(part.first, part.begin, part.end, false);
      Split<Real>(on_.step, part.split).store(on_.problem, softmax_);
      return;
    }
    const bool wants_weights = on_.step.wants_weights();
    for (std::int64_t n = part.first; n < part.last; ++n) {
      const std::int64_t begin = on_.graph.offsets[n];
      const std::int64_t end = on_.graph.offsets[n + 1];
      if (softmax_.attend_at_once(n, begin, end)) continue;
      const bool at_once =
          wants_weights && !on_.problem.hard && end - begin <= static_cast<std::int64_t>(kBatch);
      softmax_.attend(n, begin, end, at_once);
      softmax_.finish(n, false);
      if (wants_weights && !at_once) softmax_.recompute_weights(begin, end);
    }
  }

  /// The splits have all been attended.
  void merge(const Hub& hub) {
    merge_splits(on_.step, hub, softmax_);
    softmax_.finish(hub.node, !on_.problem.hard);
    if (on_.step.wants_weights())
      Split<Real>(on_.step, hub.first_split).store_softmax(on_.problem, softmax_);
  }

  /// Writes the weights of a hub's edges in a part, after merging.
  void recompute_weights(const Part& part) {
    if (part.split == kNoSplit) return;
    const auto& hubs = on_.graph.hubs;
    const Hub* const hub =
        std::lower_bound(hubs.data(), hubs.data() + hubs.size(), part.first,
                         [](const Hub& of, std::int32_t node) { return of.node < node; });
    Split<Real>(on_.step, hub->first_split).load_softmax(on_.problem, softmax_);
    softmax_.scores().begin_node(part.first);
    softmax_.recompute_weights(part.begin, part.end);
  }

 private:
  const GraphThread<Real> on_;
  NodeSoftmax<Real> softmax_{on_};
};

}  // namespace heed
