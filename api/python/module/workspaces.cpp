#include "api/python/module/workspaces.hpp"

#include <cstdlib>

#include "api/python/module/errors.hpp"

namespace heed::python {

Workspace::~Workspace() { from_.give_back(memory_); }

Workspaces::~Workspaces() {
  for (auto& spare : spare_) std::free(spare.load());
}

Workspace Workspaces::take() {
  for (auto& spare : spare_)
    if (void* memory = spare.exchange(nullptr, std::memory_order_acquire); memory != nullptr)
      return {*this, memory};
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  const std::size_t bytes = (bytes_ + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) refuse_memory("there is no memory for a workspace of %zu bytes", bytes_);
  return {*this, memory};
}

void Workspaces::give_back(void* memory) {
  for (auto& spare : spare_) {
    void* none = nullptr;
    if (spare.compare_exchange_strong(none, memory, std::memory_order_release)) return;
  }
  std::free(memory);
}

}  // namespace heed::python
