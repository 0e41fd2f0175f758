/* Every step of attention on three inputs of four features, with weights small enough to check by
 * hand: projections, scores, weights, result. The scores and the weights are asked of heed, which
 * otherwise never writes them down. */
#include <heed.h>
#include <stdio.h>

enum { INPUTS = 3, MODEL = 4, FEATURES = 3 };

static const float x[INPUTS][MODEL] = {{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}};
static const float w_query[MODEL][FEATURES] = {{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}};
static const float w_key[MODEL][FEATURES] = {{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}};
static const float w_value[MODEL][FEATURES] = {{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}};

/* What the steps leave behind. */
typedef struct steps {
  float query[INPUTS][FEATURES];
  float key[INPUTS][FEATURES];
  float value[INPUTS][FEATURES];
  float scores[INPUTS][INPUTS];
  float weights[INPUTS][INPUTS];
  float out[INPUTS][FEATURES];
} steps;

static void project(const float (*weights)[FEATURES], float (*rows)[FEATURES]) {
  for (int i = 0; i < INPUTS; ++i) {
    for (int f = 0; f < FEATURES; ++f) {
      rows[i][f] = 0;
      for (int m = 0; m < MODEL; ++m) rows[i][f] += x[i][m] * weights[m][f];
    }
  }
}

static heed_status attend(const heed_context* context, steps* s) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = 1;
  desc.query_length = desc.key_length = INPUTS;
  desc.features = FEATURES;
  desc.scale = 1; /* not 1 / sqrt(3): the scores stay integers */
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = s->query;
  args.key = s->key;
  args.value = s->value;
  args.out = s->out;

  /* Each run shows one point on the way; the result is the same, bit for bit. */
  desc.weights_point = HEED_WEIGHTS_SCORES;
  args.weights = s->scores;
  heed_status status = heed_attention(context, &desc, &args);
  if (status != HEED_STATUS_OK) return status;
  desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
  args.weights = s->weights;
  return heed_attention(context, &desc, &args);
}

/* All matrices here have three columns. */
static void print(const char* name, float (*rows)[3], int decimals) {
  for (int i = 0; i < INPUTS; ++i) {
    printf("%-8s", i == 0 ? name : "");
    for (int j = 0; j < 3; ++j) printf(" %*.*f", decimals + 4, decimals, (double)rows[i][j]);
    printf("\n");
  }
}

int main(void) {
  steps s;
  project(w_query, s.query);
  project(w_key, s.key);
  project(w_value, s.value);

  heed_context* context = NULL;
  heed_status status = heed_context_create(NULL, &context);
  if (status == HEED_STATUS_OK) status = attend(context, &s);
  if (status == HEED_STATUS_OK) {
    print("queries", s.query, 0);
    print("keys", s.key, 0);
    print("values", s.value, 0);
    print("scores", s.scores, 0);
    print("weights", s.weights, 5);
    print("result", s.out, 4);
  } else {
    fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  }
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
