#include "engine/mpi/ring.hpp"

#include <algorithm>

namespace heed::mpi {
namespace {

/// Whether any of these sorted spans attends the keys. Of those in their sequence that reach up to
/// them, the first is the one that may reach down to them.
bool any_attends(const Order& order, const Spans& queries, const Span& keys) {
  const auto first = std::partition_point(queries.begin(), queries.end(), [&](const Span& q) {
    return q.sequence < keys.sequence ||
           (q.sequence == keys.sequence &&
            q.end() - 1 + order.offset(q) + order.end <= keys.position);
  });
  return first != queries.end() && order.attends_any(*first, keys);
}

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

Ring::Ring(const Problem& p, int head_ranks) : order_(p.order) {
  for (int first = 0; first < static_cast<int>(p.keys.size()); first += head_ranks)
    shards_.push_back(
        {together(p.queries, first, head_ranks), together(p.keys, first, head_ranks)});
  parcels_.resize(shards_.size());
  for (const Shard& shard : shards_) {
    queries_.push_back(sorted(shard.queries));
    all_keys_.insert(all_keys_.end(), shard.keys.begin(), shard.keys.end());
  }
  all_keys_ = joined(std::move(all_keys_));
  std::vector<int> needed;
  for (int member = 0; member < members(); ++member) {
    const Spans& keys = shard(member).keys;
    for (std::size_t span = 0; span < keys.size(); ++span) {
      needed.clear();
      for (int distance = 1; distance < members(); ++distance)
        if (attends(away(member, distance), keys[span])) needed.push_back(distance);
      Parcel parcel = {member, static_cast<int>(span), 0, 0};
      route(needed, members(), parcel);
      parcels_[static_cast<std::size_t>(member)].push_back(parcel);
      rounds_ = std::max({rounds_, parcel.up + 1, parcel.down + 1});
    }
  }
}

std::vector<Held> Ring::held(int member, int round) const {
  std::vector<Held> held;
  for (const Parcel& parcel : parcels(away(member, -round)))
    if (parcel.up >= round) held.push_back({&parcel, true, parcel.up > round ? above(member) : -1});
  for (const Parcel& parcel : parcels(away(member, round)))
    if (parcel.down >= std::max(round, 1))
      held.push_back({&parcel, false, parcel.down > round ? below(member) : -1});
  return held;
}

bool Ring::attends(int member, const Span& keys) const {
  return any_attends(order_, queries_[static_cast<std::size_t>(member)], keys);
}

double Ring::pairs(int member) const {
  return mpi::pairs(order_, shard(member).queries, all_keys_);
}

double Ring::rows_sent(int member) const {
  double rows = 0;
  for (int round = 0; round < rounds_; ++round)
    for (const Held& held : held(member, round))
      if (held.next >= 0) rows += static_cast<double>(keys_of(*held.parcel).count);
  return rows;
}

double Ring::rows_sent_back(int member) const {
  double rows = 0;
  for (int round = 1; round < rounds_; ++round)
    for (const Held& held : held(member, round))
      if (attends(member, keys_of(*held.parcel)))
        rows += static_cast<double>(keys_of(*held.parcel).count);
  return rows;
}

}  // namespace heed::mpi
