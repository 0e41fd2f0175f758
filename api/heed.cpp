// The C boundary: check the pointers, call the engine, turn what it throws into a status.
#include "api/heed.h"

#include <cstdint>
#include <cstring>
#include <iterator>

#include "api/shim.hpp"
#include "engine/context/context.hpp"
#include "engine/context/isa.hpp"
#include "engine/dense/merge.hpp"
#include "engine/dense/plan.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/tensor/dropout.hpp"

using heed::fail;
using heed::guarded;
using heed::required;

const char* heed_status_name(heed_status status) {
  constexpr const char* kNames[] = {
      "HEED_STATUS_OK",
      "HEED_STATUS_INVALID_ARGUMENT",
      "HEED_STATUS_UNSUPPORTED",
      "HEED_STATUS_OUT_OF_MEMORY",
      "HEED_STATUS_INVALID_ENVIRONMENT",
      "HEED_STATUS_INVALID_WORKSPACE",
      "HEED_STATUS_EXECUTOR_FAILED",
      "HEED_STATUS_INTERNAL",
      "HEED_STATUS_BUSY",
      "HEED_STATUS_IO",
      "HEED_STATUS_CORRUPT",
  };
  static_assert(std::size(kNames) == HEED_STATUS_CORRUPT + 1);
  // A caller's number may be no status, and C++ may count on a heed_status to be one.
  std::uint32_t number = 0;
  static_assert(sizeof(number) == sizeof(status));
  std::memcpy(&number, &status, sizeof(number));
  return number < std::size(kNames) ? kNames[number] : "unknown heed_status";
}

const char* heed_last_error(void) { return heed::last_error(); }

#define HEED_TEXT_OF(x) #x
#define HEED_VERSION_TEXT(major, minor, patch) \
  HEED_TEXT_OF(major) "." HEED_TEXT_OF(minor) "." HEED_TEXT_OF(patch)

const char* heed_version_string(void) {
  return HEED_VERSION_TEXT(HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_VERSION_PATCH);
}

void heed_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = HEED_VERSION_MAJOR;
  if (minor != nullptr) *minor = HEED_VERSION_MINOR;
  if (patch != nullptr) *patch = HEED_VERSION_PATCH;
}

size_t heed_isa_count(void) { return heed::isa_count(); }

heed_status heed_isa_get(size_t index, heed_isa_info* info) {
  return guarded([&] {
    if (index >= heed::isa_count())
      fail(HEED_STATUS_INVALID_ARGUMENT, "index is %zu; it must be less than %zu", index,
           heed::isa_count());
    const heed::Isa& isa = heed::isa_at(index);
    const heed::KernelTable<float>& kernels = isa.kernels.f32;
    heed_isa_info known = HEED_ISA_INFO_INIT;
    known.usable = isa.usable() ? 1 : 0;
    known.name = kernels.isa;
    known.lanes = kernels.panels.lanes;
    known.panel = kernels.panels.lanes * kernels.panels.max_vectors;
    heed::write_struct(info, known, "info");
  });
}

size_t heed_product_count(void) { return heed::backend_count(); }

const char* heed_product_name(size_t index) {
  return index < heed::backend_count() ? heed::name_of(heed::backend_at(index)) : nullptr;
}

size_t heed_executor_count(void) { return heed::executor_count(); }

const char* heed_executor_name(size_t index) {
  return index < heed::executor_count() ? heed::executor_at(index).name : nullptr;
}

heed_status heed_context_create(const heed_context_options* options, heed_context** context) {
  return guarded([&] {
    heed_context*& result = required(context, "context");  // checked before anything is made
    result = heed::make_context(options);
  });
}

void heed_context_destroy(heed_context* context) {
  if (context != nullptr) heed::release(context);
}

