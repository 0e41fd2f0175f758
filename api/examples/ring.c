/* Causal attention over a sequence that is split over the ranks of MPI, zigzag, so that all have
 * the same to do. Prints what each rank did, and how far some rows are from one process over all
 * keys.
 *
 *   mpirun -np 4 ring [ROWS]        131072 rows of 128 features unless said
 */
#include <heed_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

enum { FEATURES = 128, SAMPLES = 8 };
enum { QUERY, KEY, VALUE, OUT, TENSORS };

static int complain(const char* message) {
  fprintf(stderr, "ring: %s\n", message);
  return 1;
}

/* A number in [-1, 1) that depends on where it stands alone, so that every rank can make any row.
 */
static float number(uint64_t tensor, int64_t position, int64_t feature) {
  uint64_t seed = (tensor << 50) + (uint64_t)(position * FEATURES + feature);
  return (float)(2 * random_uniform(&seed) - 1);
}

/* Where row i of a shard stands in the sequence. */
static int64_t position_of(const heed_mpi_rows rows[2], int64_t i) {
  return i < rows[0].count ? rows[0].begin + i : rows[1].begin + i - rows[0].count;
}

/* The shard's rows of a tensor. */
static float* make(uint64_t tensor, const heed_mpi_rows rows[2]) {
  const int64_t count = rows[0].count + rows[1].count;
  float* const all = malloc((size_t)(count * FEATURES + 1) * sizeof *all);
  for (int64_t i = 0; all != NULL && i < count; ++i)
    for (int64_t f = 0; f < FEATURES; ++f)
      all[i * FEATURES + f] = number(tensor, position_of(rows, i), f);
  return all;
}

/* The largest difference from some of this rank's rows by themselves over all their keys. */
static double error_of(const heed_context* context, float* const* shard,
                       const heed_mpi_rows rows[2]) {
  const int64_t count = rows[0].count + rows[1].count;
  double most = 0;
  for (int64_t s = 0; s < SAMPLES && count > 0; ++s) {
    const int64_t i = s * (count - 1) / (SAMPLES - 1);
    const heed_mpi_rows before[2] = {{0, 1 + position_of(rows, i)}, {0, 0}};
    float* const key = make(KEY, before);
    float* const value = make(VALUE, before);
    float out[FEATURES] = {0};
    heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
    desc.batch = desc.query_heads = desc.query_length = 1;
    desc.key_length = before[0].count; /* the causal row's own: all of them attend */
    desc.features = FEATURES;
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = shard[QUERY] + i * FEATURES;
    args.key = key;
    args.value = value;
    args.out = out;
    if (heed_attention(context, &desc, &args) != HEED_STATUS_OK) most = INFINITY;
    for (int64_t f = 0; f < FEATURES; ++f)
      most = fmax(most, fabs((double)out[f] - (double)shard[OUT][i * FEATURES + f]));
    free(key);
    free(value);
  }
  return most;
}

/* Attends, and prints a line per rank. */
static heed_status attend(const heed_context* context, float* const* shard,
                          const heed_mpi_rows rows[2]) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = 1;
  desc.query_length = desc.key_length = rows[0].count + rows[1].count;
  desc.features = FEATURES;
  desc.causal = HEED_CAUSAL_TOP_LEFT;
  heed_mpi_attention_desc split = HEED_MPI_ATTENTION_DESC_INIT;
  split.attention = &desc;
  split.placement = HEED_MPI_ZIGZAG;
  heed_mpi_attention_plan* plan = NULL;
  heed_status status = heed_mpi_attention_plan_create(MPI_COMM_WORLD, context, &split, &plan);
  if (status != HEED_STATUS_OK) return status;
  heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
  heed_mpi_attention_plan_describe(plan, &info);

  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = shard[QUERY]; /* where memory is missing, NULL is refused on all ranks */
  args.key = shard[KEY];
  args.value = shard[VALUE];
  args.out = shard[OUT];
  char* const room = malloc(info.workspace_bytes + HEED_WORKSPACE_ALIGNMENT);
  char* workspace = room;
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
  const long long length = argc > 1 ? strtoll(argv[1], NULL, 10) : 131072;
  int result = 0;
  if (length < 1 || length > 1LL << 24) {
    if (rank == 0) complain("usage: ring [ROWS], 1 to 16777216 of them");
    result = 1;
  } else {
    heed_mpi_rows rows[2];
    heed_mpi_place(HEED_MPI_ZIGZAG, length, ranks, rank, rows);
    float* shard[TENSORS];
    for (uint64_t t = 0; t < TENSORS; ++t) shard[t] = make(t, rows);
    heed_context* context = NULL;
    if (heed_context_create(NULL, &context) != HEED_STATUS_OK) complain(heed_last_error());
    if (attend(context, shard, rows) != HEED_STATUS_OK) result = complain(heed_mpi_last_error());
    heed_context_destroy(context);
    for (int t = 0; t < TENSORS; ++t) free(shard[t]);
  }
  MPI_Finalize();
  return result;
}
