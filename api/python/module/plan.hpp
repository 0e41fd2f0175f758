// Plans: of C, with the memory that their runs need, and what they keep of the call that they were
// made with.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>

#include "api/python/module/call.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {

// ---- When a call lets other Python threads run ----

/// Below so many operations, some microseconds, a call keeps the GIL: to give it back and wait for
/// it could take longer than the call.
constexpr double kBriefFlops = 1e6;

/// Of attention without masks.
inline double flops_of(const heed_attention_desc& desc) {
  return 2.0 * static_cast<double>(desc.features + desc.value_features) *
         static_cast<double>(desc.batch * desc.query_heads) *
         static_cast<double>(desc.query_length) * static_cast<double>(desc.key_length);
}

/// Runs `compute` with or without the GIL. Score functions may need it in other threads.
template <class Compute>
auto without_gil(double flops, const ScoreFunction& scores, Compute&& compute) {
  if (flops < kBriefFlops && scores.function == nullptr) return compute();
  const nb::gil_scoped_release released;
  return compute();
}

// ---- Memory that runs of a plan need, kept for the next ones ----

class Workspaces;

/// A workspace for the time of a run.
class Workspace {
 public:
  Workspace(Workspaces& from, void* memory) : from_(from), memory_(memory) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() const { return memory_; }

 private:
  Workspaces& from_;
  void* memory_;
};

/// As many workspaces as there are runs at once. Without a lock, which a fork could leave taken.
class Workspaces {
 public:
  explicit Workspaces(std::size_t bytes) : bytes_(bytes) {}
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// Raises heed.OutOfMemoryError where there is none.
  Workspace take();
  void give_back(void* memory);

 private:
  std::size_t bytes_;
  std::array<std::atomic<void*>, 8> spare_ = {};
};

// ---- What a plan keeps of the call that it was made with ----

/// The settings among attention's options, and which tensors among them calls must give.
class KeptOptions {
 public:
  KeptOptions(const Call& call, const Options& options);

  /// The settings, and the tensors of a call of `function`; `maker` made the plan.
  Options with(const char* function, const char* maker, nb::handle tensors) const;

  /// Refuses a floating attn_mask where the plan was made for a boolean one, and the reverse.
  void check_mask(const Call& call) const;

 private:
  bool given_[std::size(kOptions)] = {};
  bool boolean_mask_;
  nb::dict kept_;
  Options settings_;
};

/// Refuses an array of another shape, type or strides than the plan was made for.
void check_form(const char* name, const Form& now, const Form& then);

// ---- What the calls of a plan of dense attention have in common with what it was made from ----

/// A call as Python gives it; tensors is a dict.
struct GivenCall {
  nb::handle query;
  nb::handle key;
  nb::handle value;
  nb::handle out;
  nb::handle tensors;
};

/// Settings, shapes, strides and types; no tensor.
class PlannedCall {
 public:
  static constexpr int kArrays = 8;

  /// Of a call that has been read. Over ranks `all_keys` are those of all of them; otherwise -1.
  PlannedCall(const Call& call, const Options& options, std::int64_t all_keys = -1);

  /// Reads a call, which must be like the one that the plan was made from by `maker`.
  Outputs read(Call& call, const char* maker, const GivenCall& given) const;

 private:
  void take_plain_out(Call& call) const;
  [[noreturn]] void refuse_difference(const Call& call) const;

  heed_attention_desc desc_;
  std::int64_t all_keys_;
  bool out_given_;
  KeptOptions kept_;
  Form forms_[kArrays];
};

/// read_scores of a rank's rows, whose masks have the keys of all ranks.
void read_shard_scores(Call& call, const Options& options, std::int64_t all_keys);

// ---- A plan of C, with what it says of itself and the memory that its runs need ----

/// The functions of one kind of plan.
template <class Plan, class Info, class Args>
struct PlanFunctions {
  void (*destroy)(Plan*);
  heed_status (*describe)(const Plan*, Info*);
  heed_status (*run)(const Plan*, const Args*, void*, std::size_t);
};

template <class Plan, class Info, class Args>
class CPlan {
 public:
  using Functions = PlanFunctions<Plan, Info, Args>;

  /// `create(context, &plan)` makes it.
  template <class Create>
  CPlan(const Functions& functions, nb::handle context, Create&& create)
      : functions_(functions), plan_(made(context, create)), workspaces_(info().workspace_bytes) {}
  ~CPlan() { functions_.destroy(plan_); }
  CPlan(const CPlan&) = delete;
  CPlan& operator=(const CPlan&) = delete;

  Info info() const {
    Info info{};
    info.struct_size = sizeof info;
    check(functions_.describe(plan_, &info));
    return info;
  }

  /// Raises what C refuses, but not yet what a score function raised.
  void run(const Args& args, double flops, const ScoreFunction& scores) const {
    const Workspace workspace = workspaces_.take();
    check(without_gil(flops, scores, [&] {
      return functions_.run(plan_, &args, workspace.get(), workspaces_.bytes());
    }));
  }

 private:
  template <class Create>
  static Plan* made(nb::handle context, Create& create) {
    Plan* plan = nullptr;
    check(create(hold_context(context).context, &plan));
    return plan;
  }

  Functions functions_;
  Plan* plan_;
  mutable Workspaces workspaces_;
};

}  // namespace heed::python
