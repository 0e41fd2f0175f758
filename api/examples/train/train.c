/* Training with heed: a model of one multi-head block learns to sort, reverse or copy digits.
 *
 *   [draw sequences -> there and back through the model (model.c) -> a step of Adam]...
 *
 * What a sequence attends is drawn before and after. */
#include <heed.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arguments.h"
#include "../heat.h"
#include "../random.h"
#include "model.h"

enum { LONGEST = 32, MOST_HEADS = 8, REPORTS = 10 };

typedef enum task { TASK_SORT, TASK_REVERSE, TASK_COPY, TASKS } task;
static const char* const task_names[TASKS] = {"sort", "reverse", "copy"};

typedef struct options {
  task task;
  int64_t steps, batch, length, heads, seed, threads;
  double rate;
  bool quiet, help;
} options;

static const char help[] =
    "Usage: train [OPTION...]\n"
    "\n"
    "A model of one multi-head block of heed's learns a task on digits. Its loss is printed as it\n"
    "falls, and what a sequence attends is drawn before and after.\n"
    "\n"
    "  --task TASK    sort, reverse or copy (default: sort)\n"
    "  --length N     digits of a sequence (default: 8)\n"
    "  --steps N      to take (default: 1000)\n"
    "  --batch N      sequences of a step (default: 64)\n"
    "  --heads N      of the block: 1, 2, 4 or 8 (default: 4)\n"
    "  --rate X       of Adam, how far a step goes (default: 0.01)\n"
    "  --seed N       of the random numbers (default: 1)\n"
    "  --threads N    of the block (default: 1)\n"
    "  --quiet        draws nothing, prints the loss alone\n"
    "  -h, --help     print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if the computation failed, 2 for a wrong command line.\n"
    "The HEED_* environment variables of heed.h work here too.\n";

static bool take_task(const char* name, task* found) {
  for (int t = 0; t < TASKS; ++t) {
    if (strcmp(name, task_names[t]) != 0) continue;
    *found = (task)t;
    return true;
  }
  fprintf(stderr, "train: --task is '%s', not sort, reverse or copy\n", name);
  return false;
}

static bool read_options(int argc, char** argv, options* o) {
  const options defaults = {TASK_SORT, 1000, 64, 8, 4, 1, 1, 0.01, false, false};
  const char* name = "sort";
  *o = defaults;
  const argument known[] = {
      {"--task", ARGUMENT_TEXT, &name, 0, 0},
      {"--length", ARGUMENT_INTEGER, &o->length, 1, LONGEST},
      {"--steps", ARGUMENT_INTEGER, &o->steps, 1, 1000000},
      {"--batch", ARGUMENT_INTEGER, &o->batch, 1, 4096},
      {"--heads", ARGUMENT_INTEGER, &o->heads, 1, MOST_HEADS},
      {"--rate", ARGUMENT_POSITIVE, &o->rate, 0, 0},
      {"--seed", ARGUMENT_INTEGER, &o->seed, 0, INT64_MAX},
      {"--threads", ARGUMENT_INTEGER, &o->threads, 1, 1024},
      {"--quiet", ARGUMENT_FLAG, &o->quiet, 0, 0},
      {"--help", ARGUMENT_FLAG, &o->help, 0, 0},
      {"-h", ARGUMENT_FLAG, &o->help, 0, 0},
  };
  if (!arguments_read("train", known, sizeof known / sizeof *known, argc, argv)) return false;
  if (o->help) return true;
  if (WIDTH % o->heads != 0) {
    fprintf(stderr, "train: --heads is %" PRId64 ", not 1, 2, 4 or 8\n", o->heads);
    return false;
  }
  return take_task(name, &o->task);
}

/* ---- The task ------------------------------------------------------------------------------ */

static int by_size(const void* a, const void* b) { return *(const int32_t*)a - *(const int32_t*)b; }

static void draw(const options* o, random_source* random, int64_t sequences, int32_t* digits,
                 int32_t* wanted) {
  for (int64_t b = 0; b < sequences; ++b) {
    int32_t* const from = digits + b * o->length;
    int32_t* const to = wanted + b * o->length;
    for (int64_t i = 0; i < o->length; ++i) from[i] = random_below(random, DIGITS);
    for (int64_t i = 0; i < o->length; ++i) {
      to[i] = from[o->task == TASK_REVERSE ? o->length - 1 - i : i];
    }
    if (o->task == TASK_SORT) qsort(to, (size_t)o->length, sizeof *to, by_size);
  }
}

/* ---- What is shown ------------------------------------------------------------------------- */

