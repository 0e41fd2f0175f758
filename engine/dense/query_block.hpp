// One task of prefill: some panels of the query rows of a pack, against all keys or a chunk of
// them. It follows from the plan and the sequence alone, so that a thread can ask for its next one
// ahead of time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

struct QueryBlock {
  const heed_attention_plan* plan;
  Sequence sequence;
  HeadPack pack;
  std::int64_t key_head;
  PanelCut cut;  ///< of the pack
  std::int64_t first_panel;
  std::int64_t panels;  ///< 0 or less: the sequence ends before this block, or is decoded
  std::int64_t index;   ///< of the pack, in the batch
  std::int64_t chunk;   ///< of the keys
  bool chunked;         ///< else all keys are attended

  /// Where later rows attend more keys, the last query blocks take longest and come first.
  /// Otherwise the blocks of a pack follow each other, so that its keys stay in the shared cache.
  static QueryBlock of(const heed_attention_plan& plan, const heed_attention_args& args,
                       std::uint32_t lanes, std::int64_t chunk_task) {
    const Problem& p = plan.problem;
    const std::int64_t chunk = chunk_task % plan.key_chunks;
    const std::int64_t task = chunk_task / plan.key_chunks;
    const std::int64_t packs = p.batch * plan.packs();
    const std::int64_t index = p.triangular() ? task % packs : task / plan.query_blocks;
    const std::int64_t query_block =
        p.triangular() ? plan.query_blocks - 1 - task / packs : task % plan.query_blocks;
    const Sequence sequence = sequence_of(p, args, index / plan.packs());
    const std::int64_t head = index % plan.packs() * plan.pack_heads;
    const PanelCut cut(plan.pack_heads * sequence.query_length, plan.panel_rows, lanes);
    const std::int64_t most = plan.tile_q / plan.panel_rows;
    const std::int64_t first = query_block * most;
    const bool chunked = plan.chunks_keys(sequence);
    const bool past = chunk > 0 && (!chunked || chunk >= prefill_chunks(sequence.key_length));
    return {&plan,
            sequence,
            {head, plan.pack_heads, nullptr},
            head / p.group(),
            cut,
            first,
            past || plan.decodes(sequence) ? 0 : std::min(most, cut.panels() - first),
            index,
            chunk,
            chunked};
  }

  /// The first row of panel p, numbered within the pack, and within the block.
  std::int64_t first_row(std::int64_t p) const { return cut.begin(first_panel + p); }
  std::int64_t rows_before(std::int64_t p) const { return first_row(p) - first_row(0); }

  /// Panel p, without its buffers.
  template <class Real>
  Panel<Real> panel(std::int64_t p, std::uint32_t lanes, std::uint32_t depth) const {
    Panel<Real> panel = make_panel<Real>(pack, sequence, first_row(p),
                                         first_row(p + 1) - first_row(p), lanes, depth);
    panel.key_begin = in_chunk(panel.key_begin);
    panel.key_end = in_chunk(panel.key_end);
    return panel;
  }

  /// Where one tile has all keys, little is computed with what is read: the rows of out are
  /// prefetched, and the rows that `next` reads, except keys that are there. `next` may be nullptr.
  void find_ahead(const heed_attention_args& args, const QueryBlock* next, Ahead& ahead) const {
    const Problem& problem = plan->problem;
    if (!chunked) add_rows(ahead, args.out, problem.out, problem.value_features);
    if (next == nullptr || next->panels <= 0) return;
    next->add_rows(ahead, args.query, problem.query, problem.features);
    if (next->sequence.batch == sequence.batch && next->key_head == key_head &&
        next->chunk == chunk)
      return;
    next->add_keys(ahead, args.key, problem.key, problem.features);
    next->add_keys(ahead, args.value, problem.value, problem.value_features);
  }

 private:
  /// The key of the chunk that is nearest to key j.
  std::int64_t in_chunk(std::int64_t j) const {
    if (!chunked) return j;
    const std::int64_t keys = prefill_chunk(sequence.key_length);
    return std::clamp(j, chunk * keys, (chunk + 1) * keys);
  }

  static void add(Ahead& ahead, const std::byte* first, const Layout& layout, std::int64_t rows,
                  std::int64_t features) {
    if (layout.strides.feature == 1 && rows > 0)
      ahead.add(reinterpret_cast<const char*>(first), layout.strides.row * layout.bytes,
                static_cast<std::size_t>(rows), static_cast<std::size_t>(features * layout.bytes));
  }

  /// The block's rows of queries or of out.
  void add_rows(Ahead& ahead, const void* data, const Layout& layout, std::int64_t features) const {
    const std::int64_t first = pack.query_row(first_row(0));
    const std::int64_t last = pack.query_row(first_row(panels) - 1);
    for (std::int64_t head = pack.head; head < pack.head + pack.group; ++head)
      add(ahead, row_at(data, layout, sequence.batch, head, sequence.query_begin + first), layout,
          last + 1 - first, features);
  }

  /// The first tile of keys or values that the block attends.
  void add_keys(Ahead& ahead, const void* data, const Layout& layout, std::int64_t features) const {
    if (sequence.pages != nullptr) return;
    const std::int64_t begin = in_chunk(sequence.first_key(pack.query_row(first_row(0))));
    const std::int64_t end = in_chunk(sequence.end_key(pack.query_row(first_row(panels) - 1)));
    const std::int64_t tile_end = std::min(round_down(begin, plan->tile_kv) + plan->tile_kv, end);
    add(ahead, sequence.key_row(data, layout, key_head, begin), layout, tile_end - begin, features);
  }
};

}  // namespace heed
