/* Steps of Adam (Kingma and Ba 2015), for programs that learn. */
#ifndef HEED_EXAMPLES_ADAM_H
#define HEED_EXAMPLES_ADAM_H

#include <math.h>

/* Step `step`, from 1 on, of so many parameters: against their gradient, each as far as the mean of
 * its gradients says. The means, and those of squares, begin as 0. */
static inline void adam_step(int step, double rate, int count, float* parameters,
                             const float* gradient, float* mean, float* mean_square) {
  for (int i = 0; i < count; ++i) {
    mean[i] += 0.1f * (gradient[i] - mean[i]);
    mean_square[i] += 0.01f * (gradient[i] * gradient[i] - mean_square[i]);
    const double scale = sqrt(mean_square[i] / (1 - pow(0.99, step))) + 1e-8;
    parameters[i] -= (float)(rate * (mean[i] / (1 - pow(0.9, step))) / scale);
  }
}

#endif /* HEED_EXAMPLES_ADAM_H */
