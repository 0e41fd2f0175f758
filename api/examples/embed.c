/* The smallest complete program: one query looks up six keys and blends their values. */
#include <heed.h>
#include <stdio.h>

int main(void) {
  const float query[1][3] = {{0, 2, 1}};
  const float key[6][3] = {{0, 0, 0}, {2, 0, 1}, {1, -1, -2}, {2, 3, 1}, {-2, 0, 0}, {0, 2, 1}};
  const float value[6][1] = {{0.0f}, {-0.2f}, {0.3f}, {0.4f}, {0.0f}, {0.1f}};
  float out[1][1];

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = desc.query_length = desc.value_features = 1;
  desc.key_length = 6;
  desc.features = 3;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;

  heed_context* context = NULL;
  heed_status status = heed_context_create(NULL, &context);
  if (status == HEED_STATUS_OK) status = heed_attention(context, &desc, &args);
  if (status == HEED_STATUS_OK) {
    printf("%.6f\n", (double)out[0][0]); /* softmax(query key^T / sqrt(3)) value */
  } else {
    fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  }
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
