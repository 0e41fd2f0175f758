#include "tests/api/problems.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace api_test {

void* Memory::take(std::size_t bytes) {
  if (fence_) {
    fenced_.push_back(std::make_unique<Fenced>(bytes, *fence_));
    return fenced_.back()->get();
  }
  plain_.push_back(std::make_unique<char[]>(bytes));
  return plain_.back().get();
}

void* Memory::place(const Tensor& tensor) {
  const void* const before = tensor.memory();
  if (before == nullptr) return nullptr;
  void* const memory = take(tensor.bytes());
  if (tensor.content == Tensor::kGiven) std::memcpy(memory, before, tensor.bytes());
  if (tensor.content == Tensor::kResult) std::memset(memory, kPattern, tensor.bytes());
  if (tensor.content == Tensor::kNumbers) fill(tensor, memory, ++seed_);
  tensor.point_at(memory);
  return memory;
}

namespace {

/// A matrix to prepare, and where it is handed in.
struct Matrix {
  Tensor matrix;
  void* bias_field;
  const void* numbers = nullptr;
  const void* bias = nullptr;
};

template <class AForm>
std::vector<Matrix> matrices_of(AForm& form) {
  const std::vector<Tensor> all = tensors_of(form);
  std::vector<Matrix> matrices;
  for (const Tensor& tensor : all) {
    if (tensor.prepared == nullptr) continue;
    std::string bias = tensor.name;
    bias.replace(bias.rfind("w_"), 2, "b_");
    for (const Tensor& other : all)
      if (other.name == bias) matrices.push_back({tensor, other.field});
  }
  return matrices;
}

heed_status prepare_matrix(const Matrix& m, const Context& context, Memory memory, Object& made) {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = m.matrix.axes[2];
  desc.out = m.matrix.axes[3];
  desc.layout = *static_cast<const heed_matrix_layout*>(m.matrix.at);
  const void* numbers = m.numbers;
  const void* bias = m.bias;
  memory.place({"", &numbers, desc.in * desc.out, desc.layout.dtype, Tensor::kGiven});
  memory.place({"", &bias, desc.out, HEED_DTYPE_F32, Tensor::kGiven});
  return make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
    return heed_weights_create(context.get(), &desc, numbers, bias, weights);
  });
}

const void* take(void* field) {
  const void* memory = nullptr;
  std::memcpy(&memory, field, sizeof memory);
  std::memset(field, 0, sizeof memory);
  return memory;
}

// ---- A form as a problem ---------------------------------------------------------------------

template <class AForm>
class ProblemOf final : public Problem {
  using Api = Functions<AForm>;
  using Plan = typename Api::Plan;

 public:
  ProblemOf(const std::function<void(AForm&)>& change, MaybeFence fence, bool prepared)
      : memory_(fence) {
    change(form_);
    for (const Tensor& tensor : tensors_of(form_)) memory_.place(tensor);
    if (prepared) to_prepare_ = matrices_of(form_);
    for (Matrix& m : to_prepare_) {
      m.numbers = take(m.matrix.field);
      m.bias = take(m.bias_field);
    }
    for (Tensor tensor : tensors_of(form_)) {
      if (tensor.memory() == nullptr) continue;
      const std::string within = ": args.";  // which messages about memory write so
      while (tensor.name.find(within) != std::string::npos)
        tensor.name.replace(tensor.name.find(within), within.size(), "->");
      tensors.push_back(tensor);
    }
    matrices.resize(to_prepare_.size());
  }

  heed_status prepare(const Context& context) override {
    heed_status status = make_graph(context);
    for (std::size_t i = 0; i < to_prepare_.size() && status == HEED_STATUS_OK; ++i)
      status = prepare_matrix(to_prepare_[i], context, memory_.another(), matrices[i]);
    return status;
  }
  /// From copies of the descriptors, of which the plan needs nothing afterwards.
  heed_status create(const Context& context, Object& plan) override {
    std::vector<Slot> slots = form_.slots();
    std::vector<std::pair<Slot, const void*>> before;
    std::vector<std::vector<unsigned char>> copies;
    for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {  // from the inside
      if (slot->called.rfind("desc", 0) != 0) continue;
      before.emplace_back(*slot, *slot->pointer);
      const auto* const bytes = static_cast<const unsigned char*>(*slot->pointer);
      copies.emplace_back(bytes, bytes + size_of(slot->schema));
      *slot->pointer = copies.back().data();
    }
    const heed_status status = make_object(plan, Api::destroy, [&](Plan** made) {
      return Api::create(context.get(), graph_of_problem(), form_.given_desc, made);
    });
    for (const auto& [slot, pointer] : before) *slot.pointer = pointer;
    for (std::vector<unsigned char>& copy : copies) std::fill(copy.begin(), copy.end(), 0xff);
    return status;
  }
  heed_status make_and_destroy(const Context& context) override {
    Plan* plan = nullptr;
    const heed_status status =
        Api::create(context.get(), graph_of_problem(), form_.given_desc, &plan);
    if (status == HEED_STATUS_OK) Api::destroy(plan);
    return status == HEED_STATUS_OK || plan == nullptr ? status : HEED_STATUS_INTERNAL;
  }
  PlanInfo describe(const Object& plan) override {
    auto info = heed_test::sized<typename Api::Info>();
    if (Api::describe(static_cast<Plan*>(plan.get()), &info) != HEED_STATUS_OK) return {};
    return {info.executor, info.workspace_bytes, info.threads};
  }
  std::size_t workspace(const Object& plan) override {
    std::size_t bytes = SIZE_MAX;
    (void)Api::workspace(static_cast<Plan*>(plan.get()), &bytes);
    return bytes;
  }
  heed_status run(const Object& plan, void* workspace, std::size_t bytes) override {
    hand_in_matrices();
    return Api::run(static_cast<Plan*>(plan.get()), &form_.args, workspace, bytes);
  }
  heed_status call(const Context& context) override {
    hand_in_matrices();
    return Api::call(context.get(), graph_of_problem(), &form_.desc, &form_.args);
  }
  using Problem::run;

