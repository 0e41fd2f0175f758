// Gradients over graphs: heed_graph_attention_backward_plan_create and _run.
#include "tests/oracle/graph_backward.hpp"

#include "tests/fuzz/gradient_case.hpp"
#include "tests/fuzz/graph_case.hpp"
#include "tests/fuzz/plan.hpp"

using namespace heed_test;

namespace {

using Args = heed_graph_attention_backward_args;
using GraphGradients = GradientCase<Args, kGraphGradients>;
constexpr GraphGradients::Places kPlaces = {{{"query", &Args::grad_query},
                                             {"key", &Args::grad_key},
                                             {"value", &Args::grad_value},
                                             {"data", &Args::grad_data},
                                             {"w_query", &Args::grad_w_query},
                                             {"w_key", &Args::grad_w_key},
                                             {"w_value", &Args::grad_w_value},
                                             {"b_query", &Args::grad_b_query},
                                             {"b_key", &Args::grad_b_key},
                                             {"b_value", &Args::grad_b_value},
                                             {"edge_data", &Args::grad_edge_data},
                                             {"w_edge_key", &Args::grad_w_edge_key},
                                             {"w_edge_value", &Args::grad_w_edge_value},
                                             {"edge_bias", &Args::grad_edge_bias},
                                             {"head_weights", &Args::grad_head_weights}}};

/// Whether heads share a bias; strides that are all 0 are those of contiguous ones, unless they are
/// explicit.
bool shares_bias(const heed_graph_attention_desc& d) {
  const heed_layout& bias = d.edge_bias;
  const bool stands = bias.reserved == HEED_STRIDES_EXPLICIT || bias.stride_batch != 0 ||
                      bias.stride_row != 0 || bias.stride_feature != 0;
  return d.heads > 1 && bias.stride_head == 0 && stands;
}

/// Calls visit(gradient, layout, shape) for tensors over nodes and edges, and visit(gradient,
/// layout, matrices, in, out) for matrices.
template <class Desc, class Tensors, class Matrices>
void each_gradient(Desc& g, const heed_graph_attention_desc& d, const EdgeList& edges,
                   Tensors&& tensor, Matrices&& matrix) {
  const std::int64_t n = edges.nodes;
  const std::int64_t e = edges.size();
  const std::int64_t values = value_features_of(d);
  const std::int64_t keys_width = d.heads * d.features;
  if (d.inputs == HEED_GRAPH_PROJECTED) {
    tensor(kGraphQuery, g.grad_query, Axes{1, d.heads, n, d.features});
    tensor(kGraphKey, g.grad_key, Axes{1, d.heads, n, d.features});
    tensor(kGraphValue, g.grad_value, Axes{1, d.heads, n, values});
  }
  if (has_data(d)) tensor(kGraphData, g.grad_data, Axes{1, 1, n, d.width});
  const bool per_node = d.inputs == HEED_GRAPH_PER_NODE;
  if (d.inputs != HEED_GRAPH_PROJECTED && !(per_node && n == 0)) {
    const std::int64_t count = per_node ? n : 0;
    matrix(kGraphWQuery, g.grad_w_query, count, d.width, keys_width);
    matrix(kGraphWKey, g.grad_w_key, count, d.width, keys_width);
    matrix(kGraphWValue, g.grad_w_value, count, d.width, d.heads * values);
  }
  if (d.edge_width > 0) {
    tensor(kGraphEdgeData, g.grad_edge_data, Axes{1, 1, e, d.edge_width});
    matrix(kGraphWEdgeKey, g.grad_w_edge_key, 0, d.edge_width, keys_width);
    matrix(kGraphWEdgeValue, g.grad_w_edge_value, 0, d.edge_width, d.heads * values);
  }
  tensor(kGraphEdgeBias, g.grad_edge_bias, Axes{1, shares_bias(d) ? 1 : d.heads, e, 1});
}

Axes out_shape(const heed_graph_attention_desc& d, const EdgeList& edges) {
  return {1, out_heads_of(d), edges.nodes, value_features_of(d)};
}
Axes lse_shape(const heed_graph_attention_desc& d, const EdgeList& edges) {
  return {1, d.heads, edges.nodes, 1};
}

heed_graph_attention_backward_desc draw_backward(Draw& draw, const heed_graph_attention_desc& d,
                                                 const EdgeList& edges) {
  heed_graph_attention_backward_desc g = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  g.accumulate = draw.one_in(4) ? 1 : 0;
  const auto type = [&](bool summed) {
    const std::uint32_t dtype = draw.dtype(float64_of(d), true);
    return summed && d.steps > 1 && !float64_of(d) ? std::uint32_t{HEED_DTYPE_F32} : dtype;
  };
  const auto layout = [&](const Axes& shape, Use use, std::uint32_t dtype) {
    heed_layout layout = draw.layout(shape, use, dtype);
    layout.stride_batch = 0;
    return layout;
  };
  g.grad_out = layout(out_shape(d, edges), Use::kRead, type(false));
  g.grad_lse = draw_lse_layout(draw, lse_shape(d, edges));
  g.grad_lse.stride_batch = 0;
  each_gradient(
      g, d, edges,
      [&](GraphGradientOf of, heed_layout& to, const Axes& shape) {
        to = layout(shape, Use::kWritten, type(of == kGraphEdgeData || of == kGraphEdgeBias));
      },
      [&](GraphGradientOf, heed_matrix_layout& to, std::int64_t count, std::int64_t in,
          std::int64_t out) {
        to = draw.matrix_layout(count, in, out, type(count > 0), Use::kWritten);
      });
  return g;
}

/// Runs of a plan, with their tensors.
class BackwardCase {
 public:
  BackwardCase(const EdgeList& edges, const heed_graph_attention_backward_desc& desc,
               const heed_graph_attention_desc& d)
      : attention(edges, d),
        desc_(desc),
        grad_out_in_(out_shape(d, edges), desc.grad_out, real_of(d), true),
        grad_lse_in_(lse_shape(d, edges), desc.grad_lse, real_of(d), true),
        gradients_(kPlaces, desc.accumulate) {
    const std::uint32_t real = real_of(d);
    each_gradient(
        desc, d, edges,
        [&](GraphGradientOf of, const heed_layout& layout, const Axes& shape) {
          gradients_.reach(of, Extent(shape, layout, real, true));
        },
        [&](GraphGradientOf of, const heed_matrix_layout& layout, std::int64_t count,
            std::int64_t in,
            std::int64_t out) { gradients_.reach(of, Extent(count, in, out, layout, real)); });
    for (const GraphGradientOf of : {kGraphBQuery, kGraphBKey})
      gradients_.reach(of, d.heads * d.features, real);
    gradients_.reach(kGraphBValue, d.heads * value_features_of(d), real);
    gradients_.reach(kGraphHeadWeights, d.heads, real);
  }

