// A heed_context: every choice that is made once and never changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/context/isa.hpp"
#include "engine/kernels/table.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {

inline constexpr std::uint32_t kMaxTile = 65536;

/// The sizes of a problem and its context that decide which tiles are best.
struct TuningKey {
  std::int64_t key, value;  ///< ElementType
  std::int64_t features, value_features;
  std::int64_t rows;   ///< of a pack of query heads
  std::int64_t keys;   ///< of the longest sequence
  std::int64_t heads;  ///< packs of all the batch
  std::int64_t threads;
  std::int64_t causal;  ///< whether later rows attend more keys
};

/// The tiles of problems between two keys; 0 where they are automatic.
struct TunedTiles {
  TuningKey least, most;
  std::uint32_t tile_q, tile_kv;
  std::uint32_t line;  ///< of the file; 0: of no file
};

/// The lines of the file for one CPU and ISA, in its order; none where there is no file.
struct Tuning {
  Array<char> path;  ///< ends with 0
  Array<TunedTiles> tiles;

  /// The first that cover the key; else automatic ones.
  TunedTiles find(const TuningKey& key) const;
};

/// Throws an Error that names the file, the line, its value and what it must be; `source` says
/// who named the file.
Tuning read_tuning(const heed_allocator& allocator, const char* path, const char* source,
                   const CpuName& cpu, const char* isa);

/// How exact results have to be: on that depends which kernels may use units of 16-bit values.
enum class Precision : std::uint8_t {
  kExact = HEED_PRECISION_EXACT,      ///< as float32 multiply-adds compute
  kDefault = HEED_PRECISION_DEFAULT,  ///< weights of 16-bit tensors are rounded to 16 bits
  kHigh = HEED_PRECISION_HIGH,        ///< float32 by parts may lose 2^-16 of a product
  kMedium = HEED_PRECISION_MEDIUM,    ///< float32 may be rounded to bfloat16
};

/// "exact", "default", "high" or "medium".
const char* name_of(Precision precision);

/// heed's own kernels compute projections or, if one was found, a CBLAS library.
enum class Backend : std::uint8_t { kHeed, kCblas };

/// The kinds compiled in, the preferred one first.
std::size_t backend_count();
Backend backend_at(std::size_t index);
const char* name_of(Backend kind);

}  // namespace heed

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
