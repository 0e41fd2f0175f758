/* A model of one multi-head block, its loss and its gradients:
 *
 *   x      = embedding[digit] + position[place]
 *   y      = x + block(x)                          heed_multihead, heed_multihead_backward
 *   logits = y W + b                               of the ten digits
 *   loss   = the mean cross-entropy of the digits wanted */
#ifndef HEED_EXAMPLES_TRAIN_MODEL_H
#define HEED_EXAMPLES_TRAIN_MODEL_H

#include <heed.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../random.h"

enum { DIGITS = 10, WIDTH = 32 };

/* Where each tensor lies among the parameters, or among their gradients. */
typedef struct tensors {
  float* all;       /* `count` numbers */
  float* embedding; /* [DIGITS, WIDTH] */
  float* position;  /* [length, WIDTH] */
  float* w_query;   /* these four [WIDTH, WIDTH] */
  float* w_key;
  float* w_value;
  float* w_out;
  float* b_query; /* these four [WIDTH] */
  float* b_key;
  float* b_value;
  float* b_out;
  float* w_logits; /* [WIDTH, DIGITS] */
  float* b_logits; /* [DIGITS] */
} tensors;

typedef struct model {
  int64_t batch;
  int64_t length;
  int64_t heads;
  size_t count;
  tensors parameters;
  tensors gradients;
  float* moments; /* [2, count], of the optimiser */
  int64_t steps;  /* taken */
  heed_attention_desc attention;
  heed_multihead_desc block;
  heed_multihead_plan* forward;
  heed_multihead_backward_plan* backward;
  void* memory; /* of the two below */
  void* workspace;
  size_t workspace_bytes;
  void* kept;
  size_t kept_bytes;
  float* x; /* [batch, length, WIDTH], as are the next three */
  float* y;
  float* grad_x;
  float* grad_y;
  float* grad_logits; /* [batch, length, DIGITS] */
} model;

/* Of random parameters. False after an error of heed or malloc; model_release() is due anyway. */
bool model_make(model* m, const heed_context* context, random_source* random);
void model_release(model* m);

/* How well the model does on a batch, and the gradients of all parameters. */
typedef struct outcome {
  double loss;
  int64_t right; /* digits */
} outcome;
bool model_differentiate(model* m, const int32_t* digits, const int32_t* wanted, outcome* result);

/* A step of Adam (Kingma and Ba 2015) with bias correction. */
void model_step(model* m, double rate);

/* What every place of one sequence attends: weights [heads, length, length]. */
bool model_attend(const model* m, const heed_context* context, const int32_t* digits,
                  float* weights);

#endif /* HEED_EXAMPLES_TRAIN_MODEL_H */
