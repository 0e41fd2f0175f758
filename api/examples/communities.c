/* Training over a graph: which of three communities a node belongs to, told by one in ten.
 *
 * The graph is a stochastic block model (Holland, Laskey and Leinhardt 1983): two thirds of a
 * node's edges come from its own community, the others from anywhere. A node's data is mostly
 * noise, so it has to ask its neighbours, and to learn which of them to heed.
 *
 *   logits = attention over the edges, from data W_query, data W_key and data W_value + b_value
 *   loss   = the mean cross-entropy of the nodes whose community is told
 *
 * Edges are dropped in training; parameters take steps of Adam. */
#include <heed.h>
#include <stdio.h>

#include "adam.h"
#include "random.h"

enum { COMMUNITIES = 3, MEMBERS = 300, NODES = COMMUNITIES * MEMBERS };
enum { DEGREE = 9, EDGES = NODES * (DEGREE + 1) };
enum { WIDTH = 12, FEATURES = 8, TOLD = NODES / 10 };
typedef struct parameters {
  float w_query[WIDTH][FEATURES], w_key[WIDTH][FEATURES], w_value[WIDTH][COMMUNITIES];
  float b_query[FEATURES], b_key[FEATURES], b_value[COMMUNITIES];
} parameters;
enum { NUMBERS = sizeof(parameters) / sizeof(float) };

static parameters learned, gradient, mean, mean_square;
static int32_t sources[EDGES], destinations[EDGES];
static float data[NODES][WIDTH], logits[NODES][COMMUNITIES], grad_logits[NODES][COMMUNITIES];
static float weights[EDGES];

static int community(int node) { return node % COMMUNITIES; }

static void draw_graph(uint64_t* random) {
  for (int e = 0; e < EDGES; ++e) {
    const int node = destinations[e] = e / (DEGREE + 1);
    const int own = random_below(random, 3) > 0;
    const int other = random_below(random, MEMBERS) * COMMUNITIES + community(node);
    sources[e] = own ? other : random_below(random, NODES);
    if (e % (DEGREE + 1) == 0) sources[e] = node; /* a loop: it hears itself, too */
  }
  for (int n = 0; n < NODES; ++n)
    for (int x = 0; x < WIDTH; ++x)
      data[n][x] = (float)(random_normal(random) + (x % COMMUNITIES == community(n)));
}

static heed_graph_attention_args arguments(void) {
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.data = data;
  args.w_query = learned.w_query;
  args.w_key = learned.w_key;
  args.w_value = learned.w_value;
  args.b_query = learned.b_query;
  args.b_key = learned.b_key;
  args.b_value = learned.b_value;
  args.out = logits;
  return args;
}

/* Percent of the other nodes whose community has the largest logit. */
static double right_of_others(void) {
  int right = 0;
  for (int n = TOLD; n < NODES; ++n) {
    int best = 0;
    for (int c = 1; c < COMMUNITIES; ++c)
      if (logits[n][c] > logits[n][best]) best = c;
    right += best == community(n);
  }
  return right * 100.0 / (double)(NODES - TOLD);
}

/* The loss of the nodes told, and its gradient. */
static double loss_of_told(void) {
  double loss = 0;
  for (int n = 0; n < TOLD; ++n) {
    double sum = 0;
    for (int c = 0; c < COMMUNITIES; ++c) sum += exp((double)logits[n][c]);
    for (int c = 0; c < COMMUNITIES; ++c)
      grad_logits[n][c] =
          (float)((exp((double)logits[n][c]) / sum - (c == community(n))) / (double)TOLD);
    loss += (log(sum) - logits[n][community(n)]) / (double)TOLD;
  }
  return loss;
}

static heed_status differentiate(const heed_context* context, const heed_graph* graph,
                                 const heed_graph_attention_desc* desc,
                                 const heed_graph_attention_args* attention) {
  heed_graph_attention_backward_desc backward = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  backward.attention = desc;
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  args.attention = attention;
  args.grad_out = grad_logits;
  args.grad_w_query = gradient.w_query;
  args.grad_w_key = gradient.w_key;
  args.grad_w_value = gradient.w_value;
  args.grad_b_query = gradient.b_query;
  args.grad_b_key = gradient.b_key;
  args.grad_b_value = gradient.b_value;
  return heed_graph_attention_backward(context, graph, &backward, &args);
}

/* Of every community's weights, how much goes to which: a bar of 40 letters. */
static void draw_weights(void) {
  double sums[COMMUNITIES][COMMUNITIES] = {{0}};
  for (int e = 0; e < EDGES; ++e)
    sums[community(destinations[e])][community(sources[e])] += weights[e] * 40.0 / (double)MEMBERS;
  for (int c = 0; c < COMMUNITIES; ++c) {
    double end = 0;
    printf("%c hears  ", 'A' + c);
    for (int from = 0, i = 0; from < COMMUNITIES; ++from)
      for (end += sums[c][from]; i < (int)(end + 0.5); ++i) putchar('a' + from);
    putchar('\n');
  }
}

int main(void) {
  uint64_t random = 1;
  draw_graph(&random);
  for (float* w = (float*)&learned; w < learned.b_query; ++w)
    *w = (float)(random_normal(&random) / sqrt(WIDTH));
  heed_graph_desc edges = HEED_GRAPH_DESC_INIT;
  edges.nodes = NODES, edges.edges = EDGES, edges.reverse = 1; /* gradients need the other way */
  edges.sources = sources, edges.destinations = destinations;
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.inputs = HEED_GRAPH_SHARED;
  desc.heads = 1, desc.features = FEATURES, desc.value_features = COMMUNITIES, desc.width = WIDTH;
  heed_context* context = NULL;
  heed_graph* graph = NULL;
  heed_status status = heed_context_create(NULL, &context);
  if (status == HEED_STATUS_OK) status = heed_graph_create(context, &edges, &graph);
  for (int step = 0; status == HEED_STATUS_OK && step <= 60; ++step) {
    heed_graph_attention_args args = arguments();
    const int looks = step % 20 == 0; /* how well it does: without dropout */
    desc.dropout = looks ? 0 : 0.2;
    args.dropout_seed = looks ? 0 : (uint64_t)step;
    args.weights = looks ? weights : NULL;
    status = heed_graph_attention(context, graph, &desc, &args);
    const double loss = loss_of_told();
    if (looks) printf("step %2d   loss %.4f   right %4.1f %%\n", step, loss, right_of_others());
    if (status == HEED_STATUS_OK) status = differentiate(context, graph, &desc, &args);
    adam_step(step + 1, 0.02, NUMBERS, learned.w_query[0], gradient.w_query[0], mean.w_query[0],
              mean_square.w_query[0]);
  }
  if (status == HEED_STATUS_OK)
    draw_weights();
  else
    fprintf(stderr, "communities: %s: %s\n", heed_status_name(status), heed_last_error());
  heed_graph_destroy(graph);
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
