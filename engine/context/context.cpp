#include "engine/context/context.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/context/isa.hpp"
#include "engine/parallel/executor.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

// ---- The HEED_* environment variables, read once per context and checked where they are read ----

/// What the environment asks for; nullptr and 0 for variables that are not set. An empty one counts
/// as not set.
struct Environment {
  const char* isa;
  const char* executor;
  const char* product;
  const char* tuning_file;
  Precision precision;  ///< kDefault if nothing is asked for
  std::uint32_t threads;
  std::uint32_t tile_q;
  std::uint32_t tile_kv;
  bool verbose;
  bool checked;
};

const char* text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// A whole decimal number in [low, high]; `otherwise` if the variable is not set.
std::uint32_t number_of(const char* variable, std::uint32_t low, std::uint32_t high,
                        std::uint32_t otherwise) {
  const char* const value = text_of(variable);
  if (value == nullptr) return otherwise;
  std::uint32_t number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, problem] = std::from_chars(value, end, number);
  if (problem != std::errc{} || stop != end || number < low || number > high)
    fail(HEED_STATUS_INVALID_ENVIRONMENT,
         "%s is \"%.40s\"; it must be a whole number from %u to %u", variable, value, low, high);
  return number;
}

Precision precision_of(const char* variable) {
  const char* const value = text_of(variable);
  if (value == nullptr) return Precision::kDefault;
  const std::optional<Precision> precision = precision_named(value);
  if (!precision)
    fail(HEED_STATUS_INVALID_ENVIRONMENT,
         "%s is \"%.40s\"; it must be exact, default, high or medium", variable, value);
  return *precision;
}

/// Throws an Error that names the variable, its value and what it may be. HEED_ISA, HEED_PARALLEL
/// and HEED_PRODUCT are checked where their choices are known, HEED_TUNING_FILE where it is read.
Environment read_environment() {
  return {text_of("HEED_ISA"),
          text_of("HEED_PARALLEL"),
          text_of("HEED_PRODUCT"),
          text_of("HEED_TUNING_FILE"),
          precision_of("HEED_PRECISION"),
          number_of("HEED_THREADS", 1, kMaxThreads, 0),
          number_of("HEED_TILE_Q", 1, kMaxTile, 0),
          number_of("HEED_TILE_KV", 1, kMaxTile, 0),
          number_of("HEED_VERBOSE", 0, 1, 0) == 1,
          number_of("HEED_CHECK", 0, 1, 0) == 1};
}

// ---- Choices ------------------------------------------------------------------------------------

/// A name and its source, for messages: option before environment before automatic.
struct Named {
  const char* name;
  const char* source;
};

Named prefer(const char* option, const char* option_source, const char* environment,
             const char* variable) {
  if (option != nullptr) return {option, option_source};
  return {environment, variable};
}

std::uint32_t prefer_number(std::uint32_t option, const char* field, std::uint32_t limit,
                            std::uint32_t environment) {
  if (option > limit)
    fail(HEED_STATUS_INVALID_ARGUMENT, "options.%s is %u; it must be at most %u", field, option,
         limit);
  return option != 0 ? option : environment;
}

heed_executor read_executor(const heed_executor* given) {
  const heed_executor executor = read_struct(given, "options.executor");
  if (executor.run == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "options.executor.run is NULL; it must be a function");
  if (executor.threads == 0 || executor.threads > kMaxThreads)
    fail(HEED_STATUS_INVALID_ARGUMENT, "options.executor.threads is %u; it must be 1 to %u",
         executor.threads, kMaxThreads);
  return executor;
}

/// What is wrong with a name from the environment is the environment's fault.
template <class Function>
auto blame_environment(bool from_environment, Function&& choose) {
  try {
    return choose();
  } catch (Error& error) {
    if (from_environment && error.status != HEED_STATUS_OUT_OF_MEMORY)
      error.status = HEED_STATUS_INVALID_ENVIRONMENT;
    throw;
  }
}

const Kernels& choose_kernels(const heed_context_options& options, const Environment& environment,
                              const CpuName& cpu) {
  const Named named = prefer(options.isa, "options.isa", environment.isa, "HEED_ISA");
  return *blame_environment(options.isa == nullptr,
                            [&] { return &choose_isa(named.name, named.source, cpu); });
}

