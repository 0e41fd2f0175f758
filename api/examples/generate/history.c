#include "history.h"

#include "say.h"

/* [batch, rows, heads, features] */
static heed_layout layout_of(int64_t rows, int64_t heads, int64_t features) {
  const heed_layout layout = {0, 0, rows * heads * features, features, heads * features, 1};
  return layout;
}

static heed_attention_desc describe(const history* h, int64_t rows) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  desc.batch = h->count;
  desc.query_heads = h->sizes->query_heads;
  desc.query_length = rows;
  desc.query = desc.out = layout_of(rows, h->sizes->query_heads, h->sizes->features);
  return desc;
}

static heed_rotary rotary_of(const model_sizes* s) {
  heed_rotary rotary = HEED_ROTARY_INIT;
  rotary.pairs = HEED_ROTARY_HALVES;
  rotary.features = s->rotary;
  rotary.base = s->base;
  return rotary;
}

/* ---- With a cache -------------------------------------------------------------------------- */

bool history_create(heed_dtype dtype, int64_t page_rows, int64_t pages, int64_t sequences,
                    history* h) {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  desc.dtype = dtype;
  desc.layers = h->sizes->layers;
  desc.key_heads = h->sizes->key_heads;
  desc.features = h->sizes->features;
  desc.page_rows = page_rows;
  desc.pages = pages;
  desc.sequences = sequences;
  desc.rotary = rotary_of(h->sizes);
  return succeeded(heed_cache_create(h->context, &desc, &h->cache));
}

/* Keys are turned as they go into the cache, queries as they attend. */
static bool attend_cache(const history* h, int64_t layer, int64_t rows, const float* query,
                         const float* key, const float* value, float* out) {
  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  append.layer = layer;
  append.rows = rows;
  const int64_t numbers = rows * h->sizes->key_heads * h->sizes->features;
  for (int64_t i = 0; i < h->count; ++i) {
    if (!succeeded(heed_cache_append(h->cache, h->sequences[i], &append, key + i * numbers,
                                     value + i * numbers))) {
      return false;
    }
  }
  const heed_attention_desc attention = describe(h, rows);
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.attention = &attention;
  desc.sequences = h->sequences;
  desc.layer = layer;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.out = out;
  return succeeded(heed_cache_attention(h->cache, &desc, &args));
}

/* ---- Without one --------------------------------------------------------------------------- */

static bool rotate(const history* h, int64_t rows, int64_t heads, float* numbers) {
  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  desc.batch = 1;
  desc.heads = heads;
  desc.rows = rows;
  desc.features = h->sizes->features;
  desc.from = desc.to = layout_of(rows, heads, h->sizes->features);
  desc.rotary = rotary_of(h->sizes);
  return succeeded(heed_rotate(h->context, &desc, numbers, NULL, numbers));
}

static bool attend_all(const history* h, int64_t rows, float* query, float* key, const float* value,
                       float* out) {
  if (!rotate(h, rows, h->sizes->query_heads, query)) return false;
  if (!rotate(h, rows, h->sizes->key_heads, key)) return false;
  heed_attention_desc desc = describe(h, rows);
  desc.features = h->sizes->features;
  desc.key_heads = h->sizes->key_heads;
  desc.key_length = rows;
  desc.key = desc.value = layout_of(rows, h->sizes->key_heads, h->sizes->features);
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;
  return succeeded(heed_attention(h->context, &desc, &args));
}

bool history_attend(const history* h, int64_t layer, int64_t rows, float* query, float* key,
                    const float* value, float* out) {
  return h->cache == NULL ? attend_all(h, rows, query, key, value, out)
                          : attend_cache(h, layer, rows, query, key, value, out);
}
