#include "tests/api/problems.hpp"

#include <algorithm>
#include <utility>

#include "tests/api/functions.hpp"

namespace api_test {
namespace {

// ---- What is made before plans: graphs and prepared matrices ---------------------------------

heed_status make_graph(const Form&, const Context&, Memory, Object&) { return HEED_STATUS_OK; }
heed_status make_graph(const BackwardForm&, const Context&, Memory, Object&) {
  return HEED_STATUS_OK;
}
heed_status make_graph(const BlockForm&, const Context&, Memory, Object&) { return HEED_STATUS_OK; }
heed_status make_graph(const BlockBackwardForm&, const Context&, Memory, Object&) {
  return HEED_STATUS_OK;
}
heed_status make_graph(const GraphForm& f, const Context& context, Memory indices, Object& graph) {
  heed_graph_desc desc = f.graph.desc;
  const std::uint32_t type = desc.index_type == HEED_INDEX_I64 ? kI64 : kI32;
  indices.place({"", &desc.sources, desc.edges, type, Tensor::kGiven});
  indices.place({"", &desc.destinations, desc.edges, type, Tensor::kGiven});
  indices.place({"", &desc.offsets, desc.nodes + 1, type, Tensor::kGiven});
  return make_object(graph, heed_graph_destroy, [&](heed_graph** made) {
    return heed_graph_create(context.get(), &desc, made);
  });
}

/// A matrix to prepare, and where it is handed in.
struct Matrix {
  const void** raw;
  const void** bias;
  const heed_weights** prepared;
  heed_weights_desc desc;
  const void* numbers = nullptr;
  const void* numbers_of_bias = nullptr;
};

heed_weights_desc matrix_desc(std::int64_t in, std::int64_t out, const heed_matrix_layout& layout) {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = in;
  desc.out = out;
  desc.layout = layout;
  return desc;
}

std::vector<Matrix> matrices_of(Form&) { return {}; }
std::vector<Matrix> matrices_of(BackwardForm&) { return {}; }
std::vector<Matrix> matrices_of(BlockForm& f) {
  const heed_attention_desc& d = f.attention;
  const heed_multihead_desc& b = f.desc;
  heed_multihead_args& a = f.args;
  const std::int64_t values = d.value_features;
  return {
      {&a.w_query, &a.b_query, &a.p_query,
       matrix_desc(b.width_query, d.query_heads * d.features, b.w_query)},
      {&a.w_key, &a.b_key, &a.p_key, matrix_desc(b.width_key, d.key_heads * d.features, b.w_key)},
      {&a.w_value, &a.b_value, &a.p_value,
       matrix_desc(b.width_key, d.key_heads * values, b.w_value)},
      {&a.w_out, &a.b_out, &a.p_out, matrix_desc(d.query_heads * values, b.width_out, b.w_out)},
  };
}
std::vector<Matrix> matrices_of(BlockBackwardForm& f) { return matrices_of(f.block); }
std::vector<Matrix> matrices_of(GraphForm& f) {
  const heed_graph_attention_desc& d = f.desc;
  heed_graph_attention_args& a = f.args;
  return {
      {&a.w_query, &a.b_query, &a.p_query, matrix_desc(d.width, d.heads * d.features, d.w_query)},
      {&a.w_key, &a.b_key, &a.p_key, matrix_desc(d.width, d.heads * d.features, d.w_key)},
      {&a.w_value, &a.b_value, &a.p_value,
       matrix_desc(d.width, d.heads * d.value_features, d.w_value)},
  };
}

heed_status prepare_matrix(const Matrix& m, const Context& context, Memory memory, Object& made) {
  const void* numbers = m.numbers;
  const void* bias = m.numbers_of_bias;
  memory.place({"", &numbers, m.desc.in * m.desc.out, m.desc.layout.dtype, Tensor::kGiven});
  memory.place({"", &bias, m.desc.out, HEED_DTYPE_F32, Tensor::kGiven});
  return make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
    return heed_weights_create(context.get(), &m.desc, numbers, bias, weights);
  });
}

// ---- A form as a problem ---------------------------------------------------------------------

/// Whether a descriptor has that of attention inside.
template <class AForm>
inline constexpr bool kHasAttention =
    std::is_same_v<AForm, BlockForm> || std::is_same_v<AForm, BackwardForm>;

template <class AForm>
inline constexpr bool kHasBlock = std::is_same_v<AForm, BlockBackwardForm>;

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
      m.numbers = std::exchange(*m.raw, nullptr);
      m.numbers_of_bias = std::exchange(*m.bias, nullptr);
    }
    for (const Tensor& tensor : tensors_of(form_))
      if (tensor.memory() != nullptr) tensors.push_back(tensor);
    matrices.resize(to_prepare_.size());
  }

  heed_status prepare(const Context& context) override {
    heed_status status = make_graph(form_, context, memory_.another(), graph);
    for (std::size_t i = 0; i < to_prepare_.size() && status == HEED_STATUS_OK; ++i)
      status = prepare_matrix(to_prepare_[i], context, memory_.another(), matrices[i]);
    return status;
  }
  heed_status create(const Context& context, Object& plan) override {
    given_ = form_.desc;
    if constexpr (kHasAttention<AForm>) given_.attention = &given_attention_;
    if constexpr (kHasAttention<AForm>) given_attention_ = form_.attention;
    if constexpr (kHasBlock<AForm>) {
      given_.block = &given_block_;
      given_block_ = form_.block.desc;
      given_block_.attention = &given_attention_;
      given_attention_ = form_.attention;
    }
    const heed_status status = make_object(plan, Api::destroy, [&](Plan** made) {
      return Api::create(context.get(), static_cast<heed_graph*>(graph.get()), &given_, made);
    });
    std::memset(&given_, 0xff, sizeof given_);
    std::memset(&given_block_, 0xff, sizeof given_block_);
    std::memset(&given_attention_, 0xff, sizeof given_attention_);
    return status;
  }
  PlanInfo describe(const Object& plan) override {
    typename Api::Info info{};
    info.struct_size = sizeof info;
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
    return Api::call(context.get(), static_cast<heed_graph*>(graph.get()), &form_.desc,
                     &form_.args);
  }
  using Problem::run;

 private:
  void hand_in_matrices() {
    for (std::size_t i = 0; i < to_prepare_.size(); ++i)
      *to_prepare_[i].prepared = static_cast<heed_weights*>(matrices[i].get());
  }

  AForm form_;
  decltype(AForm::desc) given_;  ///< to a plan, which needs nothing of it afterwards
  heed_multihead_desc given_block_;
  heed_attention_desc given_attention_;
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
template std::unique_ptr<Problem> problem_of<Form>(const Change&, MaybeFence, bool);
template std::unique_ptr<Problem> problem_of<BackwardForm>(const BackwardChange&, MaybeFence, bool);
template std::unique_ptr<Problem> problem_of<BlockForm>(const BlockChange&, MaybeFence, bool);
template std::unique_ptr<Problem> problem_of<BlockBackwardForm>(const BlockBackwardChange&,
                                                                MaybeFence, bool);
template std::unique_ptr<Problem> problem_of<GraphForm>(const GraphChange&, MaybeFence, bool);

std::vector<unsigned char> outputs_of(Problem& problem) {
  const Context context = serial();
  const bool prepared = problem.prepare(context) == HEED_STATUS_OK;
  const heed_status status = prepared ? problem.call(context) : HEED_STATUS_INTERNAL;
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK_FALSE(problem.untouched());
  return problem.outputs();
}

}  // namespace api_test
