// The workspace of a checked run: refuses one in use, and notices writes past its ends.
#pragma once

#include <cstddef>

#include "engine/context/context.hpp"

namespace heed {

/// Bytes of canaries on either side of what a run uses; a multiple of HEED_WORKSPACE_ALIGNMENT.
inline constexpr std::size_t kCanaryBytes = 1024;

/// The bytes that callers must bring for a run that uses this many.
inline std::size_t with_canaries(const heed_context& context, std::size_t used) {
  return context.checked && used > 0 ? used + 2 * kCanaryBytes : used;
}

/// Memory that no other run may use while this object lives.
class CheckedWorkspace {
 public:
  /// Throws unless the memory is large enough, aligned, and not in use.
  CheckedWorkspace(std::size_t used, void* memory, std::size_t bytes);
  ~CheckedWorkspace();
  CheckedWorkspace(const CheckedWorkspace&) = delete;
  CheckedWorkspace& operator=(const CheckedWorkspace&) = delete;

  /// What the run may use.
  std::byte* get() const { return canaries_ == 0 ? nullptr : begin_ + canaries_; }
  /// With the canaries.
  const void* begin() const { return begin_; }
  std::size_t bytes() const { return used_ + 2 * canaries_; }

  void place_canaries() const;
  /// Throws if a canary has changed since.
  void check_canaries() const;

 private:
  bool shares_memory_with(const CheckedWorkspace& other) const {
    return begin_ < other.begin_ + other.bytes() && other.begin_ < begin_ + bytes();
  }

  const std::size_t used_;
  const std::size_t canaries_;
  std::byte* const begin_;
  CheckedWorkspace* next_ = nullptr;  ///< in the list of those in use
};

}  // namespace heed
