// What is refused of the fields and tensors of one kind alike, whatever the operation: sizes,
// choices, reserved words, types, strides and pointers. No field is left out.
#include "tests/api/operations.hpp"

using namespace api_test;

namespace {

/// A valid problem, and the bytes of a number of its arithmetic.
template <class AForm>
struct Variant {
  ChangeOf<AForm> make;
  int bytes;
};
template <class AForm>
using Variants = std::vector<Variant<AForm>>;

Variants<Form> variants(const Form&) {
  return {
      {&Form::pack, 4}, {&Form::all_16_bits, 4}, {&Form::store_8_bits, 4}, {&Form::all_float64, 8}};
}
Variants<BackwardForm> variants(const BackwardForm&) {
  return {{&BackwardForm::pack, 4}, {&BackwardForm::all_float64, 8}};
}
Variants<BlockForm> variants(const BlockForm&) {
  return {{unchanged<BlockForm>, 4},
          {[](BlockForm& form) { form.reduce(HEED_COMBINE_WEIGHTED); }, 4},
          {&BlockForm::all_float64, 8}};
}
Variants<BlockBackwardForm> variants(const BlockBackwardForm&) {
  return {{unchanged<BlockBackwardForm>, 4},
          {[](BlockBackwardForm& form) { form.reduce(HEED_COMBINE_WEIGHTED); }, 4},
          {&BlockBackwardForm::all_float64, 8}};
}
Variants<GraphForm> variants(const GraphForm&) {
  return {{unchanged<GraphForm>, 4},
          {&GraphForm::share, 4},
          {&GraphForm::per_node, 4},
          {[](GraphForm& form) { form.combine(HEED_COMBINE_WEIGHTED); }, 4},
          {&GraphForm::all_float64, 8},
          {[](GraphForm& form) { form.share(), form.all_float64(); }, 8},
          {[](GraphForm& form) { form.per_node(), form.all_float64(); }, 8}};
}
Variants<GraphBackwardForm> variants(const GraphBackwardForm&) {
  return {{unchanged<GraphBackwardForm>, 4},
          {&GraphBackwardForm::share, 4},
          {&GraphBackwardForm::per_node, 4},
          {&GraphBackwardForm::weigh, 4},
          {&GraphBackwardForm::all_float64, 8}};
}
Variants<MergeForm> variants(const MergeForm&) {
  return {{unchanged<MergeForm>, 4}, {&MergeForm::all_float64, 8}};
}
Variants<RotateForm> variants(const RotateForm&) {
  return {{[](RotateForm& form) { form.give_positions(), form.give_tables(); }, 4},
          {[](RotateForm& form) { form.all_float64(), form.give_tables(); }, 8}};
}
Variants<MatrixForm> variants(const MatrixForm&) {
  return {{unchanged<MatrixForm>, 4}, {with("desc.arithmetic", HEED_DTYPE_F64), 8}};
}
Variants<ProjectForm> variants(const ProjectForm&) {
  return {{unchanged<ProjectForm>, 4}, {&ProjectForm::all_float64, 8}};
}
Variants<SmallGraph> variants(const SmallGraph&) {
  return {{unchanged<SmallGraph>, 4},
          {&SmallGraph::by_rows, 4},
          {&SmallGraph::widen, 8},
          {[](SmallGraph& form) { form.by_rows(), form.widen(); }, 8}};
}
Variants<AppendForm> variants(const AppendForm&) { return {{&AppendForm::give_positions, 4}}; }
Variants<CacheForm> variants(const CacheForm&) { return {{&CacheForm::give_tables, 4}}; }
Variants<CacheAttentionForm> variants(const CacheAttentionForm&) {
  return {{unchanged<CacheAttentionForm>, 4}};
}

/// Refusals of every variant of a problem, which add(form, bytes, rows) adds.
template <class AForm, class Add>
void check_variants(const Add& add) {
  std::size_t refusals = 0;
  for (const Variant<AForm>& variant : variants(AForm())) {
    AForm form;
    variant.make(form);
    std::vector<Refusal<AForm>> rows;
    add(form, variant.bytes, rows);
    check_refused<AForm>(variant.make, rows);
    refusals += rows.size();
  }
  CHECK(refusals > 0);
}
/// The same of every field that there is.
template <class AForm, class Add>
void check_fields(const Add& add) {
  check_variants<AForm>([&](AForm& form, int bytes, auto& rows) {
    const std::vector<Tensor> all = tensors_of(form);
    const bool biases = std::any_of(all.begin(), all.end(), [](const Tensor& tensor) {
      return is_one_of(tensor.name, {"b_query", "bias"}) && tensor.memory() != nullptr;
    });
    for (const Field& field : fields_of(form))
      if (field.there && (biases || !field.ends_with("bias_dtype"))) add(field, bytes, rows);
  });
}
/// And of every tensor that is given.
template <class AForm, class Add>
void check_tensors(const Add& add) {
  check_variants<AForm>([&](AForm& form, int, auto& rows) {
    for (const Tensor& tensor : tensors_of(form))
      if (tensor.memory() != nullptr) add(tensor, rows);
  });
}

/// Whether its elements must lie apart: gradients want so of what attention wrote, too.
bool is_written(const Tensor& tensor) {
  return tensor.content == Tensor::kResult || is_one_of(tensor.name, {"out", "lse"});
}

/// Whether a type depends on the arithmetic, without being the one that says which it is.
template <class AForm>
bool is_free(const std::string& name) {
  return is_one_of(name.substr(0, name.rfind('.')),
                   {"lse", "weights", "edge_bias", "grad_lse", "grad_bias"}) ||
         name == (std::is_same_v<AForm, GraphForm> ? "desc.out.dtype" : "desc.input_query.dtype") ||
         name.find("desc.attention: ") != std::string::npos ||
         name == "desc.block: desc.input_query.dtype";
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("the tables of refusals begin with valid problems", "[refused]", All) {
  for (const Variant<TestType>& variant : variants(TestType()))
    check_accepted<TestType>(variant.make);
}

TEMPLATE_LIST_TEST_CASE("every reserved word is 0, or says how strides are meant", "[refused]",
                        LaidOrCached) {
  check_fields<TestType>([](const Field& field, int, auto& rows) {
    if (!field.ends_with(".reserved")) return;
    const bool own = field.ends_with("desc.reserved") || field.ends_with("args.reserved") ||
                     field.ends_with("rotary.reserved");
    for (const std::uint32_t value : {2U, 9U, 0xffffffffU})
      rows.emplace_back(field.name, value,
                        own ? "must be 0" : "must be 0 or HEED_STRIDES_EXPLICIT (1)");
    if (own) rows.emplace_back(field.name, 1, "must be 0");
  });
}

TEMPLATE_LIST_TEST_CASE("every type is one of its names", "[refused]", Laid) {
  check_fields<TestType>([](const Field& field, int bytes, auto& rows) {
    if (!field.ends_with("dtype") || field.ends_with("scales.dtype") || bytes == 8) return;
    const bool mask = field.ends_with("mask.dtype");
    const bool stored =
        (std::is_same_v<TestType, Form> || std::is_same_v<TestType, BackwardForm>)&&(
            field.ends_with("desc.key.dtype") || field.ends_with("desc.value.dtype"));
    const std::string types = std::string("must be a heed_dtype, 0 to ") + (stored ? "6" : "4");
    for (const std::uint32_t dtype : {5U, 6U, 7U, 0xffffffffU})
      if (!stored || dtype > HEED_DTYPE_F8_E4M3)
        rows.emplace_back(field.name, dtype, mask ? "must be 0: a mask is made of bytes" : types);
    if (mask) rows.emplace_back(field.name, HEED_DTYPE_F32, "must be 0: a mask is made of bytes");
    for (const heed_dtype dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16})
      if (field.ends_with("lse.dtype"))
        rows.emplace_back(field.name, dtype, "must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)");
  });
}

TEMPLATE_TEST_CASE("float64 goes with float64 only", "[refused]", BlockForm, BlockBackwardForm,
                   GraphForm, MatrixForm, ProjectForm) {
  check_fields<TestType>([](const Field& field, int bytes, auto& rows) {
    if (!field.ends_with("dtype") || is_free<TestType>(field.name)) return;
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      if (bytes == 8) rows.emplace_back(field.name, dtype, "must be HEED_DTYPE_F64 (2)");
    if (bytes == 4 && (field.ends_with("bias_dtype") || field.ends_with("grad_b_dtype")))
      rows.emplace_back(field.name, HEED_DTYPE_F64,
                        "must be another than HEED_DTYPE_F64 (2) where the arithmetic is float32");
    else if (bytes == 4)
      rows.emplace_back([=](TestType& form) { set(form, field.name, HEED_DTYPE_F64); },
                        field.name + " is HEED_DTYPE_F64 (2); the arithmetic is float32");
  });
}

TEMPLATE_TEST_CASE("gradients are float64 where their tensors are, and nowhere else", "[refused]",
                   BackwardForm, GraphBackwardForm) {
  check_fields<TestType>([](const Field& field, int bytes, auto& rows) {
    if (!field.ends_with(".dtype") || field.name.rfind("desc.grad_", 0) != 0) return;
    if (is_free<TestType>(field.name) || field.name.find("_w_") != std::string::npos) return;
    if (field.name.find("_edge_bias") != std::string::npos) return;
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      if (bytes == 8) rows.emplace_back(field.name, dtype, "must be HEED_DTYPE_F64 (2)");
    if (bytes == 4) rows.emplace_back(field.name, HEED_DTYPE_F64, "must not be HEED_DTYPE_F64 (2)");
    if (bytes == 4) check_accepted<TestType>(with(field.name, HEED_DTYPE_BF16));
  });
}

TEMPLATE_LIST_TEST_CASE("every stride that leaves the addresses is refused", "[refused]",
                        LaidOrCached) {
  check_fields<TestType>([](const Field& field, int, auto& rows) {
    if (!field.ends_with(".stride_row") && !field.ends_with(".stride_in")) return;
    for (const std::int64_t stride :
         {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 4, INT64_MAX / 2, -INT64_MAX / 4})
      rows.emplace_back([=](TestType& form) { set(form, field.name, stride); },
                        field.name.substr(0, field.name.rfind('.')) + " steps ... stride of " +
                            std::to_string(stride) + " elements; that overflows an address");
  });
}

TEMPLATE_LIST_TEST_CASE("a layout that is half given is refused", "[refused]", LaidOrCached) {
  check_tensors<TestType>([](const Tensor& tensor, auto& rows) {
    if (tensor.kind == 0 || is_written(tensor)) return;
    for (const std::string stride : {"batch", "row", "feature", "in", "out"}) {
      if ((tensor.kind == 'M') != (stride == "in" || stride == "out")) continue;
      if (tensor.kind == 'S' && stride == "feature") continue;
      if (tensor.axes[3] == 1 && (stride == "row" || stride == "feature")) continue;  // one number
      rows.emplace_back(
          [=](TestType& form) { set(form, tensor.layout + ".stride_" + stride, 1000); },
          tensor.layout +
              ".stride_ ... is 0 beside other strides; it must be given with them, "
              "unless ... .reserved is HEED_STRIDES_EXPLICIT (1)");
    }
  });
}

TEMPLATE_LIST_TEST_CASE("outputs whose elements lie in one place are refused", "[refused]",
                        LaidOrCached) {
  check_variants<TestType>([](TestType& form, int, auto& rows) {
    for (const Tensor& tensor : tensors_of(form))
      if (tensor.kind != 0 && tensor.content == Tensor::kResult && tensor.memory() != nullptr)
        rows.emplace_back(with(tensor.layout + ".reserved", HEED_STRIDES_EXPLICIT),
                          tensor.layout + ".stride_ ... is 0; it must exceed 0");
    if (rows.empty()) rows.emplace_back(with("desc.reserved", 1), "desc.reserved");
  });
}

TEMPLATE_LIST_TEST_CASE("every tensor that the problem has is given", "[refused]", LaidOrCached) {
  check_tensors<TestType>([](const Tensor& tensor, auto& rows) {
    if (tensor.needed) rows.emplace_back(tensor.name, kNull, "its tensor has elements");
  });
}

TEMPLATE_LIST_TEST_CASE("every pointer is aligned to its type", "[refused]", All) {
  check_tensors<TestType>([](const Tensor& tensor, auto& rows) {
    const auto bytes = static_cast<int>(heed_test::format_of(tensor.dtype).bytes);
    for (int off = 1; off < bytes; ++off)
      rows.emplace_back(tensor.name, moved(off), "must be a multiple of " + std::to_string(bytes));
  });
}

namespace {

/// With a size of 0 the tensors that it leaves no element must be NULL: those that the problem
/// needs and those named. One of them alone is refused, none is an empty problem.
template <class AForm>
void check_empty(const std::string& size, const ChangeOf<AForm>& make,
                 std::initializer_list<const char*> named = {}) {
  AForm probe;
  make(probe);
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_of(probe))
    if (tensor.elements == 0 && tensor.memory() != nullptr &&
        (tensor.needed || is_one_of(tensor.name, named)))
      names.push_back(tensor.name);
  CHECK_FALSE(names.empty());
  names.emplace_back();
  for (const std::string& given : names) {
    INFO(given << " is given with " << size << " 0");
    AForm form;
    make(form);
    for (const std::string& name : names)
      if (name != given && !name.empty()) set(form, name, kNull);
    const heed_status want = given.empty() ? HEED_STATUS_OK : HEED_STATUS_INVALID_ARGUMENT;
    hand_in(form, given.empty() || given.rfind("args.", 0) == 0, [&](heed_status status) {
      check_refusal(status, want,
                    given.empty() ? std::string(heed_last_error())
                                  : given + " is given, but " + size +
                                        " is 0; a tensor without elements must be NULL");
    });
  }
}

}  // namespace

