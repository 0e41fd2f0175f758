#include "api/python/module/plan.hpp"

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "api/python/module/bind.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

Workspace::~Workspace() { from_.give_back(memory_); }

Workspaces::~Workspaces() {
  for (auto& spare : spare_) std::free(spare.load());
}

Workspace Workspaces::take() {
  for (auto& spare : spare_)
    if (void* memory = spare.exchange(nullptr, std::memory_order_acquire); memory != nullptr)
      return {*this, memory};
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  const std::size_t bytes = (bytes_ + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) refuse_memory("there is no memory for a workspace of %zu bytes", bytes_);
  return {*this, memory};
}

void Workspaces::give_back(void* memory) {
  for (auto& spare : spare_) {
    void* none = nullptr;
    if (spare.compare_exchange_strong(none, memory, std::memory_order_release)) return;
  }
  std::free(memory);
}

KeptOptions::KeptOptions(const Call& call, const Options& options)
    : boolean_mask_(call.attn_mask.form.element == Element::kBool) {
  for (std::size_t i = 0; i < std::size(kOptions); ++i) {
    const nb::handle given = options.*kOptions[i].place;
    given_[i] = given.is_valid();
    if (given.is_valid() && !kOptions[i].tensor) kept_[kOptions[i].name] = given;
  }
  // Of tensors that change from call to call: what they may need at most is settled.
  if (call.packed_queries()) kept_["max_seqlen_q"] = nb::int_(call.desc.query_length);
  if (call.packed_keys() || call.paged()) kept_["max_seqlen_k"] = nb::int_(call.desc.key_length);
  settings_ = read_options("plan", kept_);
}

Options KeptOptions::with(const char* function, const char* maker, nb::handle tensors) const {
  Options options = read_options(function, tensors);
  for (std::size_t i = 0; i < std::size(kOptions); ++i) {
    const OptionName& option = kOptions[i];
    const bool given = (options.*option.place).is_valid();
    if (option.tensor) {
      if (given && !given_[i])
        refuse_type("%s is given, but the plan was made without", option.name);
      if (!given && given_[i]) refuse_type("the plan was made with %s: give it", option.name);
    } else {
      if (given) refuse_type("%s is the plan's: give it to %s", option.name, maker);
      options.*option.place = settings_.*option.place;
    }
  }
  return options;
}

void KeptOptions::check_mask(const Call& call) const {
  const bool boolean = call.attn_mask.form.element == Element::kBool;
  if (boolean != boolean_mask_)
    refuse("attn_mask is %s; the plan was made for one that is %s", boolean ? "bool" : "floating",
           boolean ? "floating" : "bool");
}

void check_form(const char* name, const Form& now, const Form& then) {
  if (now == then) return;
  const std::string is = text(now);
  const std::string was = text(then);
  if (is != was) refuse("%s is %s; the plan was made for %s", name, is.c_str(), was.c_str());
  refuse("%s has strides %s; the plan was made for %s", name,
         shape_text(now.strides, now.axes).c_str(), shape_text(then.strides, then.axes).c_str());
}

namespace {

constexpr struct {
  const char* name;
  Array Call::*array;
} kNamed[] = {{"query", &Call::query},           {"key", &Call::key},
              {"value", &Call::value},           {"out", &Call::out},
              {"attn_mask", &Call::attn_mask},   {"bias", &Call::bias},
              {"key_scales", &Call::key_scales}, {"value_scales", &Call::value_scales}};
static_assert(std::size(kNamed) == PlannedCall::kArrays);

}  // namespace

void read_shard_scores(Call& call, const Options& options, std::int64_t all_keys) {
  const std::int64_t own = call.desc.key_length;
  call.desc.key_length = all_keys;
  read_scores(call, options, false);
  call.desc.key_length = own;
}

PlannedCall::PlannedCall(const Call& call, const Options& options, std::int64_t all_keys)
    : desc_(call.desc), all_keys_(all_keys), out_given_(call.out_given), kept_(call, options) {
  for (std::size_t i = 0; i < std::size(kNamed); ++i) forms_[i] = (call.*kNamed[i].array).form;
}

Outputs PlannedCall::read(Call& call, const char* maker, const GivenCall& given) const {
  const Options options = kept_.with("Plan.__call__", maker, given.tensors);
  if (out_given_ && given.out.is_none()) refuse_type("the plan was made with out: give it");
  read_lengths(call, options);
  read_tensors(call, given.query, given.key, given.value, options);
  if (all_keys_ >= 0)
    read_shard_scores(call, options, all_keys_);
  else
    read_scores(call, options);
  Outputs outputs = make_outputs(call, options, given.out.is_none() ? nb::handle() : given.out);
  if (call.out_given && !out_given_) take_plain_out(call);
  // Made in the same way from the same, they are the same in every byte.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
  if (std::memcmp(&call.desc, &desc_, sizeof desc_) != 0) refuse_difference(call);
  return outputs;
}

