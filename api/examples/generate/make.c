#include "make.h"

#include <math.h>

#include "../random.h"

enum {
  FEATURES = 128,
  ROTARY = 32,
  QUERY_HEADS = 8,
  KEY_HEADS = 2,
  QUERIES = QUERY_HEADS * FEATURES,
  KEYS = KEY_HEADS * FEATURES,
  CODE = 32, /* features that stand for a byte: 1 or -1 each */
  BEFORE = 3 /* how many bytes back the model looks */
};

/* What the features of a position stand for. */
enum {
  THIS_BYTE = 0,       /* the byte's code */
  BYTES_BEFORE = CODE, /* the codes of the bytes before it, the nearest first */
  NEXT_BYTE = BYTES_BEFORE + BEFORE * CODE, /* a mixture of the codes of what may follow */
  ONE = NEXT_BYTE + CODE,                   /* the same everywhere */
  FREE,                                     /* random layers play with the rest */
  WIDTH = 256
};

static const float one = 4; /* what stands at ONE */
/* What the sum of squares grows to, for the norms to undo: codes, `one`, and what is random. */
static const float squares_random = 16;

/* ---- Random numbers ------------------------------------------------------------------------ */

/* Evenly distributed, with this standard deviation. */
static void draw(random_source* random, float deviation, int64_t rows, int64_t columns,
                 float* numbers) {
  const float largest = deviation * sqrtf(3);
  for (int64_t i = 0; i < rows * columns; ++i) {
    numbers[i] = largest * ((float)(random_bits(random) >> 40) * 0x1p-23f - 1);
  }
}

static bool odd(unsigned bits) {
  bool parity = false;
  for (; bits != 0; bits &= bits - 1) parity = !parity;
  return parity;
}

/* A linear code: bit c of a byte's word is the parity of some of its bits. Drawn again until any
 * two words differ in at least a quarter of their bits. */
static void draw_codes(random_source* random, float codes[TOKENS][CODE]) {
  int least = 0;
  while (least < CODE / 4) {
    least = CODE;
    unsigned masks[CODE];
    for (int c = 0; c < CODE; ++c) masks[c] = (unsigned)(random_bits(random) & 0xff);
    for (unsigned byte = 0; byte < TOKENS; ++byte) {
      int ones = 0;
      for (int c = 0; c < CODE; ++c) {
        const bool bit = odd(byte & masks[c]);
        codes[byte][c] = bit ? -1.0f : 1.0f;
        ones += bit;
      }
      /* Of a linear code the difference of two words is a word. */
      if (byte > 0 && ones < least) least = ones;
    }
  }
}

/* ---- What is written by hand --------------------------------------------------------------- */

static void fill(float value, float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = value;
}

static float* row_of(float* matrix, int64_t row, int64_t width) { return matrix + row * width; }

/* A block [rows, columns] of a matrix whose rows are `width` long. */
static void clear(int64_t rows, int64_t columns, int64_t width, float* block) {
  for (int64_t r = 0; r < rows; ++r) fill(0, block + r * width, columns);
}

/* `value` on the diagonal from (row, column) on: copies a code. */
static void copy_code(float value, int64_t row, int64_t column, int64_t width, float* matrix) {
  for (int64_t c = 0; c < CODE; ++c) matrix[(row + c) * width + column + c] = value;
}

/* Query head h of layer 0 attends to the byte h + 1 before, whatever it is: keys are the same
 * everywhere until they are turned, and queries are turned back by h + 1 positions. */
static void look_back(layer_weights* l) {
  clear(WIDTH, FEATURES, KEYS, l->key);
  fill(20 / one, row_of(l->key, ONE, KEYS), ROTARY / 2);
  clear(WIDTH, CODE, KEYS, l->value);
  copy_code(1, THIS_BYTE, 0, KEYS, l->value);
  for (int64_t h = 0; h < BEFORE; ++h) {
    float* const query = l->query + h * FEATURES;
    clear(WIDTH, FEATURES, QUERIES, query);
    float* const back = row_of(query, ONE, QUERIES);
    for (int p = 0; p < ROTARY / 2; ++p) {
      const double angle = -(double)(h + 1) * pow(10000, -2.0 * p / (double)ROTARY);
      back[p] = 10 / one * (float)cos(angle);
      back[p + ROTARY / 2] = 10 / one * (float)sin(angle);
    }
    float* const out = row_of(l->out, h * FEATURES, WIDTH);
    clear(FEATURES, WIDTH, WIDTH, out);
    copy_code(1, 0, BYTES_BEFORE + h * CODE, WIDTH, out);
  }
}

