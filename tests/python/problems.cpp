// Random problems for the tests of the Python package. Each is drawn, run through the C API, and
// said in Python: what a function is called with, and what it must give, bit for bit. Arrays lie
// where C has them, as long as the problem lives.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/problem/draw.hpp"
#include "tests/problem/merge.hpp"
#include "tests/problem/random_problems.hpp"

namespace nb = nanobind;

namespace heed_test {
namespace {

template <class T>
void add_some(nb::dict& to, const char* name, const std::vector<T>& all) {
  if (!all.empty()) to[name] = all;
}

// ---- Tensors ----

using Order = std::vector<std::size_t>;  ///< which axes of a tensor an array has

nb::dlpack::dtype numbers_of(std::uint32_t dtype) {
  const std::string name = name_of_dtype(dtype);
  const auto bits = static_cast<std::uint8_t>(8 * format_of(dtype).bytes);
  using Code = nb::dlpack::dtype_code;
  const Code code = name == "byte"                   ? Code::Bool
                    : name == "i8"                   ? Code::Int
                    : name == "bf16" || name == "f8" ? Code::UInt
                                                     : Code::Float;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

/// Types that NumPy lacks are those of ml_dtypes.
nb::object array(const Tensor& tensor, const Order& axes) {
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (const std::size_t axis : axes) {
    shape.push_back(static_cast<std::size_t>(tensor.shape()[axis]));
    strides.push_back(tensor.strides()[axis]);
  }
  const nb::ndarray<nb::numpy> seen(const_cast<void*>(static_cast<const void*>(tensor.data())),
                                    shape.size(), shape.data(), nb::handle(), strides.data(),
                                    numbers_of(tensor.dtype()));
  const nb::object made = nb::cast(seen, nb::rv_policy::reference);
  const std::string name = name_of_dtype(tensor.dtype());
  if (name != "bf16" && name != "f8") return made;
  const nb::module_ types = nb::module_::import_("ml_dtypes");
  return made.attr("view")(types.attr(name == "f8" ? "float8_e4m3fn" : "bfloat16"));
}

/// The same without an axis for heads, which lie side by side.
nb::object flat(const nb::object& array) {
  const nb::object shape = array.attr("shape");
  return array.attr("reshape")(shape[0], nb::object(shape[1]) * nb::object(shape[2]));
}

/// Zeroes what a run left as it was: so are rows of no sequence in new arrays of Python.
nb::object result(Tensor& tensor, const Order& axes) {
  const Numbers numbers = tensor.numbers();
  std::size_t n = 0;
  tensor.each([&](const Axes& at) {
    if (!numbers.written(n++)) tensor.set(at, 0);
  });
  return array(tensor, axes);
}

Order rows_of(bool packed) { return packed ? Order{2, 1, 3} : Order{0, 1, 2, 3}; }
Order lse_of(bool packed) { return packed ? Order{1, 2} : Order{0, 1, 2}; }
Order inputs_of(bool packed) { return packed ? Order{2, 3} : Order{0, 2, 3}; }

// ---- What operations share ----

template <class... Given>
nb::object in_heed(const char* name, const Given&... given) {
  return nb::module_::import_("heed").attr(name)(given...);
}

template <class Pointer>
std::uintptr_t address(Pointer* of) {
  return reinterpret_cast<std::uintptr_t>(of);
}

/// Outputs beside out, in the types and layouts that Python gives them.
void want_as_python_does(Problem& p) {
  if (p.lse) p.want_lse();
  if (p.weights)
    p.want_weights(static_cast<heed_weights_point>(p.desc.weights_point), HEED_DTYPE_DEFAULT,
                   Arrangement::kDefault, std::vector<std::int64_t>(p.weight_rows));
  if (p.column_sums) p.want_column_sums();
}

void say_offset(nb::dict& call, const char* name, std::uint32_t kind, std::int64_t offset) {
  if (kind == HEED_CAUSAL_TOP_LEFT) call[name] = "top_left";
  if (kind == HEED_CAUSAL_BOTTOM_RIGHT) call[name] = "bottom_right";
  if (kind == HEED_CAUSAL_OFFSET) call[name] = offset;
}

/// An offset of causal is said by alignment, which is then none of its own.
void say_causal(nb::dict& call, const heed_attention_desc& d) {
  if (d.causal == HEED_CAUSAL_OFFSET) {
    call["causal"] = true;
    say_offset(call, "alignment", d.causal, d.causal_offset);
  } else {
    say_offset(call, "causal", d.causal, 0);
  }
}

template <class AProblem>
void say_dropout(nb::dict& call, const AProblem& p) {
  if (p.desc.dropout == 0) return;
  call["dropout"] = p.desc.dropout;
  call["seed"] = nb::make_tuple(static_cast<std::int64_t>(p.dropout_seed),
                                static_cast<std::int64_t>(p.dropout_offset));
}

template <class Desc>
void say_softmax(nb::dict& call, const Desc& d) {
  if (d.scale != 0) call["scale"] = d.scale;
  if (d.softcap != 0) call["softcap"] = d.softcap;
  if (d.temperature != 0) call["temperature"] = d.temperature;
  if (d.hard != 0) call["hard"] = true;
}

template <class Desc>
void say_score(nb::dict& call, const Desc& d) {
  constexpr const char* kScores[] = {"dot", "sum", "additive", "cosine"};
  constexpr const char* kActivations[] = {"identity", "leaky_relu", "tanh"};
  if (d.score == HEED_SCORE_DOT) return;
  call["score"] = kScores[d.score];
  if (d.score == HEED_SCORE_COSINE) return;
  call["activation"] = kActivations[d.activation];
  if (d.activation == HEED_ACTIVATION_LEAKY_RELU) call["slope"] = d.slope;
}

/// What heed.attention takes beside query, key and value, after a run.
void say_options(nb::dict& call, const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const auto bound = [](std::int64_t keys) {
    return keys < 0 ? nb::none() : nb::object(nb::int_(keys));
  };
  say_causal(call, d);
  say_offset(call, "alignment", d.alignment, d.alignment_offset);
  if (d.window != 0) call["window"] = nb::make_tuple(bound(d.window_left), bound(d.window_right));
  say_softmax(call, d);
  say_dropout(call, p);
  add_some(call, "dropout_origin", p.dropout_origin);
  if (p.mask) call["attn_mask"] = array(*p.mask, {0, 1, 2, 3});
  if (p.bias) call["bias"] = array(*p.bias, {0, 1, 2, 3});
  add_some(call, "alibi_slopes", p.slopes.numbers);
  add_some(call, "sinks", p.sinks.numbers);
  say_score(call, d);
  if (d.score == HEED_SCORE_ADDITIVE || !p.score_weights.numbers.empty())  // of no heads none
    call["score_weights"] = p.score_weights.numbers;
  for (const IndexList& list : kIndexLists)
    if (list.indices != &Problem::block_table) add_some(call, list.name, p.*list.indices);
  if (d.packed_queries > 0) call["max_seqlen_q"] = d.query_length;
  if (d.packed_keys > 0 || d.pages > 0) call["max_seqlen_k"] = d.key_length;
  if (p.function.call != nullptr)
    call["score_function"] =
        nb::make_tuple(in_heed("ScoreFunction", address(p.function.call)), address(p.tiles.get()));
}

void ask(nb::dict& call, const Problem& p) {
  if (p.lse) call["return_lse"] = true;
  if (p.weights) call["return_weights"] = name_of_point(p.desc.weights_point);
  add_some(call, "weight_rows", p.weight_rows);
  if (p.column_sums) call["return_column_sums"] = true;
}

void give(nb::dict& results, Problem& p) {
  if (p.lse) results["lse"] = result(*p.lse, lse_of(p.desc.packed_queries > 0));
  if (p.weights) results["weights"] = result(*p.weights, {0, 1, 2, 3});
  if (p.column_sums) results["column_sums"] = result(*p.column_sums, {0, 1, 2});
}

/// Numbers for each row of keys or values of 8 bits, or one for all.
void say_scales(nb::dict& call, const char* name, const std::optional<Tensor>& scales,
                std::uint32_t of, bool packed) {
  if (!scales) return;
  if (of == HEED_DTYPE_F8_E4M3)
    call[name] = scales->get({0, 0, 0, 0});
  else
    call[name] = array(*scales, packed ? Order{2, 1} : Order{0, 1, 2});
}

void say_tensors(nb::dict& call, const Problem& p) {
  const bool packed = p.desc.packed_keys > 0;
  call["query"] = array(p.query, rows_of(p.desc.packed_queries > 0));
  call["key"] = array(p.key, rows_of(packed));
  call["value"] = array(p.value, rows_of(packed));
  say_scales(call, "key_scales", p.key_scales, p.key.dtype(), packed);
  say_scales(call, "value_scales", p.value_scales, p.value.dtype(), packed);
  if (p.desc.pages == 0) return;
  std::vector<std::vector<std::int32_t>> rows;
  const auto stride = static_cast<std::ptrdiff_t>(block_table_stride_of(p.desc));
  const auto width = static_cast<std::ptrdiff_t>(block_table_width_of(p.desc));
  for (std::ptrdiff_t b = 0; b < p.desc.batch; ++b) {
    const auto begin = p.block_table.begin() + b * stride;
    rows.emplace_back(begin, begin + width);
  }
  call["block_table"] = rows;
}

void say_matrix(nb::dict& call, const std::string& name, const nb::object& matrix,
                const std::optional<Tensor>& bias, bool prepared) {
  const nb::object numbers = bias ? array(*bias, {3}) : nb::none();
  call[("w_" + name).c_str()] = prepared ? in_heed("Weights", matrix, numbers) : matrix;
  if (bias && !prepared) call[("b_" + name).c_str()] = numbers;
}

void say_block(nb::dict& call, const Block& b) {
  const heed_attention_desc& d = b.attention.desc;
  const bool heads_apart = b.combine() == HEED_COMBINE_TENSOR;
  call["query"] = array(b.input_query, inputs_of(d.packed_queries > 0));
  if (b.input_key) call["key"] = array(*b.input_key, inputs_of(d.packed_keys > 0));
  say_matrix(call, "query", array(b.w_query.tensor, {2, 3}), b.w_query.bias, b.w_query.prepared);
  say_matrix(call, "key", array(b.w_key.tensor, {2, 3}), b.w_key.bias, b.w_key.prepared);
  say_matrix(call, "value", array(b.w_value.tensor, {2, 3}), b.w_value.bias, b.w_value.prepared);
  if (b.w_out)
    say_matrix(call, "out", array(b.w_out->tensor, heads_apart ? Order{0, 2, 3} : Order{2, 3}),
               b.w_out->bias, b.w_out->prepared);
  call["heads"] = d.query_heads;
  call["key_heads"] = b.key_heads();
  const bool as_they_are = b.combine() == HEED_COMBINE_HEADS;  // in Python without w_out
  call["combine"] = as_they_are ? "concat" : name_of_combine(b.combine());
  add_some(call, "head_weights", b.head_weights.numbers);
}

/// Of an input, and of its gradient: biases of edges are of all heads, or one number for them.
Order axes_of(const GraphProblem& p, std::size_t of) {
  const bool per_node = p.desc.inputs == HEED_GRAPH_PER_NODE;
  const bool shared = p.desc.heads > 1 && p.edge_bias && p.edge_bias->strides()[1] == 0;
  if (of <= kGraphValue) return {2, 1, 3};
  if (of >= kGraphWQuery && of <= kGraphWValue) return per_node ? Order{0, 2, 3} : Order{2, 3};
  if (of == kGraphEdgeBias) return shared ? Order{2} : Order{2, 1};
  const bool vector = of == kGraphHeadWeights || of == kGraphScoreWeights ||
                      (of >= kGraphBQuery && of <= kGraphBValue);
  return vector ? Order{3} : Order{2, 3};
}

/// A result, or its gradient: heads lie side by side where data does.
nb::object like_out(const GraphProblem& p, const Tensor& tensor) {
  if (out_heads_of(p.desc) == 1 && p.desc.combine != HEED_COMBINE_CONCAT)
    return array(tensor, {2, 3});
  const nb::object all = array(tensor, {2, 1, 3});
  return p.query ? all : flat(all);
}

void say_graph(nb::dict& call, const GraphProblem& p) {
  const bool rows = p.form.rows;
  nb::dict graph;
  graph["sources"] = p.edges.sources;
  if (rows)
    graph["offsets"] = GraphArrays(p.edges, p.form).ends;
  else
    graph["destinations"] = p.edges.destinations;
  if (!rows) graph["nodes"] = p.edges.nodes;
  if (p.edges.source_nodes > 0) graph["source_nodes"] = p.edges.source_nodes;
  graph["duplicates"] = p.edges.unique ? "remove" : "keep";
  call["graph"] = graph;
  for (std::size_t of = 0; of < kGraphOut; ++of) {
    if (!p.at(of)) continue;
    const std::string name = graph_tensor(of).name;
    const nb::object tensor = array(*p.at(of), axes_of(p, of));
    if (of >= kGraphWQuery && of <= kGraphWValue)
      say_matrix(call, name.substr(2), tensor, p.at(of - kGraphWQuery + kGraphBQuery),
                 p.prepared[of - kGraphWQuery]);
    else if (of < kGraphBQuery || of > kGraphBValue)
      call[name.c_str()] = tensor;
  }
  if (!p.query) call["heads"] = p.desc.heads;
  say_softmax(call, p.desc);
  call["combine"] = name_of_combine(p.desc.combine);
  say_score(call, p.desc);
  say_dropout(call, p);
  add_some(call, "dropout_edges", p.dropout_edges);
  if (p.desc.residual != 0) call["residual"] = true;
  if (p.desc.steps > 1) call["steps"] = p.desc.steps;
}

/// The gradients that were drawn, but contiguous and not added to anything.
template <class AProblem>
void want_plainly(AProblem& p) {
  const auto drawn = p.gradients;
  p.want_nothing();
  for (const auto of : p.all())
    if (drawn[of]) p.want(of, {drawn[of]->dtype(), Arrangement::kDefault, 0});
}

/// `axes_of(gradient)` says which axes it has in Python.
template <class AProblem, class AxesOf>
void give_gradients(nb::dict& results, AProblem& p, AxesOf&& axes_of) {
  for (const auto of : p.all()) {
    if (!p.gradients[of]) continue;
    std::string name = name_of(of);
    if (name.rfind("input_", 0) == 0) name = name.substr(6);
    if (name == "slopes") name = "alibi_slopes";
    const bool number = name == "scale" || name == "temperature";
    results[name.c_str()] = result(*p.gradients[of], number ? Order{} : axes_of(of));
  }
}

void say_score_gradient(nb::dict& call, const Problem& p) {
  if (p.function.call != nullptr)
    call["score_gradient"] = in_heed("ScoreGradient", address(p.function.gradient));
}

// Python gives an axis of one element the stride 0, whatever it was: then sums over rows and
// products with a matrix of one row or column may have another order.

bool has_single(const BlockBackward& p) {
  const Problem& a = p.block.attention;
  return a.query.shape()[2] == 1 || a.key.shape()[2] == 1;
}

bool has_single(const GraphProblem& p) {
  const auto single = [](const std::optional<Tensor>& matrix) {
    return matrix && (matrix->shape()[2] == 1 || matrix->shape()[3] == 1);
  };
  return single(p.w_query) || single(p.w_value) || single(p.w_edge_key) || single(p.w_edge_value);
}
bool has_single(const GraphBackwardProblem& p) { return has_single(p.forward); }

/// The first of draw(seed), draw(another) and so on that has none.
template <class Draw>
auto without_single(std::uint64_t seed, Draw&& draw) {
  for (auto p = draw(seed);; p = draw(seed += std::uint64_t{1} << 32U))
    if (!has_single(p)) return p;
}

// ---- Operations ----

/// A call and results of a problem that has been run, and that lives as long as they.
class Drawn {
 public:
  template <class AProblem>
  AProblem& keep(AProblem&& drawn) {
    const auto kept = std::make_shared<AProblem>(std::move(drawn));
    problem_ = kept;
    return *kept;
  }
  nb::dict call, results;
  std::string line;

 private:
  std::shared_ptr<void> problem_;
};

void draw_attention(std::uint64_t seed, Drawn& d) {
  Problem& p = d.keep(draw_problem(seed, {seed % 4 == 0 ? Lengths::kFew : Lengths::kAny}));
  want_as_python_does(p);
  p.run_all(make_context(nullptr));
  say_tensors(d.call, p);
  say_options(d.call, p);
  ask(d.call, p);
  d.results["out"] = result(p.out, rows_of(p.desc.packed_queries > 0));
  give(d.results, p);
  d.line = line_of(p);
}

void draw_attention_backward(std::uint64_t seed, Drawn& d) {
  BackwardProblem& p = d.keep(draw_backward(seed));
  const Context context = make_context(nullptr);
  const bool packed_q = p.forward.desc.packed_queries > 0;
  const bool packed_k = p.forward.desc.packed_keys > 0;
  want_plainly(p);
  p.attend(context);
  p.run(context);
  say_tensors(d.call, p.forward);
  say_options(d.call, p.forward);
  say_score_gradient(d.call, p.forward);
  d.call["out"] = array(p.forward.out, rows_of(packed_q));
  d.call["lse"] = array(*p.forward.lse, lse_of(packed_q));
  d.call["grad_out"] = array(p.grad_out, rows_of(packed_q));
  if (p.grad_lse) d.call["grad_lse"] = array(*p.grad_lse, lse_of(packed_q));
  give_gradients(d.results, p, [&](GradientOf of) {
    if (of == kGradQuery) return rows_of(packed_q);
    if (of == kGradKey || of == kGradValue) return rows_of(packed_k);
    return of == kGradBias ? Order{0, 1, 2, 3} : Order{3};
  });
  d.line = line_of(p);
}

void draw_multihead(std::uint64_t seed, Drawn& d) {
  Block& b = d.keep(draw_block(seed));
  want_as_python_does(b.attention);
  b.run_all(make_context(nullptr));
  say_block(d.call, b);
  say_options(d.call, b.attention);
  ask(d.call, b.attention);
  d.results["out"] = result(b.out, inputs_of(b.attention.desc.packed_queries > 0));
  give(d.results, b.attention);
  d.line = line_of(b);
}

void draw_multihead_backward(std::uint64_t seed, Drawn& d) {
  BlockBackward& p = d.keep(without_single(seed, draw_block_backward));
  const Problem& attention = p.block.attention;
  const bool packed_q = attention.desc.packed_queries > 0;
  want_plainly(p);
  p.block.own_desc.keep = seed % 2 == 0 ? 1 : 0;
  p.run(make_context(nullptr));
  say_block(d.call, p.block);
  say_options(d.call, attention);
  say_score_gradient(d.call, attention);
  d.call["grad_out"] = array(p.grad_out, inputs_of(packed_q));
  if (p.grad_lse) d.call["grad_lse"] = array(*p.grad_lse, lse_of(packed_q));
  give_gradients(d.results, p, [&](BlockGradientOf of) {
    if (of == kBlockInputQuery) return inputs_of(packed_q);
    if (of == kBlockInputKey) return inputs_of(attention.desc.packed_keys > 0);
    if (of == kBlockWOut && p.block.combine() == HEED_COMBINE_TENSOR) return Order{0, 2, 3};
    if (of >= kBlockWQuery && of <= kBlockWOut) return Order{2, 3};
    return of == kBlockBias ? Order{0, 1, 2, 3} : Order{3};
  });
  d.line = line_of(p);
}

void draw_graph_attention(std::uint64_t seed, Drawn& d) {
  GraphProblem& p = d.keep(without_single(seed, drawn<Graphs::kAny>));
  p.in_place = false;
  for (const std::size_t of : {std::size_t{kGraphLse}, std::size_t{kGraphWeights}}) {
    (p.desc.*graph_tensor(of).rows).dtype = HEED_DTYPE_DEFAULT;
    if (p.at(of)) p.add({of});
  }
  p.run(make_context(nullptr));
  say_graph(d.call, p);
  if (p.lse) d.call["return_lse"] = true;
  if (p.weights) d.call["return_weights"] = true;
  d.results["out"] = like_out(p, *p.out);
  if (p.lse) d.results["lse"] = result(*p.lse, {2, 1});
  if (p.weights) d.results["weights"] = result(*p.weights, {2, 1});
  d.line = line_of(p);
}

void draw_graph_attention_backward(std::uint64_t seed, Drawn& d) {
  GraphBackwardProblem& p =
      d.keep(without_single(seed, [](std::uint64_t s) { return draw_graph_backward(s); }));
  if (p.forward.data) p.forward.desc.out.dtype = p.forward.data->dtype();  // as steps hand it on
  p.forward.add({kGraphOut});
  want_plainly(p);
  p.run(make_context(nullptr));
  say_graph(d.call, p.forward);
  d.call["grad_out"] = like_out(p.forward, p.grad_out);
  if (p.grad_lse) d.call["grad_lse"] = array(*p.grad_lse, {2, 1});
  give_gradients(d.results, p, [&](GraphGradientOf of) { return axes_of(p.forward, of); });
  d.line = line_of(p);
}

/// Into the parts' types, as in Python.
void draw_merging(std::uint64_t seed, Drawn& d) {
  Draw draw(seed);
  heed_merge_desc desc = draw_merge_desc(draw);
  LaidOutMerge(desc).out.arrange(Arrangement::kDefault, desc.part_out.dtype);
  LaidOutMerge(desc).lse.arrange(Arrangement::kDefault, desc.part_lse.dtype);
  Merge& m = d.keep(Merge::of(desc, static_cast<std::size_t>(draw.integer(1, 4)), draw.index(4)));
  const bool packed = desc.batch == 1 && draw.one_in(2);
  draw_numbers(draw, m);
  m.run_all(make_context(nullptr));
  nb::list pairs;
  for (std::size_t k = 0; k < m.outs.size(); ++k)
    pairs.append(
        nb::make_tuple(array(m.outs[k], rows_of(packed)), array(m.lses[k], lse_of(packed))));
  d.call["parts"] = pairs;
  if (packed) d.call["packed"] = true;
  d.results["out"] = array(m.out, rows_of(packed));
  d.results["lse"] = array(m.lse, lse_of(packed));
  d.line = line_of(m);
}

void draw_operation(const std::string& name, std::uint64_t seed, Drawn& drawn) {
  static const std::map<std::string, void (*)(std::uint64_t, Drawn&)> kAll = {
      {"attention", draw_attention},
      {"attention_backward", draw_attention_backward},
      {"multihead", draw_multihead},
      {"multihead_backward", draw_multihead_backward},
      {"graph_attention", draw_graph_attention},
      {"graph_attention_backward", draw_graph_attention_backward},
      {"merge", draw_merging},
  };
  kAll.at(name)(seed, drawn);
}

}  // namespace
}  // namespace heed_test

NB_MODULE(heed_python_problems, module) {
  nb::set_leak_warnings(false);  // the latest problem lives as long as the process
  module.def("draw", [](const std::string& operation, std::uint64_t seed) {
    // What it is called with and must give lives until the next one is drawn.
    static heed_test::Drawn* const latest = new heed_test::Drawn;
    *latest = {};
    heed_test::draw_operation(operation, seed, *latest);
    return nb::make_tuple(operation + " " + std::to_string(seed) + ": " + latest->line,
                          latest->call, latest->results);
  });
}
