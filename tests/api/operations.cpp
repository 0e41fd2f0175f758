// The operations of the C API: their structs, tensors and calls, and a valid problem of each.
#include "tests/api/caches.hpp"
#include "tests/api/forms.hpp"

namespace api_test {
namespace {

using heed_test::AttentionShapes;
using heed_test::kByte;

// ---- Functions of plans ------------------------------------------------------------------------

/// Calls a function, with the graph if that takes one.
template <class Function, class... Given>
heed_status call_over(Function function, const heed_context* context,
                      [[maybe_unused]] const heed_graph* graph, Given... given) {
  if constexpr (std::is_invocable_v<Function, const heed_context*, const heed_graph*, Given...>)
    return function(context, graph, given...);
  else
    return function(context, given...);
}

template <class Plan>
const Planned* planned() {
  using Api = heed_test::Functions<Plan>;
  using Desc = typename Api::Desc;
  using Args = typename Api::Args;
  using Info = typename Api::Info;
  static const Planned functions = {
      [](const heed_context* context, const heed_graph* graph, const void* desc, void** plan) {
        return call_over(Api::create, context, graph, static_cast<const Desc*>(desc),
                         reinterpret_cast<Plan**>(plan));
      },
      [](void* plan) { Api::destroy(static_cast<Plan*>(plan)); },
      [](const void* plan, void* info) {
        return Api::describe(static_cast<const Plan*>(plan), static_cast<Info*>(info));
      },
      [](const void* plan) -> PlanInfo {
        auto info = heed_test::sized<Info>();
        if (Api::describe(static_cast<const Plan*>(plan), &info) != HEED_STATUS_OK) return {};
        return {info.executor, info.workspace_bytes, info.threads};
      },
      sizeof(Info),
      [](const void* plan, std::size_t* bytes) {
        return Api::workspace(static_cast<const Plan*>(plan), bytes);
      },
      [](void* plan, const void* args, void* workspace, std::size_t bytes) {
        return Api::run(static_cast<Plan*>(plan), static_cast<const Args*>(args), workspace, bytes);
      },
      [](const heed_context* context, const heed_graph* graph, const void* desc, const void* args) {
        return call_over(Api::call, context, graph, static_cast<const Desc*>(desc),
                         static_cast<const Args*>(args));
      }};
  return &functions;
}

heed_status call_planned(const Context& context, Form& f) {
  const Object graph = f.graph_of(context);
  return f.of.planned->call(context.get(), static_cast<heed_graph*>(graph.get()), f.given("desc"),
                            f.given("args"));
}

// ---- Tensors -----------------------------------------------------------------------------------

/// Sizes that were made wrong may overflow: their tensors are then refused, and nobody asks how
/// many elements they have.
std::int64_t product(std::initializer_list<std::int64_t> sizes) {
  std::uint64_t all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<std::uint64_t>(size);
  return static_cast<std::int64_t>(all);
}
std::int64_t one_more(std::int64_t size) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(size) + 1);
}

