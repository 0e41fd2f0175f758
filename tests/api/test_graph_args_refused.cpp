// Every refusal of the arguments of attention over a graph.
#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

using Args = heed_graph_attention_args;

struct NamedInput {
  const char* name;
  const void* Args::*pointer;
};
constexpr NamedInput kProjected[] = {
    {"args.query", &Args::query}, {"args.key", &Args::key}, {"args.value", &Args::value}};
constexpr NamedInput kMatrices[] = {{"args.w_query", &Args::w_query},
                                    {"args.w_key", &Args::w_key},
                                    {"args.w_value", &Args::w_value}};
constexpr NamedInput kBiases[] = {{"args.b_query", &Args::b_query},
                                  {"args.b_key", &Args::b_key},
                                  {"args.b_value", &Args::b_value}};
constexpr NamedInput kEdges[] = {{"args.edge_data", &Args::edge_data},
                                 {"args.w_edge_key", &Args::w_edge_key},
                                 {"args.w_edge_value", &Args::w_edge_value},
                                 {"args.edge_bias", &Args::edge_bias}};

struct NamedPrepared {
  const char* name;
  const heed_weights* Args::*pointer;
  std::int64_t out;
};
constexpr NamedPrepared kPrepared[] = {{"args.p_query", &Args::p_query, 6},
                                       {"args.p_key", &Args::p_key, 6},
                                       {"args.p_value", &Args::p_value, 10}};

const void* shifted(const void* pointer, std::size_t bytes) {
  return static_cast<const char*>(pointer) + bytes;
}

/// One after the other missing, misaligned, and given where there must be none.
void check_missing(const NamedInput& input, const GraphChange& first) {
  check_graph_args_refused(
      [&](GraphForm& form) {
        first(form);
        form.args.*input.pointer = nullptr;
      },
      {input.name, "NULL"});
}
void check_misaligned(const NamedInput& input, const GraphChange& first) {
  check_graph_args_refused(
      [&](GraphForm& form) {
        first(form);
        form.args.*input.pointer = shifted(form.args.*input.pointer, 2);
      },
      {input.name, "is 0x", "multiple of 4"});
}
void check_superfluous(const NamedInput& input, const GraphChange& first) {
  check_graph_args_refused(
      [&](GraphForm& form) {
        first(form);
        form.args.*input.pointer = form.query.at();
      },
      {input.name, "must be NULL"});
}

void nothing(GraphForm&) {}
void share(GraphForm& form) { form.share(); }
void per_node(GraphForm& form) { form.per_node(); }

}  // namespace

TEST_CASE("pointers of queries, keys, values and data", "[graph]") {
  for (const NamedInput& input : kProjected) {
    check_missing(input, nothing);
    check_misaligned(input, nothing);
    check_superfluous(input, share);
    check_superfluous(input, per_node);
  }
  const NamedInput data = {"args.data", &Args::data};
  for (const auto& change : {nothing, share, per_node}) {
    check_missing(data, change);
    check_misaligned(data, change);
  }
  check_superfluous(data, [](GraphForm& form) { form.no_residual(); });
}

TEST_CASE("pointers of matrices and their biases", "[graph]") {
  for (const NamedInput& input : kMatrices) {
    for (const auto& change : {share, per_node}) {
      check_missing(input, change);
      check_misaligned(input, change);
    }
    check_superfluous(input, nothing);
  }
  for (const NamedInput& input : kBiases) {
    check_misaligned(input, share);
    check_superfluous(input, nothing);
    check_superfluous(input, per_node);
    check_graph_accepted([&](GraphForm& form) {
      form.share();
      form.args.*input.pointer = nullptr;
    });
  }
}

TEST_CASE("pointers over edges", "[graph]") {
  for (const NamedInput& input : kEdges) check_misaligned(input, nothing);
  check_missing(kEdges[0], nothing);
  for (int i = 0; i < 3; ++i)
    check_superfluous(kEdges[i], [](GraphForm& form) { form.no_edge_data(); });
  for (int i = 1; i < 4; ++i)
    check_graph_accepted([&](GraphForm& form) { form.args.*kEdges[i].pointer = nullptr; });
  check_graph_args_refused(
      [](GraphForm& form) { form.args.w_edge_key = form.args.w_edge_value = nullptr; },
      {"args.w_edge_key", "args.w_edge_value", "desc.edge_width is 2"});
  check_graph_accepted([](GraphForm& form) {
    form.desc.value_features = 3;
    form.desc.width = 6;
    form.args.w_edge_value = form.args.w_edge_key;
  });
}

