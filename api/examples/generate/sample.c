#include "sample.h"

#include <math.h>

#include "say.h"
#include "weights.h"

bool sample(const float* scores, double temperature, random_source* random, uint8_t* token) {
  int best = 0;
  for (int i = 0; i < TOKENS; ++i) {
    if (!isfinite(scores[i])) return failed("the model's score of byte %d is %g", i, scores[i]);
    if (scores[i] > scores[best]) best = i;
  }
  *token = (uint8_t)best;
  if (temperature == 0) return true;
  double sums[TOKENS]; /* of the probabilities up to each token, not normalised */
  double sum = 0;
  for (int i = 0; i < TOKENS; ++i) {
    sum += exp(((double)scores[i] - (double)scores[best]) / temperature);
    sums[i] = sum;
  }
  const double drawn = sum * random_uniform(random);
  int i = 0;
  while (i + 1 < TOKENS && sums[i] <= drawn) ++i;
  *token = (uint8_t)i;
  return true;
}
