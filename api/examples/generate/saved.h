/* A prompt that outlives the process: its tokens, then its keys and values as heed_cache_save_file
 * writes them. api/examples/README.md states the format. */
#ifndef HEED_EXAMPLES_GENERATE_SAVED_H
#define HEED_EXAMPLES_GENERATE_SAVED_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>

#include "bytes.h"

/* False after an error, which is then on stderr. */
bool saved_write(const char* path, uint64_t model, const uint8_t* tokens, int64_t count,
                 const heed_cache* cache, heed_sequence sequence);

/* Opens the file and reads its tokens, which say how large a cache must be; to be freed in any
 * case. What is truncated, foreign, altered or of another model is refused. */
bool saved_open(const char* path, uint64_t model, byte_file* f, uint8_t** tokens, int64_t* count);
/* The rest of an open file, which stays open: the keys and values of `count` tokens. */
bool saved_load(byte_file* f, int64_t count, heed_cache* cache, heed_sequence* sequence);

#endif /* HEED_EXAMPLES_GENERATE_SAVED_H */
