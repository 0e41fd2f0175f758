// Refusals of gradients over graphs: what is not differentiable, what is missing, and what does not
// go together.
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void share(GraphBackwardForm& form) { form.share(); }

}  // namespace

TEST_CASE("what is not differentiable over graphs is refused", "[refused][backward][graph]") {
  check_refused<GraphBackwardForm>({
      {[](GraphBackwardForm& form) { form.layer.desc.hard = 1; },
       "desc.attention: desc.hard is 1; it must be 0: hard attention is not differentiable",
       HEED_STATUS_UNSUPPORTED},
      {[](GraphBackwardForm& form) { form.graph.desc.reverse = 0; },
       "desc.attention: the graph was made with desc.reverse 0; gradients need 1"},
  });
  for (const char* const which : {"query", "key", "value"})
    check_refused<GraphBackwardForm>(
        share, {{[=](GraphBackwardForm& form) {
                   heed_graph_attention_args& a = form.layer.args;
                   const auto* const some = reinterpret_cast<const heed_weights*>(&form);
                   (which[0] == 'q' ? a.p_query : which[0] == 'k' ? a.p_key : a.p_value) = some;
                 },
                 std::string("args.attention: args.p_") + which +
                     " is given; gradients need the matrix as it is, and its bias",
                 HEED_STATUS_UNSUPPORTED}});
}

TEST_CASE("attention over a graph inside gradients is checked as elsewhere",
          "[refused][backward][graph]") {
  check_refused<GraphBackwardForm>({
      {[](GraphBackwardForm& form) { form.desc.attention = nullptr; }, "desc.attention is NULL"},
      {[](GraphBackwardForm& form) { form.args.attention = nullptr; }, "args.attention is NULL"},
      {"desc.accumulate", 2, "must be a switch, 0 to 1"},
      {"desc.attention: desc.features", 0, "must be 1 to"},
      {"args.attention: args.query", kNull, "its tensor has elements"},
      {"args.attention: args.key", kNull, "its tensor has elements"},
      {"args.attention: args.edge_data", kNull, "its tensor has elements"},
      {"args.grad_out", kNull, "its tensor has elements"},
  });
  for (const char* const optional :
       {"args.grad_lse", "args.grad_query", "args.grad_key", "args.grad_value", "args.grad_data",
        "args.grad_edge_data", "args.grad_w_edge_key", "args.grad_w_edge_value",
        "args.grad_edge_bias"})
    check_accepted<GraphBackwardForm>(with(optional, kNull));
}

TEST_CASE("gradients of what a graph's problem does not have are refused",
          "[refused][backward][graph]") {
  check_refused<GraphBackwardForm>({
      {[](GraphBackwardForm& form) { form.layer.args.edge_bias = nullptr; },
       "args.grad_edge_bias is given; it must be NULL without args.attention->edge_bias"},
      {[](GraphBackwardForm& form) { form.layer.args.w_edge_key = nullptr; },
       "args.grad_w_edge_key is given; it must be NULL without args.attention->w_edge_key"},
      {[](GraphBackwardForm& form) { form.layer.args.w_edge_value = nullptr; },
       "args.grad_w_edge_value is given; it must be NULL without args.attention->w_edge_value"},
      {[](GraphBackwardForm& form) { form.layer.no_residual(); },
       "args.grad_data is given; it must be NULL without args.attention->data"},
      {[](GraphBackwardForm& form) { form.layer.no_edge_data(); },
       "args.grad_edge_data is given; it must be NULL without args.attention->edge_data"},
      {"args.grad_w_query", kGiven, "must be NULL without args.attention->w_query"},
      {"args.grad_b_value", kGiven, "must be NULL without args.attention->b_value"},
      {"args.grad_head_weights", kGiven, "must be NULL without args.attention->head_weights"},
      {[](GraphBackwardForm& form) { form.desc.grad_w_query.dtype = 1; },
       "desc.grad_w_query is given; it must be 0 with desc.attention->inputs 0"},
  });
  check_refused<GraphBackwardForm>(
      share, {{"args.grad_query", kGiven, "must be NULL without args.attention->query"},
              {[](GraphBackwardForm& form) { form.layer.args.b_key = nullptr; },
               "args.grad_b_key is given; it must be NULL without args.attention->b_key"},
              {[](GraphBackwardForm& form) { form.desc.grad_query.dtype = 1; },
               "desc.grad_query is given; it must be 0 unless desc.attention->inputs is "
               "HEED_GRAPH_PROJECTED (0)"},
              {[](GraphBackwardForm& form) { form.desc.grad_w_key.stride_matrix = 5; },
               "desc.grad_w_key.stride_matrix is 5; it must be 0: there is one"}});
}

TEST_CASE("gradients over graphs are float64 where their tensors are, and nowhere else",
          "[refused][backward][graph]") {
  for (const std::string name : {"desc.grad_out", "desc.grad_query", "desc.grad_key",
                                 "desc.grad_value", "desc.grad_data", "desc.grad_edge_data"}) {
    check_refused<GraphBackwardForm>(
        {{name + ".dtype", HEED_DTYPE_F64, "must not be HEED_DTYPE_F64 (2)"}});
    check_accepted<GraphBackwardForm>(with(name + ".dtype", HEED_DTYPE_BF16));
    check_refused<GraphBackwardForm>(
        [](GraphBackwardForm& form) { form.all_float64(); },
        {{name + ".dtype", HEED_DTYPE_F16, "must be HEED_DTYPE_F64 (2)"}});
  }
}

TEST_CASE("steps sum what edges and nodes' matrices get where it lies",
          "[refused][backward][graph]") {
  const GraphBackwardChange steps = [](GraphBackwardForm& form) {
    form.share();
    form.layer.desc.steps = 3;
  };
  check_accepted<GraphBackwardForm>(steps);
  check_refused<GraphBackwardForm>(
      steps, {{[](GraphBackwardForm& form) { form.desc.grad_edge_bias.dtype = HEED_DTYPE_F16; },
               "desc.grad_edge_bias has 2 bytes an element; with desc.attention->steps 3 it must "
               "have 4 or more, because the steps are summed there",
               HEED_STATUS_UNSUPPORTED},
              {[](GraphBackwardForm& form) { form.desc.grad_edge_data.dtype = HEED_DTYPE_BF16; },
               "desc.grad_edge_data has 2 bytes an element", HEED_STATUS_UNSUPPORTED}});
  check_refused<GraphBackwardForm>(
      [](GraphBackwardForm& form) {
        form.per_node();
        form.layer.desc.steps = 2;
      },
      {{[](GraphBackwardForm& form) { form.desc.grad_w_value.dtype = HEED_DTYPE_F16; },
        "desc.grad_w_value has 2 bytes an element", HEED_STATUS_UNSUPPORTED}});
}
