/* The keys and values of the text so far: in a heed_cache, or made anew each time. */
#ifndef HEED_EXAMPLES_GENERATE_HISTORY_H
#define HEED_EXAMPLES_GENERATE_HISTORY_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>

#include "weights.h"

typedef struct history {
  const heed_context* context;
  const model_sizes* sizes;
  heed_cache* cache;              /* NULL: rows are all there is of a text */
  int64_t count;                  /* of sequences; 1 without a cache */
  const heed_sequence* sequences; /* [count] */
} history;

/* Sets h->cache, which can hold so many pages and sequences. False after an error, which is then on
 * stderr. */
bool history_create(heed_dtype dtype, int64_t page_rows, int64_t pages, int64_t sequences,
                    history* h);

/* Attention of one layer: `rows` new rows of each sequence, query and out [count, rows,
 * query_heads, features], key and value [count, rows, key_heads, features]. Without a cache query
 * and key are turned in place. False after an error, which is then on stderr. */
bool history_attend(const history* h, int64_t layer, int64_t rows, float* query, float* key,
                    const float* value, float* out);

#endif /* HEED_EXAMPLES_GENERATE_HISTORY_H */
