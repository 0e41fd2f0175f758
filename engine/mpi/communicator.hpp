// A communicator of a plan's own: how all its ranks come to one end, compare their descriptors, and
// send each other messages.
#pragma once

#include <mpi.h>

#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/runtime/error.hpp"

namespace heed::mpi {

/// Throws unless a call of this function of MPI went well.
void check(int code, const char* function);
#define HEED_CALL(function, ...) heed::mpi::check(function(__VA_ARGS__), #function)

/// Counts of bytes that travel are multiples of this, so that counts stay ints up to 128 GiB.
inline constexpr std::size_t kUnitBytes = 64;

/// Throws if that is more than a message may have.
void check_message(std::size_t bytes);

/// MPI's type of rows of so many bytes, each of which begins `stride` bytes after the row before.
class RowType {
 public:
  RowType() = default;
  RowType(std::size_t bytes, std::size_t stride);
  ~RowType();
  RowType(RowType&& other) noexcept { std::swap(type_, other.type_); }
  RowType& operator=(RowType&& other) noexcept {
    std::swap(type_, other.type_);
    return *this;
  }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

class Communicator {
 public:
  /// Duplicates the caller's: messages cannot mix with others. Throws an Error unless MPI runs.
  explicit Communicator(MPI_Comm parent);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm get() const { return comm_; }
  /// A type of kUnitBytes.
  MPI_Datatype unit() const { return unit_.get(); }
  static int units(std::size_t bytes) { return static_cast<int>(bytes / kUnitBytes); }

  /// Returns if the status is OK on all ranks. Otherwise throws the same Error on all of them: the
  /// latest message of the lowest rank that failed.
  void agree(heed_status status) const;

  /// Runs function, which must not communicate, agrees on how it went, and returns its result.
  template <class Function>
  auto agreed(Function&& function) const {
    if constexpr (std::is_void_v<decltype(function())>) {
      agree(guarded(function));
    } else {
      decltype(function()) result{};
      agree(guarded([&] { result = function(); }));
      return result;
    }
  }

  /// Reduces a value that every rank has. Collective.
  std::int64_t reduced(std::int64_t own, MPI_Op operation) const;

  /// Throws unless this thread may call MPI beside heed's others.
  static void check_thread();

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  RowType unit_;
  int rank_ = 0;
  int size_ = 0;
};

/// A value of a descriptor that must be the same on all ranks.
struct Field {
  const char* name;  ///< without the name of its struct
  enum Kind { kWhole, kUnsigned, kReal } kind;
  std::int64_t bits;
};

template <class Value>
Field same(const char* name, Value value) {
  if constexpr (std::is_integral_v<Value>) {
    const auto kind = std::is_unsigned_v<Value> ? Field::kUnsigned : Field::kWhole;
    return {name, kind, static_cast<std::int64_t>(value)};
  } else {
    Field field = {name, Field::kReal, 0};
    std::memcpy(&field.bits, &value, sizeof field.bits);
    return field;
  }
}

/// Collective. Throws the same Error on all ranks where one of these fields differs from rank 0's.
void compare(const Communicator& comm, const std::function<std::vector<Field>()>& fields_of,
             const char* of = "desc");

/// Compares a list likewise, which is as long on all ranks.
void compare(const Communicator& comm, const char* field, const std::int32_t* own,
             std::int64_t count);

/// Compares the arguments that dropout's mask follows from, where there is dropout.
template <class Args>
void compare_seeds(const Communicator& comm, double dropout, const Args& args) {
  if (dropout == 0) return;
  const auto fields = [&] {
    return std::vector<Field>{same("dropout_seed", args.dropout_seed),
                              same("dropout_offset", args.dropout_offset)};
  };
  compare(comm, fields, "args");
}

/// Sends and receives that have begun, in memory that somebody lends.
class Requests {
 public:
  Requests(const Communicator& comm, void* memory)
      : comm_(comm), requests_(static_cast<MPI_Request*>(memory)) {}

  void receive(void* to, std::size_t count, MPI_Datatype type, int rank, int tag) {
    HEED_CALL(MPI_Irecv, to, static_cast<int>(count), type, rank, tag, comm_.get(),
              &requests_[count_++]);
  }

  void send(const void* from, std::size_t count, MPI_Datatype type, int rank, int tag) {
    HEED_CALL(MPI_Isend, from, static_cast<int>(count), type, rank, tag, comm_.get(),
              &requests_[count_++]);
  }

  /// The bytes of these two are a multiple of kUnitBytes.
  void receive(void* to, std::size_t bytes, int rank, int tag) {
    receive(to, bytes / kUnitBytes, comm_.unit(), rank, tag);
  }
  void send(const void* from, std::size_t bytes, int rank, int tag) {
    send(from, bytes / kUnitBytes, comm_.unit(), rank, tag);
  }
  /// Lets MPI work on them, and says whether all have ended.
  bool progress() {
    int done = 1;
    if (count_ > 0) HEED_CALL(MPI_Testall, count_, requests_, &done, MPI_STATUSES_IGNORE);
    if (done != 0) count_ = 0;
    return done != 0;
  }