  bool small() {
    bool all = attention.small();
    all = check_extent(grad_out_in_) && all;
    all = check_extent(grad_lse_in_) && all;
    return gradients_.small() && all;
  }

  void make(Draw& draw) {
    attention.make(draw, false);
    Random random(draw.bits());
    const auto next = [&] { return random.normal(); };
    grad_out_ = grad_out_in_.tensor(1);
    grad_out_->fill(next);
    if (draw.one_in(2)) {
      grad_lse_ = grad_lse_in_.tensor(0);
      grad_lse_->fill(next);
    }
    if (draw.one_in(8)) draw.plant({&*grad_out_});
    const heed_graph_attention_args args = attention.args(true);
    gradients_.make(
        draw, random,
        [&](std::size_t of) {
          switch (of) {
            case kGraphBQuery:
              return args.b_query != nullptr;
            case kGraphBKey:
              return args.b_key != nullptr;
            case kGraphBValue:
              return args.b_value != nullptr;
            case kGraphWEdgeKey:
              return args.w_edge_key != nullptr;
            case kGraphWEdgeValue:
              return args.w_edge_value != nullptr;
            case kGraphEdgeBias:
              return args.edge_bias != nullptr;
            case kGraphHeadWeights:
              return args.head_weights != nullptr;
            default:
              return true;
          }
        },
        [](std::size_t, Index) { return true; });
  }

