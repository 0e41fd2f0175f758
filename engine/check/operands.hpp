// The tensors of a checked run, as its checks see them.
#pragma once

#include <cstdint>

#include "engine/tensor/layout.hpp"

namespace heed {

/// Names of the axes [batch, head, row, feature] of a tensor; nullptr: it has no such axis.
using AxisNames = const char* const[4];
inline constexpr AxisNames kTensorAxes = {"batch", "head", "row", "feature"};
inline constexpr AxisNames kRowAxes = {nullptr, "head", "row", "feature"};
inline constexpr AxisNames kPageAxes = {"page", "head", "row", "feature"};
inline constexpr AxisNames kScoreAxes = {"batch", "head", "row", "key"};
inline constexpr AxisNames kNodeAxes = {nullptr, "head", "node", "feature"};
inline constexpr AxisNames kEdgeAxes = {nullptr, "head", "edge", "feature"};
inline constexpr AxisNames kMatrixAxes = {"matrix", nullptr, "in", "out"};
inline constexpr AxisNames kVectorAxes = {nullptr, nullptr, nullptr, "element"};

enum class Role {
  kInput,
  kOutput,
  kReplaced,  ///< an input that an output may replace element by element
};

/// A tensor where it lies.
struct Place {
  const void* data;
  const Layout& layout;
};

/// The role of an input of these sizes: an output of the same sizes may replace it if all their
/// elements lie in the same places.
Role role_beside(const Place& input, const Place& output, const Shape& sizes);

struct Operand {
  char name[40];
  const void* data;
  Layout layout;
  Shape sizes;
  std::int64_t first_row;  ///< its first row's number: no sequence owns packed rows before it
  const char* const* axes;
  Role role;

  bool output() const { return role == Role::kOutput; }
  bool replaced() const { return role == Role::kReplaced; }
};

/// Numbers side by side.
Layout side_by_side(ElementType type);
Layout side_by_side(ElementType type, std::int64_t bytes);

/// All tensors of a run that have elements.
class Operands {
 public:
  /// `of` is the prefix of names, as in "args.".
  explicit Operands(const char* of) : of_(of) {}

  /// Returns what it added, or nullptr if the run has no such tensor. `sizes` count from the first
  /// row.
  const Operand* add(Role role, const char* field, const void* data, const Layout& layout,
                     const Shape& sizes, AxisNames& axes, std::int64_t first_row = 0);
  const Operand* add_vector(const char* field, const void* data, const Layout& layout,
                            std::int64_t size) {
    return add(Role::kInput, field, data, layout, {1, 1, 1, size}, kVectorAxes);
  }
  /// Changes the prefix for the tensors that follow.
  void rename(const char* of) { of_ = of; }

  const Operand* begin() const { return all_; }
  const Operand* end() const { return all_ + count_; }

 private:
  static constexpr int kMost = 48;

  const char* of_;
  int count_ = 0;
  Operand all_[kMost];
};

}  // namespace heed
