/* Numbers of the types that tensors have. */
#include <math.h>
#include <stdlib.h>

#include "npy.h"

/* A float of 16 bits: sign, exponent, mantissa. The largest exponent is that of infinity and NaN.
 */
typedef struct format {
  int exponent_bits;
  int mantissa_bits;
} format;

static const format float16 = {5, 10};
static const format bfloat16 = {8, 7};

static double widen(uint16_t bits, format f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const int exponent = bits >> f.mantissa_bits & ((1 << f.exponent_bits) - 1);
  double number;
  if (exponent == (1 << f.exponent_bits) - 1) {
    number = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    number = ldexp(mantissa, 1 - bias - f.mantissa_bits);
  } else {
    number = ldexp(mantissa + (1 << f.mantissa_bits), exponent - bias - f.mantissa_bits);
  }
  return bits >> 15 != 0 ? -number : number;
}

/* Rounds to nearest, ties to even. */
static uint16_t narrow(double number, format f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const unsigned infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const unsigned sign = signbit(number) ? 0x8000u : 0;
  if (isnan(number)) return (uint16_t)(sign | infinity | 1u << (f.mantissa_bits - 1));
  if (isinf(number)) return (uint16_t)(sign | infinity);
  /* The mantissa in units of its last place, which stays put below the smallest normal number. A
   * mantissa that rounds up to the next power of two carries into the exponent by itself. */
  int exponent = number == 0 ? 1 - bias : ilogb(number);
  if (exponent < 1 - bias) exponent = 1 - bias;
  const double mantissa = nearbyint(ldexp(fabs(number), f.mantissa_bits - exponent));
  if (exponent > bias) return (uint16_t)(sign | infinity);
  const unsigned bits = ((unsigned)(exponent + bias - 1) << f.mantissa_bits) + (unsigned)mantissa;
  return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

double npy_number(const npy_tensor* tensor, int64_t index) {
  switch (tensor->type) {
    case NPY_F32:
      return ((const float*)tensor->data)[index];
    case NPY_F64:
      return ((const double*)tensor->data)[index];
    case NPY_F16:
      return widen(((const uint16_t*)tensor->data)[index], float16);
    case NPY_BF16:
      return widen(((const uint16_t*)tensor->data)[index], bfloat16);
    default:
      return ((const uint8_t*)tensor->data)[index];
  }
}

static void set_number(npy_tensor* tensor, int64_t index, double number) {
  switch (tensor->type) {
    case NPY_F32:
      ((float*)tensor->data)[index] = (float)number;
      break;
    case NPY_F64:
      ((double*)tensor->data)[index] = number;
      break;
    case NPY_F16:
      ((uint16_t*)tensor->data)[index] = narrow(number, float16);
      break;
    case NPY_BF16:
      ((uint16_t*)tensor->data)[index] = narrow(number, bfloat16);
      break;
    default:
      ((uint8_t*)tensor->data)[index] = number != 0;
      break;
  }
}

bool npy_convert(const npy_tensor* tensor, npy_type type, npy_tensor* copy) {
  const int64_t count = npy_count(tensor);
  npy_tensor result = *tensor;
  result.type = type;
  result.data = malloc(count > 0 ? (size_t)count * npy_size(type) : 1);
  if (result.data == NULL) return false;
  for (int64_t i = 0; i < count; ++i) set_number(&result, i, npy_number(tensor, i));
  *copy = result;
  return true;
}
