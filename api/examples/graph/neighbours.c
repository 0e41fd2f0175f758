/* Attention over a graph from a file: which neighbours does a node attend to most?
 *
 *   read the edges -> features of the nodes -> heed_graph -> attention -> the largest weights
 *
 * Queries, keys and values are the features themselves, so that a node attends to neighbours that
 * are like it. */
#include <heed.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arguments.h"
#include "../attend/npy.h"
#include "../files.h"
#include "../heat.h"
#include "edges.h"
#include "features.h"
#include "picture.h"

static const char program[] = "neighbours";

static const char help[] =
    "Usage: neighbours EDGES [OPTION...]\n"
    "\n"
    "Runs attention over the graph in the file EDGES and lists the neighbours that a node attends\n"
    "to most. A line of the file is an edge, from source to destination: two integers, or two\n"
    "names with a tab or comma between them. A third field is the edge's weight, which multiplies\n"
    "what the score says; of 0 it leaves the edge out. Lines that begin with # or % and empty\n"
    "lines are skipped. Of edges that come up again the first counts. Destinations attend to\n"
    "sources.\n"
    "\n"
    "  --node NAME       the node (default: the one with the most incoming edges)\n"
    "  --top N           how many of its neighbours to list (default: 10)\n"
    "  --undirected      edges go both ways\n"
    "  --unweighted      reads only the first two fields of a line\n"
    "  --scale X         of the scores (default: 0.5; with --features 1 / sqrt(features))\n"
    "  --features FILE   .npy, [nodes, features]: row i is the i-th node, by number where all\n"
    "                    names are integers, otherwise as they appear\n"
    "  --width N         without --features a node is known by its neighbours, and a score is\n"
    "                    how many of them two nodes share: exactly in graphs of at most N nodes,\n"
    "                    by N random signs for every node in larger ones (default: 256)\n"
    "  --seed N          of the random signs (default: 1)\n"
    "  --out FILE        writes the attended features, .npy\n"
    "  --dot FILE        writes the graph for Graphviz, edges as wide as their weights\n"
    "  -h, --help        print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if a file or the computation failed, 2 for a wrong\n"
    "command line. NaN in the result is said on stderr and is no failure. A result replaces no\n"
    "other file of the command line.\n";

typedef struct options {
  const char *edges, *node, *features, *out, *dot; /* NULL: not given */
  int64_t top, width, seed;
  double scale; /* 0: not given */
  bool undirected, unweighted, help;
} options;

static bool failed(const char* why) {
  fprintf(stderr, "%s: %s\n", program, why);
  return false;
}

static bool read_options(int argc, char** argv, options* o) {
  *o = (options){NULL, NULL, NULL, NULL, NULL, 10, 256, 1, 0, false, false, false};
  const argument known[] = {
      {"EDGES", ARGUMENT_TEXT, &o->edges, 0, 0},
      {"--node", ARGUMENT_TEXT, &o->node, 0, 0},
      {"--top", ARGUMENT_INTEGER, &o->top, 1, INT32_MAX},
      {"--undirected", ARGUMENT_FLAG, &o->undirected, 0, 0},
      {"--unweighted", ARGUMENT_FLAG, &o->unweighted, 0, 0},
      {"--scale", ARGUMENT_POSITIVE, &o->scale, 0, 0},
      {"--features", ARGUMENT_TEXT, &o->features, 0, 0},
      {"--width", ARGUMENT_INTEGER, &o->width, 1, 65536},
      {"--seed", ARGUMENT_INTEGER, &o->seed, 0, INT64_MAX},
      {"--out", ARGUMENT_TEXT, &o->out, 0, 0},
      {"--dot", ARGUMENT_TEXT, &o->dot, 0, 0},
      {"--help", ARGUMENT_FLAG, &o->help, 0, 0},
      {"-h", ARGUMENT_FLAG, &o->help, 0, 0},
  };
  if (!arguments_read(program, known, sizeof known / sizeof *known, argc, argv)) return false;
  if (o->help) return true;
  if (o->edges == NULL) return failed("EDGES, the file, is missing");
  const named_file files[] = {{"EDGES", o->edges, false},
                              {"--features", o->features, false},
                              {"--out", o->out, true},
                              {"--dot", o->dot, true}};
  return files_are_apart(program, files, sizeof files / sizeof *files);
}

