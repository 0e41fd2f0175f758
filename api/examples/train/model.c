#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory -------------------------------------------------------------------------------- */

/* Lays the tensors out one after the other; how many numbers they have. */
static size_t lay_out(tensors* t, float* all, int64_t length) {
  const size_t square = (size_t)WIDTH * WIDTH;
  struct part {
    float** at;
    size_t count;
  } parts[] = {{&t->embedding, (size_t)DIGITS * WIDTH},
               {&t->position, (size_t)length * WIDTH},
               {&t->w_query, square},
               {&t->w_key, square},
               {&t->w_value, square},
               {&t->w_out, square},
               {&t->b_query, WIDTH},
               {&t->b_key, WIDTH},
               {&t->b_value, WIDTH},
               {&t->b_out, WIDTH},
               {&t->w_logits, (size_t)WIDTH * DIGITS},
               {&t->b_logits, DIGITS}};
  size_t count = 0;
  t->all = all;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (all != NULL) *parts[i].at = all + count;
    count += parts[i].count;
  }
  return count;
}

static float* numbers(size_t count) { return calloc(count, sizeof(float)); }

/* The next multiple of what heed asks for. */
static size_t aligned(size_t bytes) {
  return (bytes + HEED_WORKSPACE_ALIGNMENT - 1) / HEED_WORKSPACE_ALIGNMENT *
         HEED_WORKSPACE_ALIGNMENT;
}

static bool take_memory(model* m) {
  const size_t rows = (size_t)(m->batch * m->length);
  m->count = lay_out(&m->parameters, NULL, m->length);
  lay_out(&m->parameters, numbers(m->count), m->length);
  lay_out(&m->gradients, numbers(m->count), m->length);
  m->moments = numbers(2 * m->count);
  m->x = numbers(rows * WIDTH);
  m->y = numbers(rows * WIDTH);
  m->grad_x = numbers(rows * WIDTH);
  m->grad_y = numbers(rows * WIDTH);
  m->grad_logits = numbers(rows * DIGITS);
  return m->parameters.all != NULL && m->gradients.all != NULL && m->moments != NULL &&
         m->x != NULL && m->y != NULL && m->grad_x != NULL && m->grad_y != NULL &&
         m->grad_logits != NULL;
}

/* ---- The block ----------------------------------------------------------------------------- */

static void describe(model* m) {
  const heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  const heed_multihead_desc block = HEED_MULTIHEAD_DESC_INIT;
  m->attention = attention;
  m->attention.batch = m->batch;
  m->attention.query_heads = m->heads;
  m->attention.query_length = m->attention.key_length = m->length;
  m->attention.features = WIDTH / m->heads;
  m->block = block;
  m->block.attention = &m->attention;
  m->block.width_query = WIDTH;
}

/* One plan for the way there, which keeps what the other needs, and one for the way back. */
static bool make_plans(model* m, const heed_context* context) {
  heed_multihead_backward_desc backward = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  heed_multihead_info info_backward = HEED_MULTIHEAD_INFO_INIT;
  m->block.keep = 1;
  backward.block = &m->block;
  if (heed_multihead_plan_create(context, &m->block, &m->forward) != HEED_STATUS_OK ||
      heed_multihead_backward_plan_create(context, &backward, &m->backward) != HEED_STATUS_OK ||
      heed_multihead_plan_describe(m->forward, &info) != HEED_STATUS_OK ||
      heed_multihead_backward_plan_describe(m->backward, &info_backward) != HEED_STATUS_OK) {
    return false;
  }
  m->kept_bytes = info.kept_bytes;
  m->workspace_bytes = info.workspace_bytes > info_backward.workspace_bytes
                           ? info.workspace_bytes
                           : info_backward.workspace_bytes;
  m->memory = malloc(HEED_WORKSPACE_ALIGNMENT + aligned(m->kept_bytes) + m->workspace_bytes);
  if (m->memory == NULL) return false;
  const size_t at = (size_t)m->memory;
  m->kept = (char*)m->memory + (aligned(at) - at);
  m->workspace = (char*)m->kept + aligned(m->kept_bytes);
  return true;
}

