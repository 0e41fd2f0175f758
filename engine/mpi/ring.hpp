// The way of keys and values around the ring: who needs them, and how they get there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/mpi/problem.hpp"

namespace heed::mpi {

/// A span of keys and values that travels. Members of the ring are ranks, or groups that share
/// heads. It goes `up` members up from its own, one a round, and `down` members down; no member
/// further away attends it.
struct Parcel {
  int member;
  int span;  ///< of the member's keys
  int up, down;
};

/// A parcel that a member has at hand in a round.
struct Held {
  const Parcel* parcel;
  bool up;   ///< which way it goes
  int next;  ///< the member it goes on to; -1: none
};

class Ring {
 public:
  /// Members are groups of so many ranks that share heads.
  Ring(const Problem& p, int head_ranks) : order_(p.order) {
    for (int first = 0; first < static_cast<int>(p.keys.size()); first += head_ranks)
      shards_.push_back(
          {together(p.queries, first, head_ranks), together(p.keys, first, head_ranks)});
    parcels_.resize(shards_.size());
    rows_sent.resize(shards_.size());
    rows_sent_back.resize(shards_.size());
    for (const Shard& shard : shards_) {
      queries_.push_back(sorted(shard.queries));
      all_keys_.insert(all_keys_.end(), shard.keys.begin(), shard.keys.end());
    }
    all_keys_ = joined(std::move(all_keys_));
    for (int member = 0; member < members(); ++member)
      for (std::size_t span = 0; span < shard(member).keys.size(); ++span) add_parcel(member, span);
  }

  int members() const { return static_cast<int>(shards_.size()); }
  const Shard& shard(int member) const { return shards_[static_cast<std::size_t>(member)]; }
  const Span& keys_of(const Parcel& parcel) const {
    return shard(parcel.member).keys[static_cast<std::size_t>(parcel.span)];
  }

  /// A member holds its own keys in round 0, twice where they go both ways, and in round n the
  /// parcels of the members n away: first from below, then from above. After the last round nothing
  /// travels any more.
  int rounds() const { return rounds_; }
  std::vector<Held> held(int member, int round) const {
    std::vector<Held> held;
    for (const Parcel& parcel : parcels(away(member, -round)))
      if (parcel.up >= round)
        held.push_back({&parcel, true, parcel.up > round ? away(member, 1) : -1});
    for (const Parcel& parcel : parcels(away(member, round)))
      if (parcel.down >= std::max(round, 1))
        held.push_back({&parcel, false, parcel.down > round ? away(member, -1) : -1});
    return held;
  }

  /// Whether any query of a member attends any of these keys. Of spans in their sequence that reach
  /// up to them, the first is the one that may reach down to them.
  bool attends(int member, const Span& keys) const {
    const Spans& queries = queries_[static_cast<std::size_t>(member)];
    const auto first = std::partition_point(queries.begin(), queries.end(), [&](const Span& q) {
      return q.sequence < keys.sequence ||
             (q.sequence == keys.sequence &&
              q.end() - 1 + order_.offset(q) + order_.end <= keys.position);
    });
    return first != queries.end() && order_.attends_any(*first, keys);
  }

  /// The parcels that begin at a member, one for each span of its keys.
  const std::vector<Parcel>& parcels(int member) const {
    return parcels_[static_cast<std::size_t>(member)];
  }
  /// The member so far above.
  int away(int member, int distance) const {
    return ((member + distance) % members() + members()) % members();
  }

  /// How many pairs a member computes.
  double pairs(int member) const { return mpi::pairs(order_, shard(member).queries, all_keys_); }

  /// By member: how many rows of keys it sends, its own and others'; and how many of others' it
  /// attends, whose gradients it sends back.
  std::vector<double> rows_sent, rows_sent_back;

 private:
  void add_parcel(int member, std::size_t span) {
    const Span& keys = shard(member).keys[span];
    std::vector<int> needed;
    for (int distance = 1; distance < members(); ++distance)
      if (attends(away(member, distance), keys)) needed.push_back(distance);
    Parcel parcel = {member, static_cast<int>(span), 0, 0};
    route(needed, members(), parcel);
    parcels_[static_cast<std::size_t>(member)].push_back(parcel);
    rounds_ = std::max({rounds_, parcel.up + 1, parcel.down + 1});
    const auto count = [&](std::vector<double>& rows, int distance) {
      rows[static_cast<std::size_t>(away(member, distance))] += static_cast<double>(keys.count);
    };
    for (int i = 0; i < parcel.up; ++i) count(rows_sent, i);
    for (int i = 0; i < parcel.down; ++i) count(rows_sent, -i);
    for (const int distance : needed) count(rows_sent_back, distance);
  }

  /// Finds the shortest way past all members that need a parcel, so many up and so many down; of
  /// ways that are equally long it takes the one that goes up furthest. `needed` has the distances
  /// of these members upwards, in order.
  static void route(const std::vector<int>& needed, int members, Parcel& parcel) {
    int best = members;
    for (std::size_t i = needed.size() + 1; i-- > 0;) {
      const int up = i == 0 ? 0 : needed[i - 1];
      const int down = i == needed.size() ? 0 : members - needed[i];
      if (up + down < best) best = up + down, parcel.up = up, parcel.down = down;
    }
  }

  std::vector<Shard> shards_;
  std::vector<Spans> queries_;  ///< of shards, in order of positions
  const Order& order_;          ///< the problem's
  Spans all_keys_;
  std::vector<std::vector<Parcel>> parcels_;  ///< by member
  int rounds_ = 1;
};

}  // namespace heed::mpi