std::uint32_t real_of(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

/// Adds tensors whose pointers are in one struct and whose layouts, if they have any, are in
/// another under the same name.
struct Table {
  Form& form;
  std::vector<Tensor>& all;
  std::string args, desc;
  std::uint32_t real;  ///< the type of the arithmetic, which a type of 0 means

  Tensor& add(const std::string& name, const Axes& axes, Tensor::Content content,
              std::uint32_t dtype, const std::string& layout) {
    Tensor tensor;
    tensor.name = args + name;
    tensor.field = form.address(*form.find(tensor.name));
    tensor.content = content;
    tensor.axes = axes;
    tensor.elements = product({axes[0], axes[1], axes[2], axes[3]});
    const Member* const laid = form.find(desc + layout);
    if (laid != nullptr && inside_of(laid->type) != nullptr) {
      tensor.layout = laid->name;
      tensor.kind = laid->type;
      tensor.at = form.address(*laid);
      std::memcpy(&dtype, tensor.at, sizeof dtype);
    }
    tensor.dtype = dtype == HEED_DTYPE_DEFAULT ? real : dtype;
    all.push_back(tensor);
    return all.back();
  }
  Tensor& input(const std::string& name, const Axes& axes) {
    return add(name, axes, Tensor::kNumbers, 0, name);
  }
  Tensor& output(const std::string& name, const Axes& axes) {
    return add(name, axes, Tensor::kResult, 0, name);
  }
  Tensor& vector(const std::string& name, std::int64_t elements, std::uint32_t dtype = 0) {
    return add(name, {1, 1, 1, elements}, Tensor::kNumbers, dtype, "-");
  }
  void list(const std::string& name, std::int64_t elements, std::uint32_t type) {
    add(name, {1, 1, 1, elements}, Tensor::kGiven, type, "-");
  }
  void matrix(const std::string& name, const Axes& axes) {
    Tensor& tensor = input("w_" + name, axes);
    tensor.prepared =
        reinterpret_cast<const heed_weights**>(form.address(*form.find(args + "p_" + name)));
  }
};

/// Of rows like these.
Axes like(const Axes& rows, std::int64_t heads, std::int64_t features) {
  return {rows[0], heads, rows[2], features};
}

/// Of dense attention, and the same within a block.
void add_options(Table& t, const heed_attention_desc& d) {
  const std::int64_t heads = d.query_heads;
  t.input("mask", heed_test::pairs_of(d)).dtype = kByte;
  t.input("bias", heed_test::pairs_of(d));
  t.list("key_lengths", d.batch, kI32);
  t.list("first_keys", d.batch, kI32);
  t.list("cu_seqlens_q", one_more(d.batch), kI32);
  t.list("cu_seqlens_k", one_more(d.batch), kI32);
  t.list("block_table", d.pages > 0 ? d.batch : 0, kI32);
  t.vector("alibi_slopes", heads);
  t.vector("sinks", heads);
  t.vector("score_weights", product({heads, d.features}));
  t.list("weight_rows", d.weight_rows, kI64);
  t.list("dropout_origin", 4, kI64);
  t.output("lse", like(AttentionShapes(d).query, heads, 1));
  const std::int64_t weight_rows = d.weight_rows > 0 ? d.weight_rows : d.query_length;
  t.output("weights", {d.batch, heads, weight_rows, d.key_length});
  t.output("column_sums", {d.batch, heads, d.key_length, 1});
}

void add_attention(Table& t, const heed_attention_desc& d) {
  const auto add = [&](const char* name, const Axes& axes, bool packed) {
    Tensor& tensor = t.input(name, axes);
    tensor.needed = true;
    tensor.rows_first = packed;
  };
  const AttentionShapes shapes(d);
  add("query", shapes.query, d.packed_queries > 0);
  add("key", shapes.key, d.packed_keys > 0);
  add("value", shapes.value, d.packed_keys > 0);
  add("out", shapes.out, d.packed_queries > 0);
  t.all.back().content = Tensor::kResult;
  add_options(t, d);
}

/// The gradients among a call's arguments, each like the tensor that it is of, and those of out and
/// lse, which are given. Of biases they may have a type of their own.
void add_gradients(Form& f, std::vector<Tensor>& all, std::uint32_t real,
                   std::uint32_t bias_dtype = 0) {
  Table t = {f, all, "args.", "desc.", real};
  for (const Member& member : f.of.members) {
    if (member.name.rfind("args.grad_", 0) != 0) continue;
    const std::string gradient = member.name.substr(5), name = gradient.substr(5);
    Tensor of;
    of.axes = {1, 1, 1, 1};  // of scale and temperature
    for (const Tensor& tensor : all)
      if (tensor.is_one_of(name)) of = tensor;
    const bool given = name == "out" || name == "lse";
    Tensor& added = t.add(gradient, of.axes, given ? Tensor::kNumbers : Tensor::kResult,
                          name.rfind("b_", 0) == 0 ? bias_dtype : 0, gradient);
    added.needed = name == "out";
    added.rows_first = of.rows_first;
  }
}

void dense_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_attention_desc>("desc");
  Table t = {f, all, "args.", "desc.", real_of(d.query.dtype)};
  add_attention(t, d);
  for (const auto& [name, of] :
       {std::pair("key_scales", d.key.dtype), {"value_scales", d.value.dtype}}) {
    if (of == HEED_DTYPE_I8)
      t.input(name, like(AttentionShapes(d).key, d.key_heads, 1)).dtype = HEED_DTYPE_F32;
    else
      t.vector(name, 1, HEED_DTYPE_F32);
  }
}

void backward_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_attention_desc>("desc.attention");
  Table inner = {f, all, "args.attention: args.", "desc.attention: desc.", real_of(d.query.dtype)};
  add_attention(inner, d);
  for (Tensor& tensor : all)  // which gradients read
    if (tensor.is_one_of("out lse")) tensor.content = Tensor::kNumbers;
  add_gradients(f, all, inner.real);
}

void add_block(Form& f, std::vector<Tensor>& all, const std::string& args,
               const std::string& desc) {
  const auto& b = f.at<heed_multihead_desc>(desc);
  const auto& d =
      f.at<heed_attention_desc>(desc == "desc" ? "desc.attention" : desc + ": desc.attention");
  const bool inside = desc != "desc";
  Table t = {f, all, inside ? args + ": args." : "args.", inside ? desc + ": desc." : "desc.",
             real_of(b.input_query.dtype)};
  const std::int64_t features = product({d.query_heads, d.features});
  const std::int64_t key_features = product({d.key_heads, d.features});
  const std::int64_t key_values = product({d.key_heads, d.value_features});
  const std::int64_t out = b.width_out > 0 ? b.width_out : d.value_features;
  const std::int64_t separate = b.combine == HEED_COMBINE_TENSOR ? d.query_heads : 1;
  const AttentionShapes shapes(d);
  t.input("input_query", like(shapes.query, 1, b.width_query)).needed = true;
  t.input("input_key", like(shapes.key, 1, b.width_key));
  t.matrix("query", {1, 1, b.width_query, features});
  t.matrix("key", {1, 1, b.width_key, key_features});
  t.matrix("value", {1, 1, b.width_key, key_values});
  t.matrix("out", {separate, 1, product({d.query_heads, d.value_features}) / separate, out});
  t.vector("b_query", features, b.bias_dtype);
  t.vector("b_key", key_features, b.bias_dtype);
  t.vector("b_value", key_values, b.bias_dtype);
  t.vector("b_out", out, b.bias_dtype);
  t.vector("head_weights", d.query_heads);
  t.output("out", like(shapes.query, 1, out)).needed = true;
  Table inner = {f, all, t.args + "attention: args.", t.desc + "attention: desc.", t.real};
  add_options(inner, d);
}

