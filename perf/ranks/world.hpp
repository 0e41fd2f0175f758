// The ranks that heed_perf --ranks started, of which a row may need only some.
#pragma once

#include <mpi.h>

#include <functional>

namespace heed::perf {

class World {
 public:
  static int rank();
  static int size();

  /// Runs step on every rank; returns, or throws the same std::runtime_error, on all of them. Those
  /// that have nothing to do sleep until the last is ready, so that they take no processor.
  static void together(const std::function<void()>& step);

  /// Processors that all ranks of this machine may use together. Collective.
  static int processors();
};

/// The first ranks of all.
class Team {
 public:
  /// Collective.
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool member() const { return comm_ != MPI_COMM_NULL; }
  MPI_Comm comm() const { return comm_; }
  int size() const { return size_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_;
};

/// What the network between the members of a team does while nobody computes.
struct Network {
  double latency;  ///< seconds of a message of 8 bytes
  double rate;     ///< bytes per second, one way, of messages of 8 MiB
};

/// Between the first two members; others sleep. Collective.
Network measure_network(const Team& team);

/// Seconds of a ring's messages alone: in each of so many rounds every member sends this many bytes
/// to each of its neighbours, and gets as many. Collective.
double exchange_seconds(const Team& team, int rounds, double bytes);

}  // namespace heed::perf
