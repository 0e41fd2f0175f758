// Ring, heads or both: the cost of each.
#include <algorithm>
#include <cmath>

#include "engine/mpi/plan.hpp"

namespace heed::mpi {
namespace {

/// Of a row and one head, in bytes.
double width(const SplitRows& rows) {
  return static_cast<double>(bytes_of(rows.dtype)) * static_cast<double>(rows.features);
}
double width(const RowsList& list) {
  double bytes = 0;
  for (const SplitRows& rows : list) bytes += width(rows);
  return bytes;
}

/// Bytes that a rank sends to the others of its group, and gets back.
double exchanged_bytes(const Problem& p, int rank, int head_ranks) {
  const auto bytes = [&](const RowsList& list) {
    double sum = 0;
    for (const SplitRows& rows : list) {
      const Spans& spans = (rows.of_keys ? p.keys : p.queries)[static_cast<std::size_t>(rank)];
      const std::int64_t heads = rows.of_keys ? p.desc.key_heads : p.desc.query_heads;
      sum += width(rows) * static_cast<double>(rows_in(spans)) *
             static_cast<double>(rows.one_batch ? 1 : p.desc.batch) *
             (rows.one_head ? 1 : static_cast<double>(heads) / head_ranks);
    }
    return sum;
  };
  return (head_ranks - 1) * (bytes(p.inputs) + bytes(p.results));
}

heed_mpi_choice choice_of(const Problem& p, int head_ranks) {
  const int ranks = static_cast<int>(p.keys.size());
  heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
  choice.head_ranks = head_ranks;
  const heed_attention_desc& d = p.desc;
  const double per_pair = p.flops_per_pair() / head_ranks;
  const auto of_key_heads = [&](double bytes) {
    return bytes * static_cast<double>(d.batch) * static_cast<double>(d.key_heads) / head_ranks;
  };
  const double per_row = of_key_heads(width(p.parcel));
  const double per_row_back = of_key_heads(width(p.parcel_gradients));
  const Ring ring(p, head_ranks);
  for (int member = 0; member < ring.members(); ++member) {
    const auto m = static_cast<std::size_t>(member);
    choice.flops = std::max(choice.flops, per_pair * ring.pairs(member));
    choice.ring_bytes = std::max(
        choice.ring_bytes, per_row * ring.rows_sent[m] + per_row_back * ring.rows_sent_back[m]);
  }
  for (int rank = 0; rank < ranks; ++rank)
    choice.heads_bytes = std::max(choice.heads_bytes, exchanged_bytes(p, rank, head_ranks));
  const double intensity = p.given.flops_per_byte;
  choice.cost =
      std::max(choice.flops, intensity * choice.ring_bytes) + intensity * choice.heads_bytes;
  return choice;
}

/// Partial results alone travel to all others, or the summands of gradients of queries.
heed_mpi_choice everywhere_choice(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const auto ranks = static_cast<double>(p.keys.size());
  heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
  choice.head_ranks = choice.chosen = 1;
  for (const Spans& keys : p.keys)
    choice.flops = std::max(choice.flops, pairs(p.order, p.queries.front(), keys));
  choice.flops *= p.flops_per_pair();
  const double rows = static_cast<double>(d.batch) * static_cast<double>(d.query_heads) *
                      static_cast<double>(d.query_length);
  const double per_row = width(SplitRows{false, p.real(), d.value_features}) + sizeof(double);
  choice.heads_bytes = p.gradients == 0 ? (ranks - 1) * rows * per_row
                                        : 2 * (1 - 1 / ranks) * rows * width(p.results[0]);
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