  void wait() {
    if (count_ > 0) HEED_CALL(MPI_Waitall, count_, requests_, MPI_STATUSES_IGNORE);
    count_ = 0;
  }

 private:
  const Communicator& comm_;
  MPI_Request* const requests_;
  int count_ = 0;
};

/// Lists of items, one for, or from, every rank.
template <class T>
using ByRank = std::vector<std::vector<T>>;

/// Sends every rank its list, and returns the lists that arrive. Collective. Throws the same Error
/// on all ranks.
template <class T>
ByRank<T> exchange_lists(const Communicator& comm, const ByRank<T>& sent) {
  constexpr int kTag = 0;
  std::vector<std::int64_t> counts, theirs;
  ByRank<T> received;
  std::vector<MPI_Request> memory;
  comm.agreed([&] {
    for (std::size_t rank = 0; rank < sent.size(); ++rank) {
      counts.push_back(static_cast<std::int64_t>(sent[rank].size()));
      if (counts.back() > INT_MAX)
        fail(HEED_STATUS_UNSUPPORTED,
             "%lld edges or nodes are for rank %zu; a message may have %d at most",
             lld(counts.back()), rank, INT_MAX);
    }
    theirs.resize(sent.size());
    received.resize(sent.size());
    memory.resize(2 * sent.size());
  });
  HEED_CALL(MPI_Alltoall, counts.data(), 1, MPI_INT64_T, theirs.data(), 1, MPI_INT64_T, comm.get());
  comm.agreed([&] {
    for (std::size_t rank = 0; rank < sent.size(); ++rank)
      received[rank].resize(static_cast<std::size_t>(theirs[rank]));
  });
  const RowType item(sizeof(T), sizeof(T));
  Requests requests(comm, memory.data());
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    std::vector<T>& to = received[rank];
    const std::vector<T>& from = sent[rank];
    if (!to.empty())
      requests.receive(to.data(), to.size(), item.get(), static_cast<int>(rank), kTag);
    if (!from.empty())
      requests.send(from.data(), from.size(), item.get(), static_cast<int>(rank), kTag);
  }
  requests.wait();
  return received;
}

// ---- Plans and runs of all operations over ranks ------------------------------------------------

struct RankPlan {
  explicit RankPlan(const char* of) : operation(of) {
    const char* const told = std::getenv("HEED_VERBOSE");
    verbose = told != nullptr && std::strcmp(told, "1") == 0;
  }

  /// For verbose lines: the operation, and how the plan does it.
  const char* operation;
  std::string detail;
  bool verbose;
  double sent_bytes = 0;  ///< by this rank in a run
  std::size_t workspace_bytes = 0;
  mutable heed_mpi_times times = HEED_MPI_TIMES_INIT;  ///< of the latest run
};

class RankRun {
 protected:
  RankRun(const Communicator& comm, void* requests) : requests_(comm, requests), comm_(comm) {}

  /// Computes something between messages. A rank that fails goes on to send and receive, so that no
  /// other waits for ever: attempts after a failure are left out.
  template <class Function>
  void attempt(Function&& function) {
    if (error_.status != HEED_STATUS_OK) return;
    heed_status status = HEED_STATUS_OK;
    time(compute_, [&] { status = guarded(function); });
    if (status == HEED_STATUS_OK) return;
    error_.status = status;
    std::snprintf(error_.message, sizeof error_.message, "%s", last_error());
  }

  /// Waits for messages or other ranks.
  template <class Function>
  void wait(Function&& function) {
    time(wait_, function);
  }

  /// Collective. Throws the same Error on all ranks where an attempt of one has failed.
  void agree() {
    if (error_.status != HEED_STATUS_OK) set_last_error(error_.message);
    wait([&] { comm_.agree(error_.status); });
  }

  /// Does all of a run, and notes where its time went.
  template <class Work>
  void timed(const RankPlan& plan, Work&& work) {
    double all = 0;
    time(all, work);
    plan.times.run = all;
    plan.times.compute = compute_;
    plan.times.wait = wait_;
    if (plan.verbose)
      tell("%s over MPI, rank %d of %d: %s, %.3f ms computing, %.3f ms waiting, %.0f bytes sent",
           plan.operation, comm_.rank(), comm_.size(), plan.detail.c_str(), compute_ * 1e3,
           wait_ * 1e3, plan.sent_bytes);
  }

  Requests requests_;

 private:
  template <class Function>
  static void time(double& seconds, Function&& function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const Communicator& comm_;
  double compute_ = 0, wait_ = 0;  ///< seconds
  Error error_ = {};
};

}  // namespace heed::mpi
