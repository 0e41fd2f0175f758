/* What a token goes through on its way to the next one's scores. */
#ifndef HEED_EXAMPLES_GENERATE_FORWARD_H
#define HEED_EXAMPLES_GENERATE_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "weights.h"

/* Room for what the rows of a call become on their way. */
typedef struct activations {
  int64_t rows; /* that there is room for */
  float* numbers;
  float* x;      /* [rows, width] what the tokens have become */
  float* normed; /* [rows, width] the same, normalised; then what is added to it */
  float* query;  /* [rows, query_heads, features] */
  float* key;    /* [rows, key_heads, features] */
  float* value;  /* [rows, key_heads, features] */
  float* heads;  /* [rows, query_heads, features] what the heads come to */
  float* gate;   /* [rows, hidden] */
  float* up;     /* [rows, hidden] */
} activations;

/* The new tokens of each of h's sequences, one sequence after the other, and what may follow the
 * last of each: scores [sequences, TOKENS]. False after an error, which is then on stderr. */
bool forward(const model* m, const history* h, const uint8_t* tokens, int64_t rows, activations* a,
             float* scores);
void activations_release(activations* a);

#endif /* HEED_EXAMPLES_GENERATE_FORWARD_H */
