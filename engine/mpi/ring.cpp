#include "engine/mpi/ring.hpp"

#include <algorithm>
#include <utility>

namespace heed::mpi {
namespace {

int wrapped(int member, int members) { return ((member % members) + members) % members; }

/// The shortest way past all members that need a parcel, so many up and so many down; of ways that
/// are equally long the one that goes up furthest. `needed` has their distances upwards, in order.
void route(const std::vector<int>& needed, int members, Parcel& parcel) {
  int best = members;
  for (std::size_t i = needed.size() + 1; i-- > 0;) {
    const int up = i == 0 ? 0 : needed[i - 1];
    const int down = i == needed.size() ? 0 : members - needed[i];
    if (up + down < best) best = up + down, parcel.up = up, parcel.down = down;
  }
}

}  // namespace

Ring::Ring(std::vector<Shard> shards, const Order& order)
    : shards_(std::move(shards)), order_(order), parcels_(shards_.size()) {
  std::vector<int> needed;
  for (int member = 0; member < members(); ++member) {
    const Spans& keys = shard(member).keys;
    for (std::size_t span = 0; span < keys.size(); ++span) {
      needed.clear();
      for (int distance = 1; distance < members(); ++distance) {
        const Spans& queries = shard(wrapped(member + distance, members())).queries;
        if (std::any_of(queries.begin(), queries.end(),
                        [&](const Span& q) { return order_.attends_any(q, keys[span]); }))
          needed.push_back(distance);
      }
      Parcel parcel = {member, static_cast<int>(span), 0, 0};
      route(needed, members(), parcel);
      parcels_[static_cast<std::size_t>(member)].push_back(parcel);
      rounds_ = std::max({rounds_, parcel.up + 1, parcel.down + 1});
    }
  }
}

std::vector<Held> Ring::held(int member, int round) const {
  std::vector<Held> held;
  const auto from = [&](int distance) -> const std::vector<Parcel>& {
    return parcels_[static_cast<std::size_t>(wrapped(member + distance, members()))];
  };
  for (const Parcel& parcel : from(-round))
    if (parcel.up >= round) held.push_back({&parcel, true, parcel.up > round ? above(member) : -1});
  for (const Parcel& parcel : from(round))
    if (parcel.down >= std::max(round, 1))
      held.push_back({&parcel, false, parcel.down > round ? below(member) : -1});
  return held;
}

double Ring::pairs(int member) const {
  double sum = 0;
  for (const Shard& other : shards_) sum += mpi::pairs(order_, shard(member).queries, other.keys);
  return sum;
}

double Ring::rows_sent(int member) const {
  double rows = 0;
  for (int round = 0; round < rounds_; ++round)
    for (const Held& held : held(member, round))
      if (held.next >= 0) rows += static_cast<double>(keys_of(*held.parcel).count);
  return rows;
}

}  // namespace heed::mpi
