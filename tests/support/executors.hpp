// Executors: heed's own and a caller's, with which a run has the same bits.
#pragma once

#include <cstring>
#include <string>

#include "tests/support/calls.hpp"

namespace heed_test {

/// A caller's executor that runs one body after the other.
inline heed_executor in_order(std::uint32_t threads) {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = threads;
  executor.run = [](void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                    void* argument) {
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  return executor;
}

/// Last first: as different from threads as it gets, and needs none.
inline heed_executor backwards(std::uint32_t threads) {
  heed_executor executor = in_order(threads);
  executor.run = [](void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                    void* argument) {
    while (count-- > 0) body(argument, count);
  };
  return executor;
}

/// Calls function(name, context) for every executor with one, two and four threads, and for
/// `backwards`.
template <class Function>
void each_executor(const char* isa, Function&& function) {
  for (std::size_t i = 0; i < heed_executor_count(); ++i)
    for (const std::uint32_t threads : {1U, 2U, 4U}) {
      const char* const name = heed_executor_name(i);
      if (std::strcmp(name, "serial") == 0 && threads > 1) continue;
      function(name + (" x" + std::to_string(threads)), make_context(isa, {name, threads}));
    }
  const heed_executor executor = backwards(5);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  options.executor = &executor;
  options.product = heed_product_name(0);
  function(std::string("backwards"), create<heed_context>(&options));
}

}  // namespace heed_test
