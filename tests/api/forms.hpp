// The operations of the C API that have plans. A form of each is a problem with one of everything,
// to be made wrong or otherwise changed in one way: its structs, and a table of its tensors.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/api/fields.hpp"
#include "tests/api/support.hpp"
#include "tests/oracle/dtype.hpp"
#include "tests/support/graphs.hpp"

namespace api_test {

// ---- Structs and tensors of a form -------------------------------------------------------------

/// A struct that is handed in, or a NULL in its place.
struct Slot {
  std::string called;  ///< where messages speak of the struct
  std::string within;  ///< how those begin that speak of its fields
  Schema schema;
  const void** pointer;
  bool optional = false;
};
template <class T>
Slot slot(const char* called, const char* within, Schema schema, const T*& pointer,
          bool optional = false) {
  return {called, within, schema, reinterpret_cast<const void**>(&pointer), optional};
}

/// Bytes in an output that no run writes.
inline constexpr unsigned char kPattern = 0x5c;

/// Memory for a small tensor, aligned for any type, with room for a misaligned pointer.
class Bytes {
 public:
  explicit Bytes(unsigned char fill = 0) { std::memset(memory_, fill, sizeof memory_); }
  void* at(std::size_t offset = 0) { return memory_ + offset; }
  const void* at(std::size_t offset = 0) const { return memory_ + offset; }
  void set(std::size_t index, float x) { std::memcpy(at(index * sizeof x), &x, sizeof x); }
  bool all_are(unsigned char fill) const {
    for (const unsigned char byte : memory_)
      if (byte != fill) return false;
    return true;
  }
  friend bool operator==(const Bytes& a, const Bytes& b) {
    return std::memcmp(a.memory_, b.memory_, sizeof a.memory_) == 0;
  }

 private:
  alignas(8) unsigned char memory_[4096];
};

/// Whole numbers, by a type as wide.
constexpr std::uint32_t kI32 = HEED_DTYPE_F32;
constexpr std::uint32_t kI64 = HEED_DTYPE_F64;

/// [batch or matrix][head][row or feature in][feature, key or feature out]
using Axes = std::array<std::int64_t, 4>;

/// What a pointer of the arguments points at.
struct Tensor {
  enum Content { kNumbers, kGiven, kResult };  ///< given: what lies there before it is placed
  std::string name;                            ///< in messages
  void* field;                                 ///< the pointer
  std::int64_t elements;
  std::uint32_t dtype;
  Content content = kNumbers;

  // Of the tensors of forms:
  Bytes* own = nullptr;     ///< where it lies
  bool needed = false;      ///< where the problem has it
  std::string layout = {};  ///< in messages
  char kind = 0;            ///< of the layout, as in a Schema; 0: none
  void* at = nullptr;       ///< the layout
  Axes axes = {};
  bool rows_first = false;  ///< contiguous is [row][head][feature]
  bool headless = false;    ///< it may have no stride along heads
  const heed_weights** prepared = nullptr;

  std::size_t bytes() const;
  void* memory() const {
    void* memory = nullptr;
    std::memcpy(&memory, field, sizeof memory);
    return memory;
  }
  void point_at(const void* memory) const { std::memcpy(field, &memory, sizeof memory); }
  /// Of the layout, nullptr where it has none along an axis.
  std::array<std::int64_t*, 4> strides() const;
  std::uint32_t& reserved() const;
};

struct Form;
struct BackwardForm;
struct BlockForm;
struct BlockBackwardForm;
struct GraphForm;
struct GraphBackwardForm;

/// Every tensor that a form may have, contiguous.
std::vector<Tensor> tensors_of(Form& form);
std::vector<Tensor> tensors_of(BackwardForm& form);
std::vector<Tensor> tensors_of(BlockForm& form);
std::vector<Tensor> tensors_of(BlockBackwardForm& form);
std::vector<Tensor> tensors_of(GraphForm& form);
std::vector<Tensor> tensors_of(GraphBackwardForm& form);

/// Whether the name, without what stands before it, is one of these.
inline bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  const std::string last = name.substr(name.find_last_of(".:") + 1);
  return std::any_of(names.begin(), names.end(), [&](const char* one) { return last == one; });
}

