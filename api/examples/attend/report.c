#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- The problem --------------------------------------------------------------------------- */

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

static void print_type(npy_type type) {
  static const char* const names[] = {
      [NPY_F16] = "float16", [NPY_F32] = "float32", [NPY_F64] = "float64", [NPY_BYTE] = "byte"};
  if (type != NPY_F32) printf("type       %s\n", names[type]);
}

static void print_causal(const heed_attention_desc* desc) {
  if (desc->causal == HEED_CAUSAL_TOP_LEFT) printf("causal     top-left\n");
  if (desc->causal == HEED_CAUSAL_BOTTOM_RIGHT) printf("causal     bottom-right\n");
  if (desc->causal == HEED_CAUSAL_OFFSET)
    printf("causal     offset %" PRId64 "\n", desc->causal_offset);
}

void report_problem(const attend_options* options, const attend_problem* problem) {
  const heed_attention_desc* const desc = &problem->desc;
  print_tensor("query", &problem->query, options->query);
  print_tensor("key", &problem->key, options->key);
  print_tensor("value", &problem->value, options->value);
  print_type(problem->query.type);
  print_causal(desc);
  if (desc->scale != 0) printf("scale      %g\n", desc->scale);
}

/* ---- The solution -------------------------------------------------------------------------- */

void report_plan(const heed_attention_info* info) {
  printf("isa        %s\n", info->isa);
  printf("executor   %s, %" PRIu32 " thread%s\n", info->executor, info->threads,
         info->threads == 1 ? "" : "s");
  printf("strategy   %s\n", info->strategy);
  printf("tiles      %" PRIu32 " query rows, %" PRIu32 " keys\n", info->tile_q, info->tile_kv);
  printf("tasks      %" PRIu64 "\n", info->tasks);
  printf("workspace  %.1f KiB\n", (double)info->workspace_bytes / 1024);
  fflush(stdout); /* seen before a long run */
}

void report_result(const attend_options* options, const attend_problem* problem,
                   const heed_attention_info* info, double seconds) {
  const bool tiny = seconds < 1e-4;
  printf("time       %.3f %s, median of %d run%s\n", seconds * (tiny ? 1e6 : 1e3),
         tiny ? "us" : "ms", options->repeat, options->repeat == 1 ? "" : "s");
  /* No flops, as of empty tensors, in no time are still none. */
  const double speed = info->flops > 0 ? info->flops / seconds * 1e-9 : 0;
  printf("speed      %.1f GFLOP/s\n", speed);
  print_tensor("out", &problem->out, options->out);
}

/* ---- NaN ----------------------------------------------------------------------------------- */

static int64_t count_nan(const npy_tensor* tensor) {
  int64_t count = 0;
  for (int64_t i = 0, all = npy_count(tensor); i < all; ++i) count += isnan(npy_number(tensor, i));
  return count;
}

static bool is_finite(const npy_tensor* tensor) {
  for (int64_t i = 0, all = npy_count(tensor); i < all; ++i) {
    if (!isfinite(npy_number(tensor, i))) return false;
  }
  return true;
}

void report_nan(const attend_problem* problem) {
  const int64_t count = count_nan(&problem->out);
  if (count == 0) return;
  fprintf(stderr, "attend: --out has NaN, %" PRId64 " of its %" PRId64 " numbers", count,
          npy_count(&problem->out));
  const struct {
    const char* option;
    const npy_tensor* tensor;
  } inputs[] = {
      {"--query", &problem->query}, {"--key", &problem->key}, {"--value", &problem->value}};
  const char* before = "; NaN or infinity stands in ";
  for (int i = 0; i < 3; ++i) {
    if (is_finite(inputs[i].tensor)) continue;
    fprintf(stderr, "%s%s", before, inputs[i].option);
    before = ", ";
  }
  fputc('\n', stderr);
}