void block_tensors(Form& f, std::vector<Tensor>& all) { add_block(f, all, "args", "desc"); }

void block_backward_tensors(Form& f, std::vector<Tensor>& all) {
  add_block(f, all, "args.block", "desc.block");
  add_gradients(f, all, real_of(f.at<heed_multihead_desc>("desc.block").input_query.dtype),
                f.at<heed_multihead_backward_desc>("desc").grad_b_dtype);
}

void add_layer(Table& t, const heed_graph_attention_desc& d, const heed_graph_desc& graph) {
  const std::size_t first = t.all.size();
  const std::int64_t nodes = graph.nodes, edges = graph.edges;
  const std::int64_t own = d.inputs == HEED_GRAPH_PER_NODE ? nodes : 1;
  const std::int64_t features = product({d.heads, d.features});
  const std::int64_t values = product({d.heads, d.value_features});
  const std::int64_t heads_out = d.combine == HEED_COMBINE_CONCAT ? d.heads : 1;
  t.input("query", {1, d.heads, nodes, d.features}).needed = true;
  t.input("key", {1, d.heads, nodes, d.features}).needed = true;
  t.input("value", {1, d.heads, nodes, d.value_features}).needed = true;
  t.input("data", {1, 1, nodes, d.width}).needed = true;
  t.input("edge_data", {1, 1, edges, d.edge_width}).needed = true;
  t.input("edge_bias", {1, d.heads, edges, 1});
  t.output("out", {1, heads_out, nodes, d.value_features}).needed = true;
  t.output("lse", {1, d.heads, nodes, 1});
  t.output("weights", {1, d.heads, edges, 1});
  for (std::size_t i = first; i < t.all.size(); ++i) t.all[i].rows_first = true;
  t.matrix("query", {own, 1, d.width, features});
  t.matrix("key", {own, 1, d.width, features});
  t.matrix("value", {own, 1, d.width, values});
  t.input("w_edge_key", {1, 1, d.edge_width, features});
  t.input("w_edge_value", {1, 1, d.edge_width, values});
  t.vector("b_query", features, d.bias_dtype);
  t.vector("b_key", features, d.bias_dtype);
  t.vector("b_value", values, d.bias_dtype);
  t.vector("head_weights", d.heads);
  t.vector("score_weights", features);
  t.list("dropout_edges", edges, kI64);
}

std::uint32_t real_of(const heed_graph_attention_desc& d) {
  return real_of(d.inputs == HEED_GRAPH_PROJECTED ? d.query.dtype : d.data.dtype);
}

void layer_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_graph_attention_desc>("desc");
  Table t = {f, all, "args.", "desc.", real_of(d)};
  add_layer(t, d, f.at<heed_graph_desc>("graph"));
}

void layer_backward_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_graph_attention_desc>("desc.attention");
  Table inner = {f, all, "args.attention: args.", "desc.attention: desc.", real_of(d)};
  add_layer(inner, d, f.at<heed_graph_desc>("graph"));
  add_gradients(f, all, inner.real);
}

void add_edges(Form& f, std::vector<Tensor>& all, const std::string& graph) {
  const auto& d = f.at<heed_graph_desc>(graph);
  const std::uint32_t type = d.index_type == HEED_INDEX_I64 ? kI64 : kI32;
  Table t = {f, all, graph + ".", "", type};
  t.list("sources", d.edges, type);
  t.list("destinations", d.edges, type);
  t.list("offsets", one_more(d.nodes), type);
}

void merge_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_merge_desc>("desc");
  Table t = {f, all, "", "desc.", real_of(d.part_out.dtype)};
  const Axes rows = {d.batch, d.heads, d.rows, d.features};
  const Axes numbers = {d.batch, d.heads, d.rows, 1};
  for (const char* const part : {"[0]", "[1]", "[2]"}) {
    t.add(std::string("part_outs") + part, rows, Tensor::kNumbers, 0, "part_out");
    t.add(std::string("part_lses") + part, numbers, Tensor::kNumbers, 0, "part_lse");
  }
  t.output("out", rows);
  for (Tensor& tensor : all) tensor.needed = true;
  t.output("lse", numbers);
}

void rotate_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_rotate_desc>("desc");
  Table t = {f, all, "", "desc.", HEED_DTYPE_F32};
  t.input("from", {d.batch, d.heads, d.rows, d.features}).needed = true;
  t.output("to", {d.batch, d.heads, d.rows, d.features}).needed = true;
  t.list("positions", product({d.batch, d.rows}), kI64);
  t.list("desc.rotary.cosines", product({d.rotary.table_rows, 3}), HEED_DTYPE_F32);
  t.list("desc.rotary.sines", product({d.rotary.table_rows, 3}), HEED_DTYPE_F32);
}

