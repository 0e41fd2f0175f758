/* Training with heed: a model of one multi-head block learns to reverse eight digits.
 *
 *   x      = embedding[digit] + position[place]
 *   y      = x + block(x)                          heed_multihead, heed_multihead_backward
 *   logits = y W + b                               of the ten digits
 *   loss   = the mean cross-entropy of the digits wanted
 *
 * Sequences are drawn at random; parameters take steps of Adam. */
#include <heed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adam.h"
#include "random.h"

enum { DIGITS = 10, WIDTH = 32, LENGTH = 8, BATCH = 64, HEADS = 4, ROWS = BATCH * LENGTH };

/* All that is learned; gradients and their moments are laid out alike. */
typedef struct parameters {
  float embedding[DIGITS][WIDTH], position[LENGTH][WIDTH];
  float w_query[WIDTH][WIDTH], w_key[WIDTH][WIDTH], w_value[WIDTH][WIDTH], w_out[WIDTH][WIDTH];
  float w_logits[WIDTH][DIGITS];
  float b_query[WIDTH], b_key[WIDTH], b_value[WIDTH], b_out[WIDTH], b_logits[DIGITS];
} parameters;
enum { NUMBERS = sizeof(parameters) / sizeof(float) };

static parameters learned, gradient, mean, mean_square;
static float x[ROWS][WIDTH], y[ROWS][WIDTH], grad_x[ROWS][WIDTH], grad_y[ROWS][WIDTH];
static int digits[ROWS], wanted[ROWS];

static void draw_sequences(uint64_t* random) {
  for (int t = 0; t < ROWS; ++t) digits[t] = random_below(random, DIGITS);
  for (int t = 0; t < ROWS; ++t) wanted[t] = digits[t / LENGTH * LENGTH + LENGTH - 1 - t % LENGTH];
  for (int t = 0; t < ROWS; ++t)
    for (int i = 0; i < WIDTH; ++i)
      x[t][i] = learned.embedding[digits[t]][i] + learned.position[t % LENGTH][i];
}

static heed_multihead_args arguments(void) {
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  args.input_query = x; /* and keys and values */
  args.w_query = learned.w_query;
  args.w_key = learned.w_key;
  args.w_value = learned.w_value;
  args.w_out = learned.w_out;
  args.b_query = learned.b_query;
  args.b_key = learned.b_key;
  args.b_value = learned.b_value;
  args.b_out = learned.b_out;
  args.out = y;
  return args;
}

/* Logits of one place; its loss, and the gradients of what comes after the block. */
static double read_out(int t, int* right) {
  double logits[DIGITS];
  double sum = 0;
  int best = 0;
  for (int i = 0; i < WIDTH; ++i) y[t][i] += x[t][i];
  for (int d = 0; d < DIGITS; ++d) {
    logits[d] = learned.b_logits[d];
    for (int i = 0; i < WIDTH; ++i) logits[d] += y[t][i] * learned.w_logits[i][d];
    if (logits[d] > logits[best]) best = d;
  }
  for (int d = 0; d < DIGITS; ++d) sum += exp(logits[d] - logits[best]);
  memset(grad_y[t], 0, sizeof grad_y[t]);
  for (int d = 0; d < DIGITS; ++d) {
    const double p = exp(logits[d] - logits[best]) / sum;
    const float grad = (float)((p - (d == wanted[t])) / (double)ROWS);
    gradient.b_logits[d] += grad;
    for (int i = 0; i < WIDTH; ++i) {
      gradient.w_logits[i][d] += grad * y[t][i];
      grad_y[t][i] += grad * learned.w_logits[i][d];
    }
  }
  *right += best == wanted[t];
  return (logits[best] - logits[wanted[t]] + log(sum)) / (double)ROWS;
}

static heed_status differentiate(const heed_context* context, const heed_multihead_desc* desc,
                                 double* loss, int* right) {
  const heed_multihead_args block = arguments();
  heed_status status = heed_multihead(context, desc, &block);
  if (status != HEED_STATUS_OK) return status;
  memset(&gradient, 0, sizeof gradient);
  for (int t = 0; t < ROWS; ++t) *loss += read_out(t, right);

  heed_multihead_backward_desc backward = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  backward.block = desc;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  args.block = &block;
  args.grad_out = grad_y;
  args.grad_input_query = grad_x;
  args.grad_w_query = gradient.w_query;
  args.grad_w_key = gradient.w_key;
  args.grad_w_value = gradient.w_value;
  args.grad_w_out = gradient.w_out;
  args.grad_b_query = gradient.b_query;
  args.grad_b_key = gradient.b_key;
  args.grad_b_value = gradient.b_value;
  args.grad_b_out = gradient.b_out;
  status = heed_multihead_backward(context, &backward, &args);
  for (int t = 0; t < ROWS; ++t)
    for (int i = 0; i < WIDTH; ++i) { /* grad_y: of the residual, past the block */
      gradient.embedding[digits[t]][i] += grad_x[t][i] + grad_y[t][i];
      gradient.position[t % LENGTH][i] += grad_x[t][i] + grad_y[t][i];
    }
  return status;
}

int main(void) {
  uint64_t random = 1;
  for (float* w = (float*)&learned; w < learned.b_query; ++w) /* biases begin as 0 */
    *w = (float)(random_normal(&random) / (w < learned.w_query[0] ? 1 : sqrt(WIDTH)));
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = BATCH;
  attention.query_heads = HEADS;
  attention.query_length = attention.key_length = LENGTH;
  attention.features = WIDTH / HEADS;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  desc.attention = &attention;
  desc.width_query = WIDTH;

  heed_context* context = NULL;
  heed_status status = heed_context_create(NULL, &context);
  for (int step = 1; status == HEED_STATUS_OK && step <= 40; ++step) {
    double loss = 0;
    int right = 0;
    draw_sequences(&random);
    status = differentiate(context, &desc, &loss, &right);
    adam_step(step, 0.01, NUMBERS, learned.embedding[0], gradient.embedding[0], mean.embedding[0],
              mean_square.embedding[0]);
    if (step % 10 == 0)
      printf("step %2d   loss %.4f   right %5.1f %%\n", step, loss, right * 100 / (double)ROWS);
  }
  if (status != HEED_STATUS_OK)
    fprintf(stderr, "train: %s: %s\n", heed_status_name(status), heed_last_error());
  heed_context_destroy(context);
  return status != HEED_STATUS_OK;
}
