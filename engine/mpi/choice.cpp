// The plan chooses between ring, heads or both by the cost of each.
#include <algorithm>
#include <cmath>

#include "engine/mpi/plan.hpp"

namespace heed::mpi {
namespace {

/// The bytes of the elements of such tensors, in the heads of a share.
double bytes_in(const RowsList& list, const HeadShare& share, const Counts& counts) {
  double bytes = 0;
  for (const SplitRows& rows : list) {
    const Extent e = share.extent(rows, counts);
    bytes += static_cast<double>(bytes_of(rows.dtype)) * static_cast<double>(e.batch) *
             static_cast<double>(e.heads) * static_cast<double>(e.rows) *
             static_cast<double>(e.features);
  }
  return bytes;
}

heed_mpi_choice choice_of(const Problem& p, int head_ranks) {
  heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
  choice.head_ranks = head_ranks;
  const heed_attention_desc& d = p.desc;
  const HeadShare share = {d.batch, d.query_heads / head_ranks, d.key_heads / head_ranks};
  const double per_pair = p.flops_per_pair() / head_ranks;
  const double per_key = bytes_in(p.parcel, share, {0, 1});
  const double per_key_back = bytes_in(p.parcel_gradients, share, {0, 1});
  const Ring ring(p, head_ranks);
  for (int member = 0; member < ring.members(); ++member) {
    const auto m = static_cast<std::size_t>(member);
    choice.flops = std::max(choice.flops, per_pair * ring.pairs(member));
    choice.ring_bytes = std::max(
        choice.ring_bytes, per_key * ring.rows_sent[m] + per_key_back * ring.rows_sent_back[m]);
  }
  // A rank sends rows to the others of its group, and results come back.
  for (std::size_t rank = 0; rank < p.keys.size(); ++rank) {
    const Counts own = {rows_in(p.queries[rank]), rows_in(p.keys[rank])};
    const double bytes = bytes_in(p.inputs, share, own) + bytes_in(p.results, share, own);
    choice.heads_bytes = std::max(choice.heads_bytes, (head_ranks - 1) * bytes);
  }
  const double intensity = p.given.flops_per_byte;
  choice.cost =
      std::max(choice.flops, intensity * choice.ring_bytes) + intensity * choice.heads_bytes;
  return choice;
}

/// Where queries are everywhere, partial results alone travel to all others, or the summands of
/// gradients of queries.
heed_mpi_choice everywhere_choice(const Problem& p) {
  const auto ranks = static_cast<double>(p.keys.size());
  heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
  choice.head_ranks = choice.chosen = 1;
  for (const Spans& keys : p.keys)
    choice.flops = std::max(choice.flops, pairs(p.order, p.queries.front(), keys));
  choice.flops *= p.flops_per_pair();
  const HeadShare all = {p.desc.batch, p.desc.query_heads, p.desc.key_heads};
  const Counts queries = {p.desc.query_length, 0};
  choice.heads_bytes = (p.gradients == 0 ? ranks - 1 : 2 * (1 - 1 / ranks)) *
                       bytes_in(p.slice_results, all, queries);
  choice.cost = choice.flops + p.given.flops_per_byte * choice.heads_bytes;
  return choice;
}

/// Throws if the caller wants head_ranks that are impossible.
void check_wanted(const Problem& p) {
  const std::int64_t wanted = p.given.head_ranks;
  const auto ranks = static_cast<std::int64_t>(p.keys.size());
  if (wanted <= 1) return;
  if (p.everywhere())
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.head_ranks is %lld; with HEED_MPI_QUERIES_EVERYWHERE it must be 1", lld(wanted));
  if (ranks % wanted != 0)
    refuse("desc.head_ranks is %lld; it must divide the %lld ranks", lld(wanted), lld(ranks));
  if (p.desc.key_heads % wanted != 0 || p.desc.key_heads == 0)
    refuse("desc.head_ranks is %lld; it must divide desc.key_heads, %lld", lld(wanted),
           lld(p.desc.key_heads));
}

}  // namespace

std::vector<heed_mpi_choice> choices_of(const Problem& p) {
  check_wanted(p);
  if (p.everywhere()) return {everywhere_choice(p)};
  const int ranks = static_cast<int>(p.keys.size());
  std::vector<heed_mpi_choice> choices;
  std::size_t best = 0;
  for (int head_ranks = 1; head_ranks <= ranks; ++head_ranks) {
    if (p.given.head_ranks > 0 && head_ranks != p.given.head_ranks) continue;
    if (head_ranks > 1 &&
        (p.desc.key_heads == 0 || ranks % head_ranks != 0 || p.desc.key_heads % head_ranks != 0))
      continue;
    choices.push_back(choice_of(p, head_ranks));
    if (choices.back().cost < choices[best].cost) best = choices.size() - 1;
  }
  choices[best].chosen = 1;
  return choices;
}

}  // namespace heed::mpi
