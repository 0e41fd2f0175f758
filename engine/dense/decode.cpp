// Attention where few query rows share many keys: every key and value is read once, in the type
// that it is stored in, with the features in the lanes.
//
//   for each chunk of keys, of some heads (a task)
//     for each block of the chunk's keys, for each pack of rows
//       scores        = keys x queries              [key][row]
//       probabilities = exp2(scores - row_max)      row_max moves when outgrown, and with it
//       sums         += probabilities x values      the sums so far; [row][feature]
//     or, of one row without options, the same of 16 keys at a time by one kernel
//   for each pack of rows (a task)
//     out = the chunks' sums, merged in order
//
// Chunks begin at fixed keys, so that bits depend neither on threads nor on the rest of the batch.
// Source: T. Dao et al. 2023, "Flash-Decoding for long-context inference".
#include <algorithm>
#include <optional>

#include "engine/dense/chunk.hpp"
#include "engine/dense/output.hpp"

namespace heed {
namespace {

/// Calls function(block) for blocks of keys, which begin at fixed ones, and the second and all
/// others where a turn does, and so a page of memory may.
template <class Function>
void each_turn(const KeyBlock& keys, std::int64_t block_keys, std::int64_t turn_keys,
               Function&& function) {
  const std::int64_t first = std::min(round_up(keys.begin, turn_keys), keys.end());
  each_block(keys.begin, first, turn_keys, function);
  each_block(first, keys.end(), block_keys, function);
}

/// The threads of a run share it.
template <class Real>
class Decoding {
 public:
  Decoding(const heed_attention_plan& plan, const heed_attention_args& args, std::byte* workspace)
      : plan_(plan), decode_(plan.decode), args_(args), workspace_(workspace) {}

  /// A chunk of some packs of a sequence, and of the sequences after it that share its keys.
  void attend(std::int64_t task, std::byte* slab) const {
    const std::int64_t chunk = task % decode_.chunks;
    const std::int64_t group = task / decode_.chunks % decode_.groups;
    Share share = {chunk, task / decode_.chunks / decode_.groups, 1, group * decode_.packs, 0};
    if (plan_.problem.pages > 0) {
      // The first of the sequences that share keys attends them for up to kSharing sequences.
      std::int64_t before = 0;
      while (before < share.batch && shares(share.batch - before - 1, share.batch - before, chunk))
        ++before;
      if (before % kSharing != 0) return;
      for (std::int64_t b = share.batch + 1;
           b < plan_.problem.batch && share.sequences < kSharing && shares(b - 1, b, chunk); ++b)
        ++share.sequences;
    }
    const std::int64_t end = std::min(share.pack + decode_.packs, plan_.packs());
    const std::int64_t step = std::max(decode_.together / share.sequences, std::int64_t{1});
    for (; share.pack < end; share.pack += step) {
      share.packs = std::min(step, end - share.pack);
      attend(share, slab);
    }
  }

  /// Merges the results of all chunks of a pack, and writes its rows.
  void merge(std::int64_t pack, std::byte* slab) const {
    const Sequence sequence = sequence_of(plan_.problem, args_, pack / plan_.packs());
    const DecodedRows<Real> rows({plan_, args_, sequence, slab}, pack % plan_.packs());
    finish(rows, partial_of(pack, 0));
  }

 private:
  /// Some packs of sequences that share the keys of a chunk.
  struct Share {
    std::int64_t chunk;
    std::int64_t batch, sequences;
    std::int64_t pack, packs;
  };

  /// Whether two sequences read the same keys of a chunk from the same memory.
  bool shares(std::int64_t a, std::int64_t b, std::int64_t chunk) const {
    const Sequence one = sequence_of(plan_.problem, args_, a);
    const Sequence other = sequence_of(plan_.problem, args_, b);
    if (!plan_.decodes(one) || !plan_.decodes(other)) return false;
    if (one.query_length == 0 || other.query_length == 0) return false;
    if (decode_.block_of(one.key_length) != decode_.block_of(other.key_length)) return false;
    const KeyBlock keys = chunk_keys(one, chunk);
    const KeyBlock others = chunk_keys(other, chunk);
    if (keys.keys == 0 || keys.begin != others.begin || keys.keys != others.keys) return false;
    const std::int64_t first = keys.begin / one.page_rows;
    const std::int64_t last = (keys.end() - 1) / one.page_rows;
    return std::equal(one.pages + first, one.pages + last + 1, other.pages + first);
  }

  /// Where a chunk of a pack leaves its partial result, if there are several.
  Real* partial_of(std::int64_t pack, std::int64_t chunk) const {
    return reinterpret_cast<Real*>(workspace_ + decode_.partials) +
           (pack * decode_.chunks + chunk) * decode_.partial_values;
  }

