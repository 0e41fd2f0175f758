#include "engine/context/context.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#if defined(_WIN32)
#include <malloc.h>
#endif

#include "engine/context/isa.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

/// In the order of Precision, which begins with 1.
constexpr const char* kPrecisions[] = {"exact", "default", "high", "medium"};

constexpr Backend kKinds[] = {
    Backend::kHeed,
#if defined(HEED_WITH_CBLAS)
    Backend::kCblas,
#endif
};

}  // namespace

const char* name_of(Precision precision) {
  return kPrecisions[static_cast<std::size_t>(precision) - 1];
}

std::size_t backend_count() { return sizeof kKinds / sizeof kKinds[0]; }
Backend backend_at(std::size_t index) { return kKinds[index]; }
const char* name_of(Backend kind) { return kind == Backend::kHeed ? "heed" : "cblas"; }

namespace {

// ---- The HEED_* environment variables, checked where they are read ------------------------------

/// nullptr for a variable that is not set. An empty one counts as not set.
const char* text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// A whole decimal number in [low, high]; 0 if the variable is not set.
std::uint32_t number_of(const char* variable, std::uint32_t low, std::uint32_t high) {
  const char* const value = text_of(variable);
  if (value == nullptr) return 0;
  std::uint32_t number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, problem] = std::from_chars(value, end, number);
  if (problem != std::errc{} || stop != end || number < low || number > high)
    fail(HEED_STATUS_INVALID_ENVIRONMENT,
         "%s is \"%.40s\"; it must be a whole number from %u to %u", variable, value, low, high);
  return number;
}

// ---- Choices: an option goes before the environment ---------------------------------------------

/// Kinds to choose from by name.
struct Kinds {
  std::size_t count;
  std::size_t (*preferred)();  ///< where nobody asks for any
  const char* (*name_of)(std::size_t kind);
  bool (*is_usable)(std::size_t kind) = nullptr;  ///< here; nullptr: all are that this build has
};

/// choose(name, source) of what an option or else the environment asks for; a name of nullptr:
/// nobody asks. A wrong name from the environment is the environment's fault.
template <class Function>
auto choose_named(const char* option, const char* field, const char* variable, Function&& choose) {
  if (option != nullptr) return choose(option, field);
  try {
    return choose(text_of(variable), variable);
  } catch (Error& error) {
    if (error.status != HEED_STATUS_OUT_OF_MEMORY) error.status = HEED_STATUS_INVALID_ENVIRONMENT;
    throw;
  }
}

/// The kind of this name. Throws an Error that lists them; `source` names where the name came from.
std::size_t find_kind(const Kinds& kinds, const char* name, const char* source) {
  if (name == nullptr) return kinds.preferred();
  Text choices;
  bool known = false;
  for (std::size_t kind = 0; kind < kinds.count; ++kind) {
    const bool named = std::strcmp(name, kinds.name_of(kind)) == 0;
    known = known || named;
    if (kinds.is_usable != nullptr && !kinds.is_usable(kind)) continue;
    if (named) return kind;
    choices.add_item(kinds.name_of(kind));
  }
  if (kinds.is_usable == nullptr)
    refuse("%s is \"%.40s\"; this build has: %s", source, name, choices.c_str());
  fail(known ? HEED_STATUS_UNSUPPORTED : HEED_STATUS_INVALID_ARGUMENT,
       "%s is \"%.40s\", %s; usable here: %s", source, name,
       known ? "which this CPU or operating system lacks" : "which this build does not know",
       choices.c_str());
}

std::size_t choose_kind(const Kinds& kinds, const char* option, const char* field,
                        const char* variable) {
  return choose_named(option, field, variable, [&](const char* name, const char* source) {
    return find_kind(kinds, name, source);
  });
}

/// 0: nobody asks for a number.
std::uint32_t choose_number(std::uint32_t option, const char* field, const char* variable,
                            std::uint32_t limit) {
  const std::uint32_t environment = number_of(variable, 1, limit);
  if (option > limit) refuse("options.%s is %u; it must be at most %u", field, option, limit);
  return option != 0 ? option : environment;
}

Precision choose_precision(std::uint32_t option) {
  Precision environment = Precision::kDefault;
  if (const char* const value = text_of("HEED_PRECISION")) {
    const auto* const named =
        std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                     [&](const char* name) { return std::strcmp(value, name) == 0; });
    if (named == std::end(kPrecisions))
      fail(HEED_STATUS_INVALID_ENVIRONMENT,
           "HEED_PRECISION is \"%.40s\"; it must be exact, default, high or medium", value);
    environment = static_cast<Precision>(named - std::begin(kPrecisions) + 1);
  }
  if (option > HEED_PRECISION_MEDIUM)
    refuse("options.precision is %u; it must be a heed_precision, 0 to %d", option,
           static_cast<int>(HEED_PRECISION_MEDIUM));
  return option == HEED_PRECISION_AUTOMATIC ? environment : static_cast<Precision>(option);
}

bool choose_checked(std::uint32_t option) {
  const bool environment = number_of("HEED_CHECK", 0, 1) == 1;
  if (option > HEED_CHECK_OFF)
    refuse("options.check is %u; it must be a heed_check, 0 to %d", option,
           static_cast<int>(HEED_CHECK_OFF));
  return option == HEED_CHECK_DEFAULT ? environment : option == HEED_CHECK_ON;
}