void matrix_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_weights_desc>("desc");
  Table t = {f, all, "", "desc.", real_of(d.arithmetic)};
  const std::int64_t matrices = d.matrices > 0 ? d.matrices : 1;
  t.add("matrix", {matrices, 1, d.in, d.out}, Tensor::kNumbers, 0, "layout").needed = true;
  t.vector("bias", d.out, d.bias_dtype);
}

void project_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_project_desc>("desc");
  Table t = {f, all, "", "desc.", HEED_DTYPE_F32};
  const auto& prepared = f.at<PreparedSizes>("prepared");
  t.input("x", {d.batch, 1, d.rows, prepared.in});
  t.output("y", {d.batch, 1, d.rows, prepared.out});
  for (Tensor& tensor : all) tensor.needed = true;
}

void graph_tensors(Form& f, std::vector<Tensor>& all) { add_edges(f, all, "desc"); }

void cache_tensors(Form& f, std::vector<Tensor>& all) {
  const heed_rotary& r = f.at<heed_cache_desc>("desc").rotary;
  Table t = {f, all, "desc.rotary.", "", HEED_DTYPE_F32};
  t.list("cosines", product({r.table_rows, 2}), HEED_DTYPE_F32);
  t.list("sines", product({r.table_rows, 2}), HEED_DTYPE_F32);
}

void append_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_cache_append_desc>("desc");
  const auto& c = f.at<heed_cache_desc>("cache");
  Table t = {f, all, "", "desc.", HEED_DTYPE_F32};
  t.input("key", {1, c.key_heads, d.rows, c.features});
  t.input("value", {1, c.key_heads, d.rows, c.value_features});
  for (Tensor& tensor : all) tensor.needed = tensor.rows_first = true;
  t.list("desc.positions", d.rows, kI64);
}

void cache_attention_tensors(Form& f, std::vector<Tensor>& all) {
  const auto& d = f.at<heed_attention_desc>("desc.attention");
  const auto& c = f.at<heed_cache_desc>("cache");
  Table t = {f, all, "args.", "desc.attention: desc.", HEED_DTYPE_F32};
  const Axes rows = AttentionShapes(d).query;
  t.input("query", like(rows, d.query_heads, c.features)).needed = true;
  t.output("out", like(rows, d.query_heads, c.value_features)).needed = true;
  t.output("lse", like(rows, d.query_heads, 1));
  t.input("mask", {d.batch, d.query_heads, d.query_length, 20}).dtype = kByte;
  t.list("cu_seqlens_q", one_more(d.batch), kI32);
  Table of_call = {f, all, "desc.", "", HEED_DTYPE_F32};
  of_call.list("sequences", d.batch, kI64);
  of_call.list("positions", product({d.batch, d.query_length}), kI64);
}

void no_tensors(Form&, std::vector<Tensor>&) {}

// ---- Calls without plans -----------------------------------------------------------------------

/// What functions get beside descriptors; the schemas below have their names.
struct RotateArgs {
  const void* from;
  const std::int64_t* positions;
  void* to;
};
struct TwoArgs {
  const void* in;
  void* out;
};

heed_status call_merge(const Context& context, Form& f) {
  const auto& a = f.at<MergeArgs>("args");
  return heed_merge(context.get(), static_cast<const heed_merge_desc*>(f.given("desc")),
                    static_cast<std::size_t>(a.parts), a.outs, a.lses, a.out, a.lse);
}

heed_status call_rotate(const Context& context, Form& f) {
  const auto& a = f.at<RotateArgs>("args");
  return heed_rotate(context.get(), static_cast<const heed_rotate_desc*>(f.given("desc")), a.from,
                     a.positions, a.to);
}

/// Calls create(&made) and destroys what that makes.
template <class T, class Create>
heed_status make_and_destroy(Form& f, const Create& create) {
  heed_test::Owned<T> object;
  const heed_status status = make_object(object, create);
  f.made = object != nullptr;
  return status;
}

heed_status call_matrix(const Context& context, Form& f) {
  const auto& a = f.at<TwoArgs>("args");
  return make_and_destroy<heed_weights>(f, [&](heed_weights** weights) {
    return heed_weights_create(context.get(),
                               static_cast<const heed_weights_desc*>(f.given("desc")), a.in, a.out,
                               weights);
  });
}

heed_status call_project(const Context& context, Form& f) {
  const auto& a = f.at<TwoArgs>("args");
  if (f.weights == nullptr) (void)f.prepare(serial());
  return heed_project(context.get(), static_cast<const heed_project_desc*>(f.given("desc")),
                      f.weights.get(), a.in, a.out);
}

heed_status call_graph(const Context& context, Form& f) {
  return make_and_destroy<heed_graph>(f, [&](heed_graph** graph) {
    return heed_graph_create(context.get(), static_cast<const heed_graph_desc*>(f.given("desc")),
                             graph);
  });
}

