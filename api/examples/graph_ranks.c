/* Attention over a graph whose nodes are split over the ranks of MPI: the edges of a file, which
 * all ranks read together, or random ones, of which every rank draws its share. Prints what each
 * rank did, and how far some nodes are from one process.
 *
 *   mpirun -np 4 graph_ranks [FILE|SCALE]   "source destination" a line, or 2^SCALE nodes with 16
 *                                           edges each; 17 unless said
 */
#include <heed_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

enum { HEADS = 4, FEATURES = 16, ROW = HEADS * FEATURES, EDGES_PER_NODE = 16, SAMPLES = 16 };
enum { QUERY, KEY, VALUE, OUT, TENSORS };

/* This rank's part of the graph, and what belongs to it. */
typedef struct shard {
  heed_mpi_graph* graph;
  heed_mpi_graph_info info;
  int64_t *nodes, *sources, *destinations;
  float* tensors[TENSORS]; /* [nodes, HEADS, FEATURES] */
} shard;

static int rank, ranks;

/* Numbers in [-1, 1) that depend on the node alone, so that every rank can make any row. */
static void make_row(uint64_t tensor, int64_t node, float* row) {
  uint64_t seed = (tensor << 60) + (uint64_t)node * ROW;
  for (int f = 0; f < ROW; ++f) row[f] = (float)(2 * random_uniform(&seed) - 1);
}

static heed_status make_graph(const heed_context* context, const char* path, int scale,
                              heed_mpi_graph** graph) {
  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  desc.duplicates = HEED_DUPLICATES_KEEP;
  desc.path = path;
  if (path != NULL) return heed_mpi_graph_create(MPI_COMM_WORLD, context, &desc, graph);
  desc.index_type = HEED_INDEX_I64;
  desc.nodes = INT64_C(1) << scale;
  desc.edges = desc.nodes * EDGES_PER_NODE / ranks;
  int64_t* const ends = malloc((size_t)(2 * desc.edges + 1) * sizeof *ends);
  uint64_t seed = (uint64_t)rank;
  for (int64_t e = 0; ends != NULL && e < 2 * desc.edges; ++e)
    ends[e] = random_below(&seed, (int32_t)desc.nodes);
  desc.sources = ends; /* where memory is missing, NULL is refused on all ranks */
  desc.destinations = ends == NULL ? NULL : ends + desc.edges;
  const heed_status status = heed_mpi_graph_create(MPI_COMM_WORLD, context, &desc, graph);
  free(ends);
  return status;
}

static heed_status fill(shard* s) {
  s->info = (heed_mpi_graph_info)HEED_MPI_GRAPH_INFO_INIT;
  heed_mpi_graph_describe(s->graph, &s->info);
  const size_t nodes = (size_t)s->info.own_nodes + 1;
  const size_t edges = (size_t)s->info.own_given + 1;
  s->nodes = malloc(nodes * sizeof *s->nodes);
  s->sources = malloc(edges * sizeof *s->sources);
  s->destinations = malloc(edges * sizeof *s->destinations);
  heed_mpi_graph_nodes(s->graph, s->nodes);
  for (uint64_t t = 0; t < TENSORS; ++t) {
    s->tensors[t] = malloc(nodes * ROW * sizeof(float));
    for (int64_t i = 0; s->tensors[t] != NULL && i < s->info.own_nodes; ++i)
      make_row(t, s->nodes[i], s->tensors[t] + i * ROW);
  }
  return heed_mpi_graph_edges(s->graph, s->sources, s->destinations, NULL);
}

/* The largest difference of own node i from one process: dense attention of its query over the
 * nodes that its edges lead from. */
static double error_of(const heed_context* context, const shard* s, int64_t i) {
  float* const keys = malloc((size_t)(s->info.own_given + 1) * ROW * sizeof *keys);
  float* const values = malloc((size_t)(s->info.own_given + 1) * ROW * sizeof *values);
  float out[ROW];
  double most = keys == NULL || values == NULL ? INFINITY : 0;
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_length = 1;
  desc.query_heads = HEADS;
  desc.features = FEATURES;
  for (int64_t e = 0; most == 0 && e < s->info.own_given; ++e) {
    if (s->destinations[e] != s->nodes[i]) continue;
    make_row(KEY, s->sources[e], keys + desc.key_length * ROW);
    make_row(VALUE, s->sources[e], values + desc.key_length++ * ROW);
  }
  desc.key = (heed_layout){.stride_head = FEATURES, .stride_row = ROW, .stride_feature = 1};
  desc.value = desc.key;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = s->tensors[QUERY] + i * ROW;
  args.key = desc.key_length > 0 ? keys : NULL;
  args.value = desc.key_length > 0 ? values : NULL;
  args.out = out;
  if (heed_attention(context, &desc, &args) != HEED_STATUS_OK) most = INFINITY;
  for (int64_t f = 0; most < INFINITY && f < ROW; ++f)
    most = fmax(most, fabs((double)out[f] - (double)s->tensors[OUT][i * ROW + f]));
  free(keys);
  free(values);
  return most;
}

static heed_status run(const heed_context* context, shard* s) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = HEADS;
  desc.features = FEATURES;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.query = s->tensors[QUERY];
  args.key = s->tensors[KEY];
  args.value = s->tensors[VALUE];
  args.out = s->tensors[OUT];
  const double start = MPI_Wtime();
  const heed_status status = heed_mpi_graph_attention(context, s->graph, &desc, &args);
  const double milliseconds = (MPI_Wtime() - start) * 1e3;
  double most = 0;
  for (int64_t n = 0; status == HEED_STATUS_OK && n < SAMPLES && s->info.own_nodes > 0; ++n)
    most = fmax(most, error_of(context, s, n * (s->info.own_nodes - 1) / (SAMPLES - 1)));
  for (int r = 0; status == HEED_STATUS_OK && r < ranks; ++r) {
    MPI_Barrier(MPI_COMM_WORLD); /* a line after the other */
    if (r != rank) continue;
    printf(
        "rank %d of %d: %lld nodes, %lld edges, %lld rows from %lld ranks, %.2f ms, error %.1e\n",
        rank, ranks, (long long)s->info.own_nodes, (long long)s->info.own_edges,
        (long long)s->info.remote_rows, (long long)s->info.senders, milliseconds, most);
    fflush(stdout);
  }
  return status;
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char* end = NULL;
  const long scale = argc > 1 ? strtol(argv[1], &end, 10) : 17;
  const char* const path = argc > 1 && *end != '\0' ? argv[1] : NULL;
  heed_context* context = NULL;
  shard s = {0};
  heed_context_create(NULL, &context); /* a context that is missing is refused by all ranks */
  heed_status status =
      make_graph(context, path, (int)(scale < 1 || scale > 26 ? 17 : scale), &s.graph);
  if (status == HEED_STATUS_OK) status = fill(&s);
  if (status == HEED_STATUS_OK) status = run(context, &s);
  if (status != HEED_STATUS_OK && rank == 0)
    fprintf(stderr, "graph_ranks: %s\n", heed_mpi_last_error());
  heed_mpi_graph_destroy(s.graph);
  heed_context_destroy(context);
  for (int t = 0; t < TENSORS; ++t) free(s.tensors[t]);
  free(s.nodes);
  free(s.sources);
  free(s.destinations);
  MPI_Finalize();
  return status != HEED_STATUS_OK;
}
