/* Tensors in NumPy's .npy files, as far as attention on float32 needs them: little-endian float32
 * ('<f4'), C order, rank 2 to 4, format version 1.0 or 2.0.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef HEED_EXAMPLES_NPY_H
#define HEED_EXAMPLES_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_MAX_RANK 4

typedef struct npy_tensor {
  float* data; /* in C order; from malloc */
  int rank;
  int64_t shape[NPY_MAX_RANK]; /* the first `rank` count */
} npy_tensor;

/* "file: what is wrong with it"; long enough for any path. */
typedef struct npy_error {
  char text[5120];
} npy_error;

/* The number of elements, or -1 if it or their size in bytes cannot be counted. */
int64_t npy_count(const npy_tensor* tensor);

/* Reads a file of any of the accepted kinds. *tensor is written only on success. */
bool npy_read(const char* path, npy_tensor* tensor, npy_error* error);

/* Writes format version 1.0, replacing the file. */
bool npy_write(const char* path, const npy_tensor* tensor, npy_error* error);

/* Releases the data; a zeroed tensor is allowed. */
void npy_release(npy_tensor* tensor);

#endif /* HEED_EXAMPLES_NPY_H */
