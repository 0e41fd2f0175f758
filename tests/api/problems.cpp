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

// ---- A form as a problem ---------------------------------------------------------------------

Problem::Problem(const char* of, const Change& change, MaybeFence fence, bool prepared)
    : form_(of), functions_(form_.of.planned), memory_(fence) {
  change(form_);
  for (const Tensor& tensor : form_.tensors()) memory_.place(tensor);
  for (const Tensor& tensor : form_.tensors()) {
    if (!prepared || tensor.prepared == nullptr) continue;
    std::string bias = tensor.name;
    bias.replace(bias.rfind("w_"), 2, "b_");
    Matrix& m = to_prepare_.emplace_back(Matrix{tensor, form_.tensor(bias)});
    m.numbers = m.matrix.memory();
    m.bias_numbers = m.bias.memory();
    m.matrix.point_at(nullptr);
    m.bias.point_at(nullptr);
  }
  for (Tensor tensor : form_.tensors()) {
    if (tensor.memory() == nullptr) continue;
    const std::string within = ": args.";  // which messages about memory write so
    while (tensor.name.find(within) != std::string::npos)
      tensor.name.replace(tensor.name.find(within), within.size(), "->");
    tensors.push_back(tensor);
  }
  matrices.resize(to_prepare_.size());
}

heed_status Problem::prepare(const Context& context) {
  if (form_.has("prepared")) form_.prepare(context);
  heed_status status = make_graph(context);
  for (std::size_t i = 0; i < to_prepare_.size() && status == HEED_STATUS_OK; ++i)
    status = prepare(to_prepare_[i], context, matrices[i]);
  return status;
}

heed_status Problem::prepare(const Matrix& m, const Context& context, Object& made) const {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = m.matrix.axes[2];
  desc.out = m.matrix.axes[3];
  desc.layout = *static_cast<const heed_matrix_layout*>(m.matrix.at);
  const void* numbers = m.numbers;
  const void* bias = m.bias_numbers;
  Memory memory = memory_.another();
  memory.place({"", &numbers, desc.in * desc.out, desc.layout.dtype, Tensor::kGiven});
  memory.place({"", &bias, desc.out, HEED_DTYPE_F32, Tensor::kGiven});
  return make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
    return heed_weights_create(context.get(), &desc, numbers, bias, weights);
  });
}

/// From arrays in memory of their own.
heed_status Problem::make_graph(const Context& context) {
  if (!form_.has("graph")) return HEED_STATUS_OK;
  Memory indices = memory_.another();
  heed_graph_desc& desc = form_.at<heed_graph_desc>("graph");
  const heed_graph_desc before = desc;
  for (const Tensor& tensor : edges_of(form_)) indices.place(tensor);
  const heed_status status = make_object(graph, heed_graph_destroy, [&](heed_graph** made) {
    return heed_graph_create(context.get(), &desc, made);
  });
  desc = before;
  return status;
}

heed_status Problem::create(const Context& context, Object& plan) {
  std::vector<std::pair<const void**, const void*>> before;
  std::vector<std::vector<unsigned char>> copies;
  std::deque<Form::Struct>& structs = form_.structs();
  for (auto one = structs.rbegin(); one != structs.rend(); ++one) {  // from the inside
    if (one->called.rfind("desc", 0) != 0) continue;
    before.emplace_back(one->pointer, *one->pointer);
    const auto* const bytes = static_cast<const unsigned char*>(*one->pointer);
    copies.emplace_back(bytes, bytes + size_of(one->schema));
    *one->pointer = copies.back().data();
  }
  plan.reset();
  void* made = api_test::untouched<void>();
  heed_status status =
      functions_->create(context.get(), graph_of_problem(), form_.given("desc"), &made);
  for (const auto& [pointer, address] : before) *pointer = address;
  for (std::vector<unsigned char>& copy : copies) std::fill(copy.begin(), copy.end(), 0xff);
  if (status == HEED_STATUS_OK)
    plan = Object(made, functions_->destroy);
  else if (made != api_test::untouched<void>())
    status = HEED_STATUS_INTERNAL;
  return status;
}

heed_status Problem::make_and_destroy(const Context& context) {
  void* plan = nullptr;
  const heed_status status =
      functions_->create(context.get(), graph_of_problem(), form_.given("desc"), &plan);
  if (status == HEED_STATUS_OK) functions_->destroy(plan);
  return status == HEED_STATUS_OK || plan == nullptr ? status : HEED_STATUS_INTERNAL;
}

heed_status Problem::run(const Object& plan, void* workspace, std::size_t bytes) {
  hand_in_matrices();
  return functions_->run(plan.get(), form_.given("args"), workspace, bytes);
}

heed_status Problem::call(const Context& context) {
  if (functions_ == nullptr) return form_.call(context);
  hand_in_matrices();
  return functions_->call(context.get(), graph_of_problem(), form_.given("desc"),
                          form_.given("args"));
}

void Problem::hand_in_matrices() {
  for (std::size_t i = 0; i < to_prepare_.size(); ++i)
    *to_prepare_[i].matrix.prepared = static_cast<heed_weights*>(matrices[i].get());
}

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

Problem::Change changes(const std::string& text) {
  return [text](Form& form) { form.apply(text); };
}

const char* const kLargeAttention =
    "desc.query_length desc.key_length = 240, desc.features desc.value_features = 32, "
    "desc.alignment = 0, desc.causal = 2, desc.weights_point desc.sum_columns desc.weight_rows = "
    "0, "
    "args.mask args.bias args.key_lengths args.alibi_slopes args.sinks args.weight_rows args.lse "
    "args.weights args.column_sums = NULL";