/* A map per head, side by side as far as a line goes: a row for every place, a cell for every digit
 * that it may attend. */
static void show(const options* o, const int32_t* digits, const float* weights, const char* when) {
  const int64_t cell = 2;
  const int64_t map = o->length * cell + 4;
  int64_t across = (heat_width() - 4) / map;
  if (across > o->heads) across = o->heads;
  if (across < 1) across = 1;
  printf("what the places of a sequence attend %s, head by head\n", when);
  for (int64_t first = 0; first < o->heads; first += across) {
    const int64_t end = first + across < o->heads ? first + across : o->heads;
    printf("   ");
    for (int64_t h = first; h < end; ++h) {
      for (int64_t j = 0; j < o->length; ++j) printf("%*" PRId32, j == 0 ? 3 : 2, digits[j]);
      printf(h + 1 < end ? "  " : "\n");
    }
    for (int64_t i = 0; i < o->length; ++i) {
      printf("%3" PRId64 " ", i + 1);
      for (int64_t h = first; h < end; ++h) {
        printf("|");
        for (int64_t j = 0; j < o->length; ++j) {
          heat_cell(weights[(h * o->length + i) * o->length + j], "  ");
        }
        printf(h + 1 < end ? "| " : "|\n");
      }
    }
  }
}

/* ---- A run --------------------------------------------------------------------------------- */

typedef struct job {
  options o;
  heed_context* context;
  model model;
  int32_t* digits; /* [batch, length] */
  int32_t* wanted;
  int32_t shown[LONGEST]; /* the sequence that is drawn */
  float* weights;         /* [heads, length, length] */
} job;

static bool failed(const char* what) {
  fprintf(stderr, "train: %s: %s\n", what,
          *heed_last_error() != '\0' ? heed_last_error() : "out of memory");
  return false;
}

static bool prepare(job* j, random_source* random) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  const size_t digits = (size_t)(j->o.batch * j->o.length);
  const size_t weights = (size_t)(j->o.heads * j->o.length * j->o.length);
  options.threads = (uint32_t)j->o.threads;
  if (heed_context_create(&options, &j->context) != HEED_STATUS_OK) return failed("a context");
  j->digits = malloc(digits * sizeof *j->digits);
  j->wanted = malloc(digits * sizeof *j->wanted);
  j->weights = malloc(weights * sizeof *j->weights);
  j->model.batch = j->o.batch;
  j->model.length = j->o.length;
  j->model.heads = j->o.heads;
  if (j->digits == NULL || j->wanted == NULL || j->weights == NULL ||
      !model_make(&j->model, j->context, random)) {
    return failed("the model");
  }
  draw(&j->o, random, 1, j->shown, j->wanted);
  return true;
}

static bool draw_attention(job* j, const char* when) {
  if (j->o.quiet) return true;
  if (!model_attend(&j->model, j->context, j->shown, j->weights)) return failed("attention");
  show(&j->o, j->shown, j->weights, when);
  return true;
}

static bool train(job* j) {
  const options* const o = &j->o;
  random_source random = {(uint64_t)o->seed};
  if (!prepare(j, &random) || !draw_attention(j, "before")) return false;
  if (!o->quiet) printf("\n");
  const int64_t report = o->steps < REPORTS ? 1 : o->steps / REPORTS;
  for (int64_t step = 1; step <= o->steps; ++step) {
    outcome result;
    draw(o, &random, o->batch, j->digits, j->wanted);
    if (!model_differentiate(&j->model, j->digits, j->wanted, &result)) return failed("a step");
    /* Slower and slower, so that the last steps settle. */
    model_step(&j->model, o->rate * (1 - 0.9 * (double)step / (double)o->steps));
    if (step > 1 && step % report != 0 && step < o->steps) continue;
    printf("step %5" PRId64 "   loss %.4f   right %5.1f %%\n", step, result.loss,
           100 * (double)result.right / (double)(o->batch * o->length));
    fflush(stdout);
  }
  if (!o->quiet) printf("\n");
  return draw_attention(j, "after");
}

int main(int argc, char** argv) {
  job j;
  memset(&j, 0, sizeof j);
  if (!read_options(argc, argv, &j.o)) {
    fprintf(stderr, "Try 'train --help'.\n");
    return EXIT_USAGE;
  }
  if (j.o.help) {
    fputs(help, stdout);
    return EXIT_WELL;
  }
  const bool well = train(&j);
  model_release(&j.model);
  heed_context_destroy(j.context);
  free(j.digits);
  free(j.wanted);
  free(j.weights);
  return well ? EXIT_WELL : EXIT_FAILED;
}
