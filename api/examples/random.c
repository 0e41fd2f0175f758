#include "random.h"

#include <math.h>

uint64_t random_bits(random_source* source) {
  uint64_t z = source->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

double random_uniform(random_source* source) {
  return (double)(random_bits(source) >> 11) * 0x1p-53;
}

int32_t random_below(random_source* source, int32_t count) {
  return (int32_t)(random_uniform(source) * (double)count);
}

double random_normal(random_source* source) {
  const double two_pi = 6.283185307179586;
  const double radius = sqrt(-2 * log(1 - random_uniform(source)));
  return radius * cos(two_pi * random_uniform(source));
}
