// The C API from C++: objects that clean up after themselves, the functions of each under one name,
// and workspaces.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "api/heed.h"
#include "tests/support/random.hpp"
#include "tests/support/size.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

void require_ok(heed_status status);

/// A struct of the API as its _INIT macro leaves it.
template <class T>
T sized() {
  T all{};
  all.struct_size = sizeof all;
  return all;
}

// ---- Objects -----------------------------------------------------------------------------------

/// The functions of an object.
template <class Object>
struct Functions;
/// What a plan of this descriptor is.
template <class Desc>
struct PlanOf;

#define HEED_TEST_FUNCTIONS(object, info)           \
  using Info = info;                                \
  static constexpr auto create = object##_create;   \
  static constexpr auto destroy = object##_destroy; \
  static constexpr auto describe = object##_describe
#define HEED_TEST_OBJECT(object, info) \
  template <>                          \
  struct Functions<object> {           \
    HEED_TEST_FUNCTIONS(object, info); \
  }
#define HEED_TEST_OPERATION(operation, info)                      \
  template <>                                                     \
  struct PlanOf<operation##_desc> {                               \
    using Plan = operation##_plan;                                \
  };                                                              \
  template <>                                                     \
  struct Functions<operation##_plan> {                            \
    HEED_TEST_FUNCTIONS(operation##_plan, info);                  \
    using Desc = operation##_desc;                                \
    using Args = operation##_args;                                \
    static constexpr auto workspace = operation##_plan_workspace; \
    static constexpr auto run = operation##_plan_run;             \
    static constexpr auto call = operation;                       \
  }

HEED_TEST_OBJECT(heed_context, heed_context_info);
HEED_TEST_OBJECT(heed_weights, heed_weights_info);
HEED_TEST_OBJECT(heed_graph, heed_graph_info);
HEED_TEST_OBJECT(heed_cache, heed_cache_info);
HEED_TEST_OPERATION(heed_attention, heed_attention_info);
HEED_TEST_OPERATION(heed_attention_backward, heed_attention_info);
HEED_TEST_OPERATION(heed_multihead, heed_multihead_info);
HEED_TEST_OPERATION(heed_multihead_backward, heed_multihead_info);
HEED_TEST_OPERATION(heed_graph_attention, heed_graph_attention_info);
HEED_TEST_OPERATION(heed_graph_attention_backward, heed_graph_attention_info);

struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    Functions<Object>::destroy(object);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, Destroy>;
using Context = Owned<heed_context>;
using Plan = Owned<heed_attention_plan>;
using BackwardPlan = Owned<heed_attention_backward_plan>;
using MultiheadPlan = Owned<heed_multihead_plan>;
using MultiheadBackwardPlan = Owned<heed_multihead_backward_plan>;
using GraphPlan = Owned<heed_graph_attention_plan>;
using Weights = Owned<heed_weights>;
using Graph = Owned<heed_graph>;
using Cache = Owned<heed_cache>;

/// An object that is made of these; throws if it is refused.
template <class Object, class... Given>
Owned<Object> create(const Given&... given) {
  Object* object = nullptr;
  require_ok(Functions<Object>::create(given..., &object));
  return Owned<Object>(object);
}
template <class Desc>
auto make_plan(const Context& context, const Desc& desc) {
  return create<typename PlanOf<Desc>::Plan>(context.get(), &desc);
}
template <class Desc>
auto make_plan(const Context& context, const Graph& graph, const Desc& desc) {
  return create<typename PlanOf<Desc>::Plan>(context.get(), graph.get(), &desc);
}
inline Cache make_cache(const Context& context, const heed_cache_desc& desc) {
  return create<heed_cache>(context.get(), &desc);
}

/// A sequence as bytes.
std::string saved(const Cache& cache, heed_sequence sequence);

template <class Object>
auto describe(const Owned<Object>& object) {
  auto info = sized<typename Functions<Object>::Info>();
  require_ok(Functions<Object>::describe(object.get(), &info));
  return info;
}

// ---- Contexts ----------------------------------------------------------------------------------

/// The names of the instruction sets that this machine can run, from the plainest to the widest.
const std::vector<const char*>& isa_names();

struct Choices {
  const char* executor = "serial";
  std::uint32_t threads = 1;
  std::uint32_t tile_q = 0;
  std::uint32_t tile_kv = 0;
  const char* product = nullptr;  ///< the first, which is heed's own
  heed_precision precision = HEED_PRECISION_AUTOMATIC;
};

Context make_context(const char* isa, const Choices& choices = {});

/// One context per instruction set, made once.
class IsaContexts {
 public:
  explicit IsaContexts(const Choices& choices = {});
  std::size_t size() const { return all_.size(); }
  const Context& operator[](std::size_t i) const { return all_[i]; }
  static const char* name(std::size_t i);

 private:
  std::vector<Context> all_;
};

/// Those of no special choice.
const IsaContexts& plain_contexts();

/// The contexts that runs choose from; they are made once.
class Contexts {
 public:
  const Context& get(const char* isa, const Choices& choices);

 private:
  std::map<std::string, Context> all_;
};

Choices draw_choices(Random& random);

/// A workspace full of NaN, so that whoever reads before writing spoils the result, with
/// canaries after it; or between forbidden pages where there are FencedTensors.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : bytes_(bytes), memory_(made(bytes)) {}
  void* get() const { return const_cast<unsigned char*>(memory_.data()); }
  std::size_t bytes() const { return bytes_; }
  bool intact() const { return memory_.guards_intact(); }

 private:
  static Memory made(std::size_t bytes) {
    const auto fence = FencedTensors::fence();
    const std::size_t unit = fence ? HEED_WORKSPACE_ALIGNMENT : sizeof(float);
    return Memory(HEED_DTYPE_F32, (bytes + unit - 1) / unit * unit / sizeof(float), 0, fence);
  }

  std::size_t bytes_;
  Memory memory_;
};

/// Runs a plan in a workspace of its own; throws if it fails, or writes outside of that.
template <class Plan, class Args>
void run_plan(const Owned<Plan>& plan, const Args& args) {
  Workspace workspace(describe(plan).workspace_bytes);
  require_ok(Functions<Plan>::run(plan.get(), &args, workspace.get(), workspace.bytes()));
  if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
}

}  // namespace heed_test
