#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Numbers from a seed ------------------------------------------------------------------- */

/* splitmix64: the same numbers on every machine. */
static uint64_t next(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/* Evenly between -largest and largest. */
static void draw(uint64_t* state, float largest, float* numbers, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = largest * ((float)(next(state) >> 40) * 0x1p-23f - 1);
  }
}

/* A matrix whose products are about as large as what they are made of: variance 1 / in. */
static void draw_matrix(uint64_t* state, int in, int out, float* matrix) {
  draw(state, sqrtf(3.0f / (float)in), matrix, (size_t)in * (size_t)out);
}

/* ---- The model ----------------------------------------------------------------------------- */

/* A matrix [WIDTH, WIDTH] and a small bias, as heed's products want them. */
static heed_status prepare(const heed_context* context, uint64_t* state, heed_weights** weights) {
  float matrix[WIDTH][WIDTH];
  float bias[WIDTH];
  draw_matrix(state, WIDTH, WIDTH, &matrix[0][0]);
  draw(state, 0.1f, bias, WIDTH);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = desc.out = WIDTH;
  return heed_weights_create(context, &desc, matrix, bias, weights);
}

model* model_create(const heed_context* context, uint64_t seed) {
  model* const m = calloc(1, sizeof *m);
  if (m == NULL) {
    fprintf(stderr, "encoder: no memory for the model\n");
    return NULL;
  }
  heed_status status = HEED_STATUS_OK;
  uint64_t state = seed;
  for (int i = 0; i < LAYERS && status == HEED_STATUS_OK; ++i) {
    layer* const l = &m->layers[i];
    status = prepare(context, &state, &l->query);
    if (status == HEED_STATUS_OK) status = prepare(context, &state, &l->value);
    if (status == HEED_STATUS_OK) status = prepare(context, &state, &l->out);
    draw_matrix(&state, WIDTH, HIDDEN, &l->up[0][0]);
    draw(&state, 0.1f, l->up_bias, HIDDEN);
    draw_matrix(&state, HIDDEN, WIDTH, &l->down[0][0]);
    draw(&state, 0.1f, l->down_bias, WIDTH);
  }
  if (status == HEED_STATUS_OK) return m;
  fprintf(stderr, "encoder: %s: %s\n", heed_status_name(status), heed_last_error());
  model_release(m);
  return NULL;
}

void model_release(model* m) {
  for (int i = 0; m != NULL && i < LAYERS; ++i) {
    heed_weights_destroy(m->layers[i].query);
    heed_weights_destroy(m->layers[i].value);
    heed_weights_destroy(m->layers[i].out);
  }
  free(m);
}

/* ---- What surrounds attention --------------------------------------------------------------- */

void model_embed(const text* t, uint64_t seed, float* x) {
  for (int64_t i = 0; i < t->words.count; ++i) {
    float* const row = x + i * WIDTH;
    /* A stream of its own for each word of the vocabulary, none of them the matrices'. */
    uint64_t state = seed ^ ((uint64_t)(t->ids[i] + 1) << 32);
    draw(&state, sqrtf(3), row, WIDTH);
    for (int f = 0; f < WIDTH; f += 2) {
      const double angle = (double)i * pow(10000, -(double)f / (double)WIDTH);
      row[f] += (float)sin(angle);
      row[f + 1] += (float)cos(angle);
    }
  }
}

/* Mean 0 and variance 1. */
static void normalise(float* row) {
  float mean = 0;
  float variance = 0;
  for (int f = 0; f < WIDTH; ++f) mean += row[f] / (float)WIDTH;
  for (int f = 0; f < WIDTH; ++f) variance += (row[f] - mean) * (row[f] - mean) / (float)WIDTH;
  for (int f = 0; f < WIDTH; ++f) row[f] = (row[f] - mean) / sqrtf(variance + 1e-5f);
}

void model_add(const float* added, int64_t words, float* x) {
  for (int64_t i = 0; i < words * WIDTH; ++i) x[i] += added[i];
  for (int64_t i = 0; i < words; ++i) normalise(x + i * WIDTH);
}

void model_feed_forward(const layer* l, const float* x, int64_t words, float* added) {
  for (int64_t i = 0; i < words; ++i, x += WIDTH, added += WIDTH) {
    float hidden[HIDDEN];
    for (int h = 0; h < HIDDEN; ++h) hidden[h] = l->up_bias[h];
    for (int f = 0; f < WIDTH; ++f) {
      for (int h = 0; h < HIDDEN; ++h) hidden[h] += x[f] * l->up[f][h];
    }
    for (int f = 0; f < WIDTH; ++f) added[f] = l->down_bias[f];
    for (int h = 0; h < HIDDEN; ++h) {
      if (hidden[h] <= 0) continue;
      for (int f = 0; f < WIDTH; ++f) added[f] += hidden[h] * l->down[h][f];
    }
  }
}
