#include "forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

/* ---- Room ---------------------------------------------------------------------------------- */

static bool reserve(const model_sizes* s, int64_t rows, activations* a) {
  if (rows <= a->rows) return true;
  activations_release(a);
  const int64_t queries = s->query_heads * s->features;
  const int64_t keys = s->key_heads * s->features;
  const int64_t sizes[] = {s->width, s->width, queries, keys, keys, queries, s->hidden, s->hidden};
  float** const parts[] = {&a->x,     &a->normed, &a->query, &a->key,
                           &a->value, &a->heads,  &a->gate,  &a->up};
  enum { PARTS = sizeof sizes / sizeof *sizes };
  int64_t row = 0;
  for (int i = 0; i < PARTS; ++i) row += sizes[i];
  a->numbers = malloc((size_t)(rows * row) * sizeof *a->numbers);
  if (a->numbers == NULL) return failed("no memory");
  a->rows = rows;
  float* at = a->numbers;
  for (int i = 0; i < PARTS; ++i) {
    *parts[i] = at;
    at += rows * sizes[i];
  }
  return true;
}

void activations_release(activations* a) {
  free(a->numbers);
  memset(a, 0, sizeof *a);
}

/* ---- The steps ----------------------------------------------------------------------------- */

enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 64 };

/* A block of y = x W, whose sums stay in the L1 cache. Each is taken in the same order whatever the
 * rows around it, so that a row's bits do not depend on what it is computed with. */
static void multiply_block(const float* x, int64_t rows, int64_t in, const float* w, int64_t out,
                           int64_t columns, float* y) {
  float sums[BLOCK_ROWS][BLOCK_COLUMNS] = {{0}};
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) sums[r][c] += x[r * in + i] * w[i * out + c];
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(y + r * out, sums[r], (size_t)columns * sizeof **sums);
  }
}

/* y = x W for x [rows, in] and W [in, out]. */
static void multiply(const float* x, int64_t rows, int64_t in, const float* w, int64_t out,
                     float* y) {
  for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {
    const int64_t some = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
    for (int64_t c = 0; c < out; c += BLOCK_COLUMNS) {
      const int64_t columns = out - c < BLOCK_COLUMNS ? out - c : BLOCK_COLUMNS;
      multiply_block(x + r * in, some, in, w + c, out, columns, y + r * out + c);
    }
  }
}

/* RMS norm: the mean of the squares becomes 1, then each feature has a factor of its own. */
static void normalise(const float* x, int64_t rows, int64_t width, const float* factors, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    float squares = 0;
    for (int64_t f = 0; f < width; ++f) squares += x[f] * x[f];
    const float root = sqrtf(squares / (float)width + 1e-5f);
    for (int64_t f = 0; f < width; ++f) y[f] = x[f] / root * factors[f];
  }
}

static void add(const float* added, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] += added[i];
}

/* gate = silu(gate) * up */
static void pass_gate(const float* up, int64_t count, float* gate) {
  for (int64_t i = 0; i < count; ++i) gate[i] *= up[i] / (1 + expf(-gate[i]));
}

/* ---- The model ----------------------------------------------------------------------------- */

static bool run_layer(const model* m, const history* h, int64_t layer, int64_t rows,
                      activations* a) {
  const model_sizes* const s = &m->sizes;
  const layer_weights* const l = &m->layers[layer];
  const int64_t all = h->count * rows;
  const int64_t queries = s->query_heads * s->features;
  const int64_t keys = s->key_heads * s->features;
  normalise(a->x, all, s->width, l->attention_norm, a->normed);
  multiply(a->normed, all, s->width, l->query, queries, a->query);
  multiply(a->normed, all, s->width, l->key, keys, a->key);
  multiply(a->normed, all, s->width, l->value, keys, a->value);
  if (!history_attend(h, layer, rows, a->query, a->key, a->value, a->heads)) return false;
  multiply(a->heads, all, queries, l->out, s->width, a->normed);
  add(a->normed, all * s->width, a->x);

  normalise(a->x, all, s->width, l->gated_norm, a->normed);
  multiply(a->normed, all, s->width, l->gate, s->hidden, a->gate);
  multiply(a->normed, all, s->width, l->up, s->hidden, a->up);
  pass_gate(a->up, all * s->hidden, a->gate);
  multiply(a->gate, all, s->hidden, l->down, s->width, a->normed);
  add(a->normed, all * s->width, a->x);
  return true;
}

bool forward(const model* m, const history* h, const uint8_t* tokens, int64_t rows, activations* a,
             float* scores) {
  const int64_t width = m->sizes.width;
  if (!reserve(&m->sizes, h->count * rows, a)) return false;
  for (int64_t r = 0; r < h->count * rows; ++r) {
    memcpy(a->x + r * width, m->embedding + tokens[r] * width, (size_t)width * sizeof *a->x);
  }
  for (int64_t layer = 0; layer < m->sizes.layers; ++layer) {
    if (!run_layer(m, h, layer, rows, a)) return false;
  }
  for (int64_t i = 0; i < h->count; ++i) {
    const float* const last = a->x + ((i + 1) * rows - 1) * width;
    normalise(last, 1, width, m->out_norm, a->normed);
    multiply(a->normed, 1, width, m->unembedding, TOKENS, scores + i * TOKENS);
  }
  return true;
}
