// Problems of all operations behind one interface: what holds for dense attention, blocks and
// graphs is tested once, over kinds().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/api/forms.hpp"
#include "tests/support/fenced.hpp"

namespace api_test {

using heed_test::End;
using heed_test::Fenced;
using MaybeFence = std::optional<End>;

/// Memory for tensors, of exactly their sizes; between forbidden pages if it has an End.
class Memory {
 public:
  explicit Memory(MaybeFence fence = {}) : fence_(fence) {}
  /// Fills new memory and lets the tensor's field point there, unless that is NULL.
  void* place(const Tensor& tensor);
  Memory another() const { return Memory(fence_); }

 private:
  void* take(std::size_t bytes);

  MaybeFence fence_;
  std::vector<std::unique_ptr<Fenced>> fenced_;
  std::vector<std::unique_ptr<char[]>> plain_;
  std::uint32_t seed_ = 0;
};

/// A form in memory of its own, changed before. Without a fence nothing asserts: any thread may use
/// it.
class Problem {
 public:
  using Change = std::function<void(Form&)>;

  /// Prepared: its matrices are.
  explicit Problem(const char* of, const Change& change, MaybeFence fence = {},
                   bool prepared = false);

  /// Makes `graph` and `matrices`, if there are any. What they are made from is gone afterwards.
  heed_status prepare(const Context& context);
  /// From copies of the descriptors, of which the plan needs nothing afterwards.
  heed_status create(const Context& context, Object& plan);
  /// Makes a plan and destroys it, without memory of its own.
  heed_status make_and_destroy(const Context& context);
  PlanInfo describe(const Object& plan) const { return functions_->info_of(plan.get()); }
  std::size_t workspace(const Object& plan) const {
    std::size_t bytes = SIZE_MAX;
    (void)functions_->workspace(plan.get(), &bytes);
    return bytes;
  }
  heed_status run(const Object& plan, void* workspace, std::size_t bytes);
  heed_status call(const Context& context);

  bool prepare_and_create(const Context& context, Object& plan) {
    return prepare(context) == HEED_STATUS_OK && create(context, plan) == HEED_STATUS_OK;
  }
  heed_status run(const Object& plan) {
    const Workspace workspace(describe(plan).workspace_bytes);
    return run(plan, workspace.get(), workspace.bytes());
  }
  void share(const Problem& other) {
    graph = other.graph;
    matrices = other.matrices;
  }
  const Tensor& tensor(const std::string& name) const;

  std::vector<unsigned char> outputs() const;
  bool untouched() const;
  void forget_outputs();
  /// Whether a run succeeds and gives these outputs.
  bool gives(const Object& plan, const std::vector<unsigned char>& expected) {
    forget_outputs();
    return run(plan) == HEED_STATUS_OK && outputs() == expected;
  }

  Object graph;
  std::vector<Object> matrices;
  std::vector<Tensor> tensors;  ///< that it has

 private:
  /// A matrix to prepare, and where it is handed in.
  struct Matrix {
    Tensor matrix, bias;
    const void* numbers = nullptr;
    const void* bias_numbers = nullptr;
  };

  const heed_graph* graph_of_problem() const { return static_cast<heed_graph*>(graph.get()); }
  heed_status make_graph(const Context& context);
  heed_status prepare(const Matrix& matrix, const Context& context, Object& made) const;
  void hand_in_matrices();

  Form form_;
  const Planned* functions_;
  Memory memory_;
  std::vector<Matrix> to_prepare_;
};

struct Kind {
  const char* name;
  const char* of;
  Problem::Change change;
  bool prepared = false;
  bool large = false;  ///< enough for several threads

  std::unique_ptr<Problem> problem(MaybeFence fence = {}) const {
    return std::make_unique<Problem>(of, change, fence, prepared);
  }
};

/// Problems of every operation with plans, with and without options, the first of each operation
/// large.
const std::vector<Kind>& kinds();
std::vector<Kind> large_kinds();
/// And of operations without plans, which have the one call alone.
const std::vector<Kind>& unplanned_kinds();

/// What the one call gives on one thread.
std::vector<unsigned char> expected(const Kind& kind);

}  // namespace api_test