heed_status heed_context_describe(const heed_context* context, heed_context_info* info) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    heed_context_info known = HEED_CONTEXT_INFO_INIT;
    known.threads = c.threads.count;
    known.isa = c.kernels->f32.isa;
    known.executor = c.threads.name;
    known.l1_bytes = c.caches.l1_bytes;
    known.l2_bytes = c.caches.l2_bytes;
    known.product = heed::name_of(c.backend);
    known.check = c.checked ? HEED_CHECK_ON : HEED_CHECK_OFF;
    known.precision = static_cast<std::uint32_t>(c.precision);
    known.cpu = c.cpu.text;
    known.tuning_file = c.tuning.path.data();
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_attention_plan_create(const heed_context* context, const heed_attention_desc* desc,
                                       heed_attention_plan** plan) {
  return heed::create_plan(plan, context, desc);
}

HEED_PLAN_FUNCTIONS(heed_attention)

heed_status heed_attention_plan_describe(const heed_attention_plan* plan,
                                         heed_attention_info* info) {
  return guarded([&] {
    const heed_attention_plan& p = required(plan, "plan");
    heed_attention_info known = HEED_ATTENTION_INFO_INIT;
    heed::describe_plan(p, known);
    known.threads = p.workers;
    known.tile_q = static_cast<uint32_t>(p.tile_q);
    known.tile_kv = static_cast<uint32_t>(p.tile_kv);
    known.tasks = static_cast<uint64_t>(p.all_tasks());
    known.flops = p.flops;
    known.strategy = p.strategy_name();
    known.tuning_line = p.tuning_line;
    known.precision = static_cast<std::uint32_t>(p.precision());
    heed::write_struct(info, known, "info");
  });
}

heed_status heed_attention(const heed_context* context, const heed_attention_desc* desc,
                           const heed_attention_args* args) {
  return heed::run_once(args, context, desc);
}

heed_status heed_dropout_mask(double dropout, uint64_t seed, uint64_t offset, int64_t batch,
                              int64_t head, int64_t row, int64_t first_key, int64_t keys,
                              uint8_t* kept) {
  return guarded([&] {
    const std::uint32_t threshold = heed::resolve_dropout("dropout", dropout);
    const auto check = [](const char* name, std::int64_t value, std::int64_t most) {
      if (value < 0 || value > most)
        heed::refuse("%s is %lld; it must be 0 to %lld", name, heed::lld(value), heed::lld(most));
      return value;
    };
    constexpr std::int64_t kMost = UINT32_MAX;
    const auto place = [&](const char* name, std::int64_t value) {
      return static_cast<std::uint32_t>(check(name, value, kMost));
    };
    const std::uint32_t places[3] = {place("batch", batch), place("head", head), place("row", row)};
    check("first_key", first_key, kMost);
    check("keys", keys, kMost);
    if (keys > 0) required(kept, "kept");
    heed::DropoutMask(threshold, seed, offset)
        .show(places[0], places[1], places[2], static_cast<std::uint64_t>(first_key),
              static_cast<std::size_t>(keys), kept);
  });
}

heed_status heed_merge(const heed_context* context, const heed_merge_desc* desc, size_t parts,
                       const void* const* part_outs, const void* const* part_lses, void* out,
                       void* lse) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed::MergeProblem problem = heed::validate(heed::read_struct(desc, "desc"));
    const heed::Merge merge = {parts, part_outs, part_lses, out, lse};
    heed::validate(problem, merge);
    if (c.checked) heed::audit_merge(c, problem, merge);
    heed::run_merge(c, problem, merge);
  });
}

heed_status heed_rotate(const heed_context* context, const heed_rotate_desc* desc, const void* from,
                        const int64_t* positions, void* to) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    const heed::RotateProblem problem = heed::validate(heed::read_struct(desc, "desc"));
    const heed::Rotate rotate = {from, positions, to};
    heed::validate(c, problem, rotate);
    if (c.checked) heed::audit_rotate(c, problem, rotate);
    heed::run_rotate(c, problem, rotate);
  });
}
