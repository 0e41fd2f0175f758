// The workspace of a checked run: whose it is, and whether anybody wrote past its ends.
#pragma once

#include <cstddef>

#include "engine/context/context.hpp"

namespace heed {

/// Bytes of canaries on either side of what a run uses; a multiple of HEED_WORKSPACE_ALIGNMENT.
inline constexpr std::size_t kCanaryBytes = 1024;

/// What callers must bring for a run that uses so many bytes.
inline std::size_t with_canaries(const heed_context& context, std::size_t used) {
  return context.checked && used > 0 ? used + 2 * kCanaryBytes : used;
}

/// Memory that a run uses and no other run may use as long as this lives.
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
  /// Throws where a canary has changed since.
  void check_canaries() const;

 private:
  bool shares_memory_with(const CheckedWorkspace& other) const {
    return begin_ < other.begin_ + other.bytes() && other.begin_ < begin_ + bytes();
  }

  const std::size_t used_;
  const std::size_t canaries_;
  std::byte* const begin_;
  CheckedWorkspace* next_ = nullptr;  ///< of all that are in use
};

}  // namespace heed
