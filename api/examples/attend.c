/* Attention over tensors in .npy files: the whole life of a plan in one program.
 *
 *   read the files -> descriptor -> context -> plan -> workspace -> run -> write the result
 *
 * and then, because those who choose a library ask for it, the time of a run and the error
 * against a result computed elsewhere. */
#define _POSIX_C_SOURCE 200112L /* clock_gettime, isatty, posix_memalign */

#include <heed.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attend_options.h"
#include "npy.h"

/* Everything that a run of this program owns; release() takes it back. */
typedef struct job {
  npy_tensor query;
  npy_tensor key;
  npy_tensor value;
  npy_tensor out;
  npy_tensor expect;
  heed_attention_desc desc;
  heed_context* context;
  heed_attention_plan* plan;
  heed_attention_info info;
  void* workspace;
  double seconds; /* of one run, the median */
} job;

static void release(job* j) {
  npy_release(&j->query);
  npy_release(&j->key);
  npy_release(&j->value);
  npy_release(&j->out);
  npy_release(&j->expect);
  heed_attention_plan_destroy(j->plan);
  heed_context_destroy(j->context);
  free(j->workspace);
}

static bool failed(const char* message) {
  fprintf(stderr, "attend: %s\n", message);
  return false;
}

/* True for success; else heed's own words. */
static bool succeeded(heed_status status) {
  return status == HEED_STATUS_OK || failed(heed_last_error());
}

/* ---- From files to a descriptor ------------------------------------------------------------ */

/* Axis 0 is the batch, 1 the heads, 2 the length, 3 the features; leading axes may be missing. */
static int64_t axis_size(const npy_tensor* tensor, int axis) {
  const int index = axis - (NPY_MAX_RANK - tensor->rank);
  return index < 0 ? 1 : tensor->shape[index];
}

static bool same_rank(const char* name, const npy_tensor* tensor, const char* other_name,
                      const npy_tensor* other) {
  if (tensor->rank == other->rank) return true;
  fprintf(stderr, "attend: --%s has %d axes, --%s has %d\n", name, tensor->rank, other_name,
          other->rank);
  return false;
}

static bool same_axis(int axis, const char* name, const npy_tensor* tensor, const char* other_name,
                      const npy_tensor* other) {
  static const char* const names[NPY_MAX_RANK] = {"batch", "heads", "length", "features"};
  if (axis_size(tensor, axis) == axis_size(other, axis)) return true;
  fprintf(stderr, "attend: %s of --%s is %" PRId64 ", of --%s %" PRId64 "\n", names[axis], name,
          axis_size(tensor, axis), other_name, axis_size(other, axis));
  return false;
}

/* heed takes sizes, not shapes: whether the files agree on them is ours to see. */
static bool check_shapes(const npy_tensor* query, const npy_tensor* key, const npy_tensor* value) {
  if (!same_rank("key", key, "query", query) || !same_rank("value", value, "key", key) ||
      !same_axis(0, "key", key, "query", query) || !same_axis(0, "value", value, "key", key) ||
      !same_axis(1, "value", value, "key", key) || !same_axis(2, "value", value, "key", key) ||
      !same_axis(3, "key", key, "query", query)) {
    return false;
  }
  const int64_t query_heads = axis_size(query, 1);
  const int64_t key_heads = axis_size(key, 1);
  if (key_heads == 0 ? query_heads != 0 : query_heads % key_heads != 0) {
    fprintf(stderr,
            "attend: heads of --query is %" PRId64 ", not a multiple of heads of --key, %" PRId64
            "\n",
            query_heads, key_heads);
    return false;
  }
  /* In a descriptor 0 means "as many as the features". */
  if (axis_size(value, 3) == 0) return failed("features of --value is 0, not at least 1");
  return true;
}

static bool read_inputs(const attend_options* options, job* j) {
  npy_error error;
  if (!npy_read(options->query, &j->query, &error) || !npy_read(options->key, &j->key, &error) ||
      !npy_read(options->value, &j->value, &error) ||
      (options->expect != NULL && !npy_read(options->expect, &j->expect, &error))) {
    return failed(error.text);
  }
  return check_shapes(&j->query, &j->key, &j->value);
}

static void describe(const attend_options* options, job* j) {
  const heed_attention_desc none = HEED_ATTENTION_DESC_INIT;
  j->desc = none;
  j->desc.batch = axis_size(&j->query, 0);
  j->desc.query_heads = axis_size(&j->query, 1);
  j->desc.key_heads = axis_size(&j->key, 1);
  j->desc.query_length = axis_size(&j->query, 2);
  j->desc.key_length = axis_size(&j->key, 2);
  j->desc.features = axis_size(&j->query, 3);
  j->desc.value_features = axis_size(&j->value, 3);
  j->desc.causal = options->causal;
  j->desc.causal_offset = options->causal_offset;
  j->desc.scale = options->scale;
}