/// What the cache takes, and the cache; both are refused alike.
heed_status call_cache(const Context& context, Form& f) {
  const auto* const desc = static_cast<const heed_cache_desc*>(f.given("desc"));
  std::size_t bytes = 77;
  const heed_status told = heed_cache_bytes(desc, &bytes);
  const std::string said = heed_last_error();
  forget_last_error();
  const heed_status status = make_and_destroy<heed_cache>(
      f, [&](heed_cache** cache) { return heed_cache_create(context.get(), desc, cache); });
  const bool alike =
      told == status && said == heed_last_error() && (bytes == 77) == (status != HEED_STATUS_OK);
  return alike ? status : HEED_STATUS_INTERNAL;
}

heed_status call_append(const Context& context, Form& f) {
  const FilledCache filled(context, f.at<heed_cache_desc>("cache"));
  const auto& a = f.at<TwoArgs>("args");
  forget_last_error();
  const heed_status status =
      heed_cache_append(filled.get(), filled.sequences[0],
                        static_cast<const heed_cache_append_desc*>(f.given("desc")), a.in, a.out);
  f.made = filled.state() != filled.before;
  return status;
}

heed_status call_cache_attention(const Context& context, Form& f) {
  const FilledCache filled(context, f.at<heed_cache_desc>("cache"));
  std::memcpy(f.own("desc.sequences"), filled.sequences, sizeof filled.sequences);
  forget_last_error();
  const heed_status status = heed_cache_attention(
      filled.get(), static_cast<const heed_cache_attention_desc*>(f.given("desc")),
      static_cast<const heed_attention_args*>(f.given("args")));
  return filled.state() == filled.before ? status : HEED_STATUS_INTERNAL;
}

/// What the options of a context point at, and its memory, all of which comes back.
struct Surroundings {
  const Environment environment;
  CountingAllocator memory;
};

heed_status call_context(const Context&, Form& f) {
  const heed_status status = make_and_destroy<heed_context>(f, [&](heed_context** context) {
    return heed_context_create(static_cast<const heed_context_options*>(f.given("options")),
                               context);
  });
  return static_cast<Surroundings*>(f.keeps.get())->memory.live() == 0 ? status
                                                                       : HEED_STATUS_INTERNAL;
}

void start_context(Form& f) {
  const auto surroundings = std::make_shared<Surroundings>();
  f.at<heed_allocator>("options.allocator") = surroundings->memory.get();
  f.at<heed_executor>("options.executor") = in_order(2);
  f.keeps = surroundings;
}

// ---- The list ----------------------------------------------------------------------------------

