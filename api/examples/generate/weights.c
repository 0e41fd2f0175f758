#include "weights.h"

#include <errno.h>
#include <heed.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "say.h"

/* ---- Sizes --------------------------------------------------------------------------------- */

enum { VERSION = 1, MOST = 65536, NUMBERS_AT_ONCE = 16384 };

/* Beyond this they would hardly be meant; and their number fits in 64 bits. */
static const double MOST_NUMBERS = 1e11;

static bool check_sizes(const char* path, const model_sizes* s) {
  const struct {
    const char* name;
    int64_t value;
  } named[] = {{"layers", s->layers},           {"width", s->width},
               {"query heads", s->query_heads}, {"key heads", s->key_heads},
               {"features", s->features},       {"rotary features", s->rotary},
               {"hidden features", s->hidden}};
  for (size_t i = 0; i < sizeof named / sizeof *named; ++i) {
    if (named[i].value >= 1 && named[i].value <= MOST) continue;
    return failed("%s: it has %" PRId64 " %s, not 1 to %d", path, named[i].value, named[i].name,
                  MOST);
  }
  if (s->query_heads % s->key_heads != 0) {
    return failed("%s: its %" PRId64 " query heads are no multiple of its %" PRId64 " key heads",
                  path, s->query_heads, s->key_heads);
  }
  if (s->rotary % 2 != 0 || s->rotary > s->features) {
    return failed("%s: rotary embedding turns %" PRId64
                  " features, not an even number up to %" PRId64,
                  path, s->rotary, s->features);
  }
  if (!(s->base > 0 && isfinite(s->base))) {
    return failed("%s: the base of its rotary embedding is %g, not above 0 and finite", path,
                  s->base);
  }
  const double numbers = (double)s->layers * (double)s->width *
                         (2.0 * (double)(s->query_heads + s->key_heads) * (double)s->features +
                          3.0 * (double)s->hidden);
  return numbers <= MOST_NUMBERS ||
         failed("%s: its sizes make %.3g weights, more than %.3g", path, numbers, MOST_NUMBERS);
}

/* ---- In memory ----------------------------------------------------------------------------- */

/* The next `size` numbers; none while they are only counted. */
static float* take(model* m, int64_t rows, int64_t columns) {
  float* const at = m->numbers == NULL ? NULL : m->numbers + m->count;
  m->count += (size_t)(rows * columns);
  return at;
}

/* The order of the file. */
static void place(model* m) {
  const model_sizes* const s = &m->sizes;
  const int64_t queries = s->query_heads * s->features;
  const int64_t keys = s->key_heads * s->features;
  m->count = 0;
  m->embedding = take(m, TOKENS, s->width);
  for (int64_t i = 0; i < s->layers; ++i) {
    layer_weights* const l = &m->layers[i];
    l->attention_norm = take(m, 1, s->width);
    l->query = take(m, s->width, queries);
    l->key = take(m, s->width, keys);
    l->value = take(m, s->width, keys);
    l->out = take(m, queries, s->width);
    l->gated_norm = take(m, 1, s->width);
    l->gate = take(m, s->width, s->hidden);
    l->up = take(m, s->width, s->hidden);
    l->down = take(m, s->hidden, s->width);
  }
  m->out_norm = take(m, 1, s->width);
  m->unembedding = take(m, s->width, TOKENS);
}

bool model_allocate(model* m) {
  m->layers = calloc((size_t)m->sizes.layers, sizeof *m->layers);
  if (m->layers == NULL) return failed("no memory for the model");
  place(m); /* counts */
  if (m->count > 0) m->numbers = malloc(m->count * sizeof *m->numbers);
  if (m->numbers == NULL) return failed("no memory for the model's %zu weights", m->count);
  place(m);
  return true;
}

void model_release(model* m) {
  free(m->layers);
  free(m->numbers);
}

/* ---- In a file ----------------------------------------------------------------------------- */

static const char magic[] = "heed-gen"; /* 8 bytes, and an end that is not written */

enum {
  AT_VERSION = 8,
  AT_TYPE = 12,
  AT_LAYERS = 16,
  AT_WIDTH = 20,
  AT_QUERY_HEADS = 24,
  AT_KEY_HEADS = 28,
  AT_FEATURES = 32,
  AT_ROTARY = 36,
  AT_HIDDEN = 40,
  AT_BASE = 44,
  HEADER = 52
};

static int64_t size_at(const uint8_t* bytes) { return (int64_t)number_at(bytes, 4); }

static void put_size(int64_t size, uint8_t* bytes) { put_number((uint64_t)size, 4, bytes); }

