/* Text from a cache that several answers share.
 *
 * The model is a single attention head that needs no training: it looks up where the last four
 * letters stood before, and writes what followed them there, as induction heads of language models
 * do. The text is read once, in 8 bits; every answer is a fork of its sequence, which shares its
 * pages, and all answers attend in one call. */
#include <heed.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { LETTERS = 128, CONTEXT = 4, CODE = 32, FEATURES = CONTEXT * CODE };
enum { ANSWERS = 3, STEPS = 60, PAGES = 32 };

static const char text[] =
    "    The tides rise and fall twice a day, because the Moon pulls on the waters of the planet. "
    "The Sun adds a weaker tide of its own; when it lines up with the Moon, the range of the tides "
    "grows, and when the two stand at right angles, it shrinks. Tides are strongest in narrow bays "
    "and at the coasts of the open sea, and nearly absent where the waters have no way to go. The "
    "M";

static float codes[LETTERS][CODE]; /* 1 or -1 each */

static void check(heed_status status) {
  if (status == HEED_STATUS_OK) return;
  fprintf(stderr, "generate: %s: %s\n", heed_status_name(status), heed_last_error());
  exit(EXIT_FAILURE);
}

/* What is asked for, and what a letter after these is found by: the codes of the last four. */
static void look_up(const char* end, float* features) {
  for (size_t i = 0; i < CONTEXT; ++i)
    memcpy(features + i * CODE, codes[(end - CONTEXT)[i] & 127], sizeof *codes);
}

/* One more letter: its value says which it is. */
static void append(heed_cache* cache, heed_sequence sequence, const char* letter) {
  float key[FEATURES];
  float value[LETTERS] = {0};
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.rows = 1;
  look_up(letter, key);
  value[*letter & 127] = 1;
  check(heed_cache_append(cache, sequence, &desc, key, value));
}

/* The chances of every letter to follow, for all answers at once. */
static void attend(const heed_cache* cache, const heed_sequence* sequences, const float* query,
                   float* chances) {
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = ANSWERS;
  attention.query_heads = attention.query_length = 1;
  attention.scale = 0.2;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.attention = &attention;
  desc.sequences = sequences;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.out = chances;
  check(heed_cache_attention(cache, &desc, &args));
}

static char sample(const float* chances, uint64_t* random) {
  double left = random_uniform(random);
  int letter = 0;
  while (letter < LETTERS - 1 && (left -= chances[letter]) >= 0) ++letter;
  return (char)letter;
}

int main(void) {
  static char answers[ANSWERS][CONTEXT + STEPS];
  static float query[ANSWERS][FEATURES], chances[ANSWERS][LETTERS];
  const size_t length = strlen(text);
  uint64_t random = 4;
  for (int l = 0; l < LETTERS; ++l)
    for (int f = 0; f < CODE; ++f) codes[l][f] = random_below(&random, 2) == 0 ? -1.0f : 1.0f;

  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  desc.dtype = HEED_DTYPE_I8;
  desc.key_heads = 1;
  desc.features = FEATURES;
  desc.value_features = LETTERS;
  desc.pages = PAGES;
  heed_context* context = NULL;
  heed_cache* cache = NULL;
  heed_sequence read = 0;
  heed_sequence forks[ANSWERS];
  check(heed_context_create(NULL, &context));
  check(heed_cache_create(context, &desc, &cache));
  check(heed_cache_sequence_create(cache, &read));
  for (size_t i = CONTEXT; i < length; ++i) append(cache, read, text + i);

  for (int a = 0; a < ANSWERS; ++a) {
    check(heed_cache_fork(cache, read, &forks[a]));
    memcpy(answers[a], text + length - CONTEXT, CONTEXT);
  }
  for (int step = CONTEXT; step < CONTEXT + STEPS; ++step) {
    for (int a = 0; a < ANSWERS; ++a) look_up(answers[a] + step, query[a]);
    attend(cache, forks, query[0], chances[0]);
    for (int a = 0; a < ANSWERS; ++a) {
      answers[a][step] = sample(chances[a], &random);
      append(cache, forks[a], answers[a] + step);
    }
  }
  for (int a = 0; a < ANSWERS; ++a) printf("The M%.*s\n", STEPS, answers[a] + CONTEXT);
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  check(heed_cache_describe(cache, &info));
  printf("%zu letters read; %" PRId64 " pages, %" PRId64 " of them shared\n", length - CONTEXT,
         info.pages_used, info.pages_shared);
  heed_cache_destroy(cache);
  heed_context_destroy(context);
  return 0;
}