/* Query head 0 of layer 1 asks where the latest bytes stood before, the later the more important,
 * and takes the byte that followed. These features are not turned. */
static void find_again(layer_weights* l) {
  static const float importance[BEFORE] = {12, 8, 6}; /* of a byte, in the score */
  clear(WIDTH, FEATURES, QUERIES, l->query);
  clear(WIDTH, FEATURES, KEYS, l->key);
  for (int64_t b = 0; b < BEFORE; ++b) {
    /* THIS_BYTE and BYTES_BEFORE lie side by side. */
    const float factor = importance[b] / (float)CODE * sqrtf((float)FEATURES);
    copy_code(factor, THIS_BYTE + b * CODE, ROTARY + b * CODE, QUERIES, l->query);
    copy_code(1, BYTES_BEFORE + b * CODE, ROTARY + b * CODE, KEYS, l->key);
  }
  clear(WIDTH, CODE, KEYS, l->value);
  copy_code(1, THIS_BYTE, 0, KEYS, l->value);
  clear(CODE, WIDTH, WIDTH, l->out);
  copy_code(1, 0, NEXT_BYTE, WIDTH, l->out);
}

/* How likely a byte is before the text has been looked at: letters and spaces, other characters,
 * the rest. */
static float prior(int64_t byte) {
  if (byte == ' ' || (byte >= 'a' && byte <= 'z')) return 0;
  if (byte == '\n' || (byte >= ' ' && byte <= '~')) return -4;
  return -8;
}

/* ---- The model ----------------------------------------------------------------------------- */

/* All random; what is added to a position goes to its free features only. */
static void draw_layer(random_source* random, const model_sizes* s, layer_weights* l) {
  const float in = 1 / sqrtf(WIDTH);
  draw(random, in, WIDTH, QUERIES, l->query);
  draw(random, in, WIDTH, KEYS, l->key);
  draw(random, in, WIDTH, KEYS, l->value);
  draw(random, 1 / sqrtf((float)QUERIES), QUERIES, WIDTH, l->out);
  clear(QUERIES, FREE, WIDTH, l->out);
  draw(random, in, WIDTH, s->hidden, l->gate);
  draw(random, in, WIDTH, s->hidden, l->up);
  draw(random, 1 / sqrtf((float)s->hidden), s->hidden, WIDTH, l->down);
  clear(s->hidden, FREE, WIDTH, l->down);
}

static void make_ends(random_source* random, model* m) {
  float codes[TOKENS][CODE];
  draw_codes(random, codes);
  const float free_features = WIDTH - FREE;
  draw(random, sqrtf(squares_random / free_features), TOKENS, WIDTH, m->embedding);
  clear(TOKENS, FREE, WIDTH, m->embedding);
  draw(random, 0.05f, WIDTH, TOKENS, m->unembedding);
  clear(FREE, TOKENS, TOKENS, m->unembedding);
  for (int64_t byte = 0; byte < TOKENS; ++byte) {
    float* const features = row_of(m->embedding, byte, WIDTH);
    features[ONE] = one;
    for (int c = 0; c < CODE; ++c) {
      features[THIS_BYTE + c] = codes[byte][c];
      /* A byte that certainly follows has a score of 12. */
      row_of(m->unembedding, NEXT_BYTE + c, TOKENS)[byte] = 12.0f / (float)CODE * codes[byte][c];
    }
    row_of(m->unembedding, ONE, TOKENS)[byte] = prior(byte) / one;
  }
}

bool model_make(uint64_t seed, int64_t layers, model* m) {
  const model_sizes sizes = {layers, WIDTH, QUERY_HEADS, KEY_HEADS, FEATURES, ROTARY, 256, 10000};
  m->sizes = sizes;
  if (!model_allocate(m)) return false;
  random_source random = {seed};
  make_ends(&random, m);
  float squares = (float)CODE + one * one + squares_random;
  for (int64_t i = 0; i < layers; ++i) {
    layer_weights* const l = &m->layers[i];
    draw_layer(&random, &sizes, l);
    fill(sqrtf(squares / (float)WIDTH), l->attention_norm, WIDTH);
    if (i == 0) look_back(l);
    if (i == 1) find_again(l);
    squares += i == 0 ? BEFORE * CODE : i == 1 ? CODE : 0;
    fill(sqrtf(squares / (float)WIDTH), l->gated_norm, WIDTH);
  }
  fill(sqrtf(squares / (float)WIDTH), m->out_norm, WIDTH);
  return true;
}
