// The tensors of an audited run, where they lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/dense/problem.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

/// A tensor that has elements.
struct GivenTensor {
  char name[40];
  const void* data;
  Layout layout;
  Shape sizes;
  std::int64_t first_row;  ///< its first row's number: no sequence owns packed rows before it
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

/// All tensors of a run, and what is refused and told about them.
class Audit {
 public:
  explicit Audit(const heed_context& context) : context_(context) {}

  /// Which rows belong to sequences. Tells of sizes of 0 where there are tensors.
  void attend(const AuditedAttention& attention, bool queries_given, bool keys_given);

  /// Adds a tensor, if it has elements. `of` begins its name.
  GivenTensor* add(Role role, Odd odd, const char* of, const char* field, const void* data,
                   const Layout& layout, const Axes& axes);

  /// Adds those of a table.
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

/// Tells of odd values in those rows of a partial result that are read; rows whose lse is -inf are
/// not.
void tell_odd_partial(const heed_context& context, const GivenTensor& out, const GivenTensor& lse);

/// Whether there is a row to compute. Tells of sizes of 0 where there are tensors.
bool tell_empty(const AuditedAttention& of, bool queries_given, bool keys_given);
/// Tells what looks odd about lengths, offsets, mask and scale.
void tell_odd_options(const AuditedAttention& of);

}  // namespace heed
