// A rank's part of a problem of attention over ranks.
#pragma once

#include <memory>

#include "api/python/module/mpi_library.hpp"
#include "api/python/module/planned_call.hpp"

namespace heed::python {

constexpr const char* kMpiMaker = "heed.mpi.plan";

/// All that can go wrong on one rank alone happens here, where nobody waits for it.
struct MpiPart {
  nb::object query, key, value, out, given;  // the arguments, held
  Options options;
  Call call;
  std::int64_t all_keys = 0;
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  Vector<std::int64_t> query_positions, key_positions;
  Vector<std::int32_t> cu_seqlens_q, cu_seqlens_k;
  Vector<std::int32_t> key_lengths;  // of sequences, in a packed batch
  std::shared_ptr<heed_context> context;

  MpiPart(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle g);
  MpiPart(const MpiPart&) = delete;
  MpiPart& operator=(const MpiPart&) = delete;

  bool packed() const { return cu_seqlens_q.count > 0; }
  /// The types of what must be alike on all ranks.
  nb::dict types() const;
  /// With the keys that all ranks have together. `writes`: with memory for results.
  void finish(const MpiLibrary& library, std::int64_t keys, std::uint32_t placement,
              nb::handle positions_q, nb::handle positions_k, bool everywhere,
              nb::handle head_ranks, nb::handle flops_per_byte, nb::handle where, bool writes);

 private:
  void take_packed();
  nb::handle packed_lengths_;  // as given
};

/// key_lengths of `sequences` sequences of a packed batch.
Vector<std::int32_t> read_packed_lengths(nb::handle from, std::int64_t sequences);

}  // namespace heed::python
