#define _POSIX_C_SOURCE 200809L /* getline */

#include "map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../picture.h"

/* Rows that are shown unless the command line says which. */
#define DEFAULT_ROWS 32

/* ---- The weights --------------------------------------------------------------------------- */

/* Element `index` of a tensor. */
static void* at(const npy_tensor* tensor, int64_t index) {
  return (char*)tensor->data + index * (int64_t)npy_size(tensor->type);
}

/* One head is a problem of its own: the same tensors, from where the head begins. Only the rows
 * that are shown are asked for their weights. */
static bool compute(const heed_context* context, const attend_problem* problem, attend_map* m) {
  const int64_t head = m->head;
  heed_attention_desc desc = problem->desc;
  const int64_t key_head = head / (desc.query_heads / desc.key_heads);
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = at(&problem->query, head * desc.query_length * desc.features);
  args.key = at(&problem->key, key_head * desc.key_length * desc.features);
  args.value = at(&problem->value, key_head * desc.key_length * desc.value_features);
  args.out = at(&problem->out, head * desc.query_length * desc.value_features);
  desc.batch = desc.query_heads = desc.key_heads = 1;
  desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
  desc.weights.dtype = HEED_DTYPE_F32;
  desc.weight_rows = m->rows;

  const bool countable = m->rows <= PTRDIFF_MAX / (int64_t)sizeof(float) / m->keys;
  int64_t* const rows = malloc((size_t)m->rows * sizeof *rows);
  if (countable) m->weights = malloc((size_t)(m->rows * m->keys) * sizeof *m->weights);
  if (rows == NULL || m->weights == NULL) {
    free(rows);
    return attend_failed("no memory for --map");
  }
  for (int64_t i = 0; i < m->rows; ++i) rows[i] = m->first_row + i;
  args.weight_rows = rows;
  args.weights = m->weights;
  const bool ok = attend_succeeded(heed_attention(context, &desc, &args));
  free(rows);
  return ok;
}

/* ---- What to draw -------------------------------------------------------------------------- */

static bool choose(const attend_options* options, const heed_attention_desc* desc, attend_map* m) {
  if (desc->batch == 0 || desc->query_length == 0 || desc->key_length == 0) {
    return attend_failed("--map of an empty problem");
  }
  if (options->map_head >= desc->query_heads) {
    fprintf(stderr, "attend: --map is %" PRId64 ", not one of the %" PRId64 " heads, from 0\n",
            options->map_head, desc->query_heads);
    return false;
  }
  m->head = options->map_head;
  m->keys = desc->key_length;
  m->first_row = options->map_first < 0 ? 0 : options->map_first;
  int64_t last = options->map_last;
  if (options->map_first < 0) {
    last = (desc->query_length < DEFAULT_ROWS ? desc->query_length : DEFAULT_ROWS) - 1;
  }
  if (last >= desc->query_length) {
    fprintf(stderr, "attend: --rows ends with %" PRId64 ", the last row is %" PRId64 "\n", last,
            desc->query_length - 1);
    return false;
  }
  m->rows = last - m->first_row + 1;
  return true;
}

/* One token a line. */
static bool read_tokens(const char* path, token_list* list) {
  FILE* const file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "attend: %s: cannot be opened: %s\n", path, strerror(errno));
    return false;
  }
  char* line = NULL;
  size_t room = 0;
  ssize_t length = 0;
  bool ok = true;
  errno = 0;
  while (ok && (length = getline(&line, &room, file)) >= 0) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) --length;
    ok = tokens_append(list, line, (size_t)length);
  }
  ok = ok && feof(file) && !ferror(file);
  if (!ok) fprintf(stderr, "attend: %s: cannot be read: %s\n", path, strerror(errno));
  free(line);
  fclose(file);
  return ok;
}

static bool load_tokens(const attend_options* options, const heed_attention_desc* desc,
                        attend_map* m) {
  if (options->tokens == NULL) return true;
  if (!read_tokens(options->tokens, &m->tokens)) return false;
  if (m->tokens.count != m->keys) {
    fprintf(stderr, "attend: %s: lines are %" PRId64 ", keys %" PRId64 "\n", options->tokens,
            m->tokens.count, m->keys);
    return false;
  }
  m->key_tokens = &m->tokens;
  if (desc->query_length == desc->key_length) m->row_tokens = &m->tokens;
  return true;
}

bool attend_map_prepare(const attend_options* options, const heed_attention_desc* desc,
                        attend_map* map) {
  return choose(options, desc, map) && load_tokens(options, desc, map);
}

void attend_map_release(attend_map* map) {
  tokens_release(&map->tokens);
  free(map->weights);
}

bool attend_map_draw(const heed_context* context, const attend_problem* problem, attend_map* map) {
  if (!compute(context, problem, map)) return false;
  char title[32];
  snprintf(title, sizeof title, "head %" PRId64, map->head);
  const picture p = {map->first_row, map->rows,       map->keys,
                     map->weights,   map->row_tokens, map->key_tokens};
  picture_print(&p, title);
  return true;
}
