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
  npy_release(&problem->mask);
  npy_release(&problem->bias);
  npy_release(&problem->expect);
  npy_release(&problem->out);
  npy_release(&problem->weights);
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

static bool read_mask(const char* path, npy_tensor* tensor) {
  if (path == NULL) return true;
  if (!read_tensor(path, tensor)) return false;
  if (tensor->type == NPY_BYTE) return true;
  fprintf(stderr, "attend: %s: it holds floats; --mask is bool or uint8 (see --bias)\n", path);
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

/* A window counts from where rows stand among keys. */
static bool check_window(const attend_options* options, const heed_attention_desc* desc) {
  const bool bounded = options->window_left >= 0 || options->window_right >= 0;
  if (!options->window || !bounded || desc->query_length == desc->key_length ||
      options->causal != HEED_CAUSAL_NONE || options->alignment != HEED_ALIGNMENT_DEFAULT) {
    return true;
  }
  fprintf(stderr,
          "attend: --window over %" PRId64 " rows and %" PRId64
          " keys needs --alignment: top-left, bottom-right or an integer offset\n",
          desc->query_length, desc->key_length);
  return false;
}

/* A mask or bias repeats along axes of size 1. */
static bool check_scores(const char* name, const npy_tensor* tensor,
                         const heed_attention_desc* desc, heed_score_layout* layout) {
  static const char* const names[NPY_MAX_RANK] = {"batch", "heads", "rows", "keys"};
  const int64_t sizes[NPY_MAX_RANK] = {desc->batch, desc->query_heads, desc->query_length,
                                       desc->key_length};
  int64_t* const slots[NPY_MAX_RANK] = {&layout->batch, &layout->heads, &layout->rows,
                                        &layout->keys};
  for (int axis = 0; axis < NPY_MAX_RANK; ++axis) {
    const int64_t size = axis_size(tensor, axis);
    if (size != 1 && size != sizes[axis]) {
      fprintf(stderr, "attend: %s of --%s is %" PRId64 ", not 1 or %" PRId64 "\n", names[axis],
              name, size, sizes[axis]);
      return false;
    }
    *slots[axis] = size;
  }
  return true;
}

/* ---- Types --------------------------------------------------------------------------------- */

static uint32_t dtype_of(npy_type type) {
  static const heed_dtype dtypes[] = {[NPY_F16] = HEED_DTYPE_F16,
                                      [NPY_F32] = HEED_DTYPE_F32,
                                      [NPY_F64] = HEED_DTYPE_F64,
                                      [NPY_BYTE] = HEED_DTYPE_DEFAULT,
                                      [NPY_BF16] = HEED_DTYPE_BF16};
  return (uint32_t)dtypes[type];
}

static bool convert(npy_tensor* tensor, npy_type type) {
  if (tensor->type == type) return true;
  npy_tensor converted;
  if (!npy_convert(tensor, type, &converted)) return attend_failed("no memory to convert a tensor");
  npy_release(tensor);
  *tensor = converted;
  return true;
}

/* ---- The descriptor and the results ---------------------------------------------------------- */

static bool describe(const attend_options* options, attend_problem* problem) {
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
  desc->query.dtype = desc->key.dtype = desc->value.dtype = desc->out.dtype =
      dtype_of(problem->query.type);
  desc->scale = options->scale;
  desc->softcap = options->softcap;
  desc->temperature = options->temperature;
  desc->hard = options->hard;
  desc->causal = (uint32_t)options->causal;
  desc->causal_offset = options->causal_offset;
  desc->window = options->window;
  desc->window_left = options->window_left;
  desc->window_right = options->window_right;
  desc->alignment = (uint32_t)options->alignment;
  desc->alignment_offset = options->alignment_offset;
  desc->weights_point = (uint32_t)options->weights_point;
  if (options->bias != NULL) desc->bias.dtype = dtype_of(problem->bias.type);
  return check_window(options, desc) &&
         (options->mask == NULL || check_scores("mask", &problem->mask, desc, &desc->mask)) &&
         (options->bias == NULL || check_scores("bias", &problem->bias, desc, &desc->bias));
}

/* Room for a result: of the queries' shape but for the last axis. */
static bool allocate(const char* name, const npy_tensor* query, int64_t last_axis, npy_type type,
                     npy_tensor* result) {
  *result = *query;
  result->data = NULL;
  result->type = type;
  result->shape[result->rank - 1] = last_axis;
  const int64_t count = npy_count(result);
  if (count >= 0) result->data = malloc(count > 0 ? (size_t)count * npy_size(type) : 1);
  if (result->data != NULL) return true;
  fprintf(stderr, count < 0 ? "attend: --%s would be too large\n" : "attend: no memory for --%s\n",
          name);
  return false;
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
      !read_floats(options->value, &problem->value) || !read_mask(options->mask, &problem->mask) ||
      !read_floats(options->bias, &problem->bias) ||
      !read_floats(options->expect, &problem->expect) ||
      !check_shapes(query, &problem->key, &problem->value)) {
    return false;
  }
  const npy_type type = options->convert ? options->type : query->type;
  if (!convert(query, type) || !convert(&problem->key, type) || !convert(&problem->value, type) ||
      !describe(options, problem) ||
      !allocate("out", query, problem->desc.value_features, type, &problem->out)) {
    return false;
  }
  if (options->expect != NULL && !check_expected(&problem->expect, &problem->out)) return false;
  /* heed computes, and gives weights, in double for double and in float for all else. */
  return options->weights == NULL ||
         allocate("weights", query, problem->desc.key_length, type == NPY_F64 ? NPY_F64 : NPY_F32,
                  &problem->weights);
}

heed_attention_args attend_problem_args(const attend_problem* problem) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = problem->query.data;
  args.key = problem->key.data;
  args.value = problem->value.data;
  args.mask = problem->mask.data;
  args.bias = problem->bias.data;
  args.out = problem->out.data;
  args.weights = problem->weights.data;
  return args;
}