TEST_CASE("a size of 0 beside its tensor is refused", "[refused][empty]") {
  check_empty<Form>("batch", with("desc.batch", 0), {"weights", "column_sums"});
  check_empty<Form>("query_heads", with("desc.query_heads", 0), {"weights", "column_sums"});
  check_empty<Form>("query_length",
                    [](Form& form) {
                      form.desc.query_length = form.desc.weight_rows = 0;
                      form.args.weight_rows = nullptr;
                    },
                    {"weights"});
  check_empty<Form>("key_length",
                    [](Form& form) {
                      form.desc.key_length = 0;
                      form.args.key_lengths = nullptr;
                    },
                    {"weights", "column_sums"});
  for (const std::string size : {"batch", "query_length"}) {
    const auto none = with("desc.attention: desc." + size, 0);
    check_empty<BackwardForm>(size, none);
    check_empty<BlockForm>(size, none, {"input_key", "weights"});
    check_empty<BlockBackwardForm>(size,
                                   [&](BlockBackwardForm& form) {
                                     set(form, "desc.block: desc.attention: desc." + size, 0);
                                     if (size == "batch") form.args.grad_input_key = nullptr;
                                   },
                                   {"input_key"});
  }
  check_empty<BlockForm>("key_length",
                         [](BlockForm& form) {
                           form.attention.key_length = 0;
                           form.inner.key_lengths = nullptr;
                         },
                         {"input_key", "weights"});
  const auto no_nodes = [](GraphForm& form) {
    form.graph.no_edges();
    form.graph.desc.nodes = 0;
    form.args.edge_data = nullptr;
  };
  check_empty<GraphForm>("nodes", no_nodes);
  check_empty<GraphForm>("nodes", [&](GraphForm& form) { form.per_node(), no_nodes(form); },
                         {"w_query", "w_key", "w_value"});
  check_empty<GraphForm>("edges", [](GraphForm& form) { form.graph.no_edges(); });
  check_empty<GraphBackwardForm>("edges", [](GraphBackwardForm& f) { f.graph.no_edges(); });
  check_empty<GraphBackwardForm>("nodes", [&](GraphBackwardForm& f) { no_nodes(f.layer); });
  check_empty<SmallGraph>("edges", with("desc.edges", 0), {"sources", "destinations"});
  check_empty<MergeForm>("features", with("desc.features", 0));
  for (const std::string size : {"batch", "heads", "rows"}) {
    const auto none = with("desc." + size, 0);
    check_empty<MergeForm>(size, none);
    check_empty<RotateForm>(size, none);
    if (size != "heads") check_empty<ProjectForm>(size, none);
  }
  check_empty<AppendForm>("rows", with("desc.rows", 0));
  check_empty<CacheAttentionForm>("batch", with("desc.attention->batch", 0));
}

