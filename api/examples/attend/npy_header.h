/* The header of an .npy file: the text of a Python dict. Only for npy.c. */
#ifndef HEED_EXAMPLES_NPY_HEADER_H
#define HEED_EXAMPLES_NPY_HEADER_H

#include "npy.h"

/* Fills tensor->type, rank and shape, and accepts nothing that the data could not be read as. */
bool npy_parse_header(const char* path, const char* text, npy_tensor* tensor, npy_error* error);

/* Says what is wrong with the file; false. */
bool npy_fail(npy_error* error, const char* path, const char* format, ...);

#endif /* HEED_EXAMPLES_NPY_HEADER_H */