static bool read_header(byte_file* f, model_sizes* s, bool* bfloat16) {
  uint8_t header[HEADER];
  if (!bytes_read(f, header, AT_VERSION)) return false;
  if (memcmp(header, magic, sizeof magic - 1) != 0) {
    return failed("%s: it is no model of this program", f->path);
  }
  if (!bytes_read(f, header + AT_VERSION, HEADER - AT_VERSION)) return false;
  const uint64_t version = number_at(header + AT_VERSION, 4);
  const uint64_t type = number_at(header + AT_TYPE, 4);
  if (version != VERSION) {
    return failed("%s: its version is %" PRIu64 ", this program knows %d", f->path, version,
                  VERSION);
  }
  if (type != HEED_DTYPE_F32 && type != HEED_DTYPE_BF16) {
    return failed("%s: its type is %" PRIu64 ", not %d, float32, or %d, bfloat16", f->path, type,
                  HEED_DTYPE_F32, HEED_DTYPE_BF16);
  }
  *bfloat16 = type == HEED_DTYPE_BF16;
  s->layers = size_at(header + AT_LAYERS);
  s->width = size_at(header + AT_WIDTH);
  s->query_heads = size_at(header + AT_QUERY_HEADS);
  s->key_heads = size_at(header + AT_KEY_HEADS);
  s->features = size_at(header + AT_FEATURES);
  s->rotary = size_at(header + AT_ROTARY);
  s->hidden = size_at(header + AT_HIDDEN);
  const uint64_t base = number_at(header + AT_BASE, 8);
  memcpy(&s->base, &base, sizeof base);
  return check_sizes(f->path, s);
}

static void numbers_from_bytes(const uint8_t* bytes, size_t size, size_t count, float* numbers) {
  for (size_t i = 0; i < count; ++i) {
    /* bfloat16 is the upper half of float32. */
    const uint32_t bits = (uint32_t)number_at(bytes + i * size, size) << (8 * (4 - size));
    memcpy(&numbers[i], &bits, sizeof bits);
  }
}

static void bytes_from_numbers(const float* numbers, size_t count, size_t size, uint8_t* bytes) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    if (size == 2) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to nearest even */
    put_number(bits, size, bytes + i * size);
  }
}

/* Numbers between file and memory, some at a time. */
static bool transfer(byte_file* f, bool writes, size_t size, model* m) {
  uint8_t* const bytes = malloc(NUMBERS_AT_ONCE * size);
  bool ok = bytes != NULL || failed("no memory");
  for (size_t at = 0; ok && at < m->count; at += NUMBERS_AT_ONCE) {
    const size_t left = m->count - at;
    const size_t count = left < NUMBERS_AT_ONCE ? left : NUMBERS_AT_ONCE;
    if (writes) bytes_from_numbers(m->numbers + at, count, size, bytes);
    ok = writes ? bytes_write(f, bytes, count * size) : bytes_read(f, bytes, count * size);
    if (ok && !writes) numbers_from_bytes(bytes, size, count, m->numbers + at);
  }
  free(bytes);
  return ok;
}

bool model_read(const char* path, model* m) {
  byte_file f = {0};
  bool bfloat16 = false;
  const bool ok = bytes_open(path, "rb", &f) && read_header(&f, &m->sizes, &bfloat16) &&
                  model_allocate(m) && transfer(&f, false, bfloat16 ? 2 : 4, m) &&
                  bytes_read_checksum(&f) && bytes_read_end(&f);
  m->checksum = f.checksum;
  return bytes_close(ok, &f);
}

bool model_write(const char* path, bool bfloat16, model* m) {
  uint8_t header[HEADER] = {0};
  memcpy(header, magic, sizeof magic - 1);
  put_number(VERSION, 4, header + AT_VERSION);
  put_number(bfloat16 ? HEED_DTYPE_BF16 : HEED_DTYPE_F32, 4, header + AT_TYPE);
  put_size(m->sizes.layers, header + AT_LAYERS);
  put_size(m->sizes.width, header + AT_WIDTH);
  put_size(m->sizes.query_heads, header + AT_QUERY_HEADS);
  put_size(m->sizes.key_heads, header + AT_KEY_HEADS);
  put_size(m->sizes.features, header + AT_FEATURES);
  put_size(m->sizes.rotary, header + AT_ROTARY);
  put_size(m->sizes.hidden, header + AT_HIDDEN);
  uint64_t base;
  memcpy(&base, &m->sizes.base, sizeof base);
  put_number(base, 8, header + AT_BASE);
  byte_file f = {0};
  const bool ok = bytes_open(path, "wb", &f) && bytes_write(&f, header, HEADER) &&
                  transfer(&f, true, bfloat16 ? 2 : 4, m) && bytes_write_checksum(&f);
  m->checksum = f.checksum;
  return bytes_close(ok, &f);
}