namespace {

struct Size {
  const char* name;
  int least;
};

/// -1 and what is past 2^40; and 0 where there must be some.
template <class AForm>
void check_sizes(std::initializer_list<Size> sizes) {
  std::vector<Refusal<AForm>> rows;
  for (const Size& size : sizes)
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{0}, INT64_MIN, -kMost, kMost + 1, INT64_MAX})
      if (value != 0 || size.least > 0)
        rows.emplace_back(size.name, value,
                          "must be " + std::to_string(size.least) + " to 1099511627776");
  check_refused<AForm>(rows);
}

struct Choice {
  const char* name;
  const char* kind;
  std::uint32_t most;
};

template <class AForm>
void check_choices(std::initializer_list<Choice> choices) {
  std::vector<Refusal<AForm>> rows;
  for (const Choice& choice : choices)
    for (const std::uint32_t value : {choice.most + 1, 99U, 0xffffffffU})
      rows.emplace_back(
          choice.name, value,
          std::string("must be ") + choice.kind + ", 0 to " + std::to_string(choice.most));
  check_refused<AForm>(rows);
}

}  // namespace

TEST_CASE("sizes below their bound or past 2^40 are refused", "[refused]") {
  check_sizes<Form>({{"desc.batch", 0},
                     {"desc.query_heads", 0},
                     {"desc.key_heads", 0},
                     {"desc.query_length", 0},
                     {"desc.key_length", 0},
                     {"desc.features", 1},
                     {"desc.packed_queries", 0},
                     {"desc.packed_keys", 0},
                     {"desc.pages", 0}});
  check_sizes<BackwardForm>({{"desc.attention: desc.features", 1}});
  check_sizes<BlockForm>({{"desc.width_query", 1},
                          {"desc.width_key", 0},
                          {"desc.width_out", 0},
                          {"desc.attention: desc.features", 1}});
  check_sizes<BlockBackwardForm>(
      {{"desc.block: desc.width_query", 1}, {"desc.block: desc.attention: desc.batch", 0}});
  check_sizes<GraphForm>({{"desc.heads", 1}, {"desc.features", 1}, {"desc.edge_width", 0}});
  check_sizes<GraphBackwardForm>({{"desc.attention: desc.features", 1}});
  check_sizes<MergeForm>(
      {{"desc.batch", 0}, {"desc.heads", 0}, {"desc.rows", 0}, {"desc.features", 0}});
  check_sizes<RotateForm>({{"desc.batch", 0}, {"desc.heads", 0}, {"desc.rows", 0}});
  check_sizes<MatrixForm>({{"desc.matrices", 0}, {"desc.in", 1}, {"desc.out", 1}});
  check_sizes<ProjectForm>({{"desc.batch", 0}, {"desc.rows", 0}});
  check_sizes<SmallGraph>({{"desc.edges", 0}});
  check_sizes<CacheForm>({{"desc.layers", 0},
                          {"desc.key_heads", 1},
                          {"desc.features", 1},
                          {"desc.value_features", 0},
                          {"desc.pages", 1},
                          {"desc.sequences", 0}});
  check_sizes<AppendForm>({{"desc.rows", 0}});
  check_sizes<CacheAttentionForm>(
      {{"desc.attention->batch", 0}, {"desc.attention->key_length", 0}});
  // 0 is a default, and past it there are bounds.
  const char* const one = "must be 1 to 1099511627776";
  const char* const none = "must be 0 to 1099511627776";
  for (const std::int64_t value : {std::int64_t{-1}, kMost + 1}) {
    check_refused<Form>({{"desc.value_features", value, one}});
    check_refused<GraphForm>({{"desc.value_features", value, one},
                              {"desc.width", value, none},
                              {"desc.steps", value, one}});
    check_refused<RotateForm>({{"desc.features", value, "must be 2 to 1099511627776"}});
  }
}

