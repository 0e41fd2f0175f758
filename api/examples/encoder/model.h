/* The numbers of a toy encoder, drawn from a seed. Nothing has been learnt, but one thing is
 * chosen: queries and keys come from the same matrix, so that heads look for words that are like
 * their own or stand near it. */
#ifndef HEED_EXAMPLES_ENCODER_MODEL_H
#define HEED_EXAMPLES_ENCODER_MODEL_H

#include <heed.h>
#include <stdbool.h>

#include "text.h"

enum { LAYERS = 2, WIDTH = 64, HEADS = 4, FEATURES = WIDTH / HEADS, HIDDEN = 4 * WIDTH };

/* Matrices of the attention block are prepared once, when the model is made; the feed-forward part
 * is plain C, and so are its matrices. */
typedef struct layer {
  heed_weights* query; /* and of the keys */
  heed_weights* value;
  heed_weights* out;
  float up[WIDTH][HIDDEN];
  float up_bias[HIDDEN];
  float down[HIDDEN][WIDTH];
  float down_bias[WIDTH];
} layer;

typedef struct model {
  layer layers[LAYERS];
} model;

/* NULL after an error, which is then on stderr. */
model* model_create(const heed_context* context, uint64_t seed);
void model_release(model* m); /* NULL is allowed */

/* What the first layer reads, x [words, WIDTH]: a random vector for each word of the vocabulary,
 * plus sines and cosines that tell where in the text it stands. */
void model_embed(const text* t, uint64_t seed, float* x);

/* x = normalise(x + added) for every word: the residual and layer norm after each half of a layer.
 * `added` is [words, WIDTH] like x. */
void model_add(const float* added, int64_t words, float* x);

/* added = max(0, x up + up_bias) down + down_bias for every word. */
void model_feed_forward(const layer* l, const float* x, int64_t words, float* added);

#endif /* HEED_EXAMPLES_ENCODER_MODEL_H */
