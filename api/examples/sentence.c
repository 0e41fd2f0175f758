/* "The sleepy child reads a book": what does "book" attend to?
 *
 * A vector query: one word asks all six. Hard attention takes the value of the word that scores
 * best, soft attention blends them all, and the temperature leads from the one (near 0) over the
 * other (1) to the mean of the values (infinity). */
#include <heed.h>
#include <math.h>
#include <stdio.h>

enum { WORDS = 6, FEATURES = 3 };

static const char* const words[WORDS] = {"The", "sleepy", "child", "reads", "a", "book"};
static const float keys[WORDS][FEATURES] = {{0, 0, 0}, {2, 0, 1},  {1, -1, -2},
                                            {2, 3, 1}, {-2, 0, 0}, {0, 2, 1}};
/* How glad each word sounds. The result is how glad "book" sounds in its sentence. */
static const float values[WORDS] = {0.0f, -0.2f, 0.3f, 0.4f, 0.0f, 0.1f};
static const float query[FEATURES] = {0, 2, 1};

/* One way to make weights of scores, and what comes of it. */
typedef struct attention {
  const char* name;
  double temperature;
  uint32_t hard;
  float out;
  float weights[WORDS];
} attention;

static heed_status attend(const heed_context* context, attention* a) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = desc.query_length = desc.value_features = 1;
  desc.key_length = WORDS;
  desc.features = FEATURES;
  desc.scale = 1; /* the scores are plain dot products here: 0, 1, -4, 7, 0, 5 */
  desc.hard = a->hard;
  desc.temperature = a->temperature;
  desc.weights_point = HEED_WEIGHTS_PROBABILITIES;

  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.key = keys;
  args.value = values;
  args.out = &a->out;
  args.weights = a->weights;
  return heed_attention(context, &desc, &args);
}

static void print(const attention* ways, int count) {
  printf("%-6s", "");
  for (int i = 0; i < count; ++i) printf("     %-*s", i + 1 < count ? 7 : 0, ways[i].name);
  for (int word = 0; word < WORDS; ++word) {
    printf("\n%-6s", words[word]);
    for (int i = 0; i < count; ++i)
      printf("%s%.3f", i == 0 ? "     " : "       ", (double)ways[i].weights[word]);
  }
  printf("\nresult");
  for (int i = 0; i < count; ++i) printf("     %.5f", (double)ways[i].out);
  printf("\n");
}

int main(void) {
  attention ways[] = {{.name = "hard", .hard = 1},
                      {.name = "T = 1/2", .temperature = 0.5},
                      {.name = "soft", .temperature = 1},
                      {.name = "T = 4", .temperature = 4},
                      {.name = "T = inf", .temperature = INFINITY}};
  const int count = (int)(sizeof ways / sizeof *ways);

  heed_context* context = NULL;
  heed_status status = heed_context_create(NULL, &context);
  for (int i = 0; i < count && status == HEED_STATUS_OK; ++i) status = attend(context, &ways[i]);
  if (status == HEED_STATUS_OK) {
    print(ways, count);
  } else {
    fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  }
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
