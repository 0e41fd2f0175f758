// The C boundary: what throws inside becomes a status and a message.
#pragma once

#include <exception>
#include <new>

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

}  // namespace heed
