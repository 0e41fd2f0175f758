/* A model for the program to run without anything downloaded. Nothing in it has been learnt. */
#ifndef HEED_EXAMPLES_GENERATE_MAKE_H
#define HEED_EXAMPLES_GENERATE_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "weights.h"

/* Two layers whose first heads are written by hand: they find where the latest three bytes stood in
 * the text before, and propose the byte that followed there. All else is random numbers from the
 * seed, small enough not to drown that. The model must be zeroed; release it in any case. */
bool model_make(uint64_t seed, int64_t layers, model* m);

#endif /* HEED_EXAMPLES_GENERATE_MAKE_H */