std::vector<Operation> described() {
  return {
      {"dense",
       {{"desc", kAttentionDesc}, {"args", kAttentionArgs}},
       dense_tensors,
       R"(
    lacks: key_scales value_scales score_weights
    begin: desc.batch desc.key_heads = 2, desc.query_heads desc.features = 4, desc.query_length = 3,
      desc.key_length = 5, desc.value_features = 6, desc.alignment = 2, desc.weights_point = 4,
      desc.weight_rows = 2, desc.sum_columns = 1, args.key_lengths = {5 2}, args.weight_rows = {0 2}
    valid: pack_queries, pack_keys | 16 bits | 8 bits | additive | cosine | drop | float64 (8)
    additive: desc.(score activation) = 2, args.score_weights = own
    sum: desc.(score features) = 1
    cosine: desc.score = 3
    pack_queries: desc.packed_queries = 6, args.cu_seqlens_q = {0 3 5}
    pack_keys: desc.packed_keys = 10, args.cu_seqlens_k = {1 6 10}
    page: desc.pages = 3, desc.page_rows = 16, args.block_table = {2 0}
    float64: desc.(query key value out).dtype = f64
    16 bits: desc.(query key value out).dtype = f16, desc.(bias weights column_sums).dtype = bf16
    8 bits: desc.key.dtype = i8, desc.value.dtype = e4m3, args.(key_scales value_scales) = own
    hard: desc.hard = 1, args.(sinks lse) = NULL
    drop: desc.dropout = 0.5, args.dropout_origin = {0 1 2 3}
    unaligned: desc.alignment = 0, args.alibi_slopes = NULL
    strides of 1: desc.(query key value out lse weights column_sums) = [1 1 1 1],
      desc.(mask.stride_row bias.stride_row) = 1, desc.weight_rows = 0, args.weight_rows = NULL
    rows of nobody: desc.(batch weights_point weight_rows sum_columns) = 0,
      desc.(packed_queries packed_keys) = 5, args.(cu_seqlens_q cu_seqlens_k) = {0},
      args.(mask bias key_lengths alibi_slopes sinks weight_rows lse weights column_sums) = NULL)",
       call_planned,
       planned<heed_attention_plan>()},
      {"backward",
       {{"desc", kAttentionBackwardDesc},
        {"args", kAttentionBackwardArgs},
        {"desc.attention", kAttentionDesc},
        {"args.attention", kAttentionArgs}},
       backward_tensors,
       R"(
    lacks: weights column_sums score_weights grad_score_weights
    begin: desc.attention->(batch key_heads) = 2, desc.attention->(query_heads features) = 4,
      desc.attention->query_length = 3, desc.attention->key_length = 5,
      desc.attention->value_features = 6, desc.attention->alignment = 2,
      args.attention->key_lengths = {5 2}
    valid: pack_queries, pack_keys | additive | float64 (8)
    additive: desc.attention->(score activation) = 2,
      args.attention->score_weights args.grad_score_weights = own
    pack_queries: desc.attention->packed_queries = 6, args.attention->cu_seqlens_q = {0 3 5}
    pack_keys: desc.attention->packed_keys = 10, args.attention->cu_seqlens_k = {0 5 10}
    float64: desc.attention->(query key value out).dtype = f64,
      desc.(grad_out grad_query grad_key grad_value).dtype = f64
    16 bits: desc.attention->(query key value out).dtype = f16, desc.attention->bias.dtype = bf16,
      desc.(grad_out grad_query grad_key grad_value).dtype = f16, desc.grad_bias.dtype = bf16
    functions: args.attention->score_function args.score_gradient = function)",
       call_planned,
       planned<heed_attention_backward_plan>()},
      {"block",  // [2, 3, 7] and [2, 5, 9] to [2, 3, 8]
       {{"desc", kBlockDesc},
        {"args", kBlockArgs},
        {"desc.attention", kAttentionDesc},
        {"args.attention", kAttentionArgs, Part::kOptional}},
       block_tensors,
       R"(
    lacks: bias alibi_slopes sinks column_sums head_weights score_weights
    begin: desc.attention->(batch key_heads) = 2, desc.attention->(query_heads features) = 4,
      desc.attention->query_length = 3, desc.attention->key_length = 5,
      desc.attention->value_features = 6, desc.attention->weights_point = 4,
      desc.width_query = 7, desc.width_key = 9, desc.width_out = 8,
      args.attention->key_lengths = {5 2}
    valid: as it is | weighted | additive | float64 (8)
    additive: desc.attention->(score activation) = 2, args.attention->score_weights = own
    weighted: desc.combine = 1, no w_out, args.head_weights = own
    mean: desc.combine = 2, no w_out
    maximum: desc.combine = 3, no w_out
    no w_out: desc.width_out = 0, args.(w_out b_out) = NULL
    keep: desc.keep = 1, args.kept = own, args.kept_bytes = 8192
    float64: desc.(input_query input_key out).dtype = f64)",
       call_planned,
       planned<heed_multihead_plan>()},
      {"block backward",
       {{"desc", kBlockBackwardDesc},
        {"args", kBlockBackwardArgs},
        {"desc.block", kBlockDesc},
        {"args.block", kBlockArgs},
        {"desc.block: desc.attention", kAttentionDesc},
        {"args.block: args.attention", kAttentionArgs, Part::kOptional}},
       block_backward_tensors,
       R"(
    lacks: weights column_sums lse out head_weights grad_head_weights score_weights
      grad_score_weights
    begin: desc.block->attention->(batch key_heads) = 2,
      desc.block->attention->(query_heads features) = 4, desc.block->attention->query_length = 3,
      desc.block->attention->key_length = 5, desc.block->attention->value_features = 6,
      desc.block->attention->alignment = 2, desc.block->width_query = 7, desc.block->width_key = 9,
      desc.block->width_out = 8, args.block->attention->key_lengths = {5 2}
    valid: as it is | weighted | additive | float64 (8)
    additive: desc.block->attention->(score activation) = 2,
      args.block->attention->score_weights args.grad_score_weights = own
    weighted: desc.block->combine = 1, no w_out,
      args.block->head_weights args.grad_head_weights = own
    mean: desc.block->combine = 2, no w_out
    maximum: desc.block->combine = 3, no w_out
    no w_out: desc.block->width_out = 0, args.block->(w_out b_out) args.(grad_w_out grad_b_out) = NULL
    one input: desc.block->width_key = 7, desc.block->attention->query_length = 5,
      args.block->input_key args.grad_input_key = NULL
    keep: desc.block->keep = 1, args.block->kept = own, args.block->kept_bytes = 8192
    float64: desc.block->(input_query input_key out).dtype = f64, desc.grad_b_dtype = f64,
      desc.grad_(out input_query input_key w_query w_key w_value w_out).dtype = f64)",
       call_planned,
       planned<heed_multihead_backward_plan>()},
      {"graph attention",  // of queries, keys and values
       {{"desc", kLayerDesc}, {"args", kLayerArgs}, {"graph", kGraphDesc, Part::kTests}},
       layer_tensors,
       R"(
    lacks: w_query w_key w_value b_query b_key b_value head_weights score_weights
    begin: some edges, desc.heads = 2, desc.features = 3, desc.value_features = 5, desc.residual = 1,
      desc.width = 10, desc.edge_width = 2
    valid: as it is | share | per node | weighted | additive | cosine | float64 (8)
      | share, float64 data (8) | per node, float64 data (8)
    share: desc.inputs = 1, args.(query key value) = NULL,
      args.(w_query w_key w_value b_query b_key b_value) = own
    per node: share, desc.inputs = 2, args.(b_query b_key b_value) = NULL
    no residual: desc.(residual width) = 0, args.data = NULL
    no edge data: desc.edge_width = 0, args.(edge_data w_edge_key w_edge_value) = NULL
    weighted: desc.combine = 1, desc.width = 5, args.head_weights = own
    mean: desc.combine = 2, desc.width = 5
    maximum: desc.combine = 3, desc.width = 5
    hard: desc.hard = 1, args.lse = NULL
    drop: desc.dropout = 0.5, args.dropout_edges = own
    strides of 1: desc.(query key value edge_data) = [0 1 1 1],
      desc.(w_edge_key w_edge_value) = [0 1 1]
    additive: desc.(score activation) = 2, args.score_weights = own
    sum: desc.(score features) = 1
    cosine: desc.score = 3, args.w_edge_key = NULL
    no nodes: no edges, graph.nodes = 0, args.edge_data = NULL
    float64 data: desc.(data edge_data out).dtype = f64
    float64: float64 data, desc.(query key value).dtype = f64)",
       call_planned,
       planned<heed_graph_attention_plan>()},
      {"graph backward",
       {{"desc", kLayerBackwardDesc},
        {"args", kLayerBackwardArgs},
        {"desc.attention", kLayerDesc},
        {"args.attention", kLayerArgs},
        {"graph", kGraphDesc, Part::kTests}},
       layer_backward_tensors,
       R"(
    lacks: w_query w_key w_value b_query b_key b_value head_weights score_weights out lse weights
      grad_w_query grad_w_key grad_w_value grad_b_query grad_b_key grad_b_value grad_head_weights
      grad_score_weights
    begin: some edges, graph.reverse = 1, desc.attention->heads = 2, desc.attention->features = 3,
      desc.attention->value_features = 5, desc.attention->residual = 1, desc.attention->width = 10,
      desc.attention->edge_width = 2
    valid: as it is | share | per node | weighted | additive | float64 (8)
    share: per node, desc.attention->inputs = 1, args.attention->(b_query b_key b_value) = own,
      args.grad_(b_query b_key b_value) = own
    per node: desc.attention->inputs = 2, args.attention->(query key value) = NULL,
      args.attention->(w_query w_key w_value) = own, args.grad_(query key value) = NULL,
      args.grad_(w_query w_key w_value) = own
    no residual: desc.attention->(residual width) = 0, args.attention->data args.grad_data = NULL
    no edge data: desc.attention->edge_width = 0,
      args.attention->(edge_data w_edge_key w_edge_value) = NULL,
      args.grad_(edge_data w_edge_key w_edge_value) = NULL
    weighted: desc.attention->combine = 1, desc.attention->width = 5,
      args.attention->head_weights args.grad_head_weights = own
    additive: desc.attention->(score activation) = 2,
      args.attention->score_weights args.grad_score_weights = own
    no nodes: no edges, graph.nodes = 0, args.attention->edge_data = NULL
    float64: desc.attention->(query key value data edge_data out).dtype = f64,
      desc.grad_(out query key value data edge_data).dtype = f64)",
       call_planned,
       planned<heed_graph_attention_backward_plan>()},
      {"merge",  // of three parts [2, 3, 4, 5]
       {{"desc", kMergeDesc},
        {"args",
         "part_outs[0]/p part_outs[1]/p part_outs[2]/p part_lses[0]/p part_lses[1]/p "
         "part_lses[2]/p parts out/p lse/p"}},
       merge_tensors,
       R"(
    begin: desc.batch = 2, desc.heads = 3, desc.rows = 4, desc.features = 5, parts = 3
    valid: as it is | float64 (8)
    float64: desc.(part_out part_lse out lse).dtype = f64)",
       call_merge,
       nullptr,
       [](Form& f) {
         auto& a = f.at<MergeArgs>("args");
         a.outs = a.part_outs;
         a.lses = a.part_lses;
       }},
      {"rotate",  // rows [2, 3, 4, 6]
       {{"desc", kRotateDesc}, {"args", "from/p positions/p to/p"}},
       rotate_tensors,
       R"(
    begin: desc.batch = 2, desc.heads = 3, desc.rows = 4, desc.features = 6, desc.rotary.pairs = 1
    valid: positions, tables | float64, tables (8)
    positions: positions = {0 1 2 3 8 1 0 5}
    tables: desc.rotary.(cosines sines) = own, desc.rotary.table_rows = 9
    float64: desc.(from to).dtype = f64)",
       call_rotate},
      {"matrix",  // from 5 features to 6, with its bias
       {{"desc", kMatrixDesc}, {"args", "matrix/p bias/p"}},
       matrix_tensors,
       R"(
    begin: desc.in = 5, desc.out = 6
    valid: as it is | desc.arithmetic = f64 (8))",
       call_matrix},
      {"project",
       {{"desc", kProjectDesc},
        {"args", "x/p y/p"},
        {"prepared", "arithmetic in out", Part::kTests}},
       project_tensors,
       R"(
    begin: desc.batch = 2, desc.rows = 4, prepared.arithmetic = f32, prepared.in = 5,
      prepared.out = 6
    valid: as it is | float64 (8)
    float64: prepared.arithmetic desc.(x y).dtype = f64)",
       call_project},
      {"graph",
       {{"desc", kGraphDesc}},
       graph_tensors,
       R"(
    begin: some edges
    valid: as it is | rows | wide (8) | wide rows (8)
    wide: desc.index_type = 2, some edges
    wide rows: desc.index_type = 2, rows
    no nodes: no edges, desc.nodes = 0)",
       call_graph},
      {"cache",
       {{"desc", kCacheDesc}},
       cache_tensors,
       R"(
    begin: some pages
    valid: tables)",
       call_cache},
      {"append",  // three rows to layer 1 of the first sequence
       {{"desc", kAppendDesc}, {"args", "key/p value/p"}, {"cache", kCacheDesc, Part::kTests}},
       append_tensors,
       R"(
    begin: some pages, desc.layer = 1, desc.rows = 3
    valid: positions
    positions: turn, desc.positions = {0 7 7})",
       call_append},
      {"cache attention",  // three queries of four heads for each of both sequences, of layer 0
       {{"desc", kCacheAttentionDesc},
        {"args", kAttentionArgs},
        {"desc.attention", kAttentionDesc},
        {"cache", kCacheDesc, Part::kTests}},
       cache_attention_tensors,
       R"(
    lacks: mask
    begin: some pages, desc.attention->batch = 2, desc.attention->query_heads = 4,
      desc.attention->query_length = 3, desc.attention->causal = 2, desc.sequences = {0 0}
    valid: as it is
    pack_queries: desc.attention->packed_queries = 6, args.cu_seqlens_q = {1 3 5}
    positions: turn, desc.positions = {0 7 7 2 3 4})",
       call_cache_attention},
      {"context",
       {{"options", kContextOptions, Part::kOptional},
        {"options.executor", kExecutor},
        {"options.allocator", kAllocator}},
       no_tensors,
       R"(
    begin: options.executor = NULL, options.executor_name = "serial"
    valid: as it is
    executor: options.executor_name = NULL, options.executor = own
    nothing chosen: options.executor_name = NULL)",
       call_context,
       nullptr,
       start_context},
  };
}