TEST_CASE("pointers of outputs", "[graph]") {
  check_graph_args_refused([](GraphForm& form) { form.args.out = nullptr; }, {"args.out is NULL"});
  check_graph_args_refused([](GraphForm& form) { form.args.out = form.out.at(2); },
                           {"args.out is 0x", "multiple of 4"});
  check_graph_args_refused([](GraphForm& form) { form.args.lse = form.lse.at(1); },
                           {"args.lse is 0x", "multiple of 4"});
  check_graph_args_refused([](GraphForm& form) { form.args.weights = form.weights.at(3); },
                           {"args.weights is 0x", "multiple of 4"});
  check_graph_args_refused(
      [](GraphForm& form) {
        form.all_float64();
        form.args.weights = form.weights.at(4);
      },
      {"args.weights is 0x", "multiple of 8"});
  check_graph_args_refused(
      [](GraphForm& form) {
        form.desc.hard = 1;  // but lse is given
      },
      {"args.lse is given", "desc.hard"});
  check_graph_args_refused([](GraphForm& form) { form.args.reserved = 9; },
                           {"args.reserved is 9", "must be 0"});
}

TEST_CASE("weights of heads go with their weighted sum", "[graph]") {
  const NamedInput weights = {"args.head_weights", &Args::head_weights};
  const auto weighted = [](GraphForm& form) { form.combine(HEED_COMBINE_WEIGHTED); };
  check_missing(weights, weighted);
  check_misaligned(weights, weighted);
  check_superfluous(weights, nothing);
  for (const heed_combine how : {HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    check_superfluous(weights, [&](GraphForm& form) { form.combine(how); });
}

TEST_CASE("prepared matrices over graphs", "[graph][weights]") {
  const Context context = serial();
  for (int i = 0; i < 3; ++i) {
    const NamedPrepared& p = kPrepared[i];
    const Weights good = prepared(context, 10, p.out);
    const auto use = [&](GraphForm& form, const Weights& weights) {
      form.share();
      form.args.*p.pointer = weights.get();
      form.args.*kMatrices[i].pointer = nullptr;
      form.args.*kBiases[i].pointer = nullptr;
    };
    check_graph_accepted([&](GraphForm& form) { use(form, good); });
    check_graph_args_refused(
        [&](GraphForm& form) {
          use(form, good);
          form.args.*kMatrices[i].pointer = form.w_query.at();
        },
        {p.name, kMatrices[i].name});
    check_graph_args_refused(
        [&](GraphForm& form) {
          use(form, good);
          form.args.*kBiases[i].pointer = form.b_query.at();
        },
        {kBiases[i].name});
    check_graph_args_refused([&](GraphForm& form) { form.args.*p.pointer = good.get(); },
                             {p.name, "must be NULL"});
    check_graph_args_refused(
        [&](GraphForm& form) {
          form.per_node();
          form.args.*p.pointer = good.get();
          form.args.*kMatrices[i].pointer = nullptr;
        },
        {p.name, "must be NULL"});
    const Weights narrow = prepared(context, 9, p.out);
    const Weights wide = prepared(context, 10, p.out + 1);
    const Weights doubles = prepared(context, 10, p.out, HEED_DTYPE_F64);
    check_graph_args_refused([&](GraphForm& form) { use(form, narrow); }, {p.name, "9", "10"});
    check_graph_args_refused([&](GraphForm& form) { use(form, wide); }, {p.name});
    check_graph_args_refused([&](GraphForm& form) { use(form, doubles); }, {p.name});
  }
}

TEST_CASE("a workspace for a graph that cannot be used is refused", "[graph][workspace]") {
  const Context context = serial();
  GraphForm form;
  const Graph graph = make_graph(context, form.graph.desc);
  const GraphPlan plan = make_plan(context, graph, form.desc);
  std::size_t bytes = 0;
  REQUIRE(heed_graph_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
  CHECK(bytes == describe(plan).workspace_bytes);
  REQUIRE(bytes > 0);
  const std::string needed = "needs " + std::to_string(bytes);
  const Workspace workspace(bytes + HEED_WORKSPACE_ALIGNMENT);
  forget_last_error();
  check_refusal(heed_graph_attention_plan_run(plan.get(), &form.args, nullptr, bytes),
                HEED_STATUS_INVALID_WORKSPACE, {"workspace is NULL", needed.c_str()});
  for (const std::size_t given : {std::size_t{0}, std::size_t{1}, bytes - 1}) {
    const std::string value = "workspace_bytes is " + std::to_string(given);
    forget_last_error();
    check_refusal(heed_graph_attention_plan_run(plan.get(), &form.args, workspace.get(), given),
                  HEED_STATUS_INVALID_WORKSPACE, {value.c_str(), needed.c_str()});
  }
  for (const int shift : {1, 4, 16, 32, 63}) {
    forget_last_error();
    check_refusal(heed_graph_attention_plan_run(plan.get(), &form.args,
                                                static_cast<char*>(workspace.get()) + shift, bytes),
                  HEED_STATUS_INVALID_WORKSPACE, {"workspace is 0x", "multiple of 64"});
  }
  CHECK(form.outputs_untouched());
  CHECK(heed_graph_attention_plan_run(plan.get(), &form.args, workspace.get(), bytes) ==
        HEED_STATUS_OK);
}
