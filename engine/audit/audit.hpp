// Checked mode looks for callers' mistakes around a run, or before one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cache/attention.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/context/context.hpp"
#include "engine/dense/backward/plan.hpp"
#include "engine/dense/merge.hpp"
#include "engine/dense/plan.hpp"
#include "engine/dense/problem.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

// ---- The tensors of a run, where they lie ------------------------------------------------------

/// A tensor that has elements.
struct GivenTensor {
  char name[40];
  const void* data;
  Layout layout;
  Shape sizes;
  std::int64_t first_row;  ///< its first row's index: no sequence owns packed rows before it
  const AxisNames* names;
  Sequences sequences;
  Role role;
  Odd odd;
};

/// Whether a byte belongs to both. Exact for the layouts that occur. Only where a search would take
/// too long is the answer no without proof.
bool overlap(const GivenTensor& a, const GivenTensor& b);

/// The role of an input with these axes: an output with the same ones may replace it if all their
/// elements lie in the same places.
Role role_beside(const void* input, const Layout& in, const void* output, const Layout& out,
                 const Axes& axes);

/// Throws if an output overlaps another tensor, or the workspace, which may be nullptr, any.
void refuse_overlaps(const GivenTensor* begin, const GivenTensor* end,
                     const GivenTensor* workspace);

/// Attention, by itself or in a block, with the names that its caller knows.
struct AuditedAttention {
  const Problem* problem;    ///< nullptr: the run is of a graph, or of no attention
  heed_attention_args args;  ///< validated
  const char* desc_name;     ///< prefix of the names of fields, as in "desc."
  const char* args_name;
};

/// The tensors of a table that a run reads. Gradients read outputs of the attention, too.
enum class Read { kInputs, kAll };

/// All tensors of a run, with the refusals and the hints about them.
class Audit {
 public:
  explicit Audit(const heed_context& context) : context_(context) {}

  /// Which rows belong to sequences. Tells of sizes of 0 where there are tensors.
  void attend(const AuditedAttention& attention, bool queries_given, bool keys_given);

  /// Adds a tensor, if it has elements. `of` begins its name.
  GivenTensor* add(Role role, Odd odd, const char* of, const char* field, const void* data,
                   const Layout& layout, const Axes& axes);

  /// Adds the tensors of a table.
  template <class Problem, std::size_t kCount>
  void add(const Operand<Problem> (&rows)[kCount], const Problem& p, const void* args, bool float64,
           const char* of, Read reads = Read::kInputs) {
    for (const Operand<Problem>& row : rows) {
      const void* const data = row.pointer_in(args);
      if (data == nullptr) continue;
      const bool read = reads == Read::kAll && row.role == Role::kOutput;
      add(read ? Role::kInput : row.role, read ? Odd::kNone : row.odd, of, row.name, data,
          row.laid_out(p, float64), row.axes(p));
    }
  }

  GivenTensor* add_bytes(Role role, const char* of, const char* field, const void* data,
                         std::size_t bytes);

  /// The tensor of this name; nullptr: it was not added.
  GivenTensor* find(const char* name);

  /// Before a run: tells of odd strides, refuses outputs that overlap other tensors, and a
  /// workspace that overlaps any, and tells of odd values and options.
  void before(const void* workspace = nullptr, std::size_t bytes = 0) const;
  /// Tells of odd values of outputs.
  void after() const { tell_odd_values(true); }

  GivenTensor* begin() { return all_; }
  GivenTensor* end() { return all_ + count_; }
  const GivenTensor* begin() const { return all_; }
  const GivenTensor* end() const { return all_ + count_; }

 private:
  static constexpr int kMost = 48;

  void tell_odd_values(bool of_outputs) const;

  const heed_context& context_;
  AuditedAttention attention_ = {};
  bool computes_ = true;  ///< there is a row to compute
  int count_ = 0;
  GivenTensor all_[kMost];
};

/// Tells of odd values in the rows of a partial result that are read; rows whose lse is -inf are
/// not.
void tell_odd_partial(const heed_context& context, const GivenTensor& out, const GivenTensor& lse);

/// Whether there is a row to compute. Tells of sizes of 0 where there are tensors.
bool tell_empty(const AuditedAttention& of, bool queries_given, bool keys_given);
/// Tells of oddities in lengths, offsets, mask and scale.
void tell_odd_options(const AuditedAttention& of);

// ---- The workspace -----------------------------------------------------------------------------

/// Bytes of canaries on either side of the bytes that a run uses; a multiple of
/// HEED_WORKSPACE_ALIGNMENT.
inline constexpr std::size_t kCanaryBytes = 1024;

/// The bytes that callers must bring for a run that uses this many.
inline std::size_t with_canaries(const heed_context& context, std::size_t used) {
  return context.checked && used > 0 ? used + 2 * kCanaryBytes : used;
}

/// Memory that no other run may use while this object lives.
class CheckedWorkspace {
 public:
  /// Throws unless the memory is large enough, aligned, and not in use.
  CheckedWorkspace(std::size_t used, void* memory, std::size_t bytes);
  ~CheckedWorkspace();
  CheckedWorkspace(const CheckedWorkspace&) = delete;
  CheckedWorkspace& operator=(const CheckedWorkspace&) = delete;

  /// The memory that the run may use.
  std::byte* get() const { return canaries_ == 0 ? nullptr : begin_ + canaries_; }
  /// With the canaries.
  const void* begin() const { return begin_; }
  std::size_t bytes() const { return used_ + 2 * canaries_; }

  void place_canaries() const;
  /// Throws if a canary has changed since.
  void check_canaries() const;

 private:
  bool shares_memory_with(const CheckedWorkspace& other) const {
    return begin_ < other.begin_ + other.bytes() && other.begin_ < begin_ + bytes();
  }

  const std::size_t used_;
  const std::size_t canaries_;
  std::byte* const begin_;
  CheckedWorkspace* next_ = nullptr;  ///< in the list of workspaces in use
};

// ---- Runs and calls ----------------------------------------------------------------------------

/// The tensors of a run. Throws as the run does unless its arguments make sense.
Audit audit_of(const heed_attention_plan& plan, const heed_attention_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_attention_backward_plan& plan, const heed_attention_backward_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_multihead_plan& plan, const heed_multihead_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& args, const CheckedWorkspace& workspace);

/// Before calls without a plan, whose arguments have been validated: refuse certain mistakes, and
/// tell of likely ones on stderr.
void audit_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge);
void audit_rotate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);
/// The same for calls whose operands are all in a table.
template <const auto& kRows, class Problem>
void audit_call(const heed_context& context, const Problem& problem, const void* args) {
  Audit audit(context);
  audit.add(kRows, problem, args, false, "");
  audit.before();
}
/// Tells of rows of a prompt that attend rows after them, which is rarely meant.
void audit_cache_attention(const CacheAttention& attention);
/// Throws if int64 edges are given as int32 ones, and tells if they may be, or if they seem to
/// be forgotten. `desc` has the arrays that it needs.
void audit_edges(const heed_graph_desc& desc);

}  // namespace heed
