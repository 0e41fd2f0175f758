// The way of keys and values around the ring: who needs them, and how they get there.
#pragma once

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
  /// Of groups of so many ranks that share heads.
  Ring(const Problem& problem, int head_ranks);

  int members() const { return static_cast<int>(shards_.size()); }
  const Shard& shard(int member) const { return shards_[static_cast<std::size_t>(member)]; }
  const Span& keys_of(const Parcel& parcel) const {
    return shard(parcel.member).keys[static_cast<std::size_t>(parcel.span)];
  }

  /// A member holds its own keys in round 0, twice where they go both ways, and in round n the
  /// parcels of the members n away: first from below, then from above. After the last round nothing
  /// travels any more.
  int rounds() const { return rounds_; }
  std::vector<Held> held(int member, int round) const;
  /// The member above or below.
  int above(int member) const { return member + 1 == members() ? 0 : member + 1; }
  int below(int member) const { return member == 0 ? members() - 1 : member - 1; }

  /// Whether any query of a member attends any of these keys.
  bool attends(int member, const Span& keys) const;
  /// A member's keys, by span.
  const std::vector<Parcel>& parcels(int member) const {
    return parcels_[static_cast<std::size_t>(member)];
  }
  /// The member so far above.
  int away(int member, int distance) const {
    return ((member + distance) % members() + members()) % members();
  }

  /// Pairs that a member computes.
  double pairs(int member) const;
  /// Rows of keys that a member sends, its own and others'.
  double rows_sent(int member) const;
  /// Rows of others' keys that a member attends, and has gradients of.
  double rows_sent_back(int member) const;

 private:
  std::vector<Shard> shards_;
  std::vector<Spans> queries_;  ///< of shards, in order of positions
  const Order& order_;          ///< the problem's
  Spans all_keys_;
  std::vector<std::vector<Parcel>> parcels_;  ///< by member
  int rounds_ = 1;
};

}  // namespace heed::mpi
