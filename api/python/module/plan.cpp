#include "api/python/module/plan.hpp"

#include <cstdlib>
#include <cstring>

namespace heed::python {

Workspace::~Workspace() { from_.give_back(memory_); }

Workspaces::~Workspaces() {
  for (auto& spare : spare_) std::free(spare.load());
}

void* aligned_memory(std::size_t bytes, const char* of) {
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  void* const memory =
      std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr) refuse_memory("there is no memory for {} of {} bytes", of, bytes);
  return memory;
}

Workspace Workspaces::take() {
  for (auto& spare : spare_)
    if (void* memory = spare.exchange(nullptr, std::memory_order_acquire); memory != nullptr)
      return {*this, memory};
  return {*this, aligned_memory(bytes_, "a workspace")};
}

void Workspaces::give_back(void* memory) {
  for (auto& spare : spare_) {
    void* none = nullptr;
    if (spare.compare_exchange_strong(none, memory, std::memory_order_release)) return;
  }
  std::free(memory);
}

void check_form(const char* name, const Form& now, const Form& then, bool out_given) {
  if (now == then) return;
  const std::string is = text(now);
  const std::string was = text(then);
  if (std::strcmp(name, "out") == 0 && !out_given)
    refuse(
        "out is {} with strides {}; the plan was made without, so it must be contiguous and of "
        "query's type",
        is, stride_text(now));
  if (is != was) refuse("{} is {}; the plan was made for {}", name, is, was);
  refuse("{} has strides {}; the plan was made for {}", name, stride_text(now), stride_text(then));
}

}  // namespace heed::python
