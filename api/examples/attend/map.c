/* One line for each row: its token, its weights from the first key to the last, its largest weights
 * and the tokens they are on. Shades are relative to the row's largest weight.
 *
 *   own |+     :-.  @     |  weaker 0.16  sun 0.14  tide 0.13
 *
 * Where there are more keys than columns, a cell stands for a few neighbours, by the largest. */
#include "map.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../heat.h"
#include "tokens.h"

/* Rows that are shown unless the command line says which. */
#define DEFAULT_ROWS 32

/* How many of the largest weights are written out. */
#define LARGEST 3

/* But for the first of them, only those that do not look like 0. */
#define WORTH_WRITING 0.005F

/* ---- The weights --------------------------------------------------------------------------- */

/* Element `index` of a tensor. */
static void* at(const npy_tensor* tensor, int64_t index) {
  return (char*)tensor->data + index * (int64_t)npy_size(tensor->type);
}

/* The part of a mask or bias that belongs to a head of the first batch. */
static const void* part_of_head(const npy_tensor* tensor, int64_t head, heed_score_layout* layout) {
  if (tensor->data == NULL) return NULL;
  const void* const part = at(tensor, layout->heads == 1 ? 0 : head * layout->rows * layout->keys);
  layout->batch = layout->heads = 1;
  return part;
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
  args.mask = part_of_head(&problem->mask, head, &desc.mask);
  args.bias = part_of_head(&problem->bias, head, &desc.bias);
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

/* ---- The picture --------------------------------------------------------------------------- */

/* The key with the largest weight among those not in `taken`; -1 if none is above 0. */
static int64_t find_largest(const float* weights, int64_t keys, const int64_t* taken, int count) {
  int64_t largest = -1;
  for (int64_t j = 0; j < keys; ++j) {
    bool is_taken = false;
    for (int i = 0; i < count; ++i) is_taken = is_taken || taken[i] == j;
    if (is_taken || !(weights[j] > 0)) continue;
    if (largest < 0 || weights[j] > weights[largest]) largest = j;
  }
  return largest;
}

/* The largest weights of a row and what they are on. */
typedef struct summary {
  char text[LARGEST * (sizeof(token) + 16)];
  float largest;
} summary;

static summary summarise(const attend_map* m, int64_t row) {
  const float* const weights = m->weights + row * m->keys;
  summary result = {"", 0};
  int64_t taken[LARGEST];
  size_t length = 0;
  for (int i = 0; i < LARGEST; ++i) {
    taken[i] = find_largest(weights, m->keys, taken, i);
    if (taken[i] < 0 || (i > 0 && weights[taken[i]] < WORTH_WRITING)) break;
    const token name = tokens_name(m->key_tokens, taken[i]);
    length += (size_t)snprintf(result.text + length, sizeof result.text - length, "%s%s %.2f",
                               i > 0 ? "  " : "", name.text, (double)weights[taken[i]]);
  }
  if (taken[0] >= 0) result.largest = weights[taken[0]];
  return result;
}

/* The row's weights from the first key to the last, `per_cell` of them in a cell. */
static void print_cells(const attend_map* m, int64_t row, int64_t per_cell, float largest) {
  const float* const weights = m->weights + row * m->keys;
  for (int64_t j = 0; j < m->keys;) {
    float most = 0;
    for (const int64_t end = j + per_cell; j < end && j < m->keys; ++j) {
      if (weights[j] > most || isnan(weights[j])) most = weights[j];
    }
    heat_cell(most == 0 ? 0 : (double)most / (double)largest, " ");
  }
}

static void print_name(const char* name, int width) {
  printf("%s%*s", name, width - tokens_width(name), "");
}

static void print(const attend_map* m) {
  int name_width = 0;
  int summary_width = 0;
  for (int64_t i = 0; i < m->rows; ++i) {
    const int name = tokens_width(tokens_name(m->row_tokens, m->first_row + i).text);
    const int text = tokens_width(summarise(m, i).text);
    if (name > name_width) name_width = name;
    if (text > summary_width) summary_width = text;
  }
  /* A line is a name, a space, the cells between two bars, two spaces, the summary. */
  const int left = heat_width() - name_width - summary_width - 5;
  const int64_t room = left > 16 ? left : 16;
  const int64_t per_cell = (m->keys + room - 1) / room;

  printf("head %" PRId64 ": what rows %" PRId64 " to %" PRId64 " attend, of %" PRId64 " keys",
         m->head, m->first_row, m->first_row + m->rows - 1, m->keys);
  if (per_cell > 1) printf(", %" PRId64 " to a cell", per_cell);
  printf("\n");
  for (int64_t i = 0; i < m->rows; ++i) {
    const summary s = summarise(m, i);
    print_name(tokens_name(m->row_tokens, m->first_row + i).text, name_width);
    printf(" |");
    print_cells(m, i, per_cell, s.largest);
    printf("|  %s\n", s.largest > 0 ? s.text : "nothing");
  }
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

static bool load_tokens(const attend_options* options, const heed_attention_desc* desc,
                        attend_map* m) {
  if (options->tokens == NULL) return true;
  if (!tokens_read(options->tokens, &m->tokens)) return false;
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
  print(map);
  return true;
}
