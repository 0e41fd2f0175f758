// Attention where few query rows share many keys: every key and value is read once, in the type
// that it is stored in, with the features in the lanes.
//
//   for each chunk of keys, of some heads (a task)
//     for each block of the chunk's keys, for each pack of rows
//       scores        = keys x queries              [key][row]
//       probabilities = exp2(scores - row_max)      row_max moves when outgrown, and with it
//       sums         += probabilities x values      what was summed before; [row][feature]
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
#include "engine/dense/strategy.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// to[x] += from[x] * factor.
template <class Real>
void add_scaled(const Real* __restrict from, Real factor, std::size_t count, Real* __restrict to) {
#pragma GCC unroll 8
  for (std::size_t x = 0; x < count; ++x) to[x] += from[x] * factor;
}

/// What the threads of a run share.
template <class Real>
class Decoding {
 public:
  Decoding(const heed_attention_plan& plan, const heed_attention_args& args, std::byte* workspace)
      : plan_(plan),
        decode_(plan.decode),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        workspace_(workspace) {}

  /// A chunk of some packs of a sequence, and of the sequences after it that share its keys.
  void attend(std::int64_t task, std::byte* slab) const;

  /// Merges the results of all chunks of a pack, and writes its rows.
  void merge(std::int64_t pack, std::byte* slab) const {
    const Sequence sequence = sequence_of(plan_.problem, args_, pack / plan_.packs());
    const DecodedRows<Real> rows(plan_, args_, sequence, pack % plan_.packs(), slab);
    finish(rows, reinterpret_cast<Real*>(workspace_ + decode_.parts) +
                     pack * decode_.chunks * decode_.part_numbers);
  }

 private:
  /// Some packs of sequences that share the keys of a chunk.
  struct Share {
    std::int64_t chunk;
    std::int64_t batch, sequences;
    std::int64_t pack, packs;
  };

  /// Whether two sequences read the same keys of a chunk from the same memory.
  bool shares(std::int64_t a, std::int64_t b, std::int64_t chunk) const;

  void attend(const Share& share, std::byte* slab) const;

  /// The keys or values of the packs from `first` to `last`; what is copied goes to these buffers.
  Stored<Real> stored(const DecodedRows<Real>& first, const DecodedRows<Real>& last,
                      const KeyBlock& keys, const StoredTensor& tensor, std::int64_t features,
                      bool copies, std::size_t rows, std::size_t scales) const {
    return {kernels_,  {first.sequence, tensor, first.key_head, last.key_head, keys.begin},
            keys.keys, features,
            copies,    {first.slab + rows, reinterpret_cast<float*>(first.slab + scales)}};
  }
  Stored<Real> stored_values(const DecodedRows<Real>& first, const DecodedRows<Real>& last,
                             const KeyBlock& keys, bool copies) const {
    return stored(first, last, keys, values_of(plan_.problem, args_), plan_.problem.value_features,
                  copies, plan_.slab.values, plan_.slab.value_scales);
  }

  /// `partial` has the results of all chunks.
  void finish(const DecodedRows<Real>& rows, Real* partial) const;

  const heed_attention_plan& plan_;
  const Decode& decode_;
  const heed_attention_args& args_;
  const KernelTable<Real>& kernels_;
  std::byte* const workspace_;
};

/// Calls function(block) for blocks of keys, which begin at fixed ones, and the second and all
/// others where a turn does, and so a page of memory may.
template <class Function>
void each_block(const KeyBlock& keys, std::int64_t block_keys, std::int64_t turn_keys,
                Function&& function) {
  const std::int64_t end = keys.begin + static_cast<std::int64_t>(keys.keys);
  for (std::int64_t k = keys.begin, next = 0; k < end; k = next) {
    const std::int64_t step = k % turn_keys == 0 ? block_keys : turn_keys;
    next = std::min(round_down(k, step) + step, end);
    function(KeyBlock{k, static_cast<std::size_t>(next - k)});
  }
}