  Args args() {
    Args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
    args.grad_out = grad_out_->data();
    if (grad_lse_) args.grad_lse = grad_lse_->data();
    gradients_.give(args);
    return args;
  }

  ExpectedGraphGradients expected(const Args& args) {
    heed_graph_attention_backward_desc desc = desc_;
    desc.attention = &attention.problem().desc;
    return expect_gradients({desc, args, attention.problem().edges});
  }

  void check(const Args& args, const ExpectedGraphGradients& want) const {
    gradients_.check(args, want);
  }
  void check_untouched() const {
    gradients_.check_untouched();
    attention.check_untouched(false);
  }

  GraphCase attention;

 private:
  const heed_graph_attention_backward_desc desc_;
  Extent grad_out_in_, grad_lse_in_;
  GraphGradients gradients_;
  std::optional<Tensor> grad_out_, grad_lse_;
};

/// Pointers that are as good a byte further.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_graph_attention_backward_args, attention)};

void run(Draw& draw, const heed_graph_attention_backward_plan* plan, BackwardCase& backward) {
  backward.make(draw);
  heed_graph_attention_args attention = backward.attention.args(true);
  const bool attention_damaged = draw.damage_pointers(attention, kGraphObjects);
  Args args = backward.args();
  args.attention = &attention;
  const bool damaged = draw.damage_pointers(args, kKept) || attention_damaged;
  const Versioned<Args> given(draw, args);
  const Args known = given.known();
  const bool whole = !damaged && !given.odd();
  // Before the run, which writes over what it adds to.
  ExpectedGraphGradients want;
  if (whole) want = backward.expected(known);
  const RunSpace space(draw, plan);
  const heed_status status =
      heed_graph_attention_backward_plan_run(plan, given.get(), space.get(), space.bytes());
  if (!ran(status, space, whole)) return backward.check_untouched();
  if (whole) backward.check(known, want);
}

void plan(Draw& draw, const EdgeList& edges, const heed_graph* graph,
          heed_graph_attention_desc attention, heed_graph_attention_backward_desc desc,
          bool damaged) {
  desc.attention = &attention;
  const bool inside = damaged && draw.one_in(2);
  if (inside) draw.damage(attention);
  if (damaged && !inside) draw.damage(desc, offsetof(heed_graph_attention_backward_desc, grad_out));
  const Versioned<heed_graph_attention_backward_desc> given(draw, desc);
  const heed_graph_attention_backward_desc known = given.known();
  heed_graph_attention_backward_plan* made = nullptr;
  const heed_status status =
      heed_graph_attention_backward_plan_create(fuzz_context().get(), graph, given.get(), &made);
  const GraphBackwardPlan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  demand(known.attention != nullptr, "gradients of no attention are accepted");
  BackwardCase backward(edges, known, attention);
  if (backward.small() && worth_running(draw, damaged)) run(draw, made, backward);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  EdgeList edges = draw_edges(first);
  const Graph graph = draw_graph(first, edges, false, true);
  if (!graph) return 0;
  heed_graph_attention_desc attention = draw_graph_attention(first, edges);
  attention.hard = 0;
  const heed_graph_attention_backward_desc desc = draw_backward(first, attention, edges);
  each_variant(first, [&](Draw& draw, bool damaged) {
    plan(draw, edges, graph.get(), attention, desc, damaged);
  });
  return 0;
}
