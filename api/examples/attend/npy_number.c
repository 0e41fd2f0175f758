/* Numbers of the types that tensors have. */
#include <math.h>
#include <stdlib.h>

#include "npy.h"

/* Of float16: sign, 5 bits of exponent, 10 of mantissa. */
static double widen(uint16_t bits) {
  const int mantissa = bits & 0x3ff;
  const int exponent = bits >> 10 & 0x1f;
  double number;
  if (exponent == 0x1f) {
    number = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    number = ldexp(mantissa, -24);
  } else {
    number = ldexp(mantissa + 0x400, exponent - 25);
  }
  return bits >> 15 != 0 ? -number : number;
}

double npy_number(const npy_tensor* tensor, int64_t index) {
  switch (tensor->type) {
    case NPY_F32:
      return ((const float*)tensor->data)[index];
    case NPY_F64:
      return ((const double*)tensor->data)[index];
    case NPY_F16:
      return widen(((const uint16_t*)tensor->data)[index]);
    default:
      return ((const uint8_t*)tensor->data)[index];
  }
}

bool npy_to_f32(const npy_tensor* tensor, npy_tensor* copy) {
  const int64_t count = npy_count(tensor);
  float* const numbers = malloc(count > 0 ? (size_t)count * sizeof *numbers : 1);
  if (numbers == NULL) return false;
  for (int64_t i = 0; i < count; ++i) numbers[i] = (float)npy_number(tensor, i);
  *copy = *tensor;
  copy->type = NPY_F32;
  copy->data = numbers;
  return true;
}
