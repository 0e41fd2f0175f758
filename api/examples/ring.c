/* Causal attention over a sequence that is split over the ranks of MPI, zigzag, so that all have
 * the same to do. Prints what each rank did, and how far some rows are from one process over all
 * keys.
 *
 *   mpirun -np 4 ring [ROWS [HEADS]]        131072 rows of 128 features, and 1 head, unless said
 */
#include <heed_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 128, SAMPLES = 8 };

typedef struct tensors {
  float* query;
  float* key;
  float* value;
  float* out;
} tensors;

/* A number in [-1, 1) that depends on where it stands alone, so that every rank can make any row.
 */
static float number(uint64_t tensor, int64_t head, int64_t position, int64_t feature) {
  uint64_t z = ((tensor * 1024 + (uint64_t)head) << 40) + (uint64_t)(position * FEATURES + feature);
  z = (z + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return (float)((double)(z >> 40) * 0x1p-23 - 1);
}

/* Rows of all heads, [head][row][feature]; those of `more` follow those of `first`. */
static float* make(uint64_t tensor, int64_t heads, heed_mpi_rows first, heed_mpi_rows more) {
  const int64_t rows = first.count + more.count;
  float* const all = malloc((size_t)(heads * rows * FEATURES + 1) * sizeof *all);
  for (int64_t h = 0; all != NULL && h < heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t position = i < first.count ? first.begin + i : more.begin + i - first.count;
      for (int64_t f = 0; f < FEATURES; ++f)
        all[(h * rows + i) * FEATURES + f] = number(tensor, h, position, f);
    }
  return all;
}

static tensors make_shard(int64_t heads, const heed_mpi_rows rows[2]) {
  const tensors t = {make(0, heads, rows[0], rows[1]), make(1, heads, rows[0], rows[1]),
                     make(2, heads, rows[0], rows[1]), make(3, heads, rows[0], rows[1])};
  return t;
}

static void release(tensors t) {
  free(t.query);
  free(t.key);
  free(t.value);
  free(t.out);
}

static int complain(const char* message) {
  fprintf(stderr, "ring: %s\n", message);
  return 1;
}

/* The largest difference, in head 0, from some of this rank's rows by themselves over all keys. */
static double error_of(const heed_context* context, const tensors* shard,
                       const heed_mpi_rows rows[2]) {
  const heed_mpi_rows none = {0, 0};
  const int64_t count = rows[0].count + rows[1].count;
  double most = 0;
  if (shard->query == NULL || shard->out == NULL) return most; /* heed has refused them */
  for (int64_t s = 0; s < SAMPLES && count > 0; ++s) {
    const int64_t i = s * (count - 1) / (SAMPLES - 1);
    const heed_mpi_rows before = {
        0, 1 + (i < rows[0].count ? rows[0].begin + i : rows[1].begin + i - rows[0].count)};
    float* const key = make(1, 1, before, none);
    float* const value = make(2, 1, before, none);
    float out[FEATURES] = {0};
    heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
    desc.batch = desc.query_heads = desc.query_length = 1;
    desc.key_length = before.count; /* the causal row's own: all of them attend */
    desc.features = FEATURES;
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = shard->query + i * FEATURES;
    args.key = key;
    args.value = value;
    args.out = out;
    if (key == NULL || value == NULL || heed_attention(context, &desc, &args) != HEED_STATUS_OK)
      most = INFINITY;
    for (int64_t f = 0; f < FEATURES; ++f)
      most = fmax(most, fabs((double)out[f] - (double)shard->out[i * FEATURES + f]));
    free(key);
    free(value);
  }
  return most;
}

/* Attends, and prints a line per rank. */
static heed_status attend(const heed_context* context, int64_t heads, const heed_mpi_rows rows[2],
                          const tensors* shard) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1;
  desc.query_heads = heads;
  desc.query_length = desc.key_length = rows[0].count + rows[1].count;
  desc.features = FEATURES;
  desc.causal = HEED_CAUSAL_TOP_LEFT;
  heed_mpi_attention_desc split = HEED_MPI_ATTENTION_DESC_INIT;
  split.attention = &desc;
  split.placement = HEED_MPI_ZIGZAG;
  split.head_ranks = 1; /* the ring, also where heads could be shared */
  heed_mpi_attention_plan* plan = NULL;
  heed_status status = heed_mpi_attention_plan_create(MPI_COMM_WORLD, context, &split, &plan);
  if (status != HEED_STATUS_OK) return status;
  heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
  heed_mpi_attention_plan_describe(plan, &info);

  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = shard->query;
  args.key = shard->key;
  args.value = shard->value;
  args.out = shard->out;
  char* const room = malloc(info.workspace_bytes + HEED_WORKSPACE_ALIGNMENT);
  char* workspace = room; /* NULL is refused, on all ranks */
  if (room != NULL)
    workspace += HEED_WORKSPACE_ALIGNMENT - (uintptr_t)room % HEED_WORKSPACE_ALIGNMENT;
  const double start = MPI_Wtime();
  status = heed_mpi_attention_plan_run(plan, &args, workspace, info.workspace_bytes);
  const double seconds = MPI_Wtime() - start;
  for (int64_t rank = 0; status == HEED_STATUS_OK && rank < info.ranks; ++rank) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != info.rank) continue;
    printf("rank %d of %d: %lld rows, %.3f s, %.1f GFLOP/s, %.1f MB sent, error %.1e\n", (int)rank,
           (int)info.ranks, (long long)desc.query_length, seconds, info.flops / seconds * 1e-9,
           info.bytes * 1e-6, error_of(context, shard, rows));
    fflush(stdout);
  }
  free(room);
  heed_mpi_attention_plan_destroy(plan);
  return status;
}

int main(int argc, char** argv) {
  int level = 0;
  int rank = 0;
  int ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char* end = NULL;
  const long long length = argc > 1 ? strtoll(argv[1], &end, 10) : 131072;
  const int bad_length = argc > 1 && (*end != '\0' || length < 1 || length > 1LL << 24);
  const long long heads = argc > 2 ? strtoll(argv[2], &end, 10) : 1;
  const int bad_heads = argc > 2 && (*end != '\0' || heads < 1 || heads > 1024);
  int result = 0;
  if (argc > 3 || bad_length || bad_heads) {
    if (rank == 0) complain("usage: ring [ROWS [HEADS]], 1 to 16777216 rows and 1 to 1024 heads");
    result = 1;
  } else {
    heed_mpi_rows rows[2];
    heed_mpi_place(HEED_MPI_ZIGZAG, length, ranks, rank, rows);
    const tensors shard = make_shard(heads, rows);
    heed_context* context = NULL;
    if (heed_context_create(NULL, &context) != HEED_STATUS_OK) complain(heed_last_error());
    const heed_status status = attend(context, heads, rows, &shard);
    if (status != HEED_STATUS_OK) result = complain(heed_mpi_last_error());
    heed_context_destroy(context);
    release(shard);
  }
  MPI_Finalize();
  return result;
}
