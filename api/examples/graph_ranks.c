/* Attention over a graph whose nodes are split over the ranks of MPI: of the edges in a file, which
 * all ranks read together, or of a random graph (R-MAT), of which every rank draws its share.
 * Prints what each rank did, and how far some nodes are from one process.
 *
 *   mpirun -np 4 graph_ranks [FILE|SCALE]   "source destination" a line, or 2^SCALE nodes with 16
 *                                           edges each; 17 unless said
 */
#include <heed_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, FEATURES = 16, ROW = HEADS * FEATURES, EDGES_PER_NODE = 16, SAMPLES = 16 };

static int complain(const char* message) {
  fprintf(stderr, "graph_ranks: %s\n", message);
  return 1;
}

static uint64_t mix(uint64_t z) {
  z = (z + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/* Numbers in [-1, 1) that depend on the node alone, so that every rank can make any row. */
static void make_row(uint64_t tensor, int64_t node, float* row) {
  for (uint64_t f = 0; f < ROW; ++f)
    row[f] = (float)((double)(mix((tensor << 60) + (uint64_t)node * ROW + f) >> 40) * 0x1p-23 - 1);
}

static float* make_rows(uint64_t tensor, const int64_t* nodes, int64_t count) {
  float* const rows = malloc((size_t)(count * ROW + 1) * sizeof *rows);
  for (int64_t i = 0; rows != NULL && i < count; ++i) make_row(tensor, nodes[i], rows + i * ROW);
  return rows;
}

/* Edge e of R-MAT: at every scale it goes into one of the four quarters of the matrix of edges. */
static void draw_edge(int scale, int64_t e, int64_t* source, int64_t* destination) {
  *source = *destination = 0;
  for (int bit = 0; bit < scale; ++bit) {
    const double x = (double)(mix((uint64_t)e * 64 + (uint64_t)bit) >> 11) * 0x1p-53;
    *source = 2 * *source + (x >= 0.57 && x < 0.76);
    *destination = 2 * *destination + (x >= 0.76 && x < 0.95);
    if (x >= 0.95) ++*source, ++*destination;
  }
}

/* This rank's part of the graph, and what belongs to it. */
typedef struct shard {
  heed_mpi_graph* graph;
  heed_mpi_graph_info info;
  int64_t* nodes;
  int64_t* sources;
  int64_t* destinations;
  float *query, *key, *value, *out;
} shard;

static heed_status draw_graph(const heed_context* context, int scale, heed_mpi_graph** graph) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I64;
  desc.nodes = INT64_C(1) << scale;
  const int64_t all = desc.nodes * EDGES_PER_NODE;
  const int64_t begin = all / ranks * rank;
  desc.edges = (rank == ranks - 1 ? all : begin + all / ranks) - begin;
  int64_t* const ends = malloc((size_t)(2 * desc.edges + 1) * sizeof *ends);
  for (int64_t e = 0; ends != NULL && e < desc.edges; ++e)
    draw_edge(scale, begin + e, ends + e, ends + desc.edges + e);
  desc.sources = ends; /* NULL is refused, on all ranks */
  desc.destinations = ends == NULL ? NULL : ends + desc.edges;
  const heed_status status = heed_mpi_graph_create(MPI_COMM_WORLD, context, &desc, graph);
  free(ends);
  return status;
}

static heed_status read_graph(const heed_context* context, const char* path,
                              heed_mpi_graph** graph) {
  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  desc.path = path;
  return heed_mpi_graph_create(MPI_COMM_WORLD, context, &desc, graph);
}

/* 0 if memory is missing. */
static int fill(shard* s) {
  s->info = (heed_mpi_graph_info)HEED_MPI_GRAPH_INFO_INIT;
  heed_mpi_graph_describe(s->graph, &s->info);
  const size_t nodes = (size_t)s->info.own_nodes + 1;
  const size_t edges = (size_t)s->info.own_given + 1;
  s->nodes = malloc(nodes * sizeof *s->nodes);
  s->sources = malloc(edges * sizeof *s->sources);
  s->destinations = malloc(edges * sizeof *s->destinations);
  if (s->nodes == NULL || s->sources == NULL || s->destinations == NULL) return 0;
  heed_mpi_graph_nodes(s->graph, s->nodes);
  heed_mpi_graph_edges(s->graph, s->sources, s->destinations, NULL);
  s->query = make_rows(0, s->nodes, s->info.own_nodes);
  s->key = make_rows(1, s->nodes, s->info.own_nodes);
  s->value = make_rows(2, s->nodes, s->info.own_nodes);
  s->out = make_rows(3, s->nodes, s->info.own_nodes);
  return s->query != NULL && s->key != NULL && s->value != NULL && s->out != NULL;
}

static void release(shard* s) {
  heed_mpi_graph_destroy(s->graph);
  free(s->nodes);
  free(s->sources);
  free(s->destinations);
  free(s->query);
  free(s->key);
  free(s->value);
  free(s->out);
}

static heed_graph_attention_desc describe_attention(void) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = HEADS;
  desc.features = FEATURES;
  return desc;
}

