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
template std::unique_ptr<Problem> problem_of(const std::function<void(BlockForm&)>&, MaybeFence,
                                             bool);

std::vector<unsigned char> expected(const Kind& kind) {
  const std::unique_ptr<Problem> problem = kind.problem();
  const Context context = serial();
  heed_test::require_ok(problem->prepare(context));
  heed_test::require_ok(problem->call(context));
  if (problem->untouched()) throw std::runtime_error("a call that succeeds writes nothing");
  return problem->outputs();
}

// ---- The list ----------------------------------------------------------------------------------

namespace {

void enlarge(Form& f) {
  f.desc.query_length = f.desc.key_length = 240;
  f.desc.features = f.desc.value_features = 32;
  f.desc.alignment = HEED_ALIGNMENT_DEFAULT;
  f.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  f.desc.weights_point = HEED_WEIGHTS_NONE;
  f.desc.sum_columns = 0;
  f.desc.weight_rows = 0;
  f.args = HEED_ATTENTION_ARGS_INIT;
  f.args.query = f.query.at();
  f.args.key = f.key.at();
  f.args.value = f.value.at();
  f.args.out = f.out.at();
}

/// One head, so that splits of its rows are tasks of their own.
void enlarge(BackwardForm& f) {
  f.attention.batch = f.attention.query_heads = f.attention.key_heads = 1;
  f.attention.query_length = 2100;
  f.attention.key_length = 120;
  f.key_lengths[0] = 120;
}

void enlarge(BlockForm& f) {
  f.attention.query_length = f.attention.key_length = 120;
  f.attention.features = f.attention.value_features = 20;
  f.attention.causal = HEED_CAUSAL_TOP_LEFT;
  f.attention.key_heads = 4;
  f.desc.width_query = f.desc.width_key = f.desc.width_out = 80;
  f.key_lengths[0] = 120;
}

void enlarge(BlockBackwardForm& f) {
  enlarge(f.block);
  f.attention.alignment = HEED_ALIGNMENT_DEFAULT;
}

/// A hub that is cut into pieces.
void enlarge(GraphForm& f) {
  constexpr int kNodes = 60;
  static const std::vector<std::int32_t> ends = [] {
    std::vector<std::int32_t> both;
    for (int e = 0; e < 20000; ++e) both.push_back(e * 7919 % 4001 % kNodes);
    for (int e = 0; e < 20000; ++e) both.push_back(e % 20 == 0 ? e * 31 % kNodes : 7);
    return both;
  }();
  f.graph.desc.nodes = kNodes;
  f.graph.desc.edges = 20000;
  f.graph.desc.sources = ends.data();
  f.graph.desc.destinations = ends.data() + 20000;
  f.graph.desc.duplicates = HEED_DUPLICATES_KEEP;
  f.no_residual();
  f.no_edge_data();
}

/// The same, and one that many edges lead from.
void enlarge(GraphBackwardForm& f) {
  enlarge(f.layer);
  f.no_residual();
  f.no_edge_data();
}

/// Over unsorted rows of int64.
void take_steps(GraphForm& f) {
  f.graph.by_rows();
  std::swap(f.graph.sources[0], f.graph.sources[1]);
  f.graph.widen();
  f.desc.steps = 3;
}

void unchanged_block(BlockBackwardForm&) {}

template <class AForm>
Kind kind(const char* name, const std::function<void(AForm&)>& change, bool prepared = false) {
  return {name, [=](MaybeFence fence) { return problem_of<AForm>(change, fence, prepared); }};
}
template <class AForm>
Kind large_kind(const char* name, bool prepared) {
  Kind kind = api_test::kind<AForm>(
      name, [](AForm& f) { enlarge(f); }, prepared);
  kind.large = true;
  return kind;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      large_kind<Form>("dense", false),
      kind<Form>("dense with everything", [](Form& f) { f.desc.softcap = 30; }),
      kind<Form>("dense, packed queries", &Form::pack_queries),
      kind<Form>("dense, packed keys",
                 [](Form& f) {
                   f.pack_keys();
                   f.cu_seqlens_k[0] = 0;
                   f.cu_seqlens_k[1] = 5;
                 }),
      kind<Form>("dense, float64", &Form::all_float64),
      kind<Form>("dense, 16 bits", &Form::all_16_bits),
      kind<Form>("dense, hard", &Form::be_hard),
      large_kind<BackwardForm>("backward", false),
      kind<BackwardForm>("backward with everything",
                         [](BackwardForm& f) {
                           f.attention.softcap = 30;
                           f.call_functions();
                         }),
      kind<BackwardForm>("backward, packed",
                         [](BackwardForm& f) {
                           f.pack_queries();
                           f.pack_keys();
                         }),
      kind<BackwardForm>("backward, float64", &BackwardForm::all_float64),
      kind<BackwardForm>("backward, 16 bits", &BackwardForm::all_16_bits),
      large_kind<BlockForm>("block of prepared matrices", true),
      kind<BlockForm>("block", [](BlockForm&) {}),
      kind<BlockForm>("block, float64", &BlockForm::all_float64),
      kind<BlockForm>("block, weighted", [](BlockForm& f) { f.reduce(HEED_COMBINE_WEIGHTED); }),
      kind<BlockForm>("block that keeps", &BlockForm::keep),
      large_kind<BlockBackwardForm>("gradients of a block", false),
      kind<BlockBackwardForm>("gradients of a block of prepared matrices", unchanged_block, true),
      kind<BlockBackwardForm>("gradients of a block, kept",
                              [](BlockBackwardForm& f) { f.block.keep(); }),
      kind<BlockBackwardForm>("gradients of a block, one input", &BlockBackwardForm::one_input),
      kind<BlockBackwardForm>("gradients of a block, float64", &BlockBackwardForm::all_float64),
      kind<BlockBackwardForm>("gradients of a block, weighted",
                              [](BlockBackwardForm& f) { f.reduce(HEED_COMBINE_WEIGHTED); }),
      large_kind<GraphForm>("graph", false),
      kind<GraphForm>("graph with everything", [](GraphForm& f) { f.desc.softcap = 20; }),
      kind<GraphForm>("graph, float64", &GraphForm::all_float64),
      kind<GraphForm>("graph, hard", &GraphForm::be_hard),
      kind<GraphForm>("graph, mean", [](GraphForm& f) { f.combine(HEED_COMBINE_MEAN); }),
      kind<GraphForm>("graph, prepared", &GraphForm::share, true),
      kind<GraphForm>("graph, steps of shared matrices",
                      [](GraphForm& f) {
                        f.share();
                        take_steps(f);
                      }),
      kind<GraphForm>("graph, matrices of nodes", &GraphForm::per_node),
      large_kind<GraphBackwardForm>("gradients over a graph", false),
      kind<GraphBackwardForm>("gradients over a graph with everything",
                              [](GraphBackwardForm& f) { f.layer.desc.softcap = 20; }),
      kind<GraphBackwardForm>("gradients over a graph, float64", &GraphBackwardForm::all_float64),
      kind<GraphBackwardForm>("gradients over a graph, weighted", &GraphBackwardForm::weigh),
      kind<GraphBackwardForm>("gradients over a graph, steps of shared matrices",
                              [](GraphBackwardForm& f) {
                                f.share();
                                take_steps(f.layer);
                              }),
      kind<GraphBackwardForm>("gradients over a graph, matrices of nodes",
                              &GraphBackwardForm::per_node),
  };
  return all;
}

}  // namespace api_test