/// Lets the pointers of tensors point at the form's memory, unless `given` says no.
template <class AForm, class Given>
void give_if(AForm& form, const Given& given) {
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.own != nullptr && given(tensor.name)) tensor.point_at(tensor.own->at());
}
template <class AForm>
void give(AForm& form, std::initializer_list<const char*> names) {
  give_if(form, [&](const std::string& name) { return is_one_of(name, names); });
}
/// Of a new form: all but these; what nobody wrote can be told in results.
template <class AForm>
void give_all_but(AForm& form, std::initializer_list<const char*> names) {
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.own != nullptr)
      *tensor.own =
          Bytes(tensor.content == Tensor::kResult ? kPattern : tensor.dtype == heed_test::kByte);
  give_if(form, [&](const std::string& name) { return !is_one_of(name, names); });
}

/// Numbers of the tensor's type, the same for a seed; in a mask mostly 1.
void fill(const Tensor& tensor, void* memory, std::uint32_t seed);

template <class AForm>
bool untouched_outputs(const AForm& form) {
  const std::vector<Tensor> all = tensors_of(const_cast<AForm&>(form));
  return std::all_of(all.begin(), all.end(), [](const Tensor& tensor) {
    return tensor.content != Tensor::kResult || tensor.own == nullptr ||
           tensor.own->all_are(kPattern);
  });
}

/// Fields of all structs that are given, and what the form has besides.
template <class AForm>
Fields fields_of(AForm& form) {
  std::vector<const void*> layouts;
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.memory() != nullptr) layouts.push_back(tensor.at);
  Fields fields(std::move(layouts));
  for (const Slot& slot : form.slots())
    if (*slot.pointer != nullptr) fields.in(slot.within).all_of(slot.schema, *slot.pointer);
  form.add_to(fields.in(""));
  return fields;
}

/// What forms share. None is copied: arguments point into it.
template <class AForm, class ADesc>
struct AnyForm {
  AnyForm() = default;
  AnyForm(const AnyForm&) = delete;
  AnyForm& operator=(const AnyForm&) = delete;
  bool outputs_untouched() const { return untouched_outputs(static_cast<const AForm&>(*this)); }
  void add_to(Fields&) {}

  ADesc desc = heed_test::sized<ADesc>();
  const ADesc* given_desc = &desc;
};

/// And those of operations with plans.
template <class AForm, class APlan, class Args = typename heed_test::Functions<APlan>::Args>
struct PlannedForm : AnyForm<AForm, typename heed_test::Functions<APlan>::Desc> {
  using Plan = APlan;

  Args args = heed_test::sized<Args>();
  const Args* given_args = &args;
};

/// The functions of a form's operation, which get the graph that it may have.
template <class AForm>
struct Functions : heed_test::Functions<typename AForm::Plan> {
  using Own = heed_test::Functions<typename AForm::Plan>;
  using Plan = typename AForm::Plan;
  using Desc = typename Own::Desc;
  static constexpr bool kOverGraph = std::is_invocable_v<decltype(Own::create), const heed_context*,
                                                         const heed_graph*, const Desc*, Plan**>;

  static heed_status create(const heed_context* context, const heed_graph* graph, const Desc* desc,
                            Plan** plan) {
    if constexpr (kOverGraph)
      return Own::create(context, graph, desc, plan);
    else
      return Own::create(context, desc, plan);
  }
  static heed_status call(const heed_context* context, const heed_graph* graph, const Desc* desc,
                          const typename Own::Args* args) {
    if constexpr (kOverGraph)
      return Own::call(context, graph, desc, args);
    else
      return Own::call(context, desc, args);
  }
};

// ---- Dense attention ---------------------------------------------------------------------------

/// Memory of the tensors of attention, alone or inside another operation.
struct AttentionTensors {
  Bytes query, key, value, out, mask, bias, slopes, sinks, lse, weights, column_sums;
  Bytes key_scales, value_scales;
  std::int32_t key_lengths[2] = {5, 2};
  std::int32_t cu_seqlens_q[3] = {0, 3, 5};
  std::int32_t cu_seqlens_k[3] = {1, 6, 10};
  std::int32_t block_table[2] = {2, 0};
  std::int64_t weight_rows[2] = {0, 2};
};

