/* A program that uses heed over MPI, here on one rank: every rank brings a key and a value, and all
 * scores are equal. */
#include <heed_mpi.h>
#include <stdio.h>

#if defined(HEED_STATIC)
static const char kKind[] = "static";
#else
static const char kKind[] = "shared";
#endif

int main(int argc, char** argv) {
  int level = 0;
  int rank = 0;
  int ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  const float query[1] = {1.0F};
  const float key[1] = {0.5F};
  const float value[1] = {(float)rank};
  float out[1] = {-1.0F};
  heed_attention_desc shard = HEED_ATTENTION_DESC_INIT;
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  heed_context* context = NULL;
  shard.batch = shard.query_heads = shard.query_length = shard.key_length = shard.features = 1;
  desc.attention = &shard;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;
  const int failed = heed_context_create(NULL, &context) != HEED_STATUS_OK ||
                     heed_mpi_attention(MPI_COMM_WORLD, context, &desc, &args) != HEED_STATUS_OK;
  if (failed) printf("heed refuses: %s\n", heed_mpi_last_error());
  heed_context_destroy(context);
  printf("heed %s, %s: %g\n", heed_version_string(), kKind, (double)out[0]);
  MPI_Finalize();
  return !failed && out[0] == (float)(ranks - 1) / 2 ? 0 : 1;
}
