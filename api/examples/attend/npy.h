/* Tensors in NumPy's .npy files, as far as attention needs them: little-endian floats or bytes, C
 * order, rank 1 to 4, format version 1.0 or 2.0.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef HEED_EXAMPLES_NPY_H
#define HEED_EXAMPLES_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_MAX_RANK 4

typedef enum npy_type {
  NPY_F16,
  NPY_F32,
  NPY_F64,
  NPY_BYTE /* bool or uint8 */
} npy_type;

typedef struct npy_tensor {
  void* data; /* in C order; from malloc */
  npy_type type;
  int rank;
  int64_t shape[NPY_MAX_RANK]; /* the first `rank` count */
} npy_tensor;

/* "file: what is wrong with it"; long enough for any path. */
typedef struct npy_error {
  char text[5120];
} npy_error;

/* The bytes of one element. */
size_t npy_size(npy_type type);

/* The number of elements, or -1 if it or their size in bytes cannot be counted. */
int64_t npy_count(const npy_tensor* tensor);

/* Reads a file of any of the accepted kinds. *tensor is written only on success. */
bool npy_read(const char* path, npy_tensor* tensor, npy_error* error);

/* Writes format version 1.0, replacing the file; bytes as uint8. */
bool npy_write(const char* path, const npy_tensor* tensor, npy_error* error);

/* The element with this index in C order; exact. */
double npy_number(const npy_tensor* tensor, int64_t index);

/* A copy in float32, rounded to nearest even. False without memory for it. */
bool npy_to_f32(const npy_tensor* tensor, npy_tensor* copy);

/* Releases the data; a zeroed tensor is allowed. */
void npy_release(npy_tensor* tensor);

#endif /* HEED_EXAMPLES_NPY_H */
