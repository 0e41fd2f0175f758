#include "engine/audit/workspace.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// The workspaces of all checked runs of the process, of any context.
std::mutex in_use_mutex;
CheckedWorkspace* in_use = nullptr;

constexpr auto kCanary = std::byte{0xc5};

}  // namespace

CheckedWorkspace::CheckedWorkspace(std::size_t used, void* memory, std::size_t bytes)
    : used_(used),
      canaries_(used == 0 ? 0 : kCanaryBytes),
      begin_(static_cast<std::byte*>(memory)) {
  check_workspace(this->bytes(), memory, bytes);
  if (used_ == 0) return;
  const std::lock_guard<std::mutex> lock(in_use_mutex);
  for (const CheckedWorkspace* other = in_use; other != nullptr; other = other->next_)
    if (shares_memory_with(*other))
      fail(HEED_STATUS_INVALID_WORKSPACE,
           "workspace is %p with %zu bytes, of which another run is using %zu from %p on; two runs "
           "at the same time need two workspaces",
           memory, this->bytes(), other->bytes(), other->begin());
  next_ = in_use;
  in_use = this;
}

CheckedWorkspace::~CheckedWorkspace() {
  if (used_ == 0) return;
  const std::lock_guard<std::mutex> lock(in_use_mutex);
  CheckedWorkspace** place = &in_use;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

void CheckedWorkspace::place_canaries() const {
  std::fill_n(begin_, canaries_, kCanary);
  std::fill_n(begin_ + canaries_ + used_, canaries_, kCanary);
}

void CheckedWorkspace::check_canaries() const {
  const auto changed = [&](const std::byte* from) {
    return std::count_if(from, from + canaries_, [](std::byte b) { return b != kCanary; });
  };
  const auto before = changed(begin_);
  const auto after = changed(begin_ + canaries_ + used_);
  if (before + after > 0)
    fail(HEED_STATUS_INTERNAL,
         "%lld bytes before the workspace that the run may use and %lld after it, at %p, have "
         "changed during the run: a defect in heed, unless args.score_function or another thread "
         "wrote there",
         static_cast<long long>(before), static_cast<long long>(after),
         static_cast<void*>(begin_ + canaries_ + used_));
}

}  // namespace heed