/* Everything that a run of this program owns. */
typedef struct job {
  edge_list edges;
  bool* repeated; /* [edges] and does not count */
  feature_rows features;
  double* bias;    /* [edges] of the scores; NULL: none */
  float* out;      /* [nodes, width] */
  double* weights; /* [edges] */
  int32_t node;    /* to report on */
  heed_context* context;
  heed_graph* graph;
} job;

static void release(job* j) {
  edges_release(&j->edges);
  free(j->repeated);
  free(j->features.rows);
  free(j->bias);
  free(j->out);
  free(j->weights);
  heed_graph_destroy(j->graph);
  heed_context_destroy(j->context);
}

static bool succeeded(heed_status status) {
  if (status == HEED_STATUS_OK) return true;
  fprintf(stderr, "%s: %s: %s\n", program, heed_status_name(status), heed_last_error());
  return false;
}

/* ---- The graph --------------------------------------------------------------------------------
 */

static bool add_reverses(edge_list* edges) {
  bool ok = true;
  for (int64_t e = 0, count = edges->count; ok && e < count; ++e) {
    ok = edges_add(edges, edges->destinations[e], edges->sources[e], edges->weights[e]);
  }
  return ok;
}

/* The node that --node names, or the one with the most edges that count. */
static bool choose_node(const options* o, job* j) {
  const edge_list* const edges = &j->edges;
  if (o->node != NULL) {
    for (j->node = 0; j->node < edges->nodes; ++j->node) {
      if (strcmp(edges->names[j->node], o->node) == 0) return true;
    }
    fprintf(stderr, "%s: --node is '%s', which no edge joins\n", program, o->node);
    return false;
  }
  int64_t* const into = calloc((size_t)edges->nodes, sizeof *into);
  if (into == NULL) return failed("no memory to count edges");
  for (int64_t e = 0; e < edges->count; ++e) into[edges->destinations[e]] += !j->repeated[e];
  j->node = 0;
  for (int32_t n = 1; n < edges->nodes; ++n) {
    if (into[n] > into[j->node]) j->node = n;
  }
  free(into);
  return true;
}

/* e^(score + log(weight)) = weight e^score: an edge of weight 2 counts like two of weight 1. */
static bool make_bias(job* j) {
  if (!j->edges.weighted) return true;
  j->bias = malloc((size_t)j->edges.count * sizeof *j->bias);
  for (int64_t e = 0; j->bias != NULL && e < j->edges.count; ++e) {
    j->bias[e] = log(j->edges.weights[e]);
  }
  return j->bias != NULL;
}

static bool read_graph(const options* o, job* j) {
  if (!edges_read(program, o->edges, o->unweighted, &j->edges)) return false;
  if (o->undirected && !add_reverses(&j->edges)) return failed("no memory for the edges");
  const size_t edges = (size_t)j->edges.count + 1;
  j->repeated = calloc(edges, sizeof *j->repeated);
  j->weights = malloc(edges * sizeof *j->weights);
  if (j->repeated == NULL || j->weights == NULL || !make_bias(j) ||
      !edges_find_repeated(&j->edges, j->repeated)) {
    return failed("no memory for the edges");
  }
  if (!choose_node(o, j)) return false;
  if (o->features != NULL) return features_read(program, o->features, &j->edges, &j->features);
  return features_by_acquaintance(&j->edges, j->repeated, o->width, o->seed, &j->features) ||
         failed("no memory for the features");
}

/* ---- Attention --------------------------------------------------------------------------------
 */