/// [2, 4, 3, 4] queries, [2, 2, 5, 4] keys, values of 6 features.
inline void size(heed_attention_desc& desc) {
  desc.batch = 2;
  desc.query_heads = 4;
  desc.key_heads = 2;
  desc.query_length = 3;
  desc.key_length = 5;
  desc.features = 4;
  desc.value_features = 6;
}

struct Form : PlannedForm<Form, heed_attention_plan>, AttentionTensors {
  Form() {
    size(desc);
    desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.weight_rows = 2;
    desc.sum_columns = 1;
    args.key_lengths = key_lengths;
    args.weight_rows = weight_rows;
    give_all_but(*this, {"key_scales", "value_scales"});
  }

  void pack_queries() {
    desc.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    desc.packed_keys = 10;
    args.cu_seqlens_k = cu_seqlens_k;
  }
  void pack() { pack_queries(), pack_keys(); }
  void page() {
    desc.pages = 3;
    desc.page_rows = 16;
    args.block_table = block_table;
  }
  void all_float64() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }
  void all_16_bits() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F16;
    desc.bias.dtype = desc.weights.dtype = desc.column_sums.dtype = HEED_DTYPE_BF16;
  }
  /// Keys of 8 bits with a scale per row, values of 8 bits with one for all.
  void store_8_bits() {
    desc.key.dtype = HEED_DTYPE_I8;
    desc.value.dtype = HEED_DTYPE_F8_E4M3;
    give(*this, {"key_scales", "value_scales"});
  }
  /// Without what hard attention must not have.
  void be_hard() {
    desc.hard = 1;
    args.sinks = args.lse = nullptr;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.", kAttentionDesc, given_desc),
            slot("args", "args.", kAttentionArgs, given_args)};
  }
  void add_to(Fields& fields) {
    fields("args.key_lengths", key_lengths)("args.cu_seqlens_q", cu_seqlens_q)(
        "args.cu_seqlens_k", cu_seqlens_k)("args.weight_rows", weight_rows);
  }
};

using Change = std::function<void(Form&)>;

/// Its gradients.
struct BackwardForm : PlannedForm<BackwardForm, heed_attention_backward_plan>, AttentionTensors {
  BackwardForm() {
    size(attention);
    attention.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.attention = &attention;
    args.attention = &inner;
    inner.key_lengths = key_lengths;
    cu_seqlens_k[0] = 0;
    cu_seqlens_k[1] = 5;
    give_all_but(*this, {"key_scales", "value_scales", "weights", "column_sums"});
  }

  void pack_queries() {
    attention.packed_queries = 6;
    inner.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    attention.packed_keys = 10;
    inner.cu_seqlens_k = cu_seqlens_k;
  }
  void pack() { pack_queries(), pack_keys(); }
  void all_float64() { all_are(HEED_DTYPE_F64); }
  void all_16_bits() {
    all_are(HEED_DTYPE_F16);
    attention.bias.dtype = desc.grad_bias.dtype = HEED_DTYPE_BF16;
  }
  /// A score function that does nothing, and its derivative.
  void call_functions() {
    inner.score_function = [](void*, const heed_score_tile*) {};
    args.score_gradient = [](void*, const heed_score_tile*, void*) {};
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.", kAttentionBackwardDesc, given_desc),
            slot("args", "args.", kAttentionBackwardArgs, given_args),
            slot("desc.attention", "desc.attention: desc.", kAttentionDesc, desc.attention),
            slot("args.attention", "args.attention: args.", kAttentionArgs, args.attention)};
  }
  void add_to(Fields& fields) { fields("args.attention: args.key_lengths", key_lengths); }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
  Bytes grad_out, grad_lse, grads[8];

 private:
  void all_are(std::uint32_t dtype) {
    for (heed_layout* const of :
         {&attention.query, &attention.key, &attention.value, &attention.out, &desc.grad_out,
          &desc.grad_query, &desc.grad_key, &desc.grad_value})
      of->dtype = dtype;
  }
};

// ---- Multi-head blocks -------------------------------------------------------------------------

/// [2, 3, 7] and [2, 5, 9] to [2, 3, 8].
struct BlockForm : PlannedForm<BlockForm, heed_multihead_plan>, AttentionTensors {
  BlockForm() {
    size(attention);
    attention.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.attention = &attention;
    desc.width_query = 7;
    desc.width_key = 9;
    desc.width_out = 8;
    args.attention = &inner;
    inner.key_lengths = key_lengths;
    give_all_but(*this, {"bias", "alibi_slopes", "sinks", "column_sums", "head_weights"});
  }

