// Refusals of attention over a graph that are not of every field of a kind: which tensors there
// are, how wide they are, matrices given and prepared, combiners.
#include "tests/api/graphs.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void share(GraphForm& form) { form.share(); }
void per_node(GraphForm& form) { form.per_node(); }
void be_hard(GraphForm& form) { form.be_hard(); }
void no_residual(GraphForm& form) { form.no_residual(); }
void no_edge_data(GraphForm& form) { form.no_edge_data(); }
const GraphChange kMade[] = {share, per_node};  // queries, keys and values from data

GraphChange combined(heed_combine how) {
  return [=](GraphForm& form) { form.combine(how); };
}

using Desc = heed_graph_attention_desc;
struct NamedInput {
  const char* name;
  heed_layout Desc::*layout;
};
constexpr NamedInput kInputs[] = {
    {"query", &Desc::query}, {"key", &Desc::key}, {"value", &Desc::value}};

/// The matrix of one of them.
struct NamedMatrix {
  const char* name;
  heed_matrix_layout Desc::*layout;
  const void* heed_graph_attention_args::*w;
  const void* heed_graph_attention_args::*b;
  const heed_weights* heed_graph_attention_args::*p;
  std::int64_t out;
};
using Args = heed_graph_attention_args;
constexpr NamedMatrix kMatrices[] = {
    {"query", &Desc::w_query, &Args::w_query, &Args::b_query, &Args::p_query, 6},
    {"key", &Desc::w_key, &Args::w_key, &Args::b_key, &Args::p_key, 6},
    {"value", &Desc::w_value, &Args::w_value, &Args::b_value, &Args::p_value, 10}};

}  // namespace

// ---- Descriptors ----

TEST_CASE("sizes over graphs are at least 1 where nothing else is said", "[refused][graph]") {
  check_refused<GraphForm>(
      {{"desc.heads", 0, "must be 1 to 1099511627776"},
       {"desc.features", 0, "must be 1 to 1099511627776"},
       {[](GraphForm& form) { form.desc.heads = form.desc.features = kMost; },
        "desc.heads is 1099511627776, desc.features is 1099511627776; a row of all heads "
        "overflows"},
       {[](GraphForm& form) { form.desc.heads = form.desc.value_features = kMost; },
        "desc.heads is 1099511627776, desc.value_features is 1099511627776; a row of all heads"}});
  check_refused<GraphForm>(no_residual, {{[](GraphForm& form) {
                                            form.no_edge_data();
                                            form.desc.heads = 1 << 20;
                                            form.desc.features = std::int64_t{1} << 38;
                                          },
                                          "desc. ... overflows an address"}});
}

TEST_CASE("scale, softcap and temperature over graphs", "[refused][graph]") {
  check_refused<GraphForm>({{"desc.scale", kNan, "must be finite"},
                            {"desc.scale", kInfinity, "must be finite"},
                            {"desc.scale", -kInfinity, "must be finite"},
                            {"desc.scale", 3e38, "which must be at most 3.40282e+38"},
                            {"desc.softcap", -1.0, "must be finite and at least 0"},
                            {"desc.softcap", kNan, "must be finite and at least 0"},
                            {"desc.softcap", kInfinity, "must be finite and at least 0"},
                            {"desc.temperature", -1.0, "must be above 0"},
                            {"desc.temperature", kNan, "must be above 0"},
                            {"desc.temperature", -kInfinity, "must be above 0"}});
  check_refused<GraphForm>(be_hard, {{"desc.temperature", 2.0, "must be 0 with desc.hard"},
                                     {"args.lse", kGiven, "must be NULL with desc.hard"}});
}

TEST_CASE("the width of data", "[refused][graph]") {
  const char* const needed = "must be at least 1 with desc.inputs 1 or 2 or desc.residual";
  check_refused<GraphForm>({{"desc.width", 0, needed}});
  for (const std::int64_t width : {1, 5, 9, 11})
    for (const GraphChange& make : {GraphChange(unchanged<GraphForm>), GraphChange(share)})
      check_refused<GraphForm>(
          make, {{"desc.width", width, "with desc.residual it must be that of a row of out, 10"}});
  check_refused<GraphForm>(combined(HEED_COMBINE_MEAN),
                           {{"desc.width", 10, "with desc.residual it must be ... 5"}});
  check_refused<GraphForm>(no_residual, {{"desc.width", 10, "must be 0 without"}});
  for (const GraphChange& make : kMade)
    check_refused<GraphForm>(
        make, {{[](GraphForm& form) { form.no_residual(); },
                std::string("desc.width is 0; it ") + needed},
               {[](GraphForm& form) {
                  form.desc.residual = 0;
                  form.desc.width = 4;
                  form.desc.steps = 2;
                },
                "desc.width is 4; with desc.steps above 1 it must be that of a row of out, 10"}});
  check_refused<GraphForm>({{"desc.steps", 2, "must be 0 or 1 with desc.inputs 0"}});
  check_accepted<GraphForm>([](GraphForm& form) {
    form.share();
    form.all_float64();
    form.desc.steps = 3;
  });
}

