// heed.Kept: what a call of heed.multihead leaves for its gradients.
#pragma once

#include <memory>

#include "api/python/module/blocks.hpp"

namespace heed::python {

class Kept {
 public:
  /// Memory at a multiple of HEED_WORKSPACE_ALIGNMENT, and what it was filled by: the block but for
  /// its results.
  struct Filled {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
    heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
    heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;

    /// Makes a call read or write it.
    void place_in(BlockCall& call) const;
  };

  std::size_t bytes() const;

  /// Gives up what there is, and returns room for so many bytes, to be filled and given back.
  Filled take(std::size_t bytes);
  void fill(Filled filled, const BlockCall& by);

  /// What there is, which stays while the result does. Raises unless `by`, a block that asks for
  /// gradients, is what filled it.
  Filled of(const BlockCall& by) const;

 private:
  mutable nb::ft_mutex mutex_;
  Filled filled_;
};

/// None: nullptr.
Kept* read_kept(nb::handle from);

}  // namespace heed::python
