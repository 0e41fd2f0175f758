/* An encoder of two layers over the words of a sentence: multi-head attention, a residual and a
 * norm, a feed-forward part, and again a residual and a norm. Both layers have the same shape, so
 * one plan serves both; their matrices are prepared once. Nothing has been learnt: embeddings and
 * matrices are random, except that queries and keys share a matrix, so that heads look for words
 * like their own. */
#include <heed.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { LAYERS = 2, HEADS = 4, WIDTH = 64, HIDDEN = 128, SHOWN = 3 };

static const char* const words[] = {"the", "moon", "pulls", "the", "tides", "and",
                                    "the", "sun",  "pulls", "the", "tides", "less"};
enum { WORDS = sizeof words / sizeof *words };

enum { QUERY, VALUE, OUT, MATRICES }; /* keys share the matrix of queries */

typedef struct layer {
  heed_weights* matrices[MATRICES];
  float up[WIDTH][HIDDEN], down[HIDDEN][WIDTH];
} layer;

static layer layers[LAYERS];
static float x[WORDS][WIDTH];              /* what the words have become */
static float added[WORDS][WIDTH];          /* what the next half of a layer adds */
static float weights[HEADS][WORDS][WORDS]; /* who attends whom */

static void check(heed_status status) {
  if (status == HEED_STATUS_OK) return;
  fprintf(stderr, "encoder: %s: %s\n", heed_status_name(status), heed_last_error());
  exit(EXIT_FAILURE);
}

static void draw(uint64_t* random, double deviation, float* numbers, int count) {
  for (int i = 0; i < count; ++i) numbers[i] = (float)(deviation * random_normal(random));
}

static heed_weights* prepare(const heed_context* context, uint64_t* random) {
  static float matrix[WIDTH][WIDTH];
  heed_weights* prepared = NULL;
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = desc.out = WIDTH;
  draw(random, 1 / sqrt(WIDTH), matrix[0], WIDTH * WIDTH);
  check(heed_weights_create(context, &desc, matrix, NULL, &prepared));
  return prepared;
}

/* Equal words begin with the same numbers, and places turn them a little. */
static void embed(void) {
  for (int i = 0; i < WORDS; ++i) {
    uint64_t random = 0;
    for (const char* c = words[i]; *c != '\0'; ++c) random = random * 31 + (uint64_t)*c;
    draw(&random, 1, x[i], WIDTH);
    for (int f = 0; f < WIDTH; ++f)
      x[i][f] += (float)sin(i * pow(10000, -(double)(f - f % 2) / (double)WIDTH) + f % 2 * 1.5708);
  }
}

/* Adds, and gives every word the mean 0 and the variance 1. */
static void add_and_norm(void) {
  for (int i = 0; i < WORDS; ++i) {
    float mean = 0, variance = 0;
    for (int f = 0; f < WIDTH; ++f) mean += (x[i][f] += added[i][f]) / (float)WIDTH;
    for (int f = 0; f < WIDTH; ++f) variance += (x[i][f] - mean) * (x[i][f] - mean) / (float)WIDTH;
    for (int f = 0; f < WIDTH; ++f) x[i][f] = (x[i][f] - mean) / sqrtf(variance + 1e-5f);
  }
}

static void feed_forward(const layer* l) {
  memset(added, 0, sizeof added);
  for (int i = 0; i < WORDS; ++i)
    for (int h = 0; h < HIDDEN; ++h) {
      float hidden = 0;
      for (int f = 0; f < WIDTH; ++f) hidden += x[i][f] * l->up[f][h];
      for (int f = 0; hidden > 0 && f < WIDTH; ++f) added[i][f] += hidden * l->down[h][f];
    }
}

/* The words that a word attends to most. */
static void show(int number, int word) {
  printf("layer %d, \"%s\" attends to", number, words[word]);
  for (int h = 0; h < HEADS; ++h) {
    float* const row = weights[h][word];
    printf("%s", h == 0 ? "  " : "; ");
    for (int n = 0; n < SHOWN; ++n) {
      int best = 0;
      for (int j = 1; j < WORDS; ++j)
        if (row[j] > row[best]) best = j;
      printf("%s%s(%d) %.2f", n == 0 ? "" : " ", words[best], best, (double)row[best]);
      row[best] = -1;
    }
  }
  printf("\n");
}

int main(void) {
  heed_context* context = NULL;
  check(heed_context_create(NULL, &context));
  uint64_t random = 1;
  for (int i = 0; i < LAYERS; ++i) {
    for (int m = 0; m < MATRICES; ++m) layers[i].matrices[m] = prepare(context, &random);
    draw(&random, 1 / sqrt(WIDTH), layers[i].up[0], WIDTH * HIDDEN);
    draw(&random, 1 / sqrt(HIDDEN), layers[i].down[0], HIDDEN * WIDTH);
  }
  embed();

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = 1;
  attention.query_heads = HEADS;
  attention.query_length = attention.key_length = WORDS;
  attention.features = WIDTH / HEADS;
  attention.weights_point = HEED_WEIGHTS_PROBABILITIES;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT; /* heads side by side, times W_out */
  desc.attention = &attention;
  desc.width_query = WIDTH;
  heed_multihead_plan* plan = NULL;
  size_t bytes = 0;
  check(heed_multihead_plan_create(context, &desc, &plan));
  check(heed_multihead_plan_workspace(plan, &bytes));
  char* const memory = malloc(bytes + HEED_WORKSPACE_ALIGNMENT);
  if (memory == NULL) return EXIT_FAILURE;
  char* const workspace =
      memory + HEED_WORKSPACE_ALIGNMENT - (uintptr_t)memory % HEED_WORKSPACE_ALIGNMENT;

  for (int i = 0; i < LAYERS; ++i) {
    heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
    inner.weights = weights;
    heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
    args.attention = &inner;
    args.input_query = x; /* and keys and values: self-attention */
    args.p_query = args.p_key = layers[i].matrices[QUERY];
    args.p_value = layers[i].matrices[VALUE];
    args.p_out = layers[i].matrices[OUT];
    args.out = added;
    check(heed_multihead_plan_run(plan, &args, workspace, bytes));
    add_and_norm();
    feed_forward(&layers[i]);
    add_and_norm();
    show(i, 1); /* moon */
  }
  free(memory);
  heed_multihead_plan_destroy(plan);
  for (int i = 0; i < LAYERS; ++i)
    for (int m = 0; m < MATRICES; ++m) heed_weights_destroy(layers[i].matrices[m]);
  heed_context_destroy(context);
  return 0;
}
