// The tensors of runs of plans, from the tables of each operation.
#include <algorithm>
#include <mutex>

#include "engine/audit/audit.hpp"
#include "engine/dense/backward/problem.hpp"
#include "engine/graph/backward/operands.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// The role of data: each row of out may lie where its node's data lies, cut into heads.
Role role_of_data(const GraphProblem& p, const heed_graph_attention_args& args) {
  Layout heads = p.data;
  heads.strides.head = p.value_features * heads.strides.feature;
  return role_beside(args.data, heads, args.out, p.out, out_axes(p));
}

}  // namespace

Audit audit_of(const heed_attention_plan& plan, const heed_attention_args& args,
               const CheckedWorkspace&) {
  const Problem& p = plan.problem;
  validate(p, args);
  Audit audit(*plan.context);
  audit.attend({&p, args, "desc.", "args."}, args.query != nullptr || args.out != nullptr,
               args.key != nullptr);
  audit.add(kAttentionOperands, p, &args, p.float64, "args.");
  return audit;
}

Audit audit_of(const heed_attention_backward_plan& plan, const heed_attention_backward_args& given,
               const CheckedWorkspace&) {
  const BackwardArgs args(given);
  const heed_attention_args& attention = args.attention;
  const Problem& p = plan.problem.attention;
  validate(plan.problem, args);
  Audit audit(*plan.context);
  audit.attend({&p, attention, "desc.attention->", "args.attention->"}, given.grad_out != nullptr,
               attention.key != nullptr);
  audit.add(kAttentionOperands, p, &attention, p.float64, "args.attention->", Read::kAll);
  audit.add(kBackwardOperands, plan.problem, &given, p.float64, "args.");
  return audit;
}

Audit audit_of(const heed_multihead_plan& plan, const heed_multihead_args& args,
               const CheckedWorkspace& workspace) {
  const MultiheadProblem& p = plan.problem;
  checked_arguments(plan, args, workspace.get());
  const heed_attention_args attention = read_attention_args(args);
  Audit audit(*plan.context);
  audit.attend({&p.attention, attention, "desc.attention->", "args.attention->"},
               args.input_query != nullptr || args.out != nullptr, args.input_key != nullptr);
  audit.add(kBlockOperands, p, &args, p.float64(), "args.");
  audit.add_bytes(Role::kOutput, "args.", "kept", args.kept, args.kept_bytes);
  audit.add(kAttentionOperands, p.attention, &attention, p.float64(), "args.attention->");
  return audit;
}

Audit audit_of(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& given,
               const CheckedWorkspace& workspace) {
  MultiheadBackwardArgs args(given);
  const MultiheadBackwardProblem& p = plan.problem;
  const Problem& attention = p.block.attention;
  const bool float64 = attention.float64;
  // Tensors of the attention that are the block's own are not listed.
  heed_attention_backward_args inner = checked_arguments(plan, args, workspace.get()).args;
  inner.grad_out = nullptr;
  inner.grad_query = inner.grad_key = inner.grad_value = nullptr;
  heed_attention_args options = read_attention_args(args.block);
  options.lse = args.block.out = nullptr;  // they are not looked at
  Audit audit(*plan.context);
  audit.attend({&attention, options, "desc.block->attention->", "args.block->attention->"},
               args.block.input_query != nullptr, args.block.input_key != nullptr);
  audit.add(kBlockOperands, p.block, &args.block, float64, "args.block->");
  audit.add_bytes(Role::kInput, "args.block->", "kept", args.block.kept, args.block.kept_bytes);
  audit.add(kAttentionOperands, attention, &options, float64, "args.block->attention->");
  if (args.one_input() && attention.packed_keys > 0) {
    // Rows of one input may belong to keys alone.
    Axes rows = block_query_axes<kWidthQuery>(p.block);
    rows.sequences = Sequences::kNone;
    GivenTensor* const gradient =
        audit.add(Role::kOutput, Odd::kNotFinite, "args.", "grad_input_query",
                  given.grad_input_query, p.grad_input_query, rows);
    if (gradient != nullptr) gradient->sequences = Sequences::kQueries;
    args.given.grad_input_query = nullptr;
  }
  audit.add(kBlockBackwardOperands, p, &args.given, float64, "args.");
  audit.add(kBackwardOperands, p.attention, &inner, float64, "args.");
  return audit;
}

Audit audit_of(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               const CheckedWorkspace&) {
  const GraphProblem& p = plan.problem;
  validate(p, args, plan.context->backend);
  Audit audit(*plan.context);
  audit.add(kGraphOperands, p, &args, p.float64, "args.");
  if (GivenTensor* const data = audit.find("args.data")) data->role = role_of_data(p, args);
  return audit;
}

Audit audit_of(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& given, const CheckedWorkspace&) {
  const GraphBackwardArgs args(given);
  const GraphProblem& p = plan.problem.attention;
  validate(plan.problem, args, plan.context->backend);
  Audit audit(*plan.context);
  audit.add(kGraphOperands, p, &args.attention, p.float64, "args.attention->");
  audit.add(kGraphBackwardOperands, plan.problem, &given, p.float64, "args.");
  return audit;
}

namespace {

/// The workspaces of all checked runs of the process, of any context.
std::mutex in_use_mutex;
CheckedWorkspace* in_use = nullptr;

constexpr auto kCanary = std::byte{0xc5};

}  // namespace

CheckedWorkspace::CheckedWorkspace(std::size_t used, void* memory, std::size_t bytes)
    : used_(used),
      canaries_(used == 0 ? 0 : kCanaryBytes),
      begin_(static_cast<std::byte*>(memory)) {
  check_workspace(this->bytes(), memory, bytes);
  if (used_ == 0) return;
  const std::lock_guard<std::mutex> lock(in_use_mutex);
  for (const CheckedWorkspace* other = in_use; other != nullptr; other = other->next_)
    if (shares_memory_with(*other))
      fail(HEED_STATUS_INVALID_WORKSPACE,
           "workspace is %p with %zu bytes, of which another run is using %zu from %p on; two runs "
           "at the same time need two workspaces",
           memory, this->bytes(), other->bytes(), other->begin());
  next_ = in_use;
  in_use = this;
}

CheckedWorkspace::~CheckedWorkspace() {
  if (used_ == 0) return;
  const std::lock_guard<std::mutex> lock(in_use_mutex);
  CheckedWorkspace** place = &in_use;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

void CheckedWorkspace::place_canaries() const {
  std::fill_n(begin_, canaries_, kCanary);
  std::fill_n(begin_ + canaries_ + used_, canaries_, kCanary);
}

void CheckedWorkspace::check_canaries() const {
  const auto changed = [&](const std::byte* from) {
    return std::count_if(from, from + canaries_, [](std::byte b) { return b != kCanary; });
  };
  const auto before = changed(begin_);
  const auto after = changed(begin_ + canaries_ + used_);
  if (before + after > 0)
    fail(HEED_STATUS_INTERNAL,
         "%lld bytes before the workspace that the run may use and %lld after it, at %p, have "
         "changed during the run: a defect in heed, unless args.score_function or another thread "
         "wrote there",
         lld(before), lld(after), static_cast<void*>(begin_ + canaries_ + used_));
}

}  // namespace heed