/* The result has the shape of the queries, but with the features of the values. */
static bool allocate_out(const attend_options* options, job* j) {
  j->out.rank = j->query.rank;
  memcpy(j->out.shape, j->query.shape, sizeof j->out.shape);
  j->out.shape[j->out.rank - 1] = axis_size(&j->value, 3);
  if (options->expect != NULL) {
    if (!same_rank("expect", &j->expect, "out", &j->out)) return false;
    for (int axis = 0; axis < NPY_MAX_RANK; ++axis) {
      if (!same_axis(axis, "expect", &j->expect, "out", &j->out)) return false;
    }
  }
  const int64_t count = npy_count(&j->out);
  if (count < 0) return failed("--out would be too large");
  j->out.data = malloc(count > 0 ? (size_t)count * sizeof(float) : 1);
  return j->out.data != NULL || failed("no memory for --out");
}

/* ---- From a descriptor to a result --------------------------------------------------------- */

static bool make_plan(const attend_options* options, job* j) {
  heed_context_options context_options = HEED_CONTEXT_OPTIONS_INIT;
  context_options.isa = options->isa;
  context_options.executor_name = options->executor;
  context_options.threads = options->threads;
  const heed_attention_info unknown = HEED_ATTENTION_INFO_INIT;
  j->info = unknown;
  if (!succeeded(heed_context_create(&context_options, &j->context)) ||
      !succeeded(heed_attention_plan_create(j->context, &j->desc, &j->plan)) ||
      !succeeded(heed_attention_plan_describe(j->plan, &j->info))) {
    return false;
  }
  if (j->info.workspace_bytes == 0) return true;
  return posix_memalign(&j->workspace, HEED_WORKSPACE_ALIGNMENT, j->info.workspace_bytes) == 0 ||
         failed("no memory for the workspace");
}

static bool run(const job* j) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = j->query.data;
  args.key = j->key.data;
  args.value = j->value.data;
  args.out = j->out.data;
  return succeeded(heed_attention_plan_run(j->plan, &args, j->workspace, j->info.workspace_bytes));
}

static bool write_out(const attend_options* options, const job* j) {
  npy_error error;
  return npy_write(options->out, &j->out, &error) || failed(error.text);
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
  if (seconds == NULL) return failed("no memory for the times");
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
static double difference(float a, float b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  if (isnan(a) || isnan(b)) return INFINITY;
  return fabs((double)a - (double)b);
}

static bool compare(const attend_options* options, const job* j) {
  const int64_t count = npy_count(&j->out);
  double most = 0;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double error = difference(j->out.data[i], j->expect.data[i]);
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

/* ---- Report -------------------------------------------------------------------------------- */

static void print_tensor(const char* name, const npy_tensor* tensor, const char* path) {
  char shape[4 * 24];
  int length = 0;
  for (int i = 0; i < tensor->rank; ++i) {
    length += snprintf(shape + length, sizeof shape - (size_t)length, "%s%" PRId64,
                       i > 0 ? ", " : "[", tensor->shape[i]);
  }
  snprintf(shape + length, sizeof shape - (size_t)length, "]");
  printf("%-9s  %-20s  %s\n", name, shape, path);
}

static void print_problem(const attend_options* options, const job* j) {
  print_tensor("query", &j->query, options->query);
  print_tensor("key", &j->key, options->key);
  print_tensor("value", &j->value, options->value);
  if (options->causal == HEED_CAUSAL_TOP_LEFT) printf("causal     top-left\n");
  if (options->causal == HEED_CAUSAL_BOTTOM_RIGHT) printf("causal     bottom-right\n");
  if (options->causal == HEED_CAUSAL_OFFSET) {
    printf("causal     offset %" PRId64 "\n", options->causal_offset);
  }
  if (options->scale != 0) printf("scale      %g\n", options->scale);
}

static void print_plan(const heed_attention_info* info) {
  printf("isa        %s\n", info->isa);
  printf("executor   %s, %" PRIu32 " thread%s\n", info->executor, info->threads,
         info->threads == 1 ? "" : "s");
  printf("tiles      %" PRIu32 " query rows, %" PRIu32 " keys\n", info->tile_q, info->tile_kv);
  printf("tasks      %" PRIu64 "\n", info->tasks);
  printf("workspace  %.1f KiB\n", (double)info->workspace_bytes / 1024);
  fflush(stdout); /* seen before a long run */
}

static void print_result(const attend_options* options, const job* j) {
  const bool tiny = j->seconds < 1e-4;
  printf("time       %.3f %s, median of %d run%s\n", j->seconds * (tiny ? 1e6 : 1e3),
         tiny ? "us" : "ms", options->repeat, options->repeat == 1 ? "" : "s");
  /* No flops, as of empty tensors, in no time are still none. */
  const double speed = j->info.flops > 0 ? j->info.flops / j->seconds * 1e-9 : 0;
  printf("speed      %.1f GFLOP/s\n", speed);
  print_tensor("out", &j->out, options->out);
}

/* ---- The program --------------------------------------------------------------------------- */

static bool attend(const attend_options* options, job* j) {
  if (!read_inputs(options, j)) return false;
  describe(options, j);
  if (!allocate_out(options, j) || !make_plan(options, j)) return false;
  if (!options->quiet) {
    print_problem(options, j);
    print_plan(&j->info);
  }
  /* The result is safe before the timing starts. */
  if (!run(j) || !write_out(options, j) || !measure(options, j)) return false;
  if (!options->quiet) print_result(options, j);
  return options->expect == NULL || compare(options, j);
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