  /// A combiner without a W_out.
  void reduce(heed_combine combine) {
    desc.combine = combine;
    desc.width_out = 0;
    args.w_out = args.b_out = nullptr;
    if (combine == HEED_COMBINE_WEIGHTED) give(*this, {"head_weights"});
  }
  void all_float64() {
    desc.input_query.dtype = desc.input_key.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }
  void keep() {
    desc.keep = 1;
    args.kept = kept;
    args.kept_bytes = sizeof kept;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.", kBlockDesc, given_desc),
            slot("args", "args.", kBlockArgs, given_args),
            slot("desc.attention", "desc.attention: desc.", kAttentionDesc, desc.attention),
            slot("args.attention", "args.attention: args.", kAttentionArgs, args.attention, true)};
  }
  void add_to(Fields& fields) { fields("args.attention: args.key_lengths", key_lengths); }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
  Bytes input_query, input_key, w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out;
  Bytes head_weights;
  alignas(64) unsigned char kept[8192] = {};
};

/// A matrix prepared from zeros.
inline Weights prepared(const Context& context, std::int64_t in, std::int64_t out,
                        std::uint32_t arithmetic = HEED_DTYPE_F32, std::int64_t matrices = 1) {
  const std::vector<double> numbers(static_cast<std::size_t>(matrices * in * out), 0);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = arithmetic;
  desc.matrices = matrices;
  desc.in = in;
  desc.out = out;
  return heed_test::create<heed_weights>(context.get(), &desc, numbers.data(), nullptr);
}

using BlockChange = std::function<void(BlockForm&)>;

/// Its gradients.
struct BlockBackwardForm : PlannedForm<BlockBackwardForm, heed_multihead_backward_plan> {
  BlockBackwardForm() {
    attention.weights_point = HEED_WEIGHTS_NONE;
    attention.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.block = &block.desc;
    args.block = &block.args;
    give_all_but(*this,
                 {"weights", "column_sums", "lse", "out", "head_weights", "grad_head_weights"});
    block.inner.weights = block.inner.lse = block.args.out = nullptr;
  }
  /// A combiner without a W_out.
  void reduce(heed_combine combine) {
    block.reduce(combine);
    args.grad_w_out = args.grad_b_out = nullptr;
    if (combine == HEED_COMBINE_WEIGHTED) give(*this, {"grad_head_weights"});
  }
  void one_input() {
    block.desc.width_key = 7;
    attention.query_length = 5;
    block.args.input_key = args.grad_input_key = nullptr;
  }
  void all_float64() {
    block.all_float64();
    for (heed_layout* const of : {&desc.grad_out, &desc.grad_input_query, &desc.grad_input_key})
      of->dtype = HEED_DTYPE_F64;
    for (heed_matrix_layout* const of :
         {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value, &desc.grad_w_out})
      of->dtype = HEED_DTYPE_F64;
    desc.grad_b_dtype = HEED_DTYPE_F64;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 accumulate/4 block/p grad_out/L grad_lse/L grad_input_query/L "
                 "grad_input_key/L grad_w_query/M grad_w_key/M grad_w_value/M grad_w_out/M "
                 "grad_bias/S grad_b_dtype/4 reserved/4",
                 given_desc),
            slot("args", "args.",
                 "struct_size/4 reserved/4 block/p grad_out/p grad_lse/p grad_input_query/p "
                 "grad_input_key/p grad_w_query/p grad_w_key/p grad_w_value/p grad_w_out/p "
                 "grad_b_query/p grad_b_key/p grad_b_value/p grad_b_out/p grad_head_weights/p "
                 "grad_bias/p grad_sinks/p grad_alibi_slopes/p grad_scale/p grad_temperature/p "
                 "score_gradient/p",
                 given_args),
            slot("desc.block", "desc.block: desc.", kBlockDesc, desc.block),
            slot("args.block", "args.block: args.", kBlockArgs, args.block),
            slot("desc.block: desc.attention", "desc.block: desc.attention: desc.", kAttentionDesc,
                 block.desc.attention),
            slot("args.block: args.attention", "args.block: args.attention: args.", kAttentionArgs,
                 block.args.attention, true)};
  }
  void add_to(Fields& fields) {
    fields("args.block: args.attention: args.key_lengths", block.key_lengths);
  }

  BlockForm block;
  heed_attention_desc& attention = block.attention;
  Bytes grad_out, grad_lse, grads[16];
};

