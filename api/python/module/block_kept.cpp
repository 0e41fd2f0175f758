#include "api/python/module/block_kept.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

/// What blocks that differ in results alone have in common.
heed_multihead_desc without_results(heed_multihead_desc desc) {
  desc.attention = nullptr;
  desc.out = HEED_LAYOUT_INIT;
  desc.keep = 1;
  return desc;
}

heed_attention_desc without_results(heed_attention_desc desc) {
  desc.weights_point = HEED_WEIGHTS_NONE;
  desc.sum_columns = 0;
  desc.weight_rows = 0;
  return desc;
}

template <class Struct>
bool same(const Struct& a, const Struct& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

void Kept::Filled::place_in(BlockCall& call) const {
  call.desc.keep = 1;
  call.args.kept = memory.get();
  call.args.kept_bytes = bytes;
}

std::size_t Kept::bytes() const {
  const nb::ft_lock_guard lock(mutex_);
  return filled_.bytes;
}

Kept::Filled Kept::take(std::size_t bytes) {
  Filled room;
  {
    const nb::ft_lock_guard lock(mutex_);
    std::swap(room, filled_);
  }
  // Others may still read it.
  if (room.bytes == bytes && room.memory.use_count() == 1) return room;
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  room.memory.reset();
  room.memory.reset(std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment),
                    &std::free);
  if (room.memory == nullptr)
    refuse_memory("there is no memory for the %zu bytes that a call keeps", bytes);
  room.bytes = bytes;
  return room;
}

void Kept::fill(Filled filled, const BlockCall& by) {
  filled.desc = without_results(by.desc);
  filled.attention = without_results(by.attention.desc);
  const nb::ft_lock_guard lock(mutex_);
  std::swap(filled_, filled);
}

Kept::Filled Kept::of(const BlockCall& by) const {
  const nb::ft_lock_guard lock(mutex_);
  if (filled_.memory == nullptr)
    refuse("keep holds nothing; give it to heed.multihead, and then to its gradients");
  if (!same(filled_.desc, without_results(by.desc)) ||
      !same(filled_.attention, without_results(by.attention.desc)))
    refuse("keep was filled by a call with other shapes, strides, types or settings");
  return filled_;
}

Kept* read_kept(nb::handle from) {
  if (from.is_none()) return nullptr;
  Kept* kept = nullptr;
  if (!nb::try_cast(from, kept))
    refuse_type("keep must be a heed.Kept or None, not %s", type_text(from).c_str());
  return kept;
}

namespace {

void make_kept(Kept* self) { new (self) Kept; }

}  // namespace

void bind_kept(nb::module_& module) {
  nb::class_<Kept> kept(
      module, "Kept",
      R"(Room for what heed.multihead computes and heed.multihead_backward needs again: projections,
heads and their log-sum-exp.

Give one to ``keep`` of both. A call of heed.multihead replaces what is there, and memory is taken
anew only where that is of another size, or still read.

>>> import heed, numpy as np
>>> x, w = np.eye(3, 4), np.eye(4)
>>> block = dict(w_query=w, w_key=w, w_value=w, w_out=w, heads=2)
>>> keep = heed.Kept()
>>> grad_out = heed.multihead(x, **block, keep=keep) - x
>>> kept = heed.multihead_backward(x, grad_out=grad_out, **block, keep=keep)
>>> again = heed.multihead_backward(x, grad_out=grad_out, **block)
>>> bool((kept.w_query == again.w_query).all())
True

In C: heed_multihead_desc.keep.)");
  method(kept, "def __init__(self) -> None", &make_kept);
  kept.def_prop_ro("nbytes", &Kept::bytes, "The bytes that it holds, 0 before the first call.");
  refuse_pickling(kept, "it is for one call: compute it anew with heed.multihead");
}

}  // namespace heed::python