TEST_CASE("biases have a type where all nodes share them", "[refused][graph]") {
  const auto typed = [](std::uint32_t dtype) {
    return [=](GraphForm& form) { form.desc.bias_dtype = dtype; };
  };
  check_refused<GraphForm>({{typed(HEED_DTYPE_F16),
                             "desc.bias_dtype is 4; it must be 0 unless "
                             "desc.inputs is HEED_GRAPH_SHARED (1)"}});
  check_refused<GraphForm>(per_node, {{typed(HEED_DTYPE_F32),
                                       "desc.bias_dtype is 1; it must be 0 unless desc.inputs is "
                                       "HEED_GRAPH_SHARED (1)"}});
}

TEST_CASE("layouts of tensors that there are not", "[refused][graph]") {
  for (const GraphChange& make : kMade)
    for (const NamedInput& input : kInputs)
      check_refused<GraphForm>(
          make, {{[&](GraphForm& form) { (form.desc.*input.layout).stride_row = 8; },
                  std::string("desc.") + input.name +
                      " is given; it must be 0 unless desc.inputs is HEED_GRAPH_PROJECTED (0)"}});
  for (const NamedMatrix& m : kMatrices)
    check_refused<GraphForm>(
        {{[&](GraphForm& form) { (form.desc.*m.layout).stride_in = 2; },
          std::string("desc.w_") + m.name + " is given; it must be 0 with desc.inputs 0"}});
  check_refused<GraphForm>(no_residual,
                           {{with("desc.data.dtype", HEED_DTYPE_F32),
                             "desc.data is given; it must be 0 where nothing has data"}});
  for (const std::string name : {"edge_data", "w_edge_key", "w_edge_value"})
    check_refused<GraphForm>(
        no_edge_data, {{with("desc." + name + (name[0] == 'w' ? ".stride_in" : ".stride_row"), 2),
                        "desc." + name + " is given; it must be 0 with desc.edge_width 0"}});
}

TEST_CASE("a matrix that is one of its kind has no stride to the next", "[refused][graph]") {
  for (const char* const name : {"desc.w_edge_key", "desc.w_edge_value"})
    check_refused<GraphForm>(
        {{name + std::string(".stride_matrix"), 100, "must be 0: there is one"}});
  for (const char* const name : {"desc.w_query", "desc.w_key", "desc.w_value"})
    check_refused<GraphForm>(
        share, {{name + std::string(".stride_matrix"), 100, "must be 0: there is one"}});
}

TEST_CASE("outputs over graphs whose elements overlap", "[refused][graph]") {
  check_refused<GraphForm>({{[](GraphForm& form) { form.desc.out = {0, 0, 0, 5, 9, 1}; },
                             "desc.out.stride_row is 9; it must exceed 9"},
                            {[](GraphForm& form) { form.desc.out = {0, 0, 0, 0, 10, 1}; },
                             "desc.out.stride_head is 0; it must exceed 0"},
                            {[](GraphForm& form) { form.desc.lse = {0, 0, 0, 0, 1, 0}; },
                             "desc.lse.stride_head is 0; it must exceed 0"},
                            {[](GraphForm& form) { form.desc.weights = {0, 0, 0, 1, 1, 0}; },
                             "desc.weights.stride_ ... is 1; it must exceed"}});
  for (const char* const tensor : {"desc.out", "desc.lse", "desc.weights"})
    check_refused<GraphForm>({{with(tensor + std::string(".reserved"), HEED_STRIDES_EXPLICIT),
                               tensor + std::string(".stride_ ... is 0; it must exceed 0")}});
}

// ---- Arguments ----