// ---- Graphs ------------------------------------------------------------------------------------

inline Graph make_graph(const Context& context, const heed_graph_desc& desc) {
  return heed_test::create<heed_graph>(context.get(), &desc);
}

/// Four nodes, six edges, one of them twice, none into node 2; as a list and as rows.
struct SmallGraph : AnyForm<SmallGraph, heed_graph_desc> {
  SmallGraph() {
    desc.nodes = 4;
    desc.edges = 6;
    desc.sources = sources;
    desc.destinations = destinations;
  }
  void by_rows() {
    desc.destinations = nullptr;
    desc.offsets = offsets;
  }
  /// The same numbers as int64; rows or list as they are now.
  void widen() {
    desc.index_type = HEED_INDEX_I64;
    std::copy_n(sources, 6, wide_sources);
    std::copy_n(destinations, 6, wide_destinations);
    std::copy_n(offsets, 5, wide_offsets);
    desc.sources = wide_sources;
    if (desc.destinations != nullptr) desc.destinations = wide_destinations;
    if (desc.offsets != nullptr) desc.offsets = wide_offsets;
  }
  void no_edges() {
    desc.edges = 0;
    desc.sources = desc.destinations = nullptr;
  }

  bool outputs_untouched() const { return info.bytes == 0; }
  std::vector<Slot> slots() { return {slot("desc", "desc.", kGraphDesc, given_desc)}; }

  heed_graph_info info = HEED_GRAPH_INFO_INIT;  ///< of what was made
  std::int32_t sources[6] = {3, 1, 1, 2, 3, 0};
  std::int32_t destinations[6] = {0, 0, 0, 1, 1, 3};
  std::int32_t offsets[5] = {0, 3, 5, 5, 6};
  std::int64_t wide_sources[6] = {};
  std::int64_t wide_destinations[6] = {};
  std::int64_t wide_offsets[5] = {};
};

std::vector<Tensor> tensors_of(SmallGraph& form);

inline heed_status one_call(const Context& context, SmallGraph& form) {
  Object made;
  const heed_status status = make_object(made, heed_graph_destroy, [&](heed_graph** graph) {
    return heed_graph_create(context.get(), form.given_desc, graph);
  });
  auto* const graph = static_cast<heed_graph*>(made.get());
  return graph == nullptr ? status : heed_graph_describe(graph, &form.info);
}

/// Attention over it: 2 heads, 3 features, values of 5, data of 10, edge data of 2. Queries, keys
/// and values are given, unless one of the functions says otherwise.
struct GraphForm : PlannedForm<GraphForm, heed_graph_attention_plan> {
  GraphForm() {
    desc.heads = 2;
    desc.features = 3;
    desc.value_features = 5;
    desc.residual = 1;
    desc.width = 10;
    desc.edge_width = 2;
    give_all_but(*this,
                 {"w_query", "w_key", "w_value", "b_query", "b_key", "b_value", "head_weights"});
  }
  void share() {
    desc.inputs = HEED_GRAPH_SHARED;
    args.query = args.key = args.value = nullptr;
    give(*this, {"w_query", "w_key", "w_value", "b_query", "b_key", "b_value"});
  }
  void per_node() {
    share();
    desc.inputs = HEED_GRAPH_PER_NODE;
    args.b_query = args.b_key = args.b_value = nullptr;
  }
  /// Without data.
  void no_residual() {
    desc.residual = 0;
    desc.width = 0;
    args.data = nullptr;
  }
  void no_edge_data() {
    desc.edge_width = 0;
    args.edge_data = args.w_edge_key = args.w_edge_value = nullptr;
  }
  void combine(heed_combine how) {
    desc.combine = how;
    desc.width = 5;
    if (how == HEED_COMBINE_WEIGHTED) give(*this, {"head_weights"});
  }
  void be_hard() {
    desc.hard = 1;
    args.lse = nullptr;
  }
  void all_float64() {
    const bool projected = desc.inputs == HEED_GRAPH_PROJECTED;
    if (projected) desc.query.dtype = desc.key.dtype = desc.value.dtype = HEED_DTYPE_F64;
    if (desc.width > 0) desc.data.dtype = HEED_DTYPE_F64;
    if (desc.edge_width > 0) desc.edge_data.dtype = HEED_DTYPE_F64;
    desc.out.dtype = HEED_DTYPE_F64;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.", kLayerDesc, given_desc),
            slot("args", "args.", kLayerArgs, given_args)};
  }

  SmallGraph graph;
  Bytes query, key, value, data, edge_data, edge_bias, head_weights;
  Bytes w_query, w_key, w_value, b_query, b_key, b_value, w_edge_key, w_edge_value;
  Bytes out, lse, weights;
};

