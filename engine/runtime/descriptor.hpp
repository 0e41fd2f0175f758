// Bytes to and from files, pipes and sockets that a caller has opened.
#pragma once

#include <cstddef>

namespace heed {

/// Writes all of it. Throws an Error, HEED_STATUS_IO, that names the descriptor and the system's
/// words; a pipe that nobody reads is such an error, and raises no SIGPIPE.
void write_all(int descriptor, const std::byte* bytes, std::size_t count);

/// Reads what there is, at least one byte and `most` at most; 0 at the end. Throws likewise.
std::size_t read_some(int descriptor, std::byte* bytes, std::size_t most);

}  // namespace heed
