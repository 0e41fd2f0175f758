/* From scores to the next token. */
#ifndef HEED_EXAMPLES_GENERATE_SAMPLE_H
#define HEED_EXAMPLES_GENERATE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../random.h"

/* The token of the largest score at temperature 0, the first of equal ones; above, any with
 * probability e^(score / temperature) over the sum of these, for one random number. False if a
 * score is not finite, which is then on stderr. */
bool sample(const float* scores, double temperature, random_source* random, uint8_t* token);

#endif /* HEED_EXAMPLES_GENERATE_SAMPLE_H */
