/* Attention over tensors in .npy files: the whole life of a plan in one program.
 *
 *   read the files -> descriptor -> context -> plan -> workspace -> run -> write the result
 *
 * and then, because those who choose a library ask for it, the time of a run and the error
 * against a result computed elsewhere; and, for those who wonder what attention attends to, a
 * picture of it. Reading the files is in problem.c, the picture in map.c. */
#define _POSIX_C_SOURCE 200112L /* clock_gettime, isatty, posix_memalign */

#include <heed.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "map.h"
#include "npy.h"
#include "options.h"
#include "problem.h"
#include "report.h"

/* Everything that a run of this program owns; release() takes it back. */
typedef struct job {
  attend_problem problem;
  attend_map map;
  heed_context* context;
  heed_attention_plan* plan;
  heed_attention_info info;
  void* workspace;
  double seconds; /* of one run, the median */
} job;

static void release(job* j) {
  attend_problem_release(&j->problem);
  attend_map_release(&j->map);
  heed_attention_plan_destroy(j->plan);
  heed_context_destroy(j->context);
  free(j->workspace);
}

/* ---- From a descriptor to a result --------------------------------------------------------- */

static bool make_plan(const attend_options* options, job* j) {
  heed_context_options context_options = HEED_CONTEXT_OPTIONS_INIT;
  context_options.isa = options->isa;
  context_options.executor_name = options->executor;
  context_options.threads = options->threads;
  const heed_attention_info unknown = HEED_ATTENTION_INFO_INIT;
  j->info = unknown;
  if (!attend_succeeded(heed_context_create(&context_options, &j->context)) ||
      !attend_succeeded(heed_attention_plan_create(j->context, &j->problem.desc, &j->plan)) ||
      !attend_succeeded(heed_attention_plan_describe(j->plan, &j->info))) {
    return false;
  }
  if (j->info.workspace_bytes == 0) return true;
  return posix_memalign(&j->workspace, HEED_WORKSPACE_ALIGNMENT, j->info.workspace_bytes) == 0 ||
         attend_failed("no memory for the workspace");
}

static bool run(const job* j) {
  const heed_attention_args args = attend_problem_args(&j->problem);
  return attend_succeeded(
      heed_attention_plan_run(j->plan, &args, j->workspace, j->info.workspace_bytes));
}

static bool write_result(const attend_options* options, const job* j) {
  npy_error error;
  return npy_write(options->out, &j->problem.out, &error) || attend_failed(error.text);
}

/* ---- Time ---------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Keeps whoever waits at a terminal informed, at most five times a second. */
static void show_progress(int done, int repeat, double started, double* shown) {
  const double time = now();
  const double expected = (time - started) / done * repeat;
  if (done < repeat && expected > 2.0 && time - *shown > 0.2) {
    fprintf(stderr, "\rrun %d of %d, %.0f s left ", done, repeat, expected - (time - started));
    *shown = time;
  }
  if (done == repeat && *shown > 0) fprintf(stderr, "\r%60s\r", "");
}

/* Sets j->seconds to the median of the timed runs. The caller has run once already, so caches are
 * warm and threads started. */
static bool measure(const attend_options* options, job* j) {
  const int repeat = options->repeat;
  const bool progress = !options->quiet && isatty(STDERR_FILENO);
  double* seconds = malloc((size_t)repeat * sizeof *seconds);
  if (seconds == NULL) return attend_failed("no memory for the times");
  const double started = now();
  double shown = 0;
  for (int i = 0; i < repeat; ++i) {
    const double begin = now();
    if (!run(j)) {
      free(seconds);
      return false;
    }
    seconds[i] = now() - begin;
    if (progress) show_progress(i + 1, repeat, started, &shown);
  }
  qsort(seconds, (size_t)repeat, sizeof *seconds, by_size);
  j->seconds = (seconds[(repeat - 1) / 2] + seconds[repeat / 2]) / 2;
  free(seconds);
  return true;
}

/* ---- Error --------------------------------------------------------------------------------- */

/* Equal infinities and two NaNs differ by 0; one NaN, or an infinity alone, by infinity. */
static double difference(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  if (isnan(a) || isnan(b)) return INFINITY;
  return fabs(a - b);
}

static bool compare(const attend_options* options, const job* j) {
  const int64_t count = npy_count(&j->problem.out);
  double most = 0;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double error =
        difference(npy_number(&j->problem.out, i), npy_number(&j->problem.expect, i));
    sum += error;
    if (error > most) most = error;
  }
  const double mean = count > 0 ? sum / (double)count : 0;
  if (!options->quiet) {
    printf("error      max %.2e, mean %.2e against %s\n", most, mean, options->expect);
  }
  if (most <= options->tolerance) return true;
  fprintf(stderr, "attend: the error %.3g against %s is more than --tolerance, %.3g\n", most,
          options->expect, options->tolerance);
  return false;
}

/* ---- The program --------------------------------------------------------------------------- */

static bool attend(const attend_options* options, job* j) {
  const bool draw = options->map_head >= 0;
  if (!attend_problem_read(options, &j->problem) ||
      (draw && !attend_map_prepare(options, &j->problem.desc, &j->map)) || !make_plan(options, j)) {
    return false;
  }
  if (!options->quiet) {
    report_problem(options, &j->problem);
    report_plan(&j->info);
  }
  /* The result is safe before the timing starts. */
  if (!run(j) || !write_result(options, j)) return false;
  report_nan(&j->problem);
  if (!measure(options, j)) return false;
  if (!options->quiet) report_result(options, &j->problem, &j->info, j->seconds);
  if (options->expect != NULL && !compare(options, j)) return false;
  if (draw && !options->quiet) printf("\n");
  return !draw || attend_map_draw(j->context, &j->problem, &j->map);
}

int main(int argc, char** argv) {
  attend_options options;
  int status = ATTEND_OK;
  if (!attend_options_read(argc, argv, &options, &status)) return status;
  job j;
  memset(&j, 0, sizeof j);
  status = attend(&options, &j) ? ATTEND_OK : ATTEND_FAILED;
  release(&j);
  return status;
}
