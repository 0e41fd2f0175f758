#include "engine/mpi/communicator.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

namespace heed::mpi {
namespace {

bool has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

void print(const Field& field, std::int64_t bits, char (&text)[32]) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  if (field.kind == Field::kReal)
    std::snprintf(text, sizeof text, "%.17g", value);
  else
    std::snprintf(text, sizeof text, field.kind == Field::kWhole ? "%lld" : "%llu", lld(bits));
}

}  // namespace

void check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(HEED_STATUS_INTERNAL, "%s failed: %.250s", function, text);
}

void check_message(std::size_t bytes) {
  constexpr std::size_t kMost = kUnitBytes * static_cast<std::size_t>(INT_MAX);
  if (bytes > kMost)
    fail(HEED_STATUS_UNSUPPORTED, "a message would have %zu bytes; it may have %zu at most", bytes,
         kMost);
}

RowType::RowType(std::size_t bytes, std::size_t stride) {
  HEED_CALL(MPI_Type_contiguous, static_cast<int>(bytes), MPI_BYTE, &type_);
  if (stride != bytes) {
    MPI_Datatype packed = std::exchange(type_, MPI_DATATYPE_NULL);
    const int code = MPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(stride), &type_);
    MPI_Type_free(&packed);
    check(code, "MPI_Type_create_resized");
  }
  HEED_CALL(MPI_Type_commit, &type_);
}

RowType::~RowType() {
  if (type_ != MPI_DATATYPE_NULL && !has_ended()) MPI_Type_free(&type_);
}

Communicator::Communicator(MPI_Comm parent) {
  int running = 0;
  MPI_Initialized(&running);
  const bool ended = has_ended();
  if (running == 0 || ended)
    refuse("MPI is %s; heed leaves starting and ending it to the caller",
           ended ? "finalized" : "not initialised");
  if (parent == MPI_COMM_NULL) refuse("communicator is MPI_COMM_NULL");
  int inter = 0;
  HEED_CALL(MPI_Comm_test_inter, parent, &inter);
  if (inter != 0) refuse("communicator is an intercommunicator; it must be one group");
  HEED_CALL(MPI_Comm_dup, parent, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  unit_ = RowType(kUnitBytes, kUnitBytes);
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL && !has_ended()) MPI_Comm_free(&comm_);
}

void Communicator::agree(heed_status status) const {
  const int own = status == HEED_STATUS_OK ? size_ : rank_;
  int first = size_;
  HEED_CALL(MPI_Allreduce, &own, &first, 1, MPI_INT, MPI_MIN, comm_);
  if (first == size_) return;
  Error error{};
  if (rank_ == first) {
    error.status = status;
    std::snprintf(error.message, sizeof error.message, "rank %d: %.300s", rank_, last_error());
  }
  HEED_CALL(MPI_Bcast, &error, static_cast<int>(sizeof error), MPI_BYTE, first, comm_);
  throw error;
}

std::int64_t Communicator::reduced(std::int64_t own, MPI_Op operation) const {
  std::int64_t all = 0;
  HEED_CALL(MPI_Allreduce, &own, &all, 1, MPI_INT64_T, operation, comm_);
  return all;
}

void Communicator::check_thread() {
  int level = MPI_THREAD_SINGLE;
  HEED_CALL(MPI_Query_thread, &level);
  if (level < MPI_THREAD_FUNNELED)
    refuse(
        "MPI was initialised with MPI_THREAD_SINGLE; heed's threads need MPI_THREAD_FUNNELED or "
        "more");
  int main_thread = 0;
  HEED_CALL(MPI_Is_thread_main, &main_thread);
  if (level == MPI_THREAD_FUNNELED && main_thread == 0)
    refuse("this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it must be");
}

void compare(const Communicator& comm, const std::function<std::vector<Field>()>& fields_of,
             const char* of) {
  std::vector<Field> own;
  std::vector<std::int64_t> first;
  comm.agreed([&] {
    own = fields_of();
    for (const Field& field : own) first.push_back(field.bits);
  });
  HEED_CALL(MPI_Bcast, first.data(), static_cast<int>(first.size()), MPI_INT64_T, 0, comm.get());
  comm.agreed([&] {
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].bits == first[i]) continue;
      char here[32], there[32];
      print(own[i], own[i].bits, here);
      print(own[i], first[i], there);
      refuse("%s.%s is %s; on rank 0 it is %s, and must be the same", of, own[i].name, here, there);
    }
  });
}

void compare(const Communicator& comm, const char* field, const std::int32_t* own,
             std::int64_t count) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::int32_t> first;
  comm.agreed([&] { first.resize(static_cast<std::size_t>(std::min(kAtOnce, count))); });
  std::int64_t wrong = count;
  std::int32_t there = 0;
  for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
    const std::int64_t some = std::min(kAtOnce, count - begin);
    if (comm.rank() == 0) std::copy_n(own + begin, some, first.begin());
    HEED_CALL(MPI_Bcast, first.data(), static_cast<int>(some), MPI_INT32_T, 0, comm.get());
    const std::int64_t same =
        std::mismatch(own + begin, own + begin + some, first.begin()).first - (own + begin);
    if (same == some || wrong < count) continue;
    wrong = begin + same;
    there = first[static_cast<std::size_t>(same)];
  }
  comm.agreed([&] {
    if (wrong < count)
      refuse("desc.%s[%lld] is %d; on rank 0 it is %d, and must be the same", field, lld(wrong),
             own[wrong], there);
  });
}

}  // namespace heed::mpi
