#include "perf/ranks/world.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace heed::perf {
namespace {

/// Most MPIs wait spinning.
void wait_asleep(MPI_Request* request) {
  for (int done = 0; done == 0;) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

constexpr std::size_t kLarge = std::size_t{8} << 20;

/// Seconds of a message there and back, the least of some.
double round_trip(const Team& team, std::size_t bytes, int repetitions) {
  int rank = 0;
  MPI_Comm_rank(team.comm(), &rank);
  if (rank > 1) return 0;
  std::vector<char> data(bytes, 1);
  const int count = static_cast<int>(bytes);
  const int other = 1 - rank;
  double least = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const double start = MPI_Wtime();
    if (rank == 0) MPI_Send(data.data(), count, MPI_CHAR, other, 0, team.comm());
    MPI_Recv(data.data(), count, MPI_CHAR, other, 0, team.comm(), MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data.data(), count, MPI_CHAR, other, 0, team.comm());
    least = std::min(least, MPI_Wtime() - start);
  }
  return least;
}

}  // namespace

int World::rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int World::size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void World::together(const std::function<void()>& step) {
  char message[512] = "";
  int first = size();
  try {
    step();
  } catch (const std::exception& problem) {
    std::snprintf(message, sizeof message, "%s", problem.what());
    first = rank();
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int all = 0;
  MPI_Iallreduce(&first, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
  wait_asleep(&request);
  if (all == size()) return;
  MPI_Bcast(message, sizeof message, MPI_CHAR, all, MPI_COMM_WORLD);
  throw std::runtime_error(message);
}

int World::processors() {
  // Each may be bound to some of its own.
  cpu_set_t mine;
  cpu_set_t all;
  CPU_ZERO(&mine);
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof mine, &mine);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, machine);
  MPI_Comm_free(&machine);
  return CPU_COUNT(&all);
}

Team::Team(int size) : size_(size) {
  MPI_Comm_split(MPI_COMM_WORLD, World::rank() < size ? 0 : MPI_UNDEFINED, World::rank(), &comm_);
}

Team::~Team() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended == 0 && comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

Network measure_network(const Team& team) {
  Network network = {0, 0};
  World::together([&] {
    if (!team.member() || team.size() < 2) return;
    network.latency = round_trip(team, 8, 100) / 2;
    network.rate = 2 * static_cast<double>(kLarge) / round_trip(team, kLarge, 5);
  });
  return network;
}

double exchange_seconds(const Team& team, int rounds, double bytes) {
  double seconds = 0;
  World::together([&] {
    if (!team.member() || team.size() < 2) return;
    int rank = 0;
    MPI_Comm_rank(team.comm(), &rank);
    const int above = (rank + 1) % team.size();
    const int below = (rank + team.size() - 1) % team.size();
    const auto elements = static_cast<int>(bytes / sizeof(double));
    std::vector<double> sent(static_cast<std::size_t>(elements), 1.0);
    std::vector<double> got(2 * sent.size(), 0.0);
    MPI_Barrier(team.comm());
    const double start = MPI_Wtime();
    for (int round = 0; round < rounds; ++round) {
      MPI_Request requests[4];
      MPI_Irecv(got.data(), elements, MPI_DOUBLE, below, 0, team.comm(), &requests[0]);
      MPI_Irecv(got.data() + elements, elements, MPI_DOUBLE, above, 1, team.comm(), &requests[1]);
      MPI_Isend(sent.data(), elements, MPI_DOUBLE, above, 0, team.comm(), &requests[2]);
      MPI_Isend(sent.data(), elements, MPI_DOUBLE, below, 1, team.comm(), &requests[3]);
      MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    const double own = MPI_Wtime() - start;
    MPI_Allreduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, team.comm());
  });
  return seconds;
}

}  // namespace heed::perf