TEST_CASE("choices and switches are one of their values", "[refused]") {
  check_choices<Form>({{"desc.causal", "a heed_causal", 3},
                       {"desc.hard", "a switch", 1},
                       {"desc.window", "a switch", 1},
                       {"desc.alignment", "a heed_alignment", 3},
                       {"desc.weights_point", "a heed_weights_point", 4},
                       {"desc.sum_columns", "a switch", 1}});
  check_choices<BackwardForm>(
      {{"desc.accumulate", "a switch", 1}, {"desc.attention: desc.causal", "a heed_causal", 3}});
  check_choices<BlockForm>({{"desc.combine", "a heed_combine", 5},
                            {"desc.keep", "a switch", 1},
                            {"desc.attention: desc.weights_point", "a heed_weights_point", 4}});
  check_choices<BlockBackwardForm>({{"desc.accumulate", "a switch", 1},
                                    {"desc.block: desc.combine", "a heed_combine", 5},
                                    {"desc.block: desc.keep", "a switch", 1}});
  check_choices<GraphBackwardForm>(
      {{"desc.accumulate", "a switch", 1},
       {"desc.attention: desc.combine", "a heed_combine for graphs", 3}});
  check_choices<GraphForm>({{"desc.inputs", "a heed_graph_inputs", 2},
                            {"desc.combine", "a heed_combine for graphs", 3},
                            {"desc.residual", "a switch", 1},
                            {"desc.hard", "a switch", 1}});
  check_choices<RotateForm>({{"desc.rotary.pairs", "a heed_rotary_pairs", 2}});
  check_choices<CacheForm>(
      {{"desc.dtype", "a heed_dtype", 6}, {"desc.rotary.pairs", "a heed_rotary_pairs", 2}});
  check_choices<SmallGraph>({{"desc.index_type", "a heed_index_type", 2},
                             {"desc.duplicates", "a heed_duplicates", 2},
                             {"desc.reverse", "a switch", 1}});
}