static bool attend(const options* o, job* j) {
  heed_graph_desc graph = HEED_GRAPH_DESC_INIT;
  graph.nodes = j->edges.nodes;
  graph.edges = j->edges.count;
  graph.sources = j->edges.sources;
  graph.destinations = j->edges.destinations;

  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.inputs = HEED_GRAPH_PROJECTED; /* queries, keys and values are there */
  desc.heads = 1;
  desc.features = j->features.width;
  if (o->features == NULL) desc.scale = 0.5 / j->features.unit;
  if (o->scale > 0) desc.scale = o->scale / j->features.unit;
  desc.weights.dtype = desc.edge_bias.dtype = HEED_DTYPE_F64;

  j->out = malloc(((size_t)j->edges.nodes * (size_t)j->features.width + 1) * sizeof *j->out);
  if (j->out == NULL) return failed("no memory for the result");
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.query = args.key = args.value = j->features.rows;
  args.out = j->out;
  args.edge_bias = j->bias;
  args.weights = j->weights;
  return succeeded(heed_context_create(NULL, &j->context)) &&
         succeeded(heed_graph_create(j->context, &graph, &j->graph)) &&
         succeeded(heed_graph_attention(j->context, j->graph, &desc, &args));
}

static bool write_out(const options* o, const job* j) {
  const npy_tensor out = {j->out, NPY_F32, 2, {j->edges.nodes, j->features.width, 0, 0}};
  npy_error error;
  return npy_write(o->out, &out, &error) || failed(error.text);
}

/* The result is what the definition gives; whoever reads it should know. */
static void say_nan(const options* o, const job* j) {
  const int64_t all = j->edges.nodes * j->features.width;
  int64_t count = 0;
  for (int64_t i = 0; i < all; ++i) count += isnan(j->out[i]);
  if (count == 0) return;
  fprintf(stderr, "%s: the result has NaN, %" PRId64 " of its %" PRId64 " numbers", program, count,
          all);
  if (o->features != NULL) fprintf(stderr, "; look for NaN or infinity in %s", o->features);
  fputc('\n', stderr);
}

/* ---- The report -------------------------------------------------------------------------------
 */

typedef struct neighbour {
  double weight;
  int32_t node;
} neighbour;

/* Larger weights first, of equal ones the node that comes first, and NaN last. */
static int by_weight(const void* a, const void* b) {
  const neighbour* const x = a;
  const neighbour* const y = b;
  if (isnan(x->weight) != isnan(y->weight)) return isnan(x->weight) ? 1 : -1;
  if (isnan(x->weight)) return (x->node > y->node) - (x->node < y->node);
  if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

static void list_neighbours(const options* o, const job* j, const neighbour* sorted,
                            int64_t count) {
  printf("node      %s attends to %" PRId64, j->edges.names[j->node], count);
  printf("%s\n", o->top < count ? ", most to" : "");
  double rest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i >= o->top) {
      rest += sorted[i].weight;
      continue;
    }
    char text[32];
    snprintf(text, sizeof text, "  %.3f  ", sorted[i].weight);
    printf("  ");
    heat_cell(sorted[i].weight / sorted[0].weight, text);
    printf("  %s\n", j->edges.names[sorted[i].node]);
  }
  if (o->top < count) printf("    %.3f    the other %" PRId64 "\n", rest, count - o->top);
}

static bool report(const options* o, const job* j) {
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  if (!succeeded(heed_graph_describe(j->graph, &info))) return false;
  printf("graph     %" PRId64 " nodes, %" PRId64 " edges, at most %" PRId64 " into a node\n",
         info.nodes, info.edges, info.most);
  printf("features  %" PRId64 " for each node\n", j->features.width);
  neighbour* const sorted = malloc(((size_t)info.most + 1) * sizeof *sorted);
  if (sorted == NULL) return failed("no memory for the report");
  int64_t count = 0;
  for (int64_t e = 0; e < j->edges.count; ++e) {
    if (j->edges.destinations[e] != j->node || j->repeated[e]) continue;
    sorted[count++] = (neighbour){j->weights[e], j->edges.sources[e]};
  }
  qsort(sorted, (size_t)count, sizeof *sorted, by_weight);
  list_neighbours(o, j, sorted, count);
  free(sorted);
  return true;
}

/* ---- The program ------------------------------------------------------------------------------
 */

static bool run(const options* o, job* j) {
  if (!read_graph(o, j) || !attend(o, j)) return false;
  say_nan(o, j);
  return (o->out == NULL || write_out(o, j)) && report(o, j) &&
         (o->dot == NULL || picture_write(program, o->dot, &j->edges, j->repeated, j->weights));
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
  job j = {0};
  const bool ok = run(&o, &j);
  release(&j);
  return ok ? EXIT_WELL : EXIT_FAILED;
}
