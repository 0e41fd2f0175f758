// Lists that every rank has for every other, exchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

/// Items of one kind for, or from, every rank: one rank's after another's.
template <class T>
struct Lists {
  std::vector<T> items;
  std::vector<std::int64_t> counts;  ///< by rank
};

/// The counts that the others have for this rank. Collective.
std::vector<std::int64_t> exchange_counts(const Communicator& comm,
                                          const std::vector<std::int64_t>& sent);

/// `each` bytes an item. Collective; memory is allocated already.
void exchange_items(const Communicator& comm, const void* sent,
                    const std::vector<std::int64_t>& sent_counts, void* received,
                    const std::vector<std::int64_t>& received_counts, std::size_t each);

/// What all ranks have for this one. Collective. Throws the same Error on all ranks.
template <class T>
Lists<T> exchange(const Communicator& comm, const Lists<T>& sent) {
  Lists<T> received;
  received.counts = exchange_counts(comm, sent.counts);
  comm.agreed([&] {
    const auto& counts = received.counts;
    received.items.resize(
        static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  });
  exchange_items(comm, sent.items.data(), sent.counts, received.items.data(), received.counts,
                 sizeof(T));
  return received;
}

/// Items in the order of the ranks that they are for, otherwise in their own.
template <class T, class RankOf>
Lists<T> by_rank(int ranks, const std::vector<T>& items, RankOf&& rank_of) {
  Lists<T> lists;
  lists.items.resize(items.size());
  lists.counts.assign(static_cast<std::size_t>(ranks), 0);
  for (const T& item : items) ++lists.counts[static_cast<std::size_t>(rank_of(item))];
  std::vector<std::int64_t> next(static_cast<std::size_t>(ranks), 0);
  std::partial_sum(lists.counts.begin(), lists.counts.end() - 1, next.begin() + 1);
  for (const T& item : items)
    lists.items[static_cast<std::size_t>(next[static_cast<std::size_t>(rank_of(item))]++)] = item;
  return lists;
}

}  // namespace heed::mpi
