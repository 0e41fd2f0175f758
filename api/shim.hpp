// What every function of the C API is wrapped in.
#pragma once

#include <chrono>
#include <exception>
#include <new>

#include "api/heed.h"
#include "engine/check/run.hpp"
#include "engine/context/context.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"

namespace heed {

/// Runs function; no exception leaves.
template <class Function>
heed_status guarded(Function&& function) noexcept {
  try {
    function();
    return HEED_STATUS_OK;
  } catch (const Error& error) {
    set_last_error(error.message);
    return error.status;
  } catch (const std::bad_alloc&) {
    set_last_error("the C++ runtime is out of memory");
    return HEED_STATUS_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return HEED_STATUS_INTERNAL;
  } catch (...) {
    set_last_error("an exception of unknown type");
    return HEED_STATUS_INTERNAL;
  }
}

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "%s is NULL", name);
  return *pointer;
}

/// Calls run() and, if the context is verbose, print(seconds).
template <class Run, class Print>
void run_and_tell(const heed_context& context, Run&& run, Print&& print) {
  if (!context.verbose) return run();
  const auto start = std::chrono::steady_clock::now();
  run();
  print(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// Calls run(workspace, bytes) for a plan that uses so many bytes; in a checked context between
/// the checks of engine/check.
template <class Plan, class Args, class Run>
void run_between_checks(const Plan& plan, const Args& args, std::size_t used, void* workspace,
                        std::size_t bytes, Run&& run) {
  if (!plan.context->checked) return run(workspace, bytes);
  const CheckedWorkspace lent(used, workspace, bytes);
  check_before(plan, args, lent);
  lent.place_canaries();
  run(lent.get(), used);
  lent.check_canaries();
  check_after(plan, args);
}

/// The workspace of a one-call run, given back whatever happens.
class OwnedWorkspace {
 public:
  OwnedWorkspace(const heed_allocator& allocator, std::size_t bytes)
      : allocator_(allocator),
        bytes_(bytes),
        memory_(bytes == 0 ? nullptr : allocate(allocator, bytes, HEED_WORKSPACE_ALIGNMENT)) {}
  ~OwnedWorkspace() {
    if (memory_ != nullptr) allocator_.release(allocator_.user, memory_, bytes_);
  }
  OwnedWorkspace(const OwnedWorkspace&) = delete;
  OwnedWorkspace& operator=(const OwnedWorkspace&) = delete;
  void* get() const { return memory_; }

 private:
  const heed_allocator& allocator_;
  std::size_t bytes_;
  void* memory_;
};

}  // namespace heed
