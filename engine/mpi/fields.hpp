// Numbers of descriptors that must be the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

struct Field {
  const char* name;  ///< without "desc."
  bool real;
  std::int64_t bits;
};

Field whole(const char* name, std::int64_t value);
Field real(const char* name, double value);

/// Collective. Throws the same Error on all ranks where a field is not what it is on rank 0.
void compare(const Communicator& comm, const Field* fields, std::size_t count);

template <std::size_t kCount>
void compare(const Communicator& comm, const Field (&fields)[kCount]) {
  compare(comm, fields, kCount);
}

}  // namespace heed::mpi
