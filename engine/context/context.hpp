// What a heed_context holds: every choice that is made once and never changes.
#pragma once

#include <atomic>
#include <cstdint>

#include "api/heed.h"
#include "engine/context/choices.hpp"
#include "engine/context/cpu.hpp"
#include "engine/context/tuning.hpp"
#include "engine/kernels/table.hpp"
#include "engine/parallel/parallel_for.hpp"

/// The C API's opaque type. Plans share it, so its owners are counted.
struct heed_context {
  heed_allocator allocator;
  const heed::Kernels* kernels;
  heed::Precision precision;
  heed::Threads threads;
  heed::Backend backend;
  std::uint32_t tile_q;   ///< asked for; 0 is tuned or automatic
  std::uint32_t tile_kv;  ///< asked for; 0 is tuned or automatic
  bool verbose;
  bool checked;  ///< looks for mistakes of callers, see engine/audit
  heed::Caches caches;
  heed::CpuName cpu;
  heed::Tuning tuning;  ///< of tiles that nobody asked for
  void (*destroy_executor)(const heed_allocator& allocator, heed::Executor* executor);
  mutable std::atomic<std::uint32_t> owners{1};
};

namespace heed {

/// Whether this instruction set multiplies pairs of bfloat16, and may.
inline bool has_pairs(const heed_context& context) {
  return context.kernels->f32.pairs != nullptr && context.precision != Precision::kExact;
}

heed_context* make_context(const heed_context_options* options);

void share(const heed_context& context) noexcept;
/// Gives up one owner's share; the last one destroys the context.
void release(const heed_context* context) noexcept;

}  // namespace heed
