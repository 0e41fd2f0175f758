/* Attention as messages between the nodes of a graph. Every node holds some data and three
 * matrices of its own: of its data it makes a query, what it looks for, a key, what it has, and a
 * value, what it says. Along its incoming edges it asks, weighs the answers by softmax, and adds
 * their weighted sum to its data; all nodes do so at once, and again in the next step.
 *
 * heed gets the nodes' data and matrices as they are, and returns the new data, the weight of
 * every edge and the log-sum-exp of every node. */
#include <heed.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../arguments.h"
#include "../random.h"
#include "edges.h"
#include "picture.h"

static const char program[] = "messages";

static const char help[] =
    "Usage: messages [OPTION...]\n"
    "\n"
    "Passes messages between the nodes of a random graph by attention, and prints what each\n"
    "node heard in the last step.\n"
    "\n"
    "  --nodes N           (default: 10)\n"
    "  --features N        of each node's data; its three matrices are N x N (default: 20)\n"
    "  --edges N           random ones, self-loops among them (default: 40)\n"
    "  --keep-duplicates   edges that come up twice count twice (default: once)\n"
    "  --data-times-w      queries, keys and values are data W (default: W data)\n"
    "  --temperature X     divides the scores (default: 1)\n"
    "  --steps N           how often messages are passed (default: 1)\n"
    "  --seed N            of the random numbers (default: 1)\n"
    "  --dot FILE          writes the graph for Graphviz, edges as wide as their weights\n"
    "  -h, --help          print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if not, 2 for a wrong command line.\n";

typedef struct options {
  int64_t nodes, features, edges, steps, seed;
  bool keep_duplicates, data_times_w, help;
  double temperature;
  const char* dot; /* NULL: no picture */
} options;

static bool read_options(int argc, char** argv, options* o) {
  *o = (options){10, 20, 40, 1, 1, false, false, false, 1, NULL};
  const argument known[] = {
      {"--nodes", ARGUMENT_INTEGER, &o->nodes, 1, 10000},
      {"--features", ARGUMENT_INTEGER, &o->features, 1, 1000},
      {"--edges", ARGUMENT_INTEGER, &o->edges, 0, 1000000},
      {"--keep-duplicates", ARGUMENT_FLAG, &o->keep_duplicates, 0, 0},
      {"--data-times-w", ARGUMENT_FLAG, &o->data_times_w, 0, 0},
      {"--temperature", ARGUMENT_POSITIVE, &o->temperature, 0, 0},
      {"--steps", ARGUMENT_INTEGER, &o->steps, 1, 1000000},
      {"--seed", ARGUMENT_INTEGER, &o->seed, 0, INT64_MAX},
      {"--dot", ARGUMENT_TEXT, &o->dot, 0, 0},
      {"--help", ARGUMENT_FLAG, &o->help, 0, 0},
      {"-h", ARGUMENT_FLAG, &o->help, 0, 0},
  };
  return arguments_read(program, known, sizeof known / sizeof *known, argc, argv);
}

/* ---- The nodes and their edges ----------------------------------------------------------------
 */

typedef struct world {
  int64_t nodes, features;
  edge_list edges;
  bool* repeated;  /* [edges] and does not count */
  double* data;    /* [nodes, features] */
  double* w_query; /* [nodes, features, features] */
  double* w_key;
  double* w_value;
  double* lengths; /* [nodes] of the data before the first step */
  double* weights; /* [edges] */
  double* lse;     /* [nodes] */
} world;

static void release(world* w) {
  edges_release(&w->edges);
  free(w->repeated);
  free(w->data);
  free(w->w_query);
  free(w->w_key);
  free(w->w_value);
  free(w->lengths);
  free(w->weights);
  free(w->lse);
}

static double* numbers(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static bool allocate(const options* o, world* w) {
  const int64_t matrices = o->nodes * o->features * o->features;
  w->nodes = o->nodes;
  w->features = o->features;
  w->edges.nodes = (int32_t)o->nodes;
  w->repeated = calloc((size_t)o->edges + 1, sizeof *w->repeated);
  w->data = numbers(o->nodes * o->features);
  w->w_query = numbers(matrices);
  w->w_key = numbers(matrices);
  w->w_value = numbers(matrices);
  w->lengths = numbers(o->nodes);
  w->weights = numbers(o->edges);
  w->lse = numbers(o->nodes);
  return w->repeated != NULL && w->data != NULL && w->w_query != NULL && w->w_key != NULL &&
         w->w_value != NULL && w->lengths != NULL && w->weights != NULL && w->lse != NULL;
}

static double length_of(const world* w, int64_t node) {
  double sum = 0;
  for (int64_t x = 0; x < w->features; ++x) {
    sum += w->data[node * w->features + x] * w->data[node * w->features + x];
  }
  return sqrt(sum);
}

static void fill(random_source* random, double* rows, int64_t row, int64_t width) {
  for (int64_t x = 0; x < width; ++x) rows[row * width + x] = random_normal(random);
}

static bool make_world(const options* o, world* w) {
  bool ok = allocate(o, w);
  random_source random = {(uint64_t)o->seed};
  for (int64_t n = 0; ok && n < o->nodes; ++n) {
    fill(&random, w->data, n, o->features);
    fill(&random, w->w_key, n, o->features * o->features);
    fill(&random, w->w_query, n, o->features * o->features);
    fill(&random, w->w_value, n, o->features * o->features);
    w->lengths[n] = length_of(w, n);
  }
  for (int64_t e = 0; ok && e < o->edges; ++e) {
    const int32_t source = random_below(&random, (int32_t)o->nodes);
    const int32_t destination = random_below(&random, (int32_t)o->nodes);
    ok = edges_add(&w->edges, source, destination, 1);
  }
  if (ok && !o->keep_duplicates) ok = edges_find_repeated(&w->edges, w->repeated);
  if (!ok) fprintf(stderr, "%s: no memory for the graph\n", program);
  return ok;
}

/* ---- Attention --------------------------------------------------------------------------------
 */

static heed_status make_graph(const heed_context* context, const options* o, const world* w,
                              heed_graph** graph) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = w->nodes;
  desc.edges = w->edges.count;
  desc.sources = w->edges.sources;
  desc.destinations = w->edges.destinations;
  desc.duplicates = o->keep_duplicates ? HEED_DUPLICATES_KEEP : HEED_DUPLICATES_REMOVE;
  return heed_graph_create(context, &desc, graph);
}