static int by_number(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a;
  const int64_t y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

/* The largest difference of a row from that of one process: heed_graph_attention of its node, 0,
 * and of those that edges lead from, in order of their numbers. */
static double error_of_node(const heed_context* context, const shard* s, int64_t i) {
  int64_t* const known = malloc((size_t)(s->info.own_given + 1) * sizeof *known);
  if (known == NULL) return INFINITY;
  int64_t count = 0;
  for (int64_t e = 0; e < s->info.own_given; ++e)
    if (s->destinations[e] == s->nodes[i]) known[1 + count++] = s->sources[e];
  qsort(known + 1, (size_t)count, sizeof *known, by_number);
  int64_t last = 0;
  for (int64_t e = 1; e <= count; ++e)
    if (last == 0 || known[e] != known[last]) known[++last] = known[e];
  known[0] = s->nodes[i];

  int32_t* const from = malloc((size_t)(last + 1) * sizeof *from);
  int32_t* const to = calloc((size_t)(last + 1), sizeof *to);
  for (int64_t e = 0; from != NULL && e < last; ++e) from[e] = (int32_t)(e + 1);
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = last + 1;
  desc.edges = last;
  desc.sources = last > 0 ? from : NULL;
  desc.destinations = last > 0 ? to : NULL;
  const heed_graph_attention_desc attention = describe_attention();
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  float* const tensors[] = {make_rows(0, known, last + 1), make_rows(1, known, last + 1),
                            make_rows(2, known, last + 1), make_rows(3, known, last + 1)};
  args.query = tensors[0];
  args.key = tensors[1];
  args.value = tensors[2];
  args.out = tensors[3];
  heed_graph* graph = NULL;
  double most = 0;
  if (heed_graph_create(context, &desc, &graph) != HEED_STATUS_OK ||
      heed_graph_attention(context, graph, &attention, &args) != HEED_STATUS_OK)
    most = INFINITY;
  for (int64_t f = 0; most < INFINITY && f < ROW; ++f)
    most = fmax(most, fabs((double)tensors[3][f] - (double)s->out[i * ROW + f]));
  heed_graph_destroy(graph);
  for (int t = 0; t < 4; ++t) free(tensors[t]);
  free(to);
  free(from);
  free(known);
  return most;
}

static double error_of(const heed_context* context, const shard* s) {
  double most = 0;
  for (int64_t n = 0; n < SAMPLES && s->info.own_nodes > 0; ++n)
    most = fmax(most, error_of_node(context, s, n * (s->info.own_nodes - 1) / (SAMPLES - 1)));
  return most;
}

static void print(const heed_context* context, const shard* s,
                  const heed_mpi_graph_attention_info* info, const heed_mpi_times* times) {
  const double edges = (double)s->info.own_edges;
  printf(
      "rank %d of %d: %lld nodes, %lld edges, %.0f %% of them inner, %lld rows from %lld ranks, "
      "%.2f ms, %.2f computing, %.2f waiting, %.2f MB sent, error %.1e\n",
      (int)info->rank, (int)info->ranks, (long long)s->info.own_nodes, (long long)s->info.own_edges,
      edges == 0 ? 100 : 100 * (double)s->info.inner_edges / edges, (long long)s->info.remote_rows,
      (long long)s->info.senders, times->run * 1e3, times->compute * 1e3, times->wait * 1e3,
      info->step_bytes * 1e-6, error_of(context, s));
  fflush(stdout);
}

/* Attends twice, since the first run finds no memory at hand, and prints a line per rank. */
static heed_status attend(const heed_context* context, const shard* s) {
  const heed_graph_attention_desc desc = describe_attention();
  heed_mpi_graph_attention_plan* plan = NULL;
  heed_status status = heed_mpi_graph_attention_plan_create(context, s->graph, &desc, &plan);
  if (status != HEED_STATUS_OK) return status;
  heed_mpi_graph_attention_info info = HEED_MPI_GRAPH_ATTENTION_INFO_INIT;
  heed_mpi_graph_attention_plan_describe(plan, &info);
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.query = s->query; /* NULL is refused, on all ranks */
  args.key = s->key;
  args.value = s->value;
  args.out = s->out;
  char* const room = malloc(info.workspace_bytes + HEED_WORKSPACE_ALIGNMENT);
  char* workspace = room;
  if (room != NULL)
    workspace += HEED_WORKSPACE_ALIGNMENT - (uintptr_t)room % HEED_WORKSPACE_ALIGNMENT;
  for (int i = 0; status == HEED_STATUS_OK && i < 2; ++i)
    status = heed_mpi_graph_attention_plan_run(plan, &args, workspace, info.workspace_bytes);
  heed_mpi_times times = HEED_MPI_TIMES_INIT;
  heed_mpi_graph_attention_plan_times(plan, &times);
  for (int64_t rank = 0; status == HEED_STATUS_OK && rank < info.ranks; ++rank) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == info.rank) print(context, s, &info, &times);
  }
  free(room);
  heed_mpi_graph_attention_plan_destroy(plan);
  return status;
}

int main(int argc, char** argv) {
  int level = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* end = NULL;
  const long scale = argc > 1 ? strtol(argv[1], &end, 10) : 17;
  const int named = argc > 1 && *end != '\0';
  int result = 0;
  if (argc > 2 || (!named && (scale < 1 || scale > 26))) {
    if (rank == 0) complain("usage: graph_ranks [FILE|SCALE], SCALE from 1 to 26");
    result = 1;
  } else {
    heed_context* context = NULL;
    if (heed_context_create(NULL, &context) != HEED_STATUS_OK) complain(heed_last_error());
    shard s = {0};
    heed_status status =
        named ? read_graph(context, argv[1], &s.graph) : draw_graph(context, (int)scale, &s.graph);
    if (status == HEED_STATUS_OK) {
      if (!fill(&s)) complain("out of memory");
      status = attend(context, &s);
    }
    if (status != HEED_STATUS_OK && rank == 0) complain(heed_mpi_last_error());
    result = status != HEED_STATUS_OK;
    release(&s);
    heed_context_destroy(context);
  }
  MPI_Finalize();
  return result;
}