/// What graphs and caches share, whatever struct they are: the one that an operation takes or that
/// a test makes beside it.
std::string shared_changes(const Operation& of) {
  std::string changes;
  for (const StructOf& one : of.structs) {
    if (one.schema == kGraphDesc)
      // Four nodes, six edges, one of them twice, none into node 2; as a list and as rows.
      changes = R"(
    some edges: @.nodes = 4, @.edges = 6, @.sources = {3 1 1 2 3 0}, @.destinations = {0 0 0 1 1 3}
    rows: @.sources = {3 1 1 2 3 0}, @.destinations = NULL, @.offsets = {0 3 5 5 6}
    no edges: @.edges = 0, @.(sources destinations) = NULL)";
    if (one.schema == kCacheDesc)
      // Two layers of two heads, keys of 4 features and values of 6, in three pages of 16 rows.
      changes = R"(
    some pages: @.(layers key_heads) = 2, @.features = 4, @.value_features = 6, @.page_rows = 16,
      @.(pages sequences) = 3
    turn: @.rotary.pairs = 1
    tables: turn, @.rotary.(cosines sines) = own, @.rotary.table_rows = 25)";
    for (std::size_t at = 0; (at = changes.find('@')) != std::string::npos;)
      changes.replace(at, 1, one.called);
  }
  return changes;
}

