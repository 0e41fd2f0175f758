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

/// Memory for tensors, of exactly their sizes; between forbidden pages if it has an End.
class Memory {
 public:
  explicit Memory(std::optional<End> fence = {}) : fence_(fence) {}
  /// Fills new memory and lets the tensor's field point there, unless that is NULL.
  void* place(const Tensor& tensor);
  Memory another() const { return Memory(fence_); }

 private:
  void* take(std::size_t bytes);

  std::optional<End> fence_;
  std::vector<std::unique_ptr<Fenced>> fenced_;
  std::vector<std::unique_ptr<char[]>> plain_;
  std::uint32_t seed_ = 0;
};

using MaybeFence = std::optional<End>;

struct PlanInfo {
  std::string executor;
  std::size_t workspace_bytes;
  std::uint32_t threads;
};

/// A descriptor, arguments and tensors. Without a fence nothing asserts: any thread may use it.
class Problem {
 public:
  virtual ~Problem() = default;

  /// Makes `graph` and `matrices`, if there are any. What they are made from is gone afterwards.
  virtual heed_status prepare(const Context& context) = 0;
  virtual heed_status create(const Context& context, Object& plan) = 0;
  /// Makes a plan and destroys it, without memory of its own.
  virtual heed_status make_and_destroy(const Context& context) = 0;
  virtual PlanInfo describe(const Object& plan) = 0;
  virtual std::size_t workspace(const Object& plan) = 0;
  virtual heed_status run(const Object& plan, void* workspace, std::size_t bytes) = 0;
  virtual heed_status call(const Context& context) = 0;

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
};

/// A form in memory of its own, changed before. Prepared: its matrices are.
template <class AForm>
std::unique_ptr<Problem> problem_of(const std::function<void(AForm&)>& change,
                                    MaybeFence fence = {}, bool prepared = false);

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Problem>(MaybeFence)> make;
  bool large = false;  ///< enough for several threads

  std::unique_ptr<Problem> problem(MaybeFence fence = {}) const { return make(fence); }
};

/// Problems of every operation with and without options, the first of each operation large.
const std::vector<Kind>& kinds();
inline std::vector<Kind> large_kinds() {
  std::vector<Kind> large;
  for (const Kind& kind : kinds())
    if (kind.large) large.push_back(kind);
  return large;
}

/// What the one call gives on one thread.
std::vector<unsigned char> expected(const Kind& kind);

}  // namespace api_test
