/* Attention as messages between the nodes of a graph. Every node holds some data and three matrices
 * of its own: of its data it makes a query, which says what it looks for, a key, which says what it
 * has, and a value, which it tells others. Along its incoming edges it asks, weighs the answers by
 * softmax, and adds their weighted sum to its data; all nodes do so at once, and again in the next
 * step.
 *
 *   messages [STEPS [FILE]]     1 step unless said; FILE gets the picture, for Graphviz
 */
#include <heed.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

enum { NODES = 10, FEATURES = 20, EDGES = 40, MATRIX = FEATURES * FEATURES };

static double data[NODES][FEATURES];
static double w_query[NODES][MATRIX], w_key[NODES][MATRIX], w_value[NODES][MATRIX];
static int32_t sources[EDGES], destinations[EDGES]; /* self-loops and repeated edges among them */
static double weights[EDGES], lse[NODES];           /* of the last step */

static void fill(uint64_t* random, double* numbers, int count) {
  for (int i = 0; i < count; ++i) numbers[i] = random_normal(random);
}

static void draw_world(void) {
  uint64_t random = 1;
  for (int n = 0; n < NODES; ++n) {
    fill(&random, data[n], FEATURES);
    fill(&random, w_key[n], MATRIX);
    fill(&random, w_query[n], MATRIX);
    fill(&random, w_value[n], MATRIX);
  }
  for (int e = 0; e < EDGES; ++e) {
    sources[e] = random_below(&random, NODES);
    destinations[e] = random_below(&random, NODES);
  }
}

static heed_status pass_messages(const heed_context* context, const heed_graph* graph,
                                 int64_t steps) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.inputs = HEED_GRAPH_PER_NODE;
  desc.heads = 1;
  desc.features = desc.width = FEATURES;
  desc.steps = steps;
  desc.scale = 1;    /* not 1 / sqrt(features): scores run into the hundreds */
  desc.residual = 1; /* data += update */
  desc.data.dtype = desc.out.dtype = HEED_DTYPE_F64;
  /* W data sums over the columns of W; data W, over its rows, would be the strides exchanged. */
  heed_matrix_layout matrix = HEED_MATRIX_LAYOUT_INIT;
  matrix.stride_matrix = MATRIX;
  matrix.stride_in = 1;
  matrix.stride_out = FEATURES;
  desc.w_query = desc.w_key = desc.w_value = matrix;

  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.data = data;
  args.out = data; /* in place: every node still reads what the others were */
  args.w_query = w_query;
  args.w_key = w_key;
  args.w_value = w_value;
  args.weights = weights;
  args.lse = lse;
  return heed_graph_attention(context, graph, &desc, &args);
}

/* Of edges that come up twice, the first counts. */
static bool counts(int e) {
  for (int f = 0; f < e; ++f)
    if (sources[f] == sources[e] && destinations[f] == destinations[e]) return false;
  return true;
}

/* weight = e^(score - lse), so the scores need not be asked for. */
static void print_node(int node) {
  double sum = 0;
  printf("node %d hears", node);
  for (int e = 0; e < EDGES; ++e) {
    if (destinations[e] != node || !counts(e)) continue;
    printf("  %" PRId32 ": %.9g (score %.6f)", sources[e], weights[e], log(weights[e]) + lse[node]);
    sum += weights[e];
  }
  printf("\n  weights sum up to %.12g\n", sum);
}

static double length_of(int node) {
  double sum = 0;
  for (int x = 0; x < FEATURES; ++x) sum += data[node][x] * data[node][x];
  return sqrt(sum);
}

/* Edges as wide as their weights: blue where they are heard, else grey. */
static bool draw(const char* path) {
  FILE* const file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    return false;
  }
  fputs(
      "digraph attention {\n"
      "  graph [layout=neato start=3 overlap=false splines=curved outputorder=edgesfirst]\n"
      "  node [shape=circle width=0.36 fixedsize=true style=filled fillcolor=\"#fff4d6\"\n"
      "        fontname=\"Helvetica\" fontsize=12]\n"
      "  edge [arrowsize=0.5]\n",
      file);
  for (int e = 0; e < EDGES; ++e) {
    if (!counts(e)) continue;
    fprintf(file, "  %" PRId32 " -> %" PRId32 " [penwidth=%.2f color=\"%s\"]\n", sources[e],
            destinations[e], 0.4 + 3.6 * weights[e], weights[e] < 0.005 ? "#b8b8b8" : "#1f5f9f");
  }
  fputs("}\n", file);
  return fclose(file) == 0;
}

int main(int argc, char** argv) {
  const long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  double before[NODES];
  draw_world();
  for (int n = 0; n < NODES; ++n) before[n] = length_of(n);

  heed_graph_desc desc = HEED_GRAPH_DESC_INIT; /* duplicates: removed */
  desc.nodes = NODES;
  desc.edges = EDGES;
  desc.sources = sources;
  desc.destinations = destinations;
  heed_context* context = NULL;
  heed_graph* graph = NULL;
  heed_status status = heed_context_create(NULL, &context);
  if (status == HEED_STATUS_OK) status = heed_graph_create(context, &desc, &graph);
  if (status == HEED_STATUS_OK) status = pass_messages(context, graph, steps);
  if (status != HEED_STATUS_OK)
    fprintf(stderr, "messages: %s: %s\n", heed_status_name(status), heed_last_error());
  heed_graph_destroy(graph);
  heed_context_destroy(context);
  if (status != HEED_STATUS_OK) return 1;

  for (int n = 0; n < NODES; ++n) print_node(n);
  printf("length of the data, before and after\n");
  for (int n = 0; n < NODES; ++n) printf("%6d  %12.6g  %12.6g\n", n, before[n], length_of(n));
  return argc > 2 && !draw(argv[2]) ? 1 : 0;
}
