// Executors: heed's own and a caller's, with which a run has the same bits.
#pragma once

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/calls.hpp"

namespace heed_test {

/// A caller's.
inline heed_executor executor_of(std::uint32_t threads, decltype(heed_executor::run) run,
                                 void* user = nullptr) {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = threads;
  executor.user = user;
  executor.run = run;
  return executor;
}

using ExecutorBody = void (*)(void* argument, std::uint32_t index);

/// That runs one body after the other.
inline heed_executor in_order(std::uint32_t threads) {
  return executor_of(threads, [](void*, std::uint32_t count, ExecutorBody body, void* argument) {
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  });
}

/// Last first: as different from threads as it gets, and needs none.
inline heed_executor backwards(std::uint32_t threads) {
  return executor_of(threads, [](void*, std::uint32_t count, ExecutorBody body, void* argument) {
    while (count-- > 0) body(argument, count);
  });
}

/// On threads that are started for each run.
inline heed_executor own_threads(std::uint32_t threads) {
  return executor_of(threads, [](void*, std::uint32_t count, ExecutorBody body, void* argument) {
    std::vector<std::thread> others;
    for (std::uint32_t i = 0; i < count; ++i) others.emplace_back(body, argument, i);
    for (std::thread& other : others) other.join();
  });
}

/// Calls function(name, context) for every executor with one, two and four threads, and for those
/// of a caller.
template <class Function>
void each_executor(const char* isa, Function&& function) {
  for (std::size_t i = 0; i < heed_executor_count(); ++i)
    for (const std::uint32_t threads : {1U, 2U, 4U}) {
      const char* const name = heed_executor_name(i);
      if (std::strcmp(name, "serial") == 0 && threads > 1) continue;
      function(name + (" x" + std::to_string(threads)), make_context(isa, {name, threads}));
    }
  for (const auto& [name, executor] :
       {std::pair("backwards", backwards(5)), {"own threads", own_threads(3)}}) {
    auto options = sized<heed_context_options>();
    options.isa = isa;
    options.executor = &executor;
    options.product = heed_product_name(0);
    function(std::string(name), create<heed_context>(&options));
  }
}

}  // namespace heed_test
