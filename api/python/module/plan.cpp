#include "api/python/module/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace heed::python {

// ---- Contexts ----

namespace {

struct Default {
  nb::ft_mutex mutex;
  nb::object context;
};

/// Never destroyed: the interpreter ends before this library does.
Default& the_default() {
  static Default* const one = new Default;
  return *one;
}

nb::object default_context() {
  Default& one = the_default();
  const nb::ft_lock_guard lock(one.mutex);
  if (!one.context.is_valid()) one.context = nb::type<Context>()();
  return one.context;
}

const Context& context_of(nb::handle object) { return *nb::inst_ptr<Context>(object); }

std::uint32_t natural(const Given& given, const char* name) {
  if (!given[name].is_valid()) return 0;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(count(name, given[name]), UINT32_MAX));
}

/// Text for as long as what is given lives, or null for None.
const char* word(const Given& all, const char* name) {
  const nb::handle given = all[name];
  if (!given.is_valid()) return nullptr;
  if (!nb::isinstance<nb::str>(given))
    refuse_type("{} must be a str, not {}", name, type_text(given));
  return nb::borrow<nb::str>(given).c_str();
}

// From HEED_PRECISION_EXACT on.
constexpr const char* kPrecisions[] = {"exact", "default", "high", "medium"};

std::uint32_t read_precision(const char* given) {
  if (given == nullptr) return HEED_PRECISION_AUTOMATIC;
  for (std::uint32_t i = 0; i < std::size(kPrecisions); ++i)
    if (std::strcmp(given, kPrecisions[i]) == 0) return HEED_PRECISION_EXACT + i;
  refuse("precision is \"{}\"; it must be exact, default, high or medium",
         std::string(given).substr(0, 40));
}

void make_context(Context* self, const Given& given) { new (self) Context(given); }

void set_threads(const Given& given) {
  nb::object made = nb::type<Context>()(nb::arg("threads") = given.values()[0]);
  Default& one = the_default();
  const nb::ft_lock_guard lock(one.mutex);
  std::swap(one.context, made);
}

std::uint32_t get_threads() { return context_of(default_context()).info().threads; }

nb::dict description(const Context& context) {
  const heed_context_info info = context.info();
  return dict_of("isa", info.isa, "executor", info.executor, "threads", info.threads, "product",
                 info.product, "l1_bytes", info.l1_bytes, "l2_bytes", info.l2_bytes, "check",
                 info.check == HEED_CHECK_ON, "precision", name_of_precision(info.precision), "cpu",
                 info.cpu, "tuning_file",
                 info.tuning_file == nullptr ? nb::none() : nb::object(nb::str(info.tuning_file)));
}

}  // namespace

const char* name_of_precision(std::uint32_t precision) {
  return kPrecisions[precision - HEED_PRECISION_EXACT];
}

Context::Context(const Given& given) : given_(given.values()) {
  options_.threads = natural(given, "threads");
  options_.isa = word(given, "isa");
  options_.executor_name = word(given, "executor");
  options_.product = word(given, "product");
  options_.tile_q = natural(given, "tile_q");
  options_.tile_kv = natural(given, "tile_kv");
  options_.tuning_file = word(given, "tuning_file");
  options_.precision = read_precision(word(given, "precision"));
  if (given["check"].is_valid())
    options_.check = flag("check", given["check"]) ? HEED_CHECK_ON : HEED_CHECK_OFF;
  check(heed_context_create(&options_, &context_));
}

heed_context_info Context::info() const {
  heed_context_info info = HEED_CONTEXT_INFO_INIT;
  check(heed_context_describe(context_, &info));
  return info;
}

HeldContext hold_context(nb::handle given) {
  nb::object object = !given.is_valid() || given.is_none() ? default_context() : nb::borrow(given);
  if (!nb::isinstance<Context>(object))
    refuse_type("context must be a heed.Context, not {}", type_text(object));
  const Context& context = context_of(object);
  return {std::move(object), context.get(), &context.options()};
}

void bind_context(nb::module_& module) {
  nb::class_<Context> context(module, "Context",
                              R"(Where and how heed computes: threads, instruction set and executor.

Functions take one as ``context``; without it they share a default one, which is made when it is
first needed. Any threads may use the same one at once.

    threads    how many; None: HEED_THREADS, or the CPUs that the process may use
    isa        "scalar", "sse2", "avx2", "avx512", "avx512bf16", "amx" or "neon"; None: HEED_ISA,
               or the fastest usable
    executor   "serial", "threads", "openmp" or "tbb", as built; None: HEED_PARALLEL, or the best there is
    product    what computes projections, "heed" or "cblas", as built; None: HEED_PRODUCT, or heed
    tile_q     query rows per task; None: HEED_TILE_Q, the tuning file, or by the caches
    tile_kv    keys per tile; None: HEED_TILE_KV, the tuning file, or by the caches
    check      True: look for mistakes that are legal to the letter; None: HEED_CHECK, or not
    precision  "exact", "default", "high" or "medium": how exact results have to be, as far as
               the isa can trade that for speed; None: HEED_PRECISION, or "default"
    tuning_file  tiles that `heed tune` found; None: HEED_TUNING_FILE, or none; "": none

>>> import heed
>>> heed.Context(threads=2).describe()["threads"]
2

In C: heed_context_create.)");
  method(context,
         "def __init__(self, *, threads: int | None = None, isa: str | None = None, "
         "executor: str | None = None, product: str | None = None, tile_q: int | None = None, "
         "tile_kv: int | None = None, check: bool | None = None, tuning_file: str | None = None, "
         "precision: str | None = None) -> None",
         &make_context);
  method(context, "def describe(self) -> dict[str, object]", &description,
         "What was chosen: isa, executor, threads, product, the caches l1_bytes and l2_bytes that "
         "tiles are derived from, check, precision, cpu as tuning files call it, and the "
         "tuning_file. In C: heed_context_describe.");
  function(module, "def set_threads(threads: int | None) -> None", &set_threads,
           "Makes a new default context of so many threads; None: as many as at first. Plans keep "
           "the context that they were made with.");
  internal(module, "def default_context() -> Context", &default_context);
  function(module, "def get_threads() -> int", &get_threads, "The threads of the default context.");
}

// ---- Plans ----

Workspaces::~Workspaces() {
  for (auto& spare : spare_) std::free(spare.load());
}

void* aligned_memory(std::size_t bytes, const char* of) {
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  void* const memory =
      std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr)
    raise_error("OutOfMemoryError", "there is no memory for {} of {} bytes", {of, bytes});
  return memory;
}

Workspaces::Workspace Workspaces::take() {
  for (auto& spare : spare_)
    if (void* memory = spare.exchange(nullptr, std::memory_order_acquire); memory != nullptr)
      return {memory, {this}};
  return {aligned_memory(bytes_, "a workspace"), {this}};
}

void Workspaces::give_back(void* memory) {
  for (auto& spare : spare_) {
    void* none = nullptr;
    if (spare.compare_exchange_strong(none, memory, std::memory_order_release)) return;
  }
  std::free(memory);
}

void check_form(const char* name, const Form& now, const Form& then, bool out_given) {
  if (now == then) return;
  const std::string is = text(now);
  const std::string was = text(then);
  if (std::strcmp(name, "out") == 0 && !out_given)
    refuse(
        "out is {} with strides {}; the plan was made without, so it must be contiguous and of "
        "query's type",
        is, stride_text(now));
  if (is != was) refuse("{} is {}; the plan was made for {}", name, is, was);
  refuse("{} has strides {}; the plan was made for {}", name, stride_text(now), stride_text(then));
}

}  // namespace heed::python
