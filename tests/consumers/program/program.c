/* A program that embeds heed, as small as one can be and still notice a wrong result; in C and in
 * C++. It prints which kind of library its header was told of. */
#include <heed.h>
#include <stdio.h>

#if defined(HEED_STATIC)
static const char kKind[] = "static";
#else
static const char kKind[] = "shared";
#endif

int main(void) {
  /* Two equal scores: the mean of the values. */
  const float query[1] = {1.0F};
  const float key[2] = {0.5F, 0.5F};
  const float value[2] = {1.0F, 3.0F};
  float out[1] = {0.0F};
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  heed_context* context = NULL;
  desc.batch = desc.query_heads = desc.query_length = desc.features = 1;
  desc.key_length = 2;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;
  if (heed_context_create(NULL, &context) != HEED_STATUS_OK ||
      heed_attention(context, &desc, &args) != HEED_STATUS_OK) {
    printf("heed refuses: %s\n", heed_last_error());
    return 1;
  }
  heed_context_destroy(context);
  printf("heed %s, %s: %g\n", heed_version_string(), kKind, (double)out[0]);
  return out[0] == 2.0F ? 0 : 1;
}