Precision choose_precision(const heed_context_options& options, const Environment& environment) {
  if (options.precision > HEED_PRECISION_MEDIUM)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "options.precision is %u; it must be a heed_precision, 0 to %d", options.precision,
         static_cast<int>(HEED_PRECISION_MEDIUM));
  if (options.precision != HEED_PRECISION_AUTOMATIC)
    return static_cast<Precision>(options.precision);
  return environment.precision;
}

Backend backend_for(const heed_context_options& options, const Environment& environment) {
  const Named named =
      prefer(options.product, "options.product", environment.product, "HEED_PRODUCT");
  return blame_environment(options.product == nullptr,
                           [&] { return choose_backend(named.name, named.source); });
}

/// An empty option is no file, whatever the environment says.
Tuning choose_tuning(const heed_context_options& options, const Environment& environment,
                     const heed_allocator& allocator, const CpuName& cpu, const Kernels& kernels) {
  const Named file = prefer(options.tuning_file, "options.tuning_file", environment.tuning_file,
                            "HEED_TUNING_FILE");
  if (file.name == nullptr || *file.name == '\0') return {};
  return blame_environment(options.tuning_file == nullptr, [&] {
    return read_tuning(allocator, file.name, file.source, cpu, kernels.f32.isa);
  });
}

bool choose_checked(const heed_context_options& options, const Environment& environment) {
  if (options.check > HEED_CHECK_OFF)
    fail(HEED_STATUS_INVALID_ARGUMENT, "options.check is %u; it must be a heed_check, 0 to %d",
         options.check, static_cast<int>(HEED_CHECK_OFF));
  return options.check == HEED_CHECK_DEFAULT ? environment.checked : options.check == HEED_CHECK_ON;
}

void use_caller_executor(heed_context& context, const heed_context_options& options,
                         std::uint32_t threads) {
  if (options.executor_name != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "options.executor_name is \"%.40s\" and options.executor is set; give one of them",
         options.executor_name);
  const heed_executor given = read_executor(options.executor);
  context.threads = {make_caller_executor(context.allocator, given), "caller",
                     threads != 0 ? threads : given.threads};
  context.destroy_executor = destroy_caller_executor;
}

void use_own_executor(heed_context& context, const heed_context_options& options,
                      const Environment& environment, std::uint32_t threads) {
  const Named named =
      prefer(options.executor_name, "options.executor_name", environment.executor, "HEED_PARALLEL");
  const ExecutorKind& kind = *blame_environment(
      options.executor_name == nullptr, [&] { return &choose_executor(named.name, named.source); });
  const bool serial = &kind == &kSerialExecutor;
  const std::uint32_t count =
      serial ? 1 : (threads != 0 ? threads : std::min(usable_cpus(), kMaxThreads));
  context.threads = {kind.create(context.allocator, count), kind.name, count};
  context.destroy_executor = kind.destroy;
}

}  // namespace

heed_context* make_context(const heed_context_options* given) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  if (given != nullptr) options = read_struct(given, "options");
  heed_allocator allocator_given{};
  if (options.allocator != nullptr)
    allocator_given = read_struct(options.allocator, "options.allocator");
  const heed_allocator allocator =
      resolve_allocator(options.allocator != nullptr ? &allocator_given : nullptr);
  const Environment environment = read_environment();
  const CpuName cpu = cpu_name();
  const Kernels& kernels = choose_kernels(options, environment, cpu);
  const Precision precision = choose_precision(options, environment);
  const Backend backend = backend_for(options, environment);
  const bool checked = choose_checked(options, environment);
  const std::uint32_t tile_q =
      prefer_number(options.tile_q, "tile_q", kMaxTile, environment.tile_q);
  const std::uint32_t tile_kv =
      prefer_number(options.tile_kv, "tile_kv", kMaxTile, environment.tile_kv);
  const std::uint32_t threads =
      prefer_number(options.threads, "threads", kMaxThreads, environment.threads);
  Tuning tuning = choose_tuning(options, environment, allocator, cpu, kernels);

  heed_context* const context = make<heed_context>(allocator);
  context->allocator = allocator;
  context->kernels = &kernels;
  context->precision = precision;
  context->backend = backend;
  context->tile_q = tile_q;
  context->tile_kv = tile_kv;
  context->verbose = environment.verbose;
  context->checked = checked;
  context->caches = read_caches();
  context->cpu = cpu;
  context->tuning = std::move(tuning);
  try {
    if (options.executor != nullptr) {
      use_caller_executor(*context, options, threads);
    } else {
      use_own_executor(*context, options, environment, threads);
    }
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
