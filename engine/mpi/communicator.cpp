#include "engine/mpi/communicator.hpp"

#include <climits>
#include <cstdio>

namespace heed::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(HEED_STATUS_INTERNAL, "%s failed: %.250s", call, text);
}

void check_message(std::size_t bytes) {
  constexpr std::size_t kMost = kUnitBytes * static_cast<std::size_t>(INT_MAX);
  if (bytes > kMost)
    fail(HEED_STATUS_UNSUPPORTED, "a message would have %zu bytes; it may have %zu at most", bytes,
         kMost);
}

Communicator::Communicator(MPI_Comm parent) {
  int running = 0;
  int ended = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  if (running == 0 || ended != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "MPI is %s; heed leaves starting and ending it to the caller",
         ended != 0 ? "finalized" : "not initialised");
  if (parent == MPI_COMM_NULL) fail(HEED_STATUS_INVALID_ARGUMENT, "communicator is MPI_COMM_NULL");
  int inter = 0;
  check(MPI_Comm_test_inter(parent, &inter), "MPI_Comm_test_inter");
  if (inter != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "communicator is an intercommunicator; it must be one group");
  check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  check(MPI_Type_contiguous(static_cast<int>(kUnitBytes), MPI_BYTE, &unit_), "MPI_Type_contiguous");
  check(MPI_Type_commit(&unit_), "MPI_Type_commit");
}

Communicator::~Communicator() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  if (unit_ != MPI_DATATYPE_NULL) MPI_Type_free(&unit_);
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void Communicator::agree(heed_status status) const {
  const int own = status == HEED_STATUS_OK ? size_ : rank_;
  int first = size_;
  check(MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
  if (first == size_) return;
  Error error{};
  if (rank_ == first) {
    error.status = status;
    std::snprintf(error.message, sizeof error.message, "rank %d: %.300s", rank_, last_error());
  }
  check(MPI_Bcast(&error, static_cast<int>(sizeof error), MPI_BYTE, first, comm_), "MPI_Bcast");
  throw error;
}

void Communicator::check_thread() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "MPI was initialised with MPI_THREAD_SINGLE; heed's threads need MPI_THREAD_FUNNELED or "
         "more");
  int main_thread = 0;
  check(MPI_Is_thread_main(&main_thread), "MPI_Is_thread_main");
  if (level == MPI_THREAD_FUNNELED && main_thread == 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it must be");
}

}  // namespace heed::mpi
