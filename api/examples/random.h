/* Random numbers that are the same everywhere for the same seed. */
#ifndef HEED_EXAMPLES_RANDOM_H
#define HEED_EXAMPLES_RANDOM_H

#include <math.h>
#include <stdint.h>

/* 64 random bits, by splitmix64 (Steele, Lea and Flood 2014). The state begins as the seed. */
static inline uint64_t random_bits(uint64_t* state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* A number of [0, 1), in steps of 2^-53. */
static inline double random_uniform(uint64_t* state) {
  return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* An integer from 0 to count - 1. */
static inline int32_t random_below(uint64_t* state, int32_t count) {
  return (int32_t)(random_uniform(state) * (double)count);
}

/* Normally distributed with mean 0 and variance 1, by the formula of Box and Muller. */
static inline double random_normal(uint64_t* state) {
  const double radius = sqrt(-2 * log(1 - random_uniform(state)));
  return radius * cos(6.283185307179586 * random_uniform(state));
}

#endif /* HEED_EXAMPLES_RANDOM_H */