static heed_multihead_args arguments_of(const model* m, const float* x) {
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  const tensors* const p = &m->parameters;
  args.input_query = x; /* and keys and values */
  args.w_query = p->w_query;
  args.w_key = p->w_key;
  args.w_value = p->w_value;
  args.w_out = p->w_out;
  args.b_query = p->b_query;
  args.b_key = p->b_key;
  args.b_value = p->b_value;
  args.b_out = p->b_out;
  return args;
}

bool model_make(model* m, const heed_context* context, random_source* random) {
  describe(m);
  if (!take_memory(m) || !make_plans(m, context)) return false;
  tensors* const p = &m->parameters;
  /* Biases begin as 0. */
  for (float* w = p->embedding; w < p->b_query; ++w) *w = (float)random_normal(random);
  for (float* w = p->w_query; w < p->b_query; ++w) *w *= (float)(1 / sqrt(WIDTH));
  for (float* w = p->w_logits; w < p->b_logits; ++w) {
    *w = (float)(random_normal(random) / sqrt(WIDTH));
  }
  return true;
}

void model_release(model* m) {
  heed_multihead_plan_destroy(m->forward);
  heed_multihead_backward_plan_destroy(m->backward);
  float* const all[] = {m->parameters.all, m->gradients.all, m->moments,    m->x, m->y,
                        m->grad_x,         m->grad_y,        m->grad_logits};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  free(m->memory);
}

/* ---- There --------------------------------------------------------------------------------- */

static void embed(const model* m, const int32_t* digits, int64_t rows, float* x) {
  for (int64_t t = 0; t < rows; ++t) {
    const float* const of_digit = m->parameters.embedding + (size_t)digits[t] * WIDTH;
    const float* const of_place = m->parameters.position + t % m->length * WIDTH;
    for (int64_t i = 0; i < WIDTH; ++i) x[t * WIDTH + i] = of_digit[i] + of_place[i];
  }
}

/* The loss of one place; its logits become their gradient. */
static double judge(float* logits, int32_t wanted, double share, int64_t* right) {
  int32_t best = 0;
  double sum = 0;
  for (int32_t d = 1; d < DIGITS; ++d) {
    if (logits[d] > logits[best]) best = d;
  }
  const double most = logits[best];
  const double own = logits[wanted];
  for (int32_t d = 0; d < DIGITS; ++d) sum += exp(logits[d] - most);
  for (int32_t d = 0; d < DIGITS; ++d) {
    const double p = exp(logits[d] - most) / sum;
    logits[d] = (float)(share * (p - (d == wanted ? 1 : 0)));
  }
  *right += best == wanted ? 1 : 0;
  return (most + log(sum) - own) * share;
}

/* y becomes x + y, and the logits of every place their gradient. */
static outcome read_out(model* m, const int32_t* wanted) {
  const tensors* const p = &m->parameters;
  const int64_t rows = m->batch * m->length;
  outcome result = {0, 0};
  for (int64_t t = 0; t < rows; ++t) {
    float* const y = m->y + t * WIDTH;
    float* const logits = m->grad_logits + t * DIGITS;
    memcpy(logits, p->b_logits, DIGITS * sizeof *logits);
    for (int64_t i = 0; i < WIDTH; ++i) {
      y[i] += m->x[t * WIDTH + i];
      for (int64_t d = 0; d < DIGITS; ++d) logits[d] += y[i] * p->w_logits[i * DIGITS + d];
    }
    result.loss += judge(logits, wanted[t], 1.0 / (double)rows, &result.right);
  }
  return result;
}

/* ---- And back ------------------------------------------------------------------------------ */

