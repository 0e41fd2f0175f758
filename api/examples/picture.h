/* What rows attend, as a picture: one line for each row with its token, its weights from the first
 * key to the last, its largest weights and the tokens they are on. Shades are relative to the row's
 * largest weight.
 *
 *   own |+     :-.  @     |  weaker 0.16  sun 0.14  tide 0.13
 *
 * Where there are more keys than columns, a cell stands for a few neighbours, by the largest. */
#ifndef HEED_EXAMPLES_PICTURE_H
#define HEED_EXAMPLES_PICTURE_H

#include <stdint.h>

#include "tokens.h"

typedef struct picture {
  int64_t first_row;
  int64_t rows;
  int64_t keys;
  const float* weights;         /* [rows, keys] */
  const token_list* row_tokens; /* NULL: rows have no names but their numbers */
  const token_list* key_tokens; /* NULL: nor have keys */
} picture;

/* Prints the title, what the picture shows, and the lines. */
void picture_print(const picture* p, const char* title);

#endif /* HEED_EXAMPLES_PICTURE_H */
