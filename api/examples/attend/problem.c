#include "problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool attend_failed(const char* message) {
  fprintf(stderr, "attend: %s\n", message);
  return false;
}

/* heed names the field of a struct that is wrong; our options have the same names, but for one. */
bool attend_succeeded(heed_status status) {
  static const struct {
    const char* field;
    const char* option;
  } names[] = {{"options.executor_name", "--executor"}, {"options.", "--"}, {"desc.", "--"}};
  if (status == HEED_STATUS_OK) return true;
  fprintf(stderr, "attend: ");
  for (const char* text = heed_last_error(); *text != '\0';) {
    size_t i = 0;
    while (i < 3 && strncmp(text, names[i].field, strlen(names[i].field)) != 0) ++i;
    fputs(i < 3 ? names[i].option : (const char[]){*text, '\0'}, stderr);
    text += i < 3 ? strlen(names[i].field) : 1;
  }
  fputc('\n', stderr);
  return false;
}

void attend_problem_release(attend_problem* problem) {
  npy_release(&problem->query);
  npy_release(&problem->key);
  npy_release(&problem->value);
  npy_release(&problem->expect);
  npy_release(&problem->out);
}

/* ---- Files --------------------------------------------------------------------------------- */

static bool read_tensor(const char* path, npy_tensor* tensor) {
  npy_error error;
  return npy_read(path, tensor, &error) || attend_failed(error.text);
}

static bool read_floats(const char* path, npy_tensor* tensor) {
  if (path == NULL) return true;
  if (!read_tensor(path, tensor)) return false;
  if (tensor->type != NPY_BYTE) return true;
  fprintf(stderr, "attend: %s: it holds bool or uint8, not floats\n", path);
  return false;
}

/* ---- Shapes -------------------------------------------------------------------------------- */

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
  /* A single vector for a matrix of keys. */
  const bool vector = query->rank == 1 && key->rank == 2;
  if ((!vector && !same_rank("key", key, "query", query)) ||
      !same_rank("value", value, "key", key)) {
    return false;
  }
  if (key->rank < 2) return attend_failed("--key has 1 axis, not 2 to 4");
  if (!same_axis(0, "key", key, "query", query) || !same_axis(0, "value", value, "key", key) ||
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
  if (axis_size(query, 3) == 0) return attend_failed("features of --query is 0, not at least 1");
  /* In a descriptor 0 means "as many as the features". */
  if (axis_size(value, 3) == 0) return attend_failed("features of --value is 0, not at least 1");
  return true;
}

/* ---- Types --------------------------------------------------------------------------------- */

static uint32_t dtype_of(npy_type type) {
  static const heed_dtype dtypes[] = {[NPY_F16] = HEED_DTYPE_F16,
                                      [NPY_F32] = HEED_DTYPE_F32,
                                      [NPY_F64] = HEED_DTYPE_F64,
                                      [NPY_BYTE] = HEED_DTYPE_DEFAULT};
  return (uint32_t)dtypes[type];
}

/* heed mixes all types but double. */
static bool check_types(const attend_problem* problem) {
  const bool wide = problem->query.type == NPY_F64;
  if ((problem->key.type == NPY_F64) == wide && (problem->value.type == NPY_F64) == wide) {
    return true;
  }
  return attend_failed("one of --query, --key and --value is float64; all three must be, or none");
}

/* ---- The descriptor and the results ---------------------------------------------------------- */

/* Whatever types the files have: heed takes them as they are, or says why not. */
static void describe(const attend_options* options, attend_problem* problem) {
  const heed_attention_desc none = HEED_ATTENTION_DESC_INIT;
  heed_attention_desc* const desc = &problem->desc;
  *desc = none;
  desc->batch = axis_size(&problem->query, 0);
  desc->query_heads = axis_size(&problem->query, 1);
  desc->key_heads = axis_size(&problem->key, 1);
  desc->query_length = axis_size(&problem->query, 2);
  desc->key_length = axis_size(&problem->key, 2);
  desc->features = axis_size(&problem->query, 3);
  desc->value_features = axis_size(&problem->value, 3);
  desc->query.dtype = desc->out.dtype = dtype_of(problem->query.type);
  desc->key.dtype = dtype_of(problem->key.type);
  desc->value.dtype = dtype_of(problem->value.type);
  desc->scale = options->scale;
  desc->causal = (uint32_t)options->causal;
  desc->causal_offset = options->causal_offset;
}

/* Room for the result: of the queries' type and shape, but for the last axis. */
static bool allocate(const npy_tensor* query, int64_t last_axis, npy_tensor* out) {
  *out = *query;
  out->data = NULL;
  out->shape[out->rank - 1] = last_axis;
  const int64_t count = npy_count(out);
  if (count < 0) return attend_failed("--out would be too large");
  out->data = malloc(count > 0 ? (size_t)count * npy_size(out->type) : 1);
  return out->data != NULL || attend_failed("no memory for --out");
}

static bool check_expected(const npy_tensor* expect, const npy_tensor* out) {
  if (!same_rank("expect", expect, "out", out)) return false;
  for (int axis = 0; axis < NPY_MAX_RANK; ++axis) {
    if (!same_axis(axis, "expect", expect, "out", out)) return false;
  }
  return true;
}

bool attend_problem_read(const attend_options* options, attend_problem* problem) {
  npy_tensor* const query = &problem->query;
  if (!read_floats(options->query, query) || !read_floats(options->key, &problem->key) ||
      !read_floats(options->value, &problem->value) ||
      !read_floats(options->expect, &problem->expect) ||
      !check_shapes(query, &problem->key, &problem->value) || !check_types(problem)) {
    return false;
  }
  describe(options, problem);
  return allocate(query, problem->desc.value_features, &problem->out) &&
         (options->expect == NULL || check_expected(&problem->expect, &problem->out));
}

/* NULL where there are no elements: heed refuses a tensor beside a size of 0. */
static void* data_of(const npy_tensor* tensor) {
  return npy_count(tensor) == 0 ? NULL : tensor->data;
}

heed_attention_args attend_problem_args(const attend_problem* problem) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = data_of(&problem->query);
  args.key = data_of(&problem->key);
  args.value = data_of(&problem->value);
  args.out = data_of(&problem->out);
  return args;
}
