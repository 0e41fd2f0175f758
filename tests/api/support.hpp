// What the tests of the C API share: owners for its objects, a problem with its tensors, and
// the checks that every refusal must pass.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heed.h"
#include "tests/catch.hpp"
#include "tests/problem/attention.hpp"
#include "tests/support/allocator.hpp"
#include "tests/support/executors.hpp"

namespace api_test {

using heed_test::Context;
using heed_test::CountingAllocator;
using heed_test::describe;
using heed_test::executor_of;
using heed_test::Graph;
using heed_test::in_order;
using heed_test::make_context;
using heed_test::make_plan;
using heed_test::Plan;
using heed_test::Weights;
using heed_test::Workspace;

/// Where an API call writes its result: an address that no object has, so that a write shows.
template <class T>
T* untouched() {
  return reinterpret_cast<T*>(std::uintptr_t{0x5a5a5a40});
}

/// A plan, graph or prepared matrix; nullptr for one that was not made.
using Object = std::shared_ptr<void>;

/// Calls create(&made). To write something and fail is an internal error, whatever the status.
/// Takes no memory of its own, which tests may refuse.
template <class T, class Create>
heed_status make_object(heed_test::Owned<T>& object, const Create& create) {
  object.reset();
  T* made = untouched<T>();
  const heed_status status = create(&made);
  if (status != HEED_STATUS_OK) return made == untouched<T>() ? status : HEED_STATUS_INTERNAL;
  object.reset(made);
  return status;
}

inline Context make_context(const heed_context_options* options = nullptr) {
  return heed_test::create<heed_context>(options);
}

inline heed_context_options serial_options() {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  return options;
}

inline Context context_with(const heed_executor& executor) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  return make_context(&options);
}

inline Context serial() { return heed_test::make_context(nullptr); }

/// The instruction sets that can run here.
inline std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    if (info.usable == 1) names.emplace_back(info.name);
  }
  return names;
}

/// The one that is chosen where nobody asks: the last, pairs only where they are faster.
inline std::string automatic_isa() {
  std::vector<std::string> names = usable_isas();
  const std::string cpu = describe(serial()).cpu;
  if (names.back() == "avx512bf16" && cpu.rfind("AuthenticAMD-", 0) != 0) names.pop_back();
  return names.back();
}

inline std::vector<std::string> executors() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < heed_executor_count(); ++i) names.emplace_back(heed_executor_name(i));
  return names;
}

inline std::vector<std::string> products() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < heed_product_count(); ++i) names.emplace_back(heed_product_name(i));
  return names;
}

/// `count` numbers in [-2, 2), the same on every machine.
inline std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 1U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) * 0x1p-22F - 2.0F;
  }
  return values;
}

/// One head.
inline heed_attention_desc small_desc(std::int64_t queries = 5, std::int64_t keys = 7,
                                      std::int64_t features = 8, std::int64_t value_features = 6) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = 1;
  desc.query_length = queries;
  desc.key_length = keys;
  desc.features = features;
  desc.value_features = value_features;
  return desc;
}

/// What a planned run gives of random numbers.
inline heed_test::Numbers run(const Context& context,
                              const heed_attention_desc& desc = small_desc()) {
  heed_test::Problem problem = heed_test::Problem::of(desc);
  problem.fill(1);
  return problem.run_all(context).out;
}

// ---- Refusals -------------------------------------------------------------------------------

/// Leaves a message that no refusal gives, so that an old one is not taken for a new one.
inline void forget_last_error() {
  heed_isa_info info = HEED_ISA_INFO_INIT;
  (void)heed_isa_get(SIZE_MAX, &info);
}

/// Whether a message begins with the words and goes on with them; " ... " among them stands for
/// whatever it says between. Whole: and says nothing else.
inline bool says(const std::string& message, const std::string& words, bool whole = false) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string gap = " ... ";
  std::size_t from = 0;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(gap, at), words.size());
    const std::string part = words.substr(at, end - at);
    const bool number = !part.empty() && is_digit(part.back());
    std::size_t found = message.find(part, from);
    while (number && found != std::string::npos && found + part.size() < message.size() &&
           is_digit(message[found + part.size()]))  // 1 is not 10
      found = message.find(part, found + 1);
    if (found == std::string::npos || (at == 0 && found != 0)) return false;
    from = found + part.size();
    at = end + gap.size();
  }
  return !whole || from == message.size() || words.substr(words.size() - 4) == "... ";
}

/// A refusal has this status and a message that names the field, its value and the bound.
inline void check_refusal(heed_status got, heed_status expected, const std::string& words) {
  const std::string message = heed_last_error();
  CAPTURE(message, words);
  CHECK(std::string(heed_status_name(got)) == heed_status_name(expected));
  CHECK(says(message, words));
}

/// Refuses the first request, then the second ... until the call succeeds; how many it refused.
/// `call` returns the status, having given back what it made; nothing may stay behind.
template <class Call>
std::size_t refuse_each_request(CountingAllocator& memory, Call call) {
  const std::size_t live = memory.live();
  for (std::size_t refused = 0;; ++refused) {
    REQUIRE(refused < 100);
    CAPTURE(refused);
    memory.restart(refused);
    forget_last_error();
    const heed_status status = call();
    CHECK(memory.live() == live);
    CHECK(memory.sound());
    memory.restart();
    if (status == HEED_STATUS_OK) return refused;
    check_refusal(status, HEED_STATUS_OUT_OF_MEMORY, "the allocator returned NULL for ... bytes");
  }
}

/// Makes a context and destroys it.
inline heed_status try_context(const heed_context_options& options) {
  Context made;
  return make_object(
      made, [&](heed_context** context) { return heed_context_create(&options, context); });
}

// ---- Threads ---------------------------------------------------------------------------------

inline constexpr int kThreads = 8;

/// Runs function(t) on kThreads threads at once. Catch's assertions are not for threads:
/// the functions return what they saw, and false fails the test.
template <class Function>
bool on_all_threads(Function function) {
  std::atomic<bool> go{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      while (!go.load()) std::this_thread::yield();
      if (!function(t)) ++bad;
    });
  go = true;
  for (std::thread& thread : threads) thread.join();
  return bad == 0;
}

// ---- Environment ----------------------------------------------------------------------------

inline constexpr const char* kVariables[] = {
    "HEED_ISA",     "HEED_PARALLEL",    "HEED_THREADS", "HEED_PRODUCT", "HEED_TILE_Q",
    "HEED_TILE_KV", "HEED_TUNING_FILE", "HEED_VERBOSE", "HEED_CHECK",   "HEED_PRECISION"};

/// Silences the HEED_* variables for the length of a test, whatever the test run was started
/// with, and sets those that it is asked to.
class Environment {
 public:
  Environment() {
    for (const char* const name : kVariables) {
      const char* const value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  void set(const char* name, const char* value) const { setenv(name, value, 1); }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

}  // namespace api_test