  void attend(const Share& share, std::byte* slab) const {
    Sequence sequences[kSharing];
    std::optional<DecodedRows<Real>> rows[kTogether];
    std::optional<ChunkSoftmax<Real>> softmax[kTogether];
    const std::int64_t count = share.packs * share.sequences;
    for (std::int64_t i = 0; i < share.sequences; ++i)
      sequences[i] = sequence_of(plan_.problem, args_, share.batch + i);
    // Side by side: rows that share a key head.
    for (std::int64_t i = 0; i < count; ++i)
      rows[i].emplace(AttentionThread<Real>{plan_, args_, sequences[i % share.sequences], slab},
                      share.pack + i / share.sequences);
    if (rows[0]->rows == 0) return;
    const AttentionThread<Real>& on = rows[0]->on;

    const auto partial = [&](std::int64_t i) {
      if (decode_.chunks == 1) return on.buffer(&Slab::partial) + i * decode_.partial_values;
      return partial_of(
          (share.batch + i % share.sequences) * plan_.packs() + share.pack + i / share.sequences,
          share.chunk);
    };
    const KeyBlock keys = chunk_keys(sequences[0], share.chunk);
    if (keys.keys > 0) {
      const Problem& p = plan_.problem;
      const typename Stored<Real>::RowSpan heads = {rows[0]->key_head, rows[count - 1]->key_head,
                                                    keys.begin};
      const Stored<Real> key(on, keys_of(p, args_), p.features, heads, false, &Slab::keys,
                             &Slab::key_scales);
      const Stored<Real> value(on, values_of(p, args_), p.value_features, heads, false,
                               &Slab::values, &Slab::value_scales);
      const auto softmax_of = [&](std::int64_t i, const Stored<Real>& values) {
        const auto before = static_cast<std::size_t>(i * decode_.rows);
        ChunkSoftmax<Real> some(*rows[i], keys, key, values,
                                on.buffer(&Slab::query) + before * key.order().query_numbers(),
                                on.buffer(&Slab::accumulators) + before * value.order().padded());
        some.begin(chunk_results(partial(i), rows[i]->rows));
        return some;
      };
      bool fuse = true;
      for (std::int64_t i = 0; i < count; ++i) {
        softmax[i].emplace(softmax_of(i, value));
        fuse = fuse && softmax[i]->fuses();
      }
      const std::int64_t turn = decode_.turn_keys;
      const std::int64_t apart = decode_.block_of(sequences[0].key_length);
      const std::int64_t block_keys =
          !fuse        ? apart
          : count == 1 ? std::min(key.most_rows(), value.most_rows())
                       : std::min(key.rows_of_heads(turn), value.rows_of_heads(turn));
      each_turn(keys, block_keys, turn, [&](const KeyBlock& block) {
        for (std::int64_t i = 0; i < count; ++i)
          softmax[i]->step(block, i % share.sequences == 0, false);
      });
      for (std::int64_t i = 0; i < count; ++i) {
        if (softmax[i]->end()) continue;
        // A value that is not finite may have reached rows that may not attend it.
        const std::int64_t head = rows[i]->key_head;
        const Stored<Real> copied(rows[i]->on, values_of(p, args_), p.value_features,
                                  {head, head, keys.begin}, true, &Slab::values,
                                  &Slab::value_scales);
        ChunkSoftmax<Real> again = softmax_of(i, copied);
        each_turn(keys, apart, turn,
                  [&](const KeyBlock& block) { again.step(block, false, true); });
        again.end();
      }
    }
    if (decode_.chunks == 1)
      for (std::int64_t i = 0; i < count; ++i) finish(*rows[i], partial(i));
  }

  /// `partial` has the results of all chunks.
  void finish(const DecodedRows<Real>& rows, Real* partial) const {
    if (rows.rows == 0) return;
    const Output<Real> output(rows.on, plan_.results_in<Real>(workspace_));
    output.write_merged(rows.panel, [&](const auto& function) {
      for (std::int64_t chunk = 0; chunk < decode_.chunks; ++chunk)
        if (chunk_keys(rows.on.sequence, chunk).keys > 0)
          function(chunk_results(partial + chunk * decode_.partial_values, rows.rows));
    });
  }

  const heed_attention_plan& plan_;
  const Decode& decode_;
  const heed_attention_args& args_;
  std::byte* const workspace_;
};

}  // namespace

void decode(const heed_attention_plan& plan, const heed_attention_args& args,
            std::byte* workspace) {
  if (plan.decode.tasks == 0) return;
  with_real(plan.problem.float64, [&](auto real) {
    const Decoding<decltype(real)> decoding(plan, args, workspace);
    const Decode& decode = plan.decode;
    each_task(plan, decode.tasks, decode.per_claim, workspace,
              [&](std::int64_t task, std::byte* slab) { decoding.attend(task, slab); });
    if (decode.chunks == 1) return;
    each_task(plan, plan.problem.batch * plan.packs(), 1, workspace,
              [&](std::int64_t pack, std::byte* slab) { decoding.merge(pack, slab); });
  });
}

}  // namespace heed
