#include "picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "heat.h"

/* How many of the largest weights are written out. */
#define LARGEST 3

/* But for the first of them, only those that do not look like 0. */
#define WORTH_WRITING 0.005F

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

static summary summarise(const picture* p, int64_t row) {
  const float* const weights = p->weights + row * p->keys;
  summary result = {"nothing", 0};
  for (int64_t j = 0; j < p->keys; ++j) {
    if (isnan(weights[j])) return (summary){"NaN", 0};
  }
  int64_t taken[LARGEST];
  size_t length = 0;
  for (int i = 0; i < LARGEST; ++i) {
    taken[i] = find_largest(weights, p->keys, taken, i);
    if (taken[i] < 0 || (i > 0 && weights[taken[i]] < WORTH_WRITING)) break;
    const token name = tokens_name(p->key_tokens, taken[i]);
    length += (size_t)snprintf(result.text + length, sizeof result.text - length, "%s%s %.2f",
                               i > 0 ? "  " : "", name.text, (double)weights[taken[i]]);
  }
  if (taken[0] >= 0) result.largest = weights[taken[0]];
  return result;
}

/* The row's weights from the first key to the last, `per_cell` of them in a cell. */
static void print_cells(const picture* p, int64_t row, int64_t per_cell, float largest) {
  const float* const weights = p->weights + row * p->keys;
  for (int64_t j = 0; j < p->keys;) {
    float most = 0;
    for (const int64_t end = j + per_cell; j < end && j < p->keys; ++j) {
      if (weights[j] > most || isnan(weights[j])) most = weights[j];
    }
    heat_cell(most == 0 ? 0 : (double)most / (double)largest, " ");
  }
}

static void print_name(const char* name, int width) {
  printf("%s%*s", name, width - tokens_width(name), "");
}

void picture_print(const picture* p, const char* title) {
  int name_width = 0;
  int summary_width = 0;
  for (int64_t i = 0; i < p->rows; ++i) {
    const int name = tokens_width(tokens_name(p->row_tokens, p->first_row + i).text);
    const int text = tokens_width(summarise(p, i).text);
    if (name > name_width) name_width = name;
    if (text > summary_width) summary_width = text;
  }
  /* A line is a name, a space, the cells between two bars, two spaces, the summary. */
  const int left = heat_width() - name_width - summary_width - 5;
  const int64_t room = left > 16 ? left : 16;
  const int64_t per_cell = (p->keys + room - 1) / room;

  printf("%s: what rows %" PRId64 " to %" PRId64 " attend, of %" PRId64 " keys", title,
         p->first_row, p->first_row + p->rows - 1, p->keys);
  if (per_cell > 1) printf(", %" PRId64 " to a cell", per_cell);
  printf("\n");
  for (int64_t i = 0; i < p->rows; ++i) {
    const summary s = summarise(p, i);
    print_name(tokens_name(p->row_tokens, p->first_row + i).text, name_width);
    printf(" |");
    print_cells(p, i, per_cell, s.largest);
    printf("|  %s\n", s.text);
  }
}
