// Messages about a part of what was asked for.
#pragma once

#include "engine/runtime/error.hpp"

namespace heed {

/// Runs function; what it refuses is said to be in `where`, as in "desc.attention: desc.scale ...".
template <class Function>
auto within(const char* where, Function&& function) {
  try {
    return function();
  } catch (const Error& inner) {
    fail(inner.status, "%s: %s", where, inner.message);
  }
}

}  // namespace heed
