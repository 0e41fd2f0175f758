#include "engine/mpi/fields.hpp"

#include <cstdio>
#include <cstring>
#include <vector>

namespace heed::mpi {
namespace {

void print(const Field& field, std::int64_t bits, char (&text)[32]) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  if (field.real)
    std::snprintf(text, sizeof text, "%.17g", value);
  else
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(bits));
}

}  // namespace

Field whole(const char* name, std::int64_t value) { return {name, false, value}; }

Field real(const char* name, double value) {
  Field field = {name, true, 0};
  std::memcpy(&field.bits, &value, sizeof value);
  return field;
}

void compare(const Communicator& comm, const Field* fields, std::size_t count) {
  std::vector<std::int64_t> first;
  comm.agreed([&] {
    for (std::size_t i = 0; i < count; ++i) first.push_back(fields[i].bits);
  });
  check(MPI_Bcast(first.data(), static_cast<int>(count), MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  comm.agreed([&] {
    for (std::size_t i = 0; i < count; ++i) {
      if (fields[i].bits == first[i]) continue;
      char own[32], other[32];
      print(fields[i], fields[i].bits, own);
      print(fields[i], first[i], other);
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %s; on rank 0 it is %s, and must be the same",
           fields[i].name, own, other);
    }
  });
}

}  // namespace heed::mpi
