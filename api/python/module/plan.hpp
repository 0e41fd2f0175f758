// Where calls compute; and plans, with the memory that their runs need and what they keep of the
// call that they were made with.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/python/module/call.hpp"

namespace heed::python {

// ---- Contexts: the default one of the process, and the callers' ----

class Context {
 public:
  explicit Context(const Given& given);
  ~Context() { heed_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const heed_context* get() const { return context_; }
  /// The options that were asked for, to be asked of another engine too.
  const heed_context_options& options() const { return options_; }
  heed_context_info info() const;

 private:
  std::vector<nb::object> given_;  // options point into texts of these
  heed_context_options options_ = HEED_CONTEXT_OPTIONS_INIT;
  heed_context* context_ = nullptr;
};

/// A context for the time of a call, which keeps it.
struct HeldContext {
  nb::object object;
  const heed_context* context;
  const heed_context_options* options;
};

/// The context of the argument `context`: a heed.Context, or None or null for the default one,
/// which is made when it is first needed.
HeldContext hold_context(nb::handle given);

/// "exact", "default", "high" or "medium", of a heed_precision.
const char* name_of_precision(std::uint32_t precision);

// ---- When a call lets other Python threads run ----

/// Below so many operations, some microseconds, a call keeps the GIL: to give it back and wait for
/// it could take longer than the call.
constexpr double kBriefFlops = 1e6;

/// Runs `compute` with or without the GIL. Score functions, of which one may be given, may need it
/// in other threads.
template <class Compute>
auto without_gil(double flops, const ScoreFunction* scores, Compute&& compute) {
  if (flops < kBriefFlops && (scores == nullptr || scores->function == nullptr)) return compute();
  const nb::gil_scoped_release released;
  return compute();
}

/// Runs `compute(context)` in the caller's, and raises what C refuses.
template <class Compute>
void run_in(nb::handle context, double flops, const ScoreFunction* scores, Compute&& compute) {
  const HeldContext held = hold_context(context);
  check(without_gil(flops, scores, [&] { return compute(held.context); }));
}

// ---- Memory that runs of a plan need, kept for the next ones ----

/// As many workspaces as there are runs at once. Without a lock, which a fork could leave taken.
class Workspaces {
 public:
  struct GiveBack {
    Workspaces* to = nullptr;
    void operator()(void* memory) const { to->give_back(memory); }
  };
  /// One for the time of a run.
  using Workspace = std::unique_ptr<void, GiveBack>;

  explicit Workspaces(std::size_t bytes) : bytes_(bytes) {}
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// Raises heed.OutOfMemoryError where there is none.
  Workspace take();

 private:
  void give_back(void* memory);

  std::size_t bytes_;
  std::array<std::atomic<void*>, 8> spare_ = {};
};

/// At a multiple of HEED_WORKSPACE_ALIGNMENT; to be freed. `of` says in messages what it is for.
void* aligned_memory(std::size_t bytes, const char* of);

// ---- All calls of a plan have this in common with the one that it was made from ----

/// Refuses an array of another shape, type or strides than the plan was made for.
void check_form(const char* name, const Form& now, const Form& then, bool out_given);

/// The settings, shapes, strides and types of a Call of dense attention, of blocks or over graphs;
/// no tensor.
template <class Call>
class Planned {
 public:
  /// The call has been read; `maker` was given `made`.
  Planned(const char* maker, const Call& call, const Arguments& made)
      : kept_(maker, made), described_(call.described()), forms_(call.forms()) {
    const heed::python::Call* const attention = call.attention();
    if (attention == nullptr) return;
    boolean_mask_ = attention->attn_mask.form.element == Element::kBool;
    // Tensors change from call to call: the most that they may need is settled.
    if (attention->packed_queries())
      kept_.settle(&Arguments::max_seqlen_q, attention->desc.query_length);
    if (attention->packed_keys() || attention->paged())
      kept_.settle(&Arguments::max_seqlen_k, attention->desc.key_length);
  }