static void differentiate_read_out(model* m) {
  const tensors* const p = &m->parameters;
  tensors* const g = &m->gradients;
  for (int64_t t = 0; t < m->batch * m->length; ++t) {
    const float* const y = m->y + t * WIDTH;
    const float* const of_logits = m->grad_logits + t * DIGITS;
    for (int64_t d = 0; d < DIGITS; ++d) g->b_logits[d] += of_logits[d];
    for (int64_t i = 0; i < WIDTH; ++i) {
      float sum = 0;
      for (int64_t d = 0; d < DIGITS; ++d) {
        sum += of_logits[d] * p->w_logits[i * DIGITS + d];
        g->w_logits[i * DIGITS + d] += of_logits[d] * y[i];
      }
      m->grad_y[t * WIDTH + i] = sum;
    }
  }
}

static bool differentiate_block(model* m) {
  tensors* const g = &m->gradients;
  heed_multihead_args block = arguments_of(m, m->x);
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  block.kept = m->kept;
  block.kept_bytes = m->kept_bytes;
  args.block = &block;
  args.grad_out = m->grad_y;
  args.grad_input_query = m->grad_x;
  args.grad_w_query = g->w_query;
  args.grad_w_key = g->w_key;
  args.grad_w_value = g->w_value;
  args.grad_w_out = g->w_out;
  args.grad_b_query = g->b_query;
  args.grad_b_key = g->b_key;
  args.grad_b_value = g->b_value;
  args.grad_b_out = g->b_out;
  return heed_multihead_backward_plan_run(m->backward, &args, m->workspace, m->workspace_bytes) ==
         HEED_STATUS_OK;
}

/* The residual adds what came past the block. */
static void differentiate_embedding(model* m, const int32_t* digits) {
  for (int64_t t = 0; t < m->batch * m->length; ++t) {
    float* const of_digit = m->gradients.embedding + (size_t)digits[t] * WIDTH;
    float* const of_place = m->gradients.position + t % m->length * WIDTH;
    for (int64_t i = 0; i < WIDTH; ++i) {
      const float gradient = m->grad_x[t * WIDTH + i] + m->grad_y[t * WIDTH + i];
      of_digit[i] += gradient;
      of_place[i] += gradient;
    }
  }
}

bool model_differentiate(model* m, const int32_t* digits, const int32_t* wanted, outcome* result) {
  heed_multihead_args args = arguments_of(m, m->x);
  args.out = m->y;
  args.kept = m->kept;
  args.kept_bytes = m->kept_bytes;
  memset(m->gradients.all, 0, m->count * sizeof(float));
  embed(m, digits, m->batch * m->length, m->x);
  if (heed_multihead_plan_run(m->forward, &args, m->workspace, m->workspace_bytes) !=
      HEED_STATUS_OK) {
    return false;
  }
  *result = read_out(m, wanted);
  differentiate_read_out(m);
  if (!differentiate_block(m)) return false;
  differentiate_embedding(m, digits);
  return true;
}

void model_step(model* m, double rate) {
  const double keep = 0.9;
  const double keep_square = 0.99;
  m->steps += 1;
  const double mean = 1 - pow(keep, (double)m->steps);
  const double square = 1 - pow(keep_square, (double)m->steps);
  for (size_t i = 0; i < m->count; ++i) {
    const double gradient = m->gradients.all[i];
    float* const first = m->moments + i;
    float* const second = m->moments + m->count + i;
    *first = (float)(keep * *first + (1 - keep) * gradient);
    *second = (float)(keep_square * *second + (1 - keep_square) * gradient * gradient);
    m->parameters.all[i] -= (float)(rate * (*first / mean) / (sqrt(*second / square) + 1e-8));
  }
}

bool model_attend(const model* m, const heed_context* context, const int32_t* digits,
                  float* weights) {
  heed_attention_desc attention = m->attention;
  heed_multihead_desc block = m->block;
  heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
  heed_multihead_args args = arguments_of(m, m->x);
  attention.batch = 1;
  attention.weights_point = HEED_WEIGHTS_PROBABILITIES;
  block.attention = &attention;
  block.keep = 0;
  inner.weights = weights;
  args.attention = &inner;
  args.out = m->y;
  embed(m, digits, m->length, m->x);
  return heed_multihead(context, &block, &args) == HEED_STATUS_OK;
}