 private:
  const heed_graph* graph_of_problem() const { return static_cast<heed_graph*>(graph.get()); }
  /// From arrays in memory of their own.
  heed_status make_graph(const Context& context) {
    if constexpr (Functions<AForm>::kOverGraph) {
      Memory indices = memory_.another();
      const heed_graph_desc before = form_.graph.desc;
      for (const Tensor& tensor : tensors_of(form_.graph)) indices.place(tensor);
      const heed_status status = make_object(graph, heed_graph_destroy, [&](heed_graph** made) {
        return heed_graph_create(context.get(), &form_.graph.desc, made);
      });
      form_.graph.desc = before;
      return status;
    } else {
      (void)context;
      return HEED_STATUS_OK;
    }
  }
  void hand_in_matrices() {
    for (std::size_t i = 0; i < to_prepare_.size(); ++i)
      *to_prepare_[i].matrix.prepared = static_cast<heed_weights*>(matrices[i].get());
  }

  AForm form_;
  Memory memory_;
  std::vector<Matrix> to_prepare_;
};

}  // namespace

const Tensor& Problem::tensor(const std::string& name) const {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const Tensor& tensor) { return tensor.name == name; });
}

namespace {

/// Calls function(begin, end) for the bytes of all outputs.
template <class Function>
void each_output(const std::vector<Tensor>& tensors, Function&& function) {
  for (const Tensor& tensor : tensors) {
    if (tensor.content != Tensor::kResult) continue;
    auto* const begin = static_cast<unsigned char*>(tensor.memory());
    function(begin, begin + tensor.bytes());
  }
}

}  // namespace

std::vector<unsigned char> Problem::outputs() const {
  std::vector<unsigned char> all;
  each_output(tensors, [&](auto* begin, auto* end) { all.insert(all.end(), begin, end); });
  return all;
}

bool Problem::untouched() const {
  const std::vector<unsigned char> all = outputs();
  return std::all_of(all.begin(), all.end(), [](unsigned char byte) { return byte == kPattern; });
}

void Problem::forget_outputs() {
  each_output(tensors, [](auto* begin, auto* end) { std::fill(begin, end, kPattern); });
}

template <class AForm>
std::unique_ptr<Problem> problem_of(const std::function<void(AForm&)>& change, MaybeFence fence,
                                    bool prepared) {
  return std::make_unique<ProblemOf<AForm>>(change, fence, prepared);
}
template std::unique_ptr<Problem> problem_of(const std::function<void(Form&)>&, MaybeFence, bool);
template std::unique_ptr<Problem> problem_of(const std::function<void(BackwardForm&)>&, MaybeFence,
                                             bool);
template std::unique_ptr<Problem> problem_of(const std::function<void(BlockForm&)>&, MaybeFence,
                                             bool);
template std::unique_ptr<Problem> problem_of(const std::function<void(BlockBackwardForm&)>&,
                                             MaybeFence, bool);
template std::unique_ptr<Problem> problem_of(const std::function<void(GraphForm&)>&, MaybeFence,
                                             bool);
template std::unique_ptr<Problem> problem_of(const std::function<void(GraphBackwardForm&)>&,
                                             MaybeFence, bool);

std::vector<unsigned char> outputs_of(Problem& problem) {
  const Context context = serial();
  heed_test::require_ok(problem.prepare(context));
  heed_test::require_ok(problem.call(context));
  if (problem.untouched()) throw std::runtime_error("a call that succeeds writes nothing");
  return problem.outputs();
}

}  // namespace api_test