/// One head, so that splits of its rows are tasks of their own.
const char* const kLargeBackward =
    "desc.attention->batch desc.attention->query_heads desc.attention->key_heads = 1, "
    "desc.attention->query_length = 2100, desc.attention->key_length = 120, "
    "args.attention->key_lengths = {120}";
const char* const kLargeBlock =
    "desc.attention->query_length desc.attention->key_length = 120, "
    "desc.attention->features desc.attention->value_features = 20, desc.attention->causal = 1, "
    "desc.attention->key_heads = 4, desc.width_query desc.width_key desc.width_out = 80, "
    "args.attention->key_lengths = {120 2}";
const char* const kLargeBlockBackward =
    "desc.block->attention->query_length desc.block->attention->key_length = 120, "
    "desc.block->attention->features desc.block->attention->value_features = 20, "
    "desc.block->attention->causal = 1, desc.block->attention->alignment = 0, "
    "desc.block->attention->key_heads = 4, "
    "desc.block->width_query desc.block->width_key desc.block->width_out = 80, "
    "args.block->attention->key_lengths = {120 2}";

/// A hub that is cut into pieces, and for gradients one that many edges lead from.
void enlarge(heed_graph_desc& graph) {
  constexpr int kNodes = 60;
  static const std::vector<std::int32_t> ends = [] {
    std::vector<std::int32_t> both;
    for (int e = 0; e < 20000; ++e) both.push_back(e * 7919 % 4001 % kNodes);
    for (int e = 0; e < 20000; ++e) both.push_back(e % 20 == 0 ? e * 31 % kNodes : 7);
    return both;
  }();
  graph.nodes = kNodes;
  graph.edges = 20000;
  graph.sources = ends.data();
  graph.destinations = ends.data() + 20000;
  graph.duplicates = HEED_DUPLICATES_KEEP;
}
void enlarge_graph(Form& f) {
  f.apply("no residual, no edge data");
  enlarge(f.at<heed_graph_desc>("graph"));
}

/// Over unsorted rows of int64.
const std::string kStepsOverRows =
    "share, graph.index_type = 2, graph.sources = {1 3 1 2 3 0}, graph.destinations = NULL, "
    "graph.offsets = {0 3 5 5 6}, ";

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"dense", "dense", changes(kLargeAttention), false, true},
      {"dense with everything", "dense", changes("desc.softcap = 30")},
      {"dense, packed queries", "dense", changes("pack_queries")},
      {"dense, packed keys", "dense", changes("pack_keys, args.cu_seqlens_k = {0 5 10}")},
      {"dense, float64", "dense", changes("float64")},
      {"dense, 16 bits", "dense", changes("16 bits")},
      {"dense, hard", "dense", changes("hard")},
      {"backward", "backward", changes(kLargeBackward), false, true},
      {"backward with everything", "backward", changes("desc.attention->softcap = 30, functions")},
      {"backward, packed", "backward", changes("pack_queries, pack_keys")},
      {"backward, float64", "backward", changes("float64")},
      {"backward, 16 bits", "backward", changes("16 bits")},
      {"block of prepared matrices", "block", changes(kLargeBlock), true, true},
      {"block", "block", changes("")},
      {"block, float64", "block", changes("float64")},
      {"block, weighted", "block", changes("weighted")},
      {"block that keeps", "block", changes("keep")},
      {"gradients of a block", "block backward", changes(kLargeBlockBackward), false, true},
      {"gradients of a block of prepared matrices", "block backward", changes(""), true},
      {"gradients of a block, kept", "block backward", changes("keep")},
      {"gradients of a block, one input", "block backward", changes("one input")},
      {"gradients of a block, float64", "block backward", changes("float64")},
      {"gradients of a block, weighted", "block backward", changes("weighted")},
      {"graph", "graph attention", enlarge_graph, false, true},
      {"graph with everything", "graph attention", changes("desc.softcap = 20")},
      {"graph, float64", "graph attention", changes("float64")},
      {"graph, hard", "graph attention", changes("hard")},
      {"graph, mean", "graph attention", changes("mean")},
      {"graph, prepared", "graph attention", changes("share"), true},
      {"graph, steps of shared matrices", "graph attention",
       changes(kStepsOverRows + "desc.steps = 3")},
      {"graph, matrices of nodes", "graph attention", changes("per node")},
      {"gradients over a graph", "graph backward", enlarge_graph, false, true},
      {"gradients over a graph with everything", "graph backward",
       changes("desc.attention->softcap = 20")},
      {"gradients over a graph, float64", "graph backward", changes("float64")},
      {"gradients over a graph, weighted", "graph backward", changes("weighted")},
      {"gradients over a graph, steps of shared matrices", "graph backward",
       changes(kStepsOverRows + "desc.attention->steps = 3")},
      {"gradients over a graph, matrices of nodes", "graph backward", changes("per node")},
  };
  return all;
}

const std::vector<Kind>& unplanned_kinds() {
  static const std::vector<Kind> all = {
      {"merge", "merge",
       changes("desc.batch = 2, desc.heads = 4, desc.rows = 500, desc.features = 64"), false, true},
      {"rotate", "rotate",
       changes("desc.batch = 2, desc.heads = 4, desc.rows = 96, desc.features = 32")},
      {"project", "project",
       changes("desc.batch = 2, desc.rows = 96, prepared.in = 128, prepared.out = 128"), false,
       true},
      {"matrix", "matrix", changes("desc.in = 128, desc.out = 128")},
      {"edges", "graph",
       [](Form& f) {
         auto& graph = f.at<heed_graph_desc>("desc");
         enlarge(graph);
         graph.reverse = 1;
       }},
  };
  return all;
}

std::vector<Kind> large_kinds() {
  std::vector<Kind> large;
  for (const Kind& kind : kinds())
    if (kind.large) large.push_back(kind);
  return large;
}

}  // namespace api_test