/// Reads an operation's text, and lists the members of its structs.
void complete(Operation& of) {
  for (const std::string& line : lines_of(of.text + shared_changes(of))) {
    const std::size_t colon = line.find(": ");
    const std::string name = line.substr(0, colon), text = line.substr(colon + 2);
    if (name == "lacks") {
      of.lacks = text;
    } else if (name != "valid") {
      of.changes[name] = text;
    } else {
      for (const std::string& one : split(text, " | ")) {
        const bool wide = one.substr(one.size() - 3) == "(8)";
        const std::string changes = wide ? one.substr(0, one.size() - 4) : one;
        of.variants.push_back({changes == "as it is" ? "" : changes, wide ? 8 : 4});
      }
    }
  }
  const std::function<void(const Member&, Schema)> add = [&](const Member& outer, Schema schema) {
    each_member(schema, [&](const std::string& name, char type, std::uint32_t offset) {
      const Member member = {outer.name + name, type, outer.of, outer.offset + offset,
                             outer.layout};
      of.places[member.name] = of.members.size();
      of.members.push_back(member);
      if (inside_of(type) == nullptr) return;
      add({member.name + '.', type, member.of, member.offset,
           type == 'R' ? member.layout : member.name},
          inside_of(type));
    });
  };
  for (std::size_t i = 0; i < of.structs.size(); ++i)
    add({of.structs[i].within(), 0, i, 0, ""}, of.structs[i].schema);
}

}  // namespace

std::vector<Tensor> edges_of(Form& form) {
  std::vector<Tensor> all;
  if (form.has("graph")) add_edges(form, all, "graph");
  return all;
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list = described();
    for (Operation& one : list) complete(one);
    return list;
  }();
  return all;
}

const Operation& operation(const char* name) {
  for (const Operation& one : operations())
    if (one.name == name) return one;
  throw std::invalid_argument(std::string("there is no operation ") + name);
}

}  // namespace api_test
