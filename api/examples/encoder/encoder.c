/* A two-layer encoder built from multi-head attention blocks, run over a text; and what the words
 * of the text attend to, head by head.
 *
 *   words -> embeddings -> [attention, add and norm, feed-forward, add and norm] twice
 *
 * Both layers have the same shape, so one plan serves both; their matrices were prepared when the
 * model was made. The model is in model.c, reading the text in text.c. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */

#include <errno.h>
#include <getopt.h>
#include <heed.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../picture.h"
#include "model.h"
#include "text.h"

enum { OK = 0, FAILED = 1, USAGE = 2 };

typedef struct options {
  const char* file;
  int64_t rows; /* of every picture */
  uint64_t seed;
} options;

/* Everything that a run of this program owns; release() takes it back. */
typedef struct job {
  text text;
  heed_context* context;
  model* model;
  heed_multihead_plan* plan;
  void* workspace;
  size_t workspace_bytes;
  float* x;             /* [words, WIDTH] what the words have become */
  float* added;         /* [words, WIDTH] what the next half of a layer adds to it */
  int64_t* weight_rows; /* [rows] the first rows of the text */
  float* weights;       /* [HEADS, rows, words] */
} job;

static void release(job* j) {
  text_release(&j->text);
  model_release(j->model);
  heed_multihead_plan_destroy(j->plan);
  heed_context_destroy(j->context);
  free(j->workspace);
  free(j->x);
  free(j->added);
  free(j->weight_rows);
  free(j->weights);
}

static bool succeeded(heed_status status) {
  if (status == HEED_STATUS_OK) return true;
  fprintf(stderr, "encoder: %s: %s\n", heed_status_name(status), heed_last_error());
  return false;
}

/* ---- The blocks ---------------------------------------------------------------------------- */

/* One plan for all layers. Matrices come with the runs. */
static bool make_plan(int64_t rows, job* j) {
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = 1;
  attention.query_heads = HEADS;
  attention.query_length = attention.key_length = j->text.words.count;
  attention.features = FEATURES;
  attention.weights_point = HEED_WEIGHTS_PROBABILITIES;
  attention.weight_rows = rows;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT; /* combine: side by side, times W_out */
  desc.attention = &attention;
  desc.width_query = WIDTH;
  return succeeded(heed_multihead_plan_create(j->context, &desc, &j->plan)) &&
         succeeded(heed_multihead_plan_workspace(j->plan, &j->workspace_bytes));
}

static bool allocate(int64_t rows, job* j) {
  const size_t numbers = (size_t)j->text.words.count * WIDTH;
  j->x = malloc(numbers * sizeof *j->x);
  j->added = malloc(numbers * sizeof *j->added);
  j->weight_rows = malloc((size_t)rows * sizeof *j->weight_rows);
  j->weights = malloc((size_t)(HEADS * rows * j->text.words.count) * sizeof *j->weights);
  const size_t bytes = j->workspace_bytes > 0 ? j->workspace_bytes : 1;
  if (j->x == NULL || j->added == NULL || j->weight_rows == NULL || j->weights == NULL ||
      posix_memalign(&j->workspace, HEED_WORKSPACE_ALIGNMENT, bytes) != 0) {
    fprintf(stderr, "encoder: no memory\n");
    return false;
  }
  for (int64_t i = 0; i < rows; ++i) j->weight_rows[i] = i;
  return true;
}

/* One layer, from x to x. */
static bool run(const layer* l, job* j) {
  heed_attention_args attention = HEED_ATTENTION_ARGS_INIT;
  attention.weight_rows = j->weight_rows;
  attention.weights = j->weights;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  args.attention = &attention;
  args.input_query = j->x; /* and input_key: self-attention */
  args.p_query = args.p_key = l->query;
  args.p_value = l->value;
  args.p_out = l->out;
  args.out = j->added;
  if (!succeeded(heed_multihead_plan_run(j->plan, &args, j->workspace, j->workspace_bytes))) {
    return false;
  }
  model_add(j->added, j->text.words.count, j->x);
  model_feed_forward(l, j->x, j->text.words.count, j->added);
  model_add(j->added, j->text.words.count, j->x);
  return true;
}

