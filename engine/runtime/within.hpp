// Messages that say which part of a request was refused.
#pragma once

#include "engine/runtime/error.hpp"

namespace heed {

/// Runs function; messages of refusals begin with `where`, as in "desc.attention: desc.scale ...".
template <class Function>
auto within(const char* where, Function&& function) {
  try {
    return function();
  } catch (const Error& inner) {
    fail(inner.status, "%s: %s", where, inner.message);
  }
}

}  // namespace heed