namespace {

template <class AForm>
Tensor tensor_of(AForm& form, const std::string& name) {
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.name == name) return tensor;
  throw std::invalid_argument("there is no tensor " + name);
}

}  // namespace

TEMPLATE_TEST_CASE("every matrix is given once, as it is or prepared for the problem", "[refused]",
                   BlockForm, GraphForm) {
  const Context context = serial();
  const auto share = [](TestType& form) {
    if constexpr (std::is_same_v<TestType, GraphForm>) form.share();
  };
  TestType shared;
  share(shared);
  for (const Tensor& matrix : tensors_of(shared)) {
    if (matrix.prepared == nullptr) continue;
    const auto named = [&](const char* prefix) {
      return std::string(matrix.name).replace(matrix.name.rfind("w_"), 2, prefix);
    };
    const std::string w = matrix.name, b = named("b_"), p = named("p_");
    const std::int64_t in = matrix.axes[2], out = matrix.axes[3];
    const auto prepare = [&](std::int64_t more_in, std::int64_t more_out, std::uint32_t real) {
      return prepared(context, in + more_in, out + more_out, real);
    };
    const auto also = [&](const Weights& weights) {
      return [&](TestType& form) { *tensor_of(form, w).prepared = weights.get(); };
    };
    const auto instead = [&](const Weights& weights) {
      return [&](TestType& form) {
        set(form, w, kNull), set(form, b, kNull);
        *tensor_of(form, w).prepared = weights.get();
      };
    };
    const Weights good = prepare(0, 0, HEED_DTYPE_F32), wide = prepare(0, 0, HEED_DTYPE_F64);
    const Weights more[] = {prepare(1, 0, HEED_DTYPE_F32), prepare(-1, 0, HEED_DTYPE_F32)};
    const Weights further[] = {prepare(0, 1, HEED_DTYPE_F32), prepare(0, -1, HEED_DTYPE_F32)};
    const std::string from = p + " is prepared from ";
    const auto sizes = [](std::int64_t in, std::int64_t out) {
      return std::to_string(in) + " to " + std::to_string(out);
    };
    std::vector<Refusal<TestType>> rows = {
        {[&](TestType& form) { set(form, w, kNull), set(form, b, kNull); },
         w + " and " + p + " are both NULL; give one of them"},
        {also(good), w + " and " + p + " are both given"},
        {instead(wide), p + " is prepared for float64 arithmetic; this plan's is float32"}};
    for (const int i : {0, 1}) {
      rows.emplace_back(instead(more[i]), from + std::to_string(in + 1 - 2 * i) +
                                              " features ... ; it must be from " + sizes(in, out));
      rows.emplace_back(instead(further[i]), from + std::to_string(in) + " features to " +
                                                 std::to_string(out + 1 - 2 * i) +
                                                 "; it must be from " + sizes(in, out));
    }
    check_refused<TestType>(share, rows);
    check_refused<TestType>(
        [&](TestType& form) { share(form), instead(good)(form); },
        {{b, kGiven, "must be NULL with " + p + ", which has its bias inside"}});
    check_refused<TestType>(
        [&](TestType& form) { share(form), form.all_float64(), instead(wide)(form); },
        {{instead(good), p + " is prepared for float32 arithmetic; this plan's is float64"}});
    check_accepted<TestType>([&](TestType& form) { share(form), set(form, b, kNull); });
  }
}
