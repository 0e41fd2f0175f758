/* General attention for four words: each is projected to a query, a key and a value, and attends
 * to all four. Asked one word at a time and all at once; the results are the same. */
#include <heed.h>
#include <stdbool.h>
#include <stdio.h>

enum { WORDS = 4, FEATURES = 3 };

static const float words[WORDS][FEATURES] = {{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 0, 1}};
static const float w_query[FEATURES][FEATURES] = {{2, 0, 0}, {0, 0, 1}, {2, 0, 0}};
static const float w_key[FEATURES][FEATURES] = {{0, 1, 0}, {0, 2, 0}, {1, 0, 2}};
static const float w_value[FEATURES][FEATURES] = {{1, 1, 1}, {1, 1, 1}, {2, 2, 0}};

/* One row for each word. */
typedef struct rows {
  float at[WORDS][FEATURES];
} rows;

static rows project(const float (*weights)[FEATURES]) {
  rows projected;
  for (int i = 0; i < WORDS; ++i) {
    for (int f = 0; f < FEATURES; ++f) {
      projected.at[i][f] = 0;
      for (int m = 0; m < FEATURES; ++m) projected.at[i][f] += words[i][m] * weights[m][f];
    }
  }
  return projected;
}

/* The attention of `count` queries, one row each, over all words. */
static heed_status attend(const heed_context* context, int count, const float* queries,
                          const rows* keys, const rows* values, float* out) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT; /* scale: 1 / sqrt(features) */
  desc.batch = desc.query_heads = 1;
  desc.query_length = count;
  desc.key_length = WORDS;
  desc.features = FEATURES;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = queries;
  args.key = keys->at;
  args.value = values->at;
  args.out = out;
  return heed_attention(context, &desc, &args);
}

static void print(const char* title, const rows* out) {
  printf("%s\n", title);
  for (int i = 0; i < WORDS; ++i) {
    printf("  word %d", i + 1);
    for (int f = 0; f < FEATURES; ++f) printf("  %.5f", (double)out->at[i][f]);
    printf("\n");
  }
}

static bool equal(const rows* a, const rows* b) {
  for (int i = 0; i < WORDS; ++i) {
    for (int f = 0; f < FEATURES; ++f) {
      if (a->at[i][f] != b->at[i][f]) return false;
    }
  }
  return true;
}

int main(void) {
  const rows queries = project(w_query);
  const rows keys = project(w_key);
  const rows values = project(w_value);
  rows one_by_one, at_once;

  heed_context* context = NULL;
  heed_status status = heed_context_create(NULL, &context);
  for (int i = 0; i < WORDS && status == HEED_STATUS_OK; ++i) {
    status = attend(context, 1, queries.at[i], &keys, &values, one_by_one.at[i]);
  }
  if (status == HEED_STATUS_OK) {
    status = attend(context, WORDS, queries.at[0], &keys, &values, at_once.at[0]);
  }
  if (status == HEED_STATUS_OK) {
    print("one word at a time", &one_by_one);
    print("all at once", &at_once);
    printf("the same bits: %s\n", equal(&one_by_one, &at_once) ? "yes" : "no");
  } else {
    fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  }
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
