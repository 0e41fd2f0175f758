/* The weights of one head, drawn. */
#ifndef HEED_EXAMPLES_ATTEND_MAP_H
#define HEED_EXAMPLES_ATTEND_MAP_H

#include "../tokens.h"
#include "options.h"
#include "problem.h"

typedef struct attend_map {
  int64_t head;
  int64_t first_row;
  int64_t rows;
  int64_t keys;
  float* weights; /* [rows, keys] */
  token_list tokens;
  const token_list* key_tokens; /* NULL: keys have no names but their numbers */
  const token_list* row_tokens; /* NULL: nor have rows */
} attend_map;

/* Checks what the command line says about the map, before anything is computed. The map must be
 * zeroed; release it in any case. False after an error, which is then on stderr. */
bool attend_map_prepare(const attend_options* options, const heed_attention_desc* desc,
                        attend_map* map);

/* Computes the weights and draws them. */
bool attend_map_draw(const heed_context* context, const attend_problem* problem, attend_map* map);

void attend_map_release(attend_map* map);

#endif /* HEED_EXAMPLES_ATTEND_MAP_H */
