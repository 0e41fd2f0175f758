/* test_choice ISA: succeeds if heed, left alone, chooses that ISA on this CPU, and computes with
 * it; run by run.sh on emulated CPUs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "heed.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: test_choice ISA\n");
    return 2;
  }
  heed_context* context = NULL;
  if (heed_context_create(NULL, &context) != HEED_STATUS_OK) {
    fprintf(stderr, "%s\n", heed_last_error());
    return 1;
  }
  heed_context_info info = HEED_CONTEXT_INFO_INIT;
  heed_context_describe(context, &info);
  printf("chose %s, caches %zu and %zu bytes\n", info.isa, info.l1_bytes, info.l2_bytes);

  /* Two keys with equal scores: the output is the mean of the values. */
  const float query[2] = {1, 0}, key[4] = {1, 5, 1, -5}, value[4] = {2, 4, 4, 8};
  float out[2] = {0, 0};
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = desc.query_length = 1;
  desc.key_length = desc.features = 2;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;
  if (heed_attention(context, &desc, &args) != HEED_STATUS_OK) {
    fprintf(stderr, "%s\n", heed_last_error());
    return 1;
  }
  printf("out %g %g\n", (double)out[0], (double)out[1]);
  const int same =
      strcmp(info.isa, argv[1]) == 0 && fabsf(out[0] - 3) < 1e-6F && fabsf(out[1] - 6) < 1e-6F;
  heed_context_destroy(context);
  return same ? 0 : 1;
}
