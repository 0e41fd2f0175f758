// The sequences of a workload's batch: how long they are, where they lie in packed tensors, and
// which keys a row attends before any mask.
#pragma once

#include <cstdint>

#include "perf/workload.hpp"

namespace heed::perf {

/// The rows of a packed tensor. Sequence b of n is (b + 1) / n of `longest` long, at least 1: as
/// ragged as a batch can be.
std::int64_t packed_rows(std::int64_t longest, std::int64_t batch);

struct Sequence {
  std::int64_t first_query;  ///< where it begins in packed tensors, else 0
  std::int64_t first_key;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t offset;  ///< row i stands at position i + offset among the keys
};
Sequence sequence_of(const Workload& workload, std::int64_t batch);

struct KeyRange {
  std::int64_t begin;
  std::int64_t end;  ///< not below begin
};
KeyRange key_range(const Workload& workload, const Sequence& sequence, std::int64_t row);

/// Where the rows of one head lie in a contiguous tensor, in elements.
struct HeadRows {
  std::int64_t first;
  std::int64_t stride;

  std::int64_t operator[](std::int64_t row) const { return first + row * stride; }
};
HeadRows query_rows(const Workload& workload, std::int64_t batch, std::int64_t head,
                    std::int64_t width);
/// `head` is a query head.
HeadRows key_rows(const Workload& workload, std::int64_t batch, std::int64_t head,
                  std::int64_t width);
HeadRows lse_rows(const Workload& workload, std::int64_t batch, std::int64_t head);

/// Pairs of a query row and a key that it attends. A mask that is random excludes none: whatever
/// computes by tiles has to compute them all. A padding mask leaves its keys.
double attended_pairs(const Workload& workload);

/// 2 (D + Dv) per attended pair.
double useful_flops(const Workload& workload);

/// Bytes of the keys and values that are attended at all, each counted once.
double key_value_bytes(const Workload& workload);

}  // namespace heed::perf
