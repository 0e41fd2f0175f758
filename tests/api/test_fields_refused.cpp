// What is refused of the fields of one kind alike, whatever the operation: sizes, choices, reserved
// words, types, strides and pointers. No field is left out.
#include "tests/api/backward_form.hpp"
#include "tests/api/block_backward_form.hpp"
#include "tests/api/blocks.hpp"
#include "tests/api/cache_forms.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

/// A valid problem, and the bytes of a number of its arithmetic.
template <class AForm>
struct Variant {
  ChangeOf<AForm> make;
  int bytes;
};

void weigh_heads(BlockForm& form) { form.reduce(HEED_COMBINE_WEIGHTED); }
void all_float64(GraphForm& form) { form.all_float64(); }

std::vector<Variant<Form>> variants(const Form&) {
  return {{[](Form& form) { form.pack_queries(), form.pack_keys(); }, 4},
          {[](Form& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<BackwardForm>> variants(const BackwardForm&) {
  return {{[](BackwardForm& form) { form.pack_queries(), form.pack_keys(); }, 4},
          {[](BackwardForm& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<GraphBackwardForm>> variants(const GraphBackwardForm&) {
  return {{unchanged<GraphBackwardForm>, 4},
          {[](GraphBackwardForm& form) { form.share(); }, 4},
          {[](GraphBackwardForm& form) { form.per_node(); }, 4},
          {[](GraphBackwardForm& form) { form.weigh(); }, 4},
          {[](GraphBackwardForm& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<BlockForm>> variants(const BlockForm&) {
  return {{unchanged<BlockForm>, 4},
          {weigh_heads, 4},
          {[](BlockForm& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<BlockBackwardForm>> variants(const BlockBackwardForm&) {
  return {{unchanged<BlockBackwardForm>, 4},
          {[](BlockBackwardForm& form) { form.reduce(HEED_COMBINE_WEIGHTED); }, 4},
          {[](BlockBackwardForm& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<GraphForm>> variants(const GraphForm&) {
  return {{unchanged<GraphForm>, 4},
          {[](GraphForm& form) { form.share(); }, 4},
          {[](GraphForm& form) { form.per_node(); }, 4},
          {[](GraphForm& form) { form.combine(HEED_COMBINE_WEIGHTED); }, 4},
          {all_float64, 8},
          {[](GraphForm& form) { form.share(), form.all_float64(); }, 8},
          {[](GraphForm& form) { form.per_node(), form.all_float64(); }, 8}};
}
std::vector<Variant<MergeForm>> variants(const MergeForm&) {
  return {{unchanged<MergeForm>, 4},
          {[](MergeForm& form) {
             heed_merge_desc& d = form.desc;
             for (heed_layout* const l : {&d.part_out, &d.part_lse, &d.out, &d.lse})
               l->dtype = HEED_DTYPE_F64;
           },
           8}};
}
std::vector<Variant<RotateForm>> variants(const RotateForm&) {
  return {{[](RotateForm& form) { form.give_positions(), form.give_tables(); }, 4},
          {[](RotateForm& form) {
             form.desc.from.dtype = form.desc.to.dtype = HEED_DTYPE_F64;
             form.give_tables();
           },
           8}};
}
std::vector<Variant<MatrixForm>> variants(const MatrixForm&) {
  return {{unchanged<MatrixForm>, 4},
          {[](MatrixForm& form) { form.desc.arithmetic = HEED_DTYPE_F64; }, 8}};
}
std::vector<Variant<ProjectForm>> variants(const ProjectForm&) {
  return {{unchanged<ProjectForm>, 4}, {[](ProjectForm& form) { form.all_float64(); }, 8}};
}
std::vector<Variant<SmallGraph>> variants(const SmallGraph&) {
  return {{unchanged<SmallGraph>, 4},
          {[](SmallGraph& form) { form.by_rows(); }, 4},
          {[](SmallGraph& form) { form.widen(); }, 8},
          {[](SmallGraph& form) { form.by_rows(), form.widen(); }, 8}};
}

std::vector<Variant<AppendForm>> variants(const AppendForm&) {
  return {{unchanged<AppendForm>, 4}};
}
std::vector<Variant<CacheAttentionForm>> variants(const CacheAttentionForm&) {
  return {{unchanged<CacheAttentionForm>, 4}};
}

/// Refusals of every field of every variant of a problem: add(field, bytes, rows) adds those of a
/// field.
template <class AForm, class Add>
void check_each_field(const Add& add) {
  std::size_t refusals = 0;
  for (const Variant<AForm>& variant : variants(AForm())) {
    AForm form;
    variant.make(form);
    std::vector<Refusal<AForm>> rows;
    for (const Field& field : fields_of(form)) add(field, variant.bytes, rows);
    check_refused<AForm>(variant.make, rows);
    refusals += rows.size();
  }
  CHECK(refusals > 0);
}

/// The field that says whether the arithmetic is float64, and those whose types do not depend on
/// it.
template <class AForm>
bool is_free(const std::string& name) {
  for (const char* const free :
       {"lse.dtype", "weights.dtype", "edge_bias.dtype", "grad_lse.dtype", "grad_bias.dtype"})
    if (name == std::string("desc.") + free) return true;
  return name == (std::is_same_v<AForm, GraphForm> ? "desc.out.dtype" : "desc.input_query.dtype") ||
         name.rfind("desc.attention: ", 0) == 0 ||
         name.rfind("desc.block: desc.attention: ", 0) == 0 ||
         name == "desc.block: desc.input_query.dtype";
}

struct Size {
  const char* name;
  int least;
};

/// -1 and what is past 2^40.
template <class AForm>
void check_sizes(std::initializer_list<Size> sizes) {
  std::vector<Refusal<AForm>> rows;
  for (const Size& size : sizes)
    for (const std::int64_t value : {std::int64_t{-1}, INT64_MIN, -kMost, kMost + 1, INT64_MAX})
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

TEMPLATE_TEST_CASE("what the tables of refusals begin with is valid", "[refused]", Form,
                   BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm,
                   MergeForm, RotateForm, MatrixForm, ProjectForm, SmallGraph) {
  for (const Variant<TestType>& variant : variants(TestType()))
    check_accepted<TestType>(variant.make);
}

TEMPLATE_TEST_CASE("every reserved word is 0, or says how strides are meant", "[refused]", Form,
                   BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm,
                   MergeForm, RotateForm, MatrixForm, ProjectForm) {
  check_each_field<TestType>([](const Field& field, int, auto& rows) {
    if (!field.ends_with(".reserved")) return;
    const bool own = field.ends_with("desc.reserved") || field.ends_with("args.reserved") ||
                     field.ends_with("rotary.reserved");
    for (const std::uint32_t value : {2U, 9U, 0xffffffffU})
      rows.emplace_back(field.name, value,
                        own ? "must be 0" : "must be 0 or HEED_STRIDES_EXPLICIT (1)");
    if (own) rows.emplace_back(field.name, 1, "must be 0");
  });
}

TEMPLATE_TEST_CASE("every type is one of its names", "[refused]", Form, BackwardForm, BlockForm,
                   BlockBackwardForm, GraphForm, GraphBackwardForm, MergeForm, RotateForm,
                   MatrixForm, ProjectForm) {
  check_each_field<TestType>([](const Field& field, int bytes, auto& rows) {
    if (!field.ends_with("dtype") || bytes == 8) return;
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
  check_each_field<TestType>([](const Field& field, int bytes, auto& rows) {
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

TEMPLATE_TEST_CASE("every stride that leaves the addresses is refused", "[refused]", Form,
                   BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm,
                   MergeForm, RotateForm, MatrixForm, ProjectForm) {
  check_each_field<TestType>([](const Field& field, int, auto& rows) {
    if (!field.ends_with(".stride_row") && !field.ends_with(".stride_in")) return;
    for (const std::int64_t stride :
         {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 4, INT64_MAX / 2, -INT64_MAX / 4})
      rows.emplace_back([=](TestType& form) { set(form, field.name, stride); },
                        field.name.substr(0, field.name.rfind('.')) + " steps ... stride of " +
                            std::to_string(stride) + " elements; that overflows an address");
  });
}

namespace {

/// Whether a layout is of what is written, whose elements must lie apart anyway.
bool is_written(const std::string& layout) {
  const std::string name = layout.substr(layout.rfind('.') + 1);
  for (const char* const written : {"out", "lse", "weights", "column_sums", "to", "y"})
    if (name == written) return true;
  return name.rfind("grad_", 0) == 0 && name != "grad_out" && name != "grad_lse";
}

/// Whether it has one number for a row, or for a row and head.
bool is_of_numbers(const std::string& layout) {
  return layout.find("lse") != std::string::npos || layout.find("scales") != std::string::npos ||
         layout.find("edge_bias") != std::string::npos;
}

}  // namespace

TEMPLATE_TEST_CASE("a layout that is half given is refused", "[refused]", Form, BackwardForm,
                   BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm, MergeForm,
                   RotateForm, MatrixForm, ProjectForm, AppendForm, CacheAttentionForm) {
  check_each_field<TestType>([](const Field& field, int, auto& rows) {
    const std::string layout = field.name.substr(0, field.name.rfind('.'));
    const std::string stride = field.name.substr(layout.size());
    if (stride.rfind(".stride_", 0) != 0 || stride == ".stride_head" || is_written(layout)) return;
    if (stride == ".stride_matrix") return;  // refused where there is one matrix
    if (stride == ".stride_row" && is_of_numbers(layout)) return;
    rows.emplace_back([=](TestType& form) { set(form, field.name, 1000); },
                      layout +
                          ".stride_ ... is 0 beside other strides; it must be given with "
                          "them, unless ... .reserved is HEED_STRIDES_EXPLICIT (1)");
  });
}

namespace {

/// What has a size of 0, and the tensors that then must be NULL.
template <class AForm>
struct Empty {
  const char* size;
  ChangeOf<AForm> make;
  std::vector<std::string> tensors;
};

/// One of them alone is refused, none is an empty problem.
template <class AForm>
void check_empty(const std::vector<Empty<AForm>>& sizes) {
  for (const Empty<AForm>& empty : sizes) {
    const auto without = [&](const std::string& but) {
      return [&empty, but](AForm& form) {
        empty.make(form);
        for (const std::string& tensor : empty.tensors)
          if (tensor != but) set(form, tensor, kNull);
      };
    };
    for (const std::string& tensor : empty.tensors) {
      INFO(tensor << " is given with " << empty.size << " 0");
      AForm form;
      without(tensor)(form);
      hand_in(form, tensor.rfind("args.", 0) == 0, [&](heed_status status) {
        check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                      tensor + " is given, but " + empty.size +
                          " is 0; a tensor without elements must be NULL");
      });
    }
    INFO("nothing is given with " << empty.size << " 0");
    AForm form;
    without("")(form);
    hand_in(form, true, [](heed_status status) {
      INFO(heed_last_error());
      CHECK(status == HEED_STATUS_OK);
    });
  }
}

}  // namespace

TEST_CASE("a size of 0 beside its tensor is refused", "[refused][empty]") {
  using Names = std::vector<std::string>;
  const Names all = {"args.query", "args.key",     "args.value",
                     "args.out",   "args.weights", "args.column_sums"};
  const auto no_rows = [](Form& form) {
    form.desc.query_length = form.desc.weight_rows = 0;
    form.args.weight_rows = nullptr;
  };
  check_empty<Form>({{"batch", with("desc.batch", 0), all},
                     {"query_heads",
                      with("desc.query_heads", 0),
                      {"args.query", "args.out", "args.weights", "args.column_sums"}},
                     {"query_length", no_rows, {"args.query", "args.out", "args.weights"}},
                     {"key_length",
                      [](Form& form) {
                        form.desc.key_length = 0;
                        form.args.key_lengths = nullptr;
                      },
                      {"args.key", "args.value", "args.weights", "args.column_sums"}}});
  check_empty<BackwardForm>(
      {{"batch",
        with("desc.attention: desc.batch", 0),
        {"args.attention: args.query", "args.attention: args.key", "args.attention: args.value",
         "args.attention: args.out", "args.grad_out"}},
       {"query_length",
        with("desc.attention: desc.query_length", 0),
        {"args.attention: args.query", "args.attention: args.out", "args.grad_out"}}});
  check_empty<BlockForm>(
      {{"batch",
        with("desc.attention: desc.batch", 0),
        {"args.input_query", "args.input_key", "args.out", "args.attention: args.weights"}},
       {"query_length",
        with("desc.attention: desc.query_length", 0),
        {"args.input_query", "args.out", "args.attention: args.weights"}},
       {"key_length",
        [](BlockForm& form) {
          form.attention.key_length = 0;
          form.inner.key_lengths = nullptr;
        },
        {"args.input_key", "args.attention: args.weights"}}});
  check_empty<BlockBackwardForm>(
      {{"batch",
        [](BlockBackwardForm& form) {
          form.attention.batch = 0;
          form.args.grad_input_key = nullptr;
        },
        {"args.block: args.input_query", "args.block: args.input_key", "args.grad_out"}},
       {"query_length",
        with("desc.block: desc.attention: desc.query_length", 0),
        {"args.block: args.input_query", "args.grad_out"}}});
  const auto no_edges = [](SmallGraph& graph) {
    graph.desc.edges = 0;
    graph.desc.sources = graph.desc.destinations = nullptr;
  };
  const auto no_nodes = [=](GraphForm& form) {
    no_edges(form.graph);
    form.graph.desc.nodes = 0;
    form.args.edge_data = nullptr;
  };
  check_empty<GraphForm>(
      {{"nodes", no_nodes, {"args.query", "args.key", "args.value", "args.data", "args.out"}},
       {"nodes",
        [=](GraphForm& form) { form.per_node(), no_nodes(form); },
        {"args.data", "args.w_query", "args.w_key", "args.w_value", "args.out"}},
       {"edges", [=](GraphForm& form) { no_edges(form.graph); }, {"args.edge_data"}}});
  check_empty<GraphBackwardForm>(
      {{"edges",
        [=](GraphBackwardForm& form) { no_edges(form.graph); },
        {"args.attention: args.edge_data"}},
       {"nodes",
        [=](GraphBackwardForm& form) {
          no_edges(form.graph);
          form.graph.desc.nodes = 0;
          form.layer.args.edge_data = nullptr;
        },
        {"args.attention: args.query", "args.attention: args.key", "args.attention: args.value",
         "args.attention: args.data", "args.grad_out"}}});
  check_empty<SmallGraph>(
      {{"edges", with("desc.edges", 0), {"desc.sources", "desc.destinations"}}});
  Names parts = {"out"};
  for (const char* const part : {"[0]", "[1]", "[2]"})
    parts.push_back("part_outs" + Names::value_type(part));
  check_empty<MergeForm>({{"features", with("desc.features", 0), parts}});
  for (const char* const part : {"[0]", "[1]", "[2]"})
    parts.push_back("part_lses" + Names::value_type(part));
  for (const char* const size : {"batch", "heads", "rows"}) {
    const auto none = with(std::string("desc.") + size, 0);
    check_empty<MergeForm>({{size, none, parts}});
    check_empty<RotateForm>({{size, none, {"from", "to"}}});
    if (size != std::string("heads")) check_empty<ProjectForm>({{size, none, {"x", "y"}}});
  }
  check_empty<AppendForm>({{"rows", with("desc.rows", 0), {"key", "value"}}});
  check_empty<CacheAttentionForm>(
      {{"batch", with("desc.attention->batch", 0), {"args.query", "args.out"}}});
}

TEMPLATE_TEST_CASE("every pointer is aligned to its type", "[refused]", Form, BackwardForm,
                   BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm, MergeForm,
                   RotateForm, MatrixForm, ProjectForm, SmallGraph) {
  check_each_field<TestType>([](const Field& field, int bytes, auto& rows) {
    if (!field.pointer || field.ends_with("mask")) return;
    if (field.ends_with("key_lengths") || field.ends_with("block_table") ||
        field.name.find("cu_seqlens") != std::string::npos)
      bytes = 4;
    if (field.ends_with("weight_rows") || field.ends_with("positions")) bytes = 8;
    if (field.ends_with("cosines") || field.ends_with("sines")) bytes = 4;
    for (int off = 1; off < bytes; ++off)
      rows.emplace_back(field.name, moved(off), "must be a multiple of " + std::to_string(bytes));
  });
}

TEST_CASE("sizes below their bound or past 2^40 are refused", "[refused]") {
  check_sizes<Form>({{"desc.batch", 0},
                     {"desc.query_heads", 0},
                     {"desc.key_heads", 0},
                     {"desc.query_length", 0},
                     {"desc.key_length", 0},
                     {"desc.features", 1},
                     {"desc.value_features", 1},
                     {"desc.packed_queries", 0},
                     {"desc.packed_keys", 0},
                     {"desc.pages", 0}});
  check_sizes<BackwardForm>({{"desc.attention: desc.batch", 0}});
  check_sizes<BlockForm>({{"desc.width_query", 1},
                          {"desc.width_key", 0},
                          {"desc.width_out", 0},
                          {"desc.attention: desc.batch", 0}});
  check_sizes<BlockBackwardForm>(
      {{"desc.block: desc.width_query", 1}, {"desc.block: desc.attention: desc.batch", 0}});
  check_sizes<GraphForm>({{"desc.heads", 1},
                          {"desc.features", 1},
                          {"desc.value_features", 1},
                          {"desc.width", 0},
                          {"desc.steps", 1},
                          {"desc.edge_width", 0}});
  check_sizes<MergeForm>(
      {{"desc.batch", 0}, {"desc.heads", 0}, {"desc.rows", 0}, {"desc.features", 0}});
  check_sizes<RotateForm>(
      {{"desc.batch", 0}, {"desc.heads", 0}, {"desc.rows", 0}, {"desc.features", 2}});
  check_sizes<MatrixForm>({{"desc.matrices", 0}, {"desc.in", 1}, {"desc.out", 1}});
  check_sizes<ProjectForm>({{"desc.batch", 0}, {"desc.rows", 0}});
  check_sizes<SmallGraph>({{"desc.edges", 0}});
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
  check_choices<SmallGraph>({{"desc.reverse", "a switch", 1}});
  check_choices<GraphForm>({{"desc.inputs", "a heed_graph_inputs", 2},
                            {"desc.combine", "a heed_combine for graphs", 3},
                            {"desc.residual", "a switch", 1},
                            {"desc.hard", "a switch", 1}});
  check_choices<RotateForm>({{"desc.rotary.pairs", "a heed_rotary_pairs", 2}});
  check_choices<SmallGraph>(
      {{"desc.index_type", "a heed_index_type", 2}, {"desc.duplicates", "a heed_duplicates", 2}});
}