  /// Reads a call, which must be like the one that the plan was made from.
  void read(Call& call, const Arguments& now) const {
    const Arguments given = kept_.with(now);
    call.read(given);
    call.make_outputs(given);
    // Made in the same way from the same, they are the same in every byte.
    const typename Call::Described& described = call.described();
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
    if (std::memcmp(&described, &described_, sizeof described) != 0) refuse_difference(call);
  }

 private:
  [[noreturn]] void refuse_difference(const Call& call) const {
    const heed::python::Call* const attention = call.attention();
    const bool boolean =
        attention != nullptr && attention->attn_mask.form.element == Element::kBool;
    if (boolean != boolean_mask_)
      refuse("attn_mask is {}; the plan was made for one that is {}", boolean ? "bool" : "floating",
             boolean ? "floating" : "bool");
    const NamedForms forms = call.forms();
    for (std::size_t i = 0; i < forms.size(); ++i)
      check_form(forms[i].first, forms[i].second, forms_[i].second, kept_.has_out());
    call.refuse_other(described_);
  }

  KeptArguments kept_;
  typename Call::Described described_;
  NamedForms forms_;
  bool boolean_mask_ = false;
};

// ---- A plan of C, with what it says of itself and the memory that its runs need ----

/// By its functions.
template <auto kDestroy, auto kDescribe, auto kRun>
class CPlan;
template <class Plan, class Info, class Args, void (*kDestroy)(Plan*),
          heed_status (*kDescribe)(const Plan*, Info*),
          heed_status (*kRun)(const Plan*, const Args*, void*, std::size_t)>
class CPlan<kDestroy, kDescribe, kRun> {
 public:
  /// The call has been read, and can make one.
  template <class Call>
  CPlan(nb::handle context, const Call& call)
      : plan_(made(context, call)), workspaces_(info().workspace_bytes) {}
  ~CPlan() { kDestroy(plan_); }
  CPlan(const CPlan&) = delete;
  CPlan& operator=(const CPlan&) = delete;

  Info info() const {
    Info info{};
    info.struct_size = sizeof info;
    check(kDescribe(plan_, &info));
    return info;
  }

  /// Raises what C refuses, but not yet what a score function raised.
  void run(const Args& args, double flops, const ScoreFunction* scores) const {
    const Workspaces::Workspace workspace = workspaces_.take();
    check(without_gil(flops, scores,
                      [&] { return kRun(plan_, &args, workspace.get(), workspaces_.bytes()); }));
  }

 private:
  template <class Call>
  static Plan* made(nb::handle context, const Call& call) {
    Plan* plan = nullptr;
    check(call.plan(hold_context(context).context, &plan));
    return plan;
  }

  Plan* plan_;
  mutable Workspaces workspaces_;
};

// ---- Calls and plans of the package, of each kind of Call ----

/// A plan's __call__.
template <class Plan, unsigned kOperation>
nb::object run(const Plan& plan, const Given& given) {
  return plan.run(read_arguments(given, kOperation));
}

template <class Call>
const ScoreFunction* scores_of(const Call& call) {
  return call.attention() == nullptr ? nullptr : &call.attention()->score_function;
}

template <class Call>
nb::object compute(const Arguments& given) {
  Call call;
  call.read(given);
  call.make_outputs(given);
  run_in(given.context, call.flops(), scores_of(call),
         [&](const heed_context* context) { return call.compute(context); });
  return call.result(given);
}

/// C's plan, and what it was made from.
template <class Call, class Plan>
class PlanOf {
 public:
  explicit PlanOf(const Arguments& given) : PlanOf(given, Call()) {}

  nb::object run(const Arguments& now) const {
    Call call;
    planned_.read(call, now);
    plan_.run(call.args, flops_, scores_of(call));
    return call.result(now);
  }

  auto info() const { return plan_.info(); }

 private:
  PlanOf(const Arguments& given, Call&& call)
      : planned_(Call::kMaker, read(given, call), given),
        plan_(given.context, call),
        flops_(call.flops()) {}

  static const Call& read(const Arguments& given, Call& call) {
    call.read(given);
    call.make_outputs(given);
    return call;
  }

  Planned<Call> planned_;
  Plan plan_;
  double flops_;
};

}  // namespace heed::python