heed_executor read_executor(const heed_executor* given) {
  const heed_executor executor = read_struct(given, "options.executor");
  if (executor.run == nullptr) refuse("options.executor.run is NULL; it must be a function");
  if (executor.threads == 0 || executor.threads > kMaxThreads)
    refuse("options.executor.threads is %u; it must be 1 to %u", executor.threads, kMaxThreads);
  return executor;
}

void use_caller_executor(heed_context& context, const heed_context_options& options,
                         std::uint32_t threads) {
  if (options.executor_name != nullptr)
    refuse("options.executor_name is \"%.40s\" and options.executor is set; give one of them",
           options.executor_name);
  const heed_executor given = read_executor(options.executor);
  context.threads = {make<CallerExecutor>(context.allocator, given), "caller",
                     threads != 0 ? threads : given.threads};
  context.destroy_executor = destroy_executor<CallerExecutor>;
}

void use_own_executor(heed_context& context, const heed_context_options& options,
                      std::uint32_t threads) {
  const Kinds kinds = {executor_count(), [] { return executor_count() - 1; },
                       [](std::size_t i) { return executor_at(i).name; }};
  const ExecutorKind& kind = executor_at(
      choose_kind(kinds, options.executor_name, "options.executor_name", "HEED_PARALLEL"));
  const bool serial = &kind == &kSerialExecutor;
  const std::uint32_t count =
      serial ? 1 : (threads != 0 ? threads : std::min(usable_cpus(), kMaxThreads));
  context.threads = {kind.create(context.allocator, count), kind.name, count};
  context.destroy_executor = kind.destroy;
}

/// Makes all choices except the executor. Throws an Error that names the option or the variable,
/// its value and the values that it may have.
void choose(heed_context& context, const heed_context_options& options) {
  context.precision = choose_precision(options.precision);
  context.tile_q = choose_number(options.tile_q, "tile_q", "HEED_TILE_Q", kMaxTile);
  context.tile_kv = choose_number(options.tile_kv, "tile_kv", "HEED_TILE_KV", kMaxTile);
  context.verbose = number_of("HEED_VERBOSE", 0, 1) == 1;
  context.checked = choose_checked(options.check);
  context.caches = read_caches();
  context.cpu = cpu_name();
  const Kinds isas = {isa_count(), [] { return fastest_isa(cpu_name()); },
                      [](std::size_t i) { return isa_at(i).kernels.f32.isa; },
                      [](std::size_t i) { return isa_at(i).usable(); }};
  context.kernels = &isa_at(choose_kind(isas, options.isa, "options.isa", "HEED_ISA")).kernels;
  const Kinds backends = {backend_count(), [] { return std::size_t{0}; },
                          [](std::size_t i) { return name_of(backend_at(i)); }};
  context.backend =
      backend_at(choose_kind(backends, options.product, "options.product", "HEED_PRODUCT"));
  // An empty option is no file, whatever the environment says.
  const auto tuning = [&](const char* name, const char* source) -> Tuning {
    if (name == nullptr || *name == '\0') return {};
    return read_tuning(context.allocator, name, source, context.cpu, context.kernels->f32.isa);
  };
  context.tuning =
      choose_named(options.tuning_file, "options.tuning_file", "HEED_TUNING_FILE", tuning);
}

// ---- Memory -------------------------------------------------------------------------------------

void* c_allocate(void*, std::size_t size, std::size_t alignment) {
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) return nullptr;
#if defined(_WIN32)
  return _aligned_malloc(rounded, alignment);
#else
  return std::aligned_alloc(alignment < sizeof(void*) ? sizeof(void*) : alignment, rounded);
#endif
}

void c_release(void*, void* memory, std::size_t) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

/// The caller's, checked; the C library's for nullptr.
heed_allocator resolve_allocator(const heed_allocator* given) {
  if (given == nullptr)
    return {static_cast<std::uint32_t>(sizeof(heed_allocator)), 0, nullptr, c_allocate, c_release};
  const heed_allocator known = read_struct(given, "options.allocator");
  check_reserved("options.allocator.reserved", known.reserved);
  if (known.allocate == nullptr)
    refuse("options.allocator.allocate is NULL; it must be a function");
  if (known.release == nullptr) refuse("options.allocator.release is NULL; it must be a function");
  return known;
}

}  // namespace

heed_context* make_context(const heed_context_options* given) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  if (given != nullptr) options = read_struct(given, "options");
  const heed_allocator allocator = resolve_allocator(options.allocator);
  heed_context* const context = make<heed_context>(allocator);
  try {
    context->allocator = allocator;
    choose(*context, options);
    const std::uint32_t threads =
        choose_number(options.threads, "threads", "HEED_THREADS", kMaxThreads);
    options.executor != nullptr ? use_caller_executor(*context, options, threads)
                                : use_own_executor(*context, options, threads);
  } catch (...) {
    destroy(allocator, context);
    throw;
  }
  return context;
}

void share(const heed_context& context) noexcept {
  context.owners.fetch_add(1, std::memory_order_relaxed);
}

void release(const heed_context* context) noexcept {
  if (context->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  context->destroy_executor(context->allocator, const_cast<Executor*>(context->threads.executor));
  destroy(context->allocator, const_cast<heed_context*>(context));
}

}  // namespace heed