using GraphChange = std::function<void(GraphForm&)>;

/// Its gradients.
struct GraphBackwardForm : PlannedForm<GraphBackwardForm, heed_graph_attention_backward_plan> {
  GraphBackwardForm() {
    graph.desc.reverse = 1;
    desc.attention = &layer.desc;
    args.attention = &layer.args;
    give_all_but(
        *this, {"w_query", "w_key", "w_value", "b_query", "b_key", "b_value", "head_weights", "out",
                "lse", "weights", "grad_w_query", "grad_w_key", "grad_w_value", "grad_b_query",
                "grad_b_key", "grad_b_value", "grad_head_weights"});
    layer.args.out = layer.args.lse = layer.args.weights = nullptr;
  }
  void share() {
    per_node();
    layer.share();
    give(*this, {"grad_b_query", "grad_b_key", "grad_b_value"});
  }
  void per_node() {
    layer.per_node();
    args.grad_query = args.grad_key = args.grad_value = nullptr;
    give(*this, {"grad_w_query", "grad_w_key", "grad_w_value"});
  }
  void no_edge_data() {
    layer.no_edge_data();
    args.grad_edge_data = args.grad_w_edge_key = args.grad_w_edge_value = nullptr;
  }
  void no_residual() {
    layer.no_residual();
    args.grad_data = nullptr;
  }
  void weigh() {
    layer.combine(HEED_COMBINE_WEIGHTED);
    give(*this, {"grad_head_weights"});
  }
  void all_float64() {
    layer.all_float64();
    for (heed_layout* const of : {&desc.grad_out, &desc.grad_query, &desc.grad_key,
                                  &desc.grad_value, &desc.grad_data, &desc.grad_edge_data})
      of->dtype = HEED_DTYPE_F64;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 accumulate/4 attention/p grad_out/L grad_lse/L grad_query/L "
                 "grad_key/L grad_value/L grad_data/L grad_edge_data/L grad_edge_bias/L "
                 "grad_w_query/M grad_w_key/M grad_w_value/M grad_w_edge_key/M grad_w_edge_value/M",
                 given_desc),
            slot("args", "args.",
                 "struct_size/4 reserved/4 attention/p grad_out/p grad_lse/p grad_query/p "
                 "grad_key/p grad_value/p grad_data/p grad_w_query/p grad_w_key/p grad_w_value/p "
                 "grad_b_query/p grad_b_key/p grad_b_value/p grad_edge_data/p grad_w_edge_key/p "
                 "grad_w_edge_value/p grad_edge_bias/p grad_head_weights/p",
                 given_args),
            slot("desc.attention", "desc.attention: desc.", kLayerDesc, desc.attention),
            slot("args.attention", "args.attention: args.", kLayerArgs, args.attention)};
  }

  GraphForm layer;
  SmallGraph& graph = layer.graph;
  Bytes grad_out, grad_lse, grads[15];
};

// ---- Calls -------------------------------------------------------------------------------------

/// The graph of a form; none where it has none.
template <class AForm>
Graph graph_of(const Context& context, const AForm& form) {
  if constexpr (Functions<AForm>::kOverGraph)
    return make_graph(context, form.graph.desc);
  else
    return nullptr;
}

/// Through the call that needs no plan.
template <class AForm>
heed_status one_call(const Context& context, AForm& form) {
  const Graph graph = graph_of(context, form);
  forget_last_error();
  return Functions<AForm>::call(context.get(), graph.get(), form.given_desc, form.given_args);
}

}  // namespace api_test