template <class Real>
bool Decoding<Real>::shares(std::int64_t a, std::int64_t b, std::int64_t chunk) const {
  const Sequence one = sequence_of(plan_.problem, args_, a);
  const Sequence other = sequence_of(plan_.problem, args_, b);
  if (!plan_.decodes(one) || !plan_.decodes(other)) return false;
  if (one.query_length == 0 || other.query_length == 0) return false;
  if (decode_.block_of(one.key_length) != decode_.block_of(other.key_length)) return false;
  const KeyBlock keys = chunk_keys(one, chunk);
  const KeyBlock others = chunk_keys(other, chunk);
  if (keys.keys == 0 || keys.begin != others.begin || keys.keys != others.keys) return false;
  const std::int64_t first = keys.begin / one.page_rows;
  const std::int64_t last = (keys.begin + static_cast<std::int64_t>(keys.keys) - 1) / one.page_rows;
  return std::equal(one.pages + first, one.pages + last + 1, other.pages + first);
}

template <class Real>
void Decoding<Real>::attend(std::int64_t task, std::byte* slab) const {
  const std::int64_t chunk = task % decode_.chunks;
  const std::int64_t group = task / decode_.chunks % decode_.groups;
  Share share = {chunk, task / decode_.chunks / decode_.groups, 1, group * decode_.packs, 0};
  if (plan_.problem.pages > 0) {
    // The first of those that share keys attends them for up to kSharing sequences.
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

template <class Real>
void Decoding<Real>::attend(const Share& share, std::byte* slab) const {
  Sequence sequences[kSharing];
  std::optional<DecodedRows<Real>> rows[kTogether];
  std::optional<ChunkSoftmax<Real>> softmax[kTogether];
  const std::int64_t count = share.packs * share.sequences;
  for (std::int64_t i = 0; i < share.sequences; ++i)
    sequences[i] = sequence_of(plan_.problem, args_, share.batch + i);
  // Side by side: rows that share a key head.
  for (std::int64_t i = 0; i < count; ++i)
    rows[i].emplace(plan_, args_, sequences[i % share.sequences], share.pack + i / share.sequences,
                    slab);
  if (rows[0]->rows == 0) return;

  const auto part_of = [&](std::int64_t i) {
    if (decode_.chunks == 1)
      return reinterpret_cast<Real*>(slab + plan_.slab.part) + i * decode_.part_numbers;
    const std::int64_t pack =
        (share.batch + i % share.sequences) * plan_.packs() + share.pack + i / share.sequences;
    return reinterpret_cast<Real*>(workspace_ + decode_.parts) +
           (pack * decode_.chunks + share.chunk) * decode_.part_numbers;
  };
  const KeyBlock keys = chunk_keys(sequences[0], share.chunk);
  if (keys.keys > 0) {
    const Stored<Real> key =
        stored(*rows[0], *rows[count - 1], keys, keys_of(plan_.problem, args_),
               plan_.problem.features, false, plan_.slab.keys, plan_.slab.key_scales);
    const Stored<Real> value = stored_values(*rows[0], *rows[count - 1], keys, false);
    const auto room = [&](std::size_t offset, std::size_t numbers, std::int64_t i) {
      return rows[0]->buffer(offset) + static_cast<std::size_t>(i * decode_.rows) * numbers;
    };
    const auto query = [&](std::int64_t i) {
      return room(plan_.slab.query, key.order().query_numbers(), i);
    };
    const auto sums = [&](std::int64_t i) {
      return room(plan_.slab.accumulators, value.order().padded(), i);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      softmax[i].emplace(*rows[i], keys, key, value, query(i), sums(i));
      softmax[i]->begin(chunk_results(part_of(i), rows[i]->rows));
    }
    const std::int64_t block_keys = [&] {
      bool fuse = true;
      for (std::int64_t i = 0; i < count; ++i) fuse = fuse && softmax[i]->fuses();
      if (!fuse) return decode_.block_of(rows[0]->sequence.key_length);
      if (count == 1) return std::min(key.most_rows(), value.most_rows());
      return std::min(key.rows_of_heads(decode_.turn_keys), value.rows_of_heads(decode_.turn_keys));
    }();
    each_block(keys, block_keys, decode_.turn_keys, [&](const KeyBlock& block) {
      for (std::int64_t i = 0; i < count; ++i)
        softmax[i]->step(block, i % share.sequences == 0, false);
    });
    for (std::int64_t i = 0; i < count; ++i) {
      if (softmax[i]->end()) continue;
      // A value that is not finite may have reached rows that may not attend it.
      const Stored<Real> copied = stored_values(*rows[i], *rows[i], keys, true);
      ChunkSoftmax<Real> again(*rows[i], keys, key, copied, query(i), sums(i));
      again.begin(chunk_results(part_of(i), rows[i]->rows));
      each_block(keys, decode_.block_of(rows[i]->sequence.key_length), decode_.turn_keys,
                 [&](const KeyBlock& block) { again.step(block, false, true); });
      again.end();
    }
  }
  if (decode_.chunks == 1)
    for (std::int64_t i = 0; i < count; ++i) finish(*rows[i], part_of(i));
}

template <class Real>
void Decoding<Real>::finish(const DecodedRows<Real>& rows, Real* partial) const {
  if (rows.rows == 0) return;
  const auto features = static_cast<std::size_t>(plan_.problem.value_features);
  auto* const results = plan_.results_bytes > 0 ? reinterpret_cast<RowResult<Real>*>(workspace_)
                                                : nullptr;  // not kept
  const Output<Real> output(plan_, args_, rows.sequence, rows.slab, results);
  Real* const merged = rows.buffer(plan_.slab.accumulators);
  Panel<Real> panel = rows.panel;
  panel.state.row_max = rows.buffer(plan_.slab.row_max);
  panel.state.row_sum = rows.buffer(plan_.slab.row_sum);
  panel.begin_sums(static_cast<const Real*>(args_.sinks));
  const auto each_chunk = [&](auto&& function) {
    for (std::int64_t chunk = 0; chunk < decode_.chunks; ++chunk)
      if (chunk_keys(rows.sequence, chunk).keys > 0)
        function(chunk_results(partial + chunk * decode_.part_numbers, rows.rows));
  };
  const auto share = [&](Real row_max, Real most) {
    if (row_max == most) return Real{1};
    Real power = row_max - most;
    kernels_.numbers.exp2(&power, &power, 1);
    return power;
  };
  for (std::size_t r = 0; r < panel.rows; ++r) {
    Real most = panel.state.row_max[r];
    each_chunk([&](const PartialResults<Real>& of) { most = std::max(most, of.row_max[r]); });
    Real sum = panel.state.row_sum[r] * share(panel.state.row_max[r], most);
    std::fill_n(merged, features, Real{0});
    each_chunk([&](const PartialResults<Real>& of) {
      const Real factor = share(of.row_max[r], most);
      sum += of.row_sum[r] * factor;
      add_scaled(of.sums + r * features, factor, features, merged);
    });
    panel.state.row_max[r] = most;
    panel.state.row_sum[r] = sum;
    const Real inverse = sum == 0 ? 0 : 1 / sum;
#pragma GCC unroll 8
    for (std::size_t x = 0; x < features; ++x) merged[x] *= inverse;
    output.write_row(panel, r, merged);
  }
}

void decode(const heed_attention_plan& plan, const heed_attention_args& args,
            std::byte* workspace) {
  std::byte* const slabs = workspace + plan.results_bytes;
  with_real(plan.problem.float64, [&](auto real) {
    const Decoding<decltype(real)> decoding(plan, args, workspace);
    const auto each = [&](std::int64_t count, std::int64_t per_claim, auto&& function) {
      parallel_for(plan.context->threads, {count, per_claim, plan.workers},
                   [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                     std::byte* const slab = slabs + worker * plan.slab.bytes;
                     for (std::int64_t i = begin; i < end; ++i) function(i, slab);
                   });
    };
    const Decode& decode = plan.decode;
    each(decode.tasks, decode.per_claim,
         [&](std::int64_t task, std::byte* slab) { decoding.attend(task, slab); });
    if (decode.chunks == 1 || decode.tasks == 0) return;
    each(plan.problem.batch * plan.packs(), 1,
         [&](std::int64_t pack, std::byte* slab) { decoding.merge(pack, slab); });
  });
}

}  // namespace

const Strategy kDecode = {"decode", decode};

}  // namespace heed