TEST_CASE("tensors over graphs are given where the problem has them, and only there",
          "[refused][graph]") {
  const char* const missing = "its tensor has elements";
  check_refused<GraphForm>({{"args.query", kNull, missing},
                            {"args.key", kNull, missing},
                            {"args.value", kNull, missing},
                            {"args.data", kNull, missing},
                            {"args.edge_data", kNull, missing},
                            {"args.out", kNull, missing}});
  for (const GraphChange& make : kMade) {
    const std::string unless = "must be NULL unless desc.inputs is HEED_GRAPH_PROJECTED (0)";
    check_refused<GraphForm>(make, {{"args.query", kGiven, unless},
                                    {"args.key", kGiven, unless},
                                    {"args.value", kGiven, unless},
                                    {"args.data", kNull, missing}});
  }
  check_refused<GraphForm>(
      no_residual, {{"args.data", kGiven, "must be NULL with desc.inputs 0 and desc.residual 0"}});
  check_refused<GraphForm>(no_edge_data,
                           {{"args.edge_data", kGiven, "must be NULL with desc.edge_width 0"},
                            {"args.w_edge_key", kGiven, "must be NULL with desc.edge_width 0"},
                            {"args.w_edge_value", kGiven, "must be NULL with desc.edge_width 0"}});
}

TEST_CASE("what edges add is optional, but not all of it", "[refused][graph]") {
  for (const char* const name : {"args.w_edge_key", "args.w_edge_value", "args.edge_bias"})
    check_accepted<GraphForm>(with(name, kNull));
  check_refused<GraphForm>(
      {{[](GraphForm& form) { form.args.w_edge_key = form.args.w_edge_value = nullptr; },
        "args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is 2"}});
  check_accepted<GraphForm>([](GraphForm& form) {
    form.desc.value_features = 3;
    form.desc.width = 6;
    form.args.w_edge_value = form.args.w_edge_key;
  });
}

TEST_CASE("weights of heads go with their weighted sum", "[refused][graph]") {
  check_refused<GraphForm>(combined(HEED_COMBINE_WEIGHTED),
                           {{"args.head_weights", kNull, "its tensor has elements"}});
  for (const heed_combine how : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    check_refused<GraphForm>(
        how == HEED_COMBINE_CONCAT ? GraphChange(unchanged<GraphForm>) : combined(how),
        {{"args.head_weights", kGiven,
          "must be NULL unless desc.combine is HEED_COMBINE_WEIGHTED (1)"}});
}

TEST_CASE("matrices over graphs are given once, as they are or prepared for the problem",
          "[refused][graph]") {
  const Context context = serial();
  for (const NamedMatrix& m : kMatrices) {
    const std::string w = std::string("args.w_") + m.name;
    const std::string b = std::string("args.b_") + m.name;
    const std::string p = std::string("args.p_") + m.name;
    const std::string only_shared = "must be NULL unless desc.inputs is HEED_GRAPH_SHARED (1)";
    const auto instead = [&](const Weights& weights) {
      return [&](GraphForm& form) {
        form.args.*m.w = form.args.*m.b = nullptr;
        form.args.*m.p = weights.get();
      };
    };
    const Weights good = prepared(context, 10, m.out);
    const Weights in = prepared(context, 9, m.out);
    const Weights out = prepared(context, 10, m.out + 1);
    const Weights wide = prepared(context, 10, m.out, HEED_DTYPE_F64);
    const std::string to = std::to_string(m.out);
    check_refused<GraphForm>(
        share,
        {{[&](GraphForm& form) { form.args.*m.w = form.args.*m.b = nullptr; },
          w + " and " + p + " are both NULL"},
         {[&](GraphForm& form) { form.args.*m.p = good.get(); },
          w + " and " + p + " are both given"},
         {instead(in),
          p + " is prepared from 9 features to " + to + "; it must be from 10 to " + to},
         {instead(out), p + " is prepared from 10 features to ... ; it must be from 10 to " + to},
         {instead(wide), p + " is prepared for float64 arithmetic; this plan's is float32"}});
    check_refused<GraphForm>([&](GraphForm& form) { share(form), instead(good)(form); },
                             {{b, kGiven, "must be NULL with " + p}});
    check_accepted<GraphForm>([&](GraphForm& form) { share(form), set(form, b, kNull); });
    check_refused<GraphForm>({{w, kGiven, "must be NULL with desc.inputs 0"},
                              {b, kGiven, only_shared},
                              {[&](GraphForm& form) { form.args.*m.p = good.get(); },
                               p + " is given; it " + only_shared}});
    check_refused<GraphForm>(per_node, {{w, kNull, "its tensor has elements"},
                                        {b, kGiven, only_shared},
                                        {[&](GraphForm& form) { instead(good)(form); },
                                         p + " is given; it " + only_shared}});
  }
}

TEST_CASE("problems over graphs of every kind are accepted", "[refused][graph]") {
  check_accepted<GraphForm>([](GraphForm& form) { form.graph.by_rows(); });
  for (const GraphChange& make : {GraphChange(no_residual), GraphChange(no_edge_data),
                                  GraphChange(be_hard), combined(HEED_COMBINE_MAX)})
    check_accepted<GraphForm>(make);
}