/// An out where the plan was made without: it lies as a new one would.
void PlannedCall::take_plain_out(Call& call) const {
  const Form& form = call.out.form;
  if (!is_contiguous(form) || dtype_of(form.element) != static_cast<heed_dtype>(desc_.out.dtype))
    refuse(
        "out is %s with strides %s; the plan was made without, so it must be contiguous and "
        "of query's type",
        text(form).c_str(), shape_text(form.strides, form.axes).c_str());
  call.desc.out = desc_.out;
}

void PlannedCall::refuse_difference(const Call& call) const {
  kept_.check_mask(call);
  for (std::size_t i = 0; i < std::size(kNamed); ++i)
    check_form(kNamed[i].name, (call.*kNamed[i].array).form, forms_[i]);
  if (call.desc.batch != desc_.batch)
    refuse("%s is for %lld sequences; the plan was made for %lld", call.batch_of,
           static_cast<long long>(call.desc.batch), static_cast<long long>(desc_.batch));
  refuse("block_table has rows of %lld entries; the plan was made for %lld",
         static_cast<long long>(call.desc.block_table_stride),
         static_cast<long long>(desc_.block_table_stride));
}

// ---- heed.plan and heed.Plan ----

namespace {

constexpr PlanFunctions<heed_attention_plan, heed_attention_info, heed_attention_args> kFunctions =
    {&heed_attention_plan_destroy, &heed_attention_plan_describe, &heed_attention_plan_run};

/// A plan, and what it was made from. It keeps settings, but no tensors.
class Plan {
 public:
  Plan(Call& call, const Options& options, nb::handle context)
      : planned_(call, options),
        plan_(kFunctions, context,
              [&](const heed_context* held, heed_attention_plan** plan) {
                return heed_attention_plan_create(held, &call.desc, plan);
              }),
        info_(plan_.info()) {}

  nb::object run(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                 const nb::dict& tensors) const {
    Call call;
    const Outputs outputs = planned_.read(call, "heed.plan", {query, key, value, out, tensors});
    plan_.run(call.args, info_.flops, call.score_function);
    call.score_function.raise();
    return outputs.result(call.kind, call.out_given, query);
  }

  nb::dict describe() const {
    nb::dict said;
    said["strategy"] = info_.strategy;
    said["isa"] = info_.isa;
    said["executor"] = info_.executor;
    said["threads"] = info_.threads;
    said["tile_q"] = info_.tile_q;
    said["tile_kv"] = info_.tile_kv;
    said["tasks"] = info_.tasks;
    said["workspace_bytes"] = info_.workspace_bytes;
    said["flops"] = info_.flops;
    said["tuning_line"] = info_.tuning_line;
    said["precision"] = name_of_precision(info_.precision);
    return said;
  }

 private:
  PlannedCall planned_;
  CPlan<heed_attention_plan, heed_attention_info, heed_attention_args> plan_;
  heed_attention_info info_;
};

Plan* plan(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle context,
           nb::handle given) {
  const Options options = read_options("plan", given);
  Call call;
  read_lengths(call, options);
  read_tensors(call, query, key, value, options);
  read_scores(call, options);
  make_outputs(call, options, out.is_none() ? nb::handle() : out);
  return new Plan(call, options, context);
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Plan> type(
      module, "Plan",
      R"(Attention of fixed shapes, strides, types and settings, made by heed.plan.

A call takes query, key and value as plan did, and exactly the tensors among its options that plan
was given (attn_mask, bias, alibi_slopes, sinks, key_lengths, cu_seqlens_q, cu_seqlens_k,
block_table, key_scales, value_scales, out), with the same shapes, strides and types. Any threads
may call one plan at once: it keeps a workspace for each. It keeps no tensor.

In C: heed_attention_plan.)");
  method(type,
         "def __call__(self, query: typing.Any, key: typing.Any, value: typing.Any, *, "
         "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any",
         &Plan::run, "Computes what heed.attention would. In C: heed_attention_plan_run.");
  method(type, "def describe(self) -> dict[str, object]", &Plan::describe,
         "How it computes: strategy (prefill, decode or mixed), isa, executor, threads, tile_q "
         "query rows per task, tile_kv keys per tile, tasks, workspace_bytes, flops, the "
         "tuning_line that gave tiles, or 0, and the precision in effect, \"default\" where "
         "weights "
         "are rounded to bfloat16, else \"exact\". In C: heed_attention_plan_describe.");
  internal(module,
           "def plan(query: object, key: object, value: object, out: object, context: Context | "
           "None, options: object) -> Plan",
           &plan);
}

}  // namespace heed::python
