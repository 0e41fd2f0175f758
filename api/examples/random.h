/* Random numbers that are the same everywhere for the same seed. */
#ifndef HEED_EXAMPLES_RANDOM_H
#define HEED_EXAMPLES_RANDOM_H

#include <stdint.h>

typedef struct random_source {
  uint64_t state; /* begins as the seed */
} random_source;

/* 64 random bits, by splitmix64 (Steele, Lea and Flood 2014). */
uint64_t random_bits(random_source* source);

/* Of [0, 1), in steps of 2^-53. */
double random_uniform(random_source* source);

/* An integer from 0 to count - 1. */
int32_t random_below(random_source* source, int32_t count);

/* Normally distributed with mean 0 and variance 1, by the formula of Box and Muller. */
double random_normal(random_source* source);

#endif /* HEED_EXAMPLES_RANDOM_H */
