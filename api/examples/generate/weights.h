/* The weights of a decoder-only transformer, in memory and in a file. api/examples/README.md states
 * the format. */
#ifndef HEED_EXAMPLES_GENERATE_WEIGHTS_H
#define HEED_EXAMPLES_GENERATE_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A token is a byte. */
enum { TOKENS = 256 };

typedef struct model_sizes {
  int64_t layers;
  int64_t width;
  int64_t query_heads;
  int64_t key_heads; /* of which query_heads is a multiple */
  int64_t features;  /* of a head's query, key and value */
  int64_t rotary;    /* of these, from the first on, rotary embedding turns so many */
  int64_t hidden;    /* of the gated part */
  double base;       /* of the rotary embedding's angles */
} model_sizes;

/* Matrices are [in, out]: y = x W. */
typedef struct layer_weights {
  float* attention_norm; /* [width] */
  float* query;          /* [width, query_heads * features] */
  float* key;            /* [width, key_heads * features] */
  float* value;          /* [width, key_heads * features] */
  float* out;            /* [query_heads * features, width] */
  float* gated_norm;     /* [width] */
  float* gate;           /* [width, hidden] */
  float* up;             /* [width, hidden] */
  float* down;           /* [hidden, width] */
} layer_weights;

typedef struct model {
  model_sizes sizes;
  float*
      numbers; /* all of them, in the order of the file: embedding, layers, out_norm, unembedding */
  size_t count;
  float* embedding; /* [TOKENS, width] */
  layer_weights* layers;
  float* out_norm;    /* [width] */
  float* unembedding; /* [width, TOKENS] */
  uint64_t checksum;  /* of the file */
} model;

/* Makes room for m->sizes. False after an error, which is then on stderr; release the model in any
 * case. */
bool model_allocate(model* m);
void model_release(model* m);

/* The model must be zeroed. What is truncated, foreign or altered is refused. */
bool model_read(const char* path, model* m);
/* Numbers are stored as float32, or rounded to bfloat16. Sets the checksum. */
bool model_write(const char* path, bool bfloat16, model* m);

#endif /* HEED_EXAMPLES_GENERATE_WEIGHTS_H */