static heed_status pass_messages(const heed_context* context, const heed_graph* graph,
                                 const options* o, world* w) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.inputs = HEED_GRAPH_PER_NODE;
  desc.heads = 1;
  desc.features = desc.width = w->features;
  desc.steps = o->steps;
  desc.scale = 1; /* not 1 / sqrt(features): scores run into the hundreds */
  desc.temperature = o->temperature;
  desc.residual = 1; /* data += update */
  desc.data.dtype = desc.out.dtype = HEED_DTYPE_F64;
  /* data W sums over the rows of W, W data over its columns: the strides say which. */
  heed_matrix_layout matrix = HEED_MATRIX_LAYOUT_INIT;
  matrix.stride_matrix = w->features * w->features;
  matrix.stride_in = o->data_times_w ? w->features : 1;
  matrix.stride_out = o->data_times_w ? 1 : w->features;
  desc.w_query = desc.w_key = desc.w_value = matrix;

  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.data = w->data;
  args.out = w->data; /* in place: every node still reads what the others were */
  args.w_query = w->w_query;
  args.w_key = w->w_key;
  args.w_value = w->w_value;
  args.weights = w->weights;
  args.lse = w->lse;
  return heed_graph_attention(context, graph, &desc, &args);
}

/* ---- What is printed --------------------------------------------------------------------------
 */

/* The next edge into a node from e on that counts; the number of edges if there is none. */
static int64_t next_into(const world* w, int64_t node, int64_t e) {
  while (e < w->edges.count && (w->edges.destinations[e] != node || w->repeated[e])) ++e;
  return e;
}

/* p = e^(s / temperature - lse), so the scores need not be asked for: they are still there. A
 * weight that underflowed to 0 only says what its score is below. */
static void print_score(const options* o, double weight, double lse) {
  const double smallest = 0x1p-1074;
  const double score = o->temperature * (log(weight > 0 ? weight : smallest) + lse);
  printf("%s%.6f", weight > 0 ? "" : "<", score);
}

static void print_node(const options* o, const world* w, int64_t node) {
  const int64_t first = next_into(w, node, 0);
  const int64_t end = w->edges.count;
  double sum = 0;
  printf("++++ ito: %" PRId64 "\n\tifroms: [", node);
  for (int64_t e = first; e < end; e = next_into(w, node, e + 1)) {
    printf("%s%" PRId32, e == first ? "" : ", ", w->edges.sources[e]);
  }
  printf("]\n\tscores: [");
  for (int64_t e = first; e < end; e = next_into(w, node, e + 1)) {
    printf("%s", e == first ? "" : ", ");
    print_score(o, w->weights[e], w->lse[node]);
  }
  printf("]\n\tAttention weights: [");
  for (int64_t e = first; e < end; e = next_into(w, node, e + 1)) {
    printf("%s%.8e", e == first ? "" : " ", w->weights[e]);
    sum += w->weights[e];
  }
  printf("]\n\tsum_i scores_i = %.12g\n\n", sum);
}

static void print_world(const options* o, const world* w, const heed_graph_info* info) {
  printf("Graph with %" PRId64 " nodes and %" PRId64 " edges\n\n", info->nodes, info->edges);
  if (o->steps > 1) printf("Step %" PRId64 "\n\n", o->steps);
  for (int64_t n = 0; n < w->nodes; ++n) print_node(o, w, n);
  printf("Length of the data, before and after\n");
  for (int64_t n = 0; n < w->nodes; ++n) {
    printf("%6" PRId64 "  %12.6g  %12.6g\n", n, w->lengths[n], length_of(w, n));
  }
}

/* ---- The program ------------------------------------------------------------------------------
 */

static bool run(const options* o, world* w) {
  if (!make_world(o, w)) return false;
  heed_context* context = NULL;
  heed_graph* graph = NULL;
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  heed_status status = heed_context_create(NULL, &context);
  if (status == HEED_STATUS_OK) status = make_graph(context, o, w, &graph);
  if (status == HEED_STATUS_OK) status = heed_graph_describe(graph, &info);
  if (status == HEED_STATUS_OK) status = pass_messages(context, graph, o, w);
  heed_graph_destroy(graph);
  heed_context_destroy(context);
  if (status != HEED_STATUS_OK) {
    fprintf(stderr, "%s: %s: %s\n", program, heed_status_name(status), heed_last_error());
    return false;
  }
  print_world(o, w, &info);
  return o->dot == NULL || picture_write(program, o->dot, &w->edges, w->repeated, w->weights);
}

int main(int argc, char** argv) {
  options o;
  if (!read_options(argc, argv, &o)) {
    fprintf(stderr, "Try '%s --help'.\n", program);
    return EXIT_USAGE;
  }
  if (o.help) {
    fputs(help, stdout);
    return EXIT_WELL;
  }
  world w = {0};
  const bool ok = run(&o, &w);
  release(&w);
  return ok ? EXIT_WELL : EXIT_FAILED;
}