static void draw(int layer, int64_t rows, const job* j) {
  const int64_t words = j->text.words.count;
  for (int head = 0; head < HEADS; ++head) {
    char title[64];
    snprintf(title, sizeof title, "layer %d, head %d", layer, head);
    const float* const weights = j->weights + head * rows * words;
    const picture p = {0, rows, words, weights, &j->text.words, &j->text.words};
    printf("\n");
    picture_print(&p, title);
  }
}

static bool encode(const options* o, job* j) {
  if (!text_read(o->file, &j->text)) return false;
  const int64_t words = j->text.words.count;
  const int64_t rows = o->rows < words ? o->rows : words;
  if (!succeeded(heed_context_create(NULL, &j->context))) return false;
  j->model = model_create(j->context, o->seed);
  if (j->model == NULL || !make_plan(rows, j) || !allocate(rows, j)) return false;
  printf("%" PRId64 " words, %" PRId32 " of them different; %d layers of %d heads, width %d\n",
         words, j->text.vocabulary, LAYERS, HEADS, WIDTH);
  model_embed(&j->text, o->seed, j->x);
  for (int i = 0; i < LAYERS; ++i) {
    if (!run(&j->model->layers[i], j)) return false;
    draw(i, rows, j);
  }
  return true;
}

/* ---- The command line ---------------------------------------------------------------------- */

static const char help[] =
    "Usage: encoder [OPTION...] FILE\n"
    "\n"
    "Reads a text and runs a two-layer encoder over its words, whose embeddings and weights are\n"
    "random numbers; then shows what the first words attend to, for every layer and head.\n"
    "\n"
    "  --rows N      how many words the pictures have lines for (default: 6)\n"
    "  --seed N      of the random numbers (default: 1)\n"
    "  -h, --help    print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if the file or the computation failed, 2 for a wrong\n"
    "command line. The HEED_* environment variables of heed.h work here too. Pictures have\n"
    "colours on a terminal unless NO_COLOR is set, else characters; COLUMNS sets their width.\n"
    "\n"
    "Example: encoder --rows 10 tests/data/paragraph.txt\n";

static bool take_number(const char* name, const char* number, uint64_t least, uint64_t most,
                        uint64_t* value) {
  char* end = NULL;
  errno = 0;
  *value = strtoull(number, &end, 10);
  if (number[0] >= '0' && number[0] <= '9' && *end == '\0' && errno == 0 && *value >= least &&
      *value <= most) {
    return true;
  }
  fprintf(stderr, "encoder: %s is %s, not an integer from %" PRIu64 " to %" PRIu64 "\n", name,
          number, least, most);
  return false;
}

static bool read_options(int argc, char** argv, options* o, bool* wants_help) {
  static const struct option known[] = {{"rows", required_argument, NULL, 'r'},
                                        {"seed", required_argument, NULL, 's'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  opterr = 0; /* the messages are ours */
  uint64_t rows = 6;
  o->seed = 1;
  for (int option = 0; (option = getopt_long(argc, argv, ":h", known, NULL)) != -1;) {
    if (option == 'h') {
      *wants_help = true;
      return true;
    }
    if (option == 'r' && take_number("--rows", optarg, 1, TEXT_MOST_WORDS, &rows)) continue;
    if (option == 's' && take_number("--seed", optarg, 0, UINT64_MAX, &o->seed)) continue;
    if (option == ':') fprintf(stderr, "encoder: %s needs a value\n", argv[optind - 1]);
    if (option == '?') fprintf(stderr, "encoder: '%s' is not understood\n", argv[optind - 1]);
    return false;
  }
  o->rows = (int64_t)rows;
  if (optind + 1 == argc) o->file = argv[optind];
  if (optind == argc) fprintf(stderr, "encoder: FILE is missing\n");
  if (optind + 1 < argc) fprintf(stderr, "encoder: '%s' is one too many\n", argv[optind + 1]);
  return o->file != NULL;
}

int main(int argc, char** argv) {
  options o = {NULL, 0, 0};
  bool wants_help = false;
  if (!read_options(argc, argv, &o, &wants_help)) {
    fprintf(stderr, "Try 'encoder --help'.\n");
    return USAGE;
  }
  if (wants_help) {
    fputs(help, stdout);
    return OK;
  }
  job j;
  memset(&j, 0, sizeof j);
  const int status = encode(&o, &j) ? OK : FAILED;
  release(&j);
  return status;
}
