// What the tests of the C API share: owners for its objects, a problem with its tensors, and
// the checks that every refusal must pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "heed.h"
#include "tests/catch.hpp"
#include "tests/support/allocator.hpp"
#include "tests/support/executors.hpp"

namespace api_test {

using heed_test::backwards;
using heed_test::Context;
using heed_test::CountingAllocator;
using heed_test::describe;
using heed_test::Destroy;
using heed_test::Graph;
using heed_test::GraphPlan;
using heed_test::in_order;
using heed_test::make_plan;
using heed_test::MultiheadPlan;
using heed_test::Plan;
using heed_test::Weights;

/// Where an API call writes its result: an address that no object has, so that a write shows.
template <class T>
T* untouched() {
  return reinterpret_cast<T*>(std::uintptr_t{0x5a5a5a40});
}

/// A plan, graph or prepared matrix; nullptr for one that was not made.
using Object = std::shared_ptr<void>;

/// Calls create(&made). To write something and fail is an internal error, whatever the status.
template <class T, class Create>
heed_status make_object(Object& object, void (*destroy)(T*), Create create) {
  object.reset();
  T* made = untouched<T>();
  const heed_status status = create(&made);
  if (status != HEED_STATUS_OK) return made == untouched<T>() ? status : HEED_STATUS_INTERNAL;
  object = Object(made, destroy);
  return status;
}

inline Context make_context(const heed_context_options* options = nullptr) {
  return heed_test::create<heed_context>(options);
}

inline Context make_context(const char* isa, const char* executor, std::uint32_t threads) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  options.executor_name = executor;
  options.threads = threads;
  return make_context(&options);
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

inline Context serial() { return make_context(nullptr, "serial", 1); }

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

/// Memory for a run. A vector would align it to 16 bytes only.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : bytes_(bytes),
        memory_(
            ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{HEED_WORKSPACE_ALIGNMENT})) {}
  ~Workspace() { ::operator delete (memory_, std::align_val_t{HEED_WORKSPACE_ALIGNMENT}); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* get() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* memory_;
};

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

struct Shape {
  std::int64_t batch = 1, query_heads = 1, key_heads = 1, query_length = 5, key_length = 7;
  std::int64_t features = 8, value_features = 6;
  std::uint32_t causal = HEED_CAUSAL_NONE;
  std::int64_t causal_offset = 0;
};

inline heed_attention_desc desc_of(const Shape& shape) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = shape.batch;
  desc.query_heads = shape.query_heads;
  desc.key_heads = shape.key_heads;
  desc.query_length = shape.query_length;
  desc.key_length = shape.key_length;
  desc.features = shape.features;
  desc.value_features = shape.value_features;
  desc.causal = shape.causal;
  desc.causal_offset = shape.causal_offset;
  return desc;
}

/// Contiguous tensors for a shape; `out` begins as a pattern that no result is.
struct Tensors {
  explicit Tensors(const Shape& s, std::uint32_t seed = 1)
      : query(numbers(count(s.batch, s.query_heads, s.query_length, s.features), seed)),
        key(numbers(count(s.batch, s.key_heads, s.key_length, s.features), seed + 1)),
        value(numbers(count(s.batch, s.key_heads, s.key_length, s.value_features), seed + 2)),
        out(count(s.batch, s.query_heads, s.query_length, s.value_features), kUntouched) {}

  heed_attention_args args() {
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.out = out.data();
    return args;
  }

  static std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<std::size_t>(a * b * c * d);
  }

  static constexpr float kUntouched = -12345.678F;
  std::vector<float> query, key, value, out;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The output of a planned run.
inline std::vector<float> run(const Context& context, const Shape& shape, Tensors tensors) {
  const Plan plan = make_plan(context, desc_of(shape));
  const Workspace workspace(describe(plan).workspace_bytes);
  const heed_attention_args args = tensors.args();
  const heed_status status =
      heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes());
  INFO(heed_last_error());
  REQUIRE(status == HEED_STATUS_OK);
  return tensors.out;
}

// ---- Refusals -------------------------------------------------------------------------------

/// Leaves a message that no refusal gives, so that an old one is not taken for a new one.
inline void forget_last_error() {
  heed_isa_info info = HEED_ISA_INFO_INIT;
  (void)heed_isa_get(SIZE_MAX, &info);
}

/// Whether a message begins with the words and goes on with them; " ... " among them stands for
/// whatever it says between.
inline bool says(const std::string& message, const std::string& words) {
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
  return true;
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
  Object made;
  return make_object(made, heed_context_destroy, [&](heed_context** context) {
    return heed_context_create(&options, context);
  });
}

// ---- Environment ----------------------------------------------------------------------------

/// Silences the HEED_* variables for the length of a test, whatever the test run was started
/// with, and sets those that it is asked to.
class Environment {
 public:
  Environment() {
    for (const char* const name :
         {"HEED_ISA", "HEED_PARALLEL", "HEED_THREADS", "HEED_PRODUCT", "HEED_TILE_Q",
          "HEED_TILE_KV", "HEED_TUNING_FILE", "HEED_VERBOSE", "HEED_CHECK", "HEED_PRECISION"}) {
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
