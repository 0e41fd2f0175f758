#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy_header.h"

/* A file is: 6 bytes of magic, 2 of version, the length of the header (2 bytes in version 1.0,
 * 4 in 2.0, little-endian), the header as the text of a Python dict, and the data. */
static const unsigned char npy_magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Longer headers describe something else than a plain tensor; NumPy's own limit. */
#define MAX_HEADER 10000

size_t npy_size(npy_type type) {
  static const size_t sizes[] = {[NPY_F16] = 2, [NPY_F32] = 4, [NPY_F64] = 8, [NPY_BYTE] = 1};
  return sizes[type];
}

int64_t npy_count(const npy_tensor* tensor) {
  const int64_t most = PTRDIFF_MAX / (int64_t)sizeof(double); /* as the widest type */
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; ++i) {
    if (tensor->shape[i] != 0 && count > most / tensor->shape[i]) return -1;
    count *= tensor->shape[i];
  }
  return count;
}

void npy_release(npy_tensor* tensor) {
  free(tensor->data);
  tensor->data = NULL;
}

/* Files are little-endian: turns every element around on hosts that are not. */
static void reorder(void* data, size_t count, size_t size) {
  const uint16_t one = 1;
  if (*(const unsigned char*)&one == 1) return;
  unsigned char* element = data;
  for (size_t i = 0; i < count; ++i, element += size) {
    for (size_t low = 0, high = size - 1; low < high; ++low, --high) {
      const unsigned char byte = element[low];
      element[low] = element[high];
      element[high] = byte;
    }
  }
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads up to `size` bytes; fewer are an error only if the system says so. */
static bool read_bytes(FILE* file, const char* path, void* bytes, size_t size, size_t* got,
                       npy_error* error) {
  errno = 0;
  *got = fread(bytes, 1, size, file);
  if (*got < size && ferror(file)) {
    return npy_fail(error, path, "cannot be read: %s", strerror(errno));
  }
  return true;
}

static bool read_header(FILE* file, const char* path, npy_tensor* tensor, npy_error* error) {
  unsigned char start[12];
  size_t got = 0;
  if (!read_bytes(file, path, start, 8, &got, error)) return false;
  if (got == 0) return npy_fail(error, path, "empty, not an npy file");
  if (got < sizeof npy_magic || memcmp(start, npy_magic, sizeof npy_magic) != 0) {
    return npy_fail(error, path, "not an npy file");
  }
  if (got < 8) return npy_fail(error, path, "truncated: it ends in its header");
  if ((start[6] != 1 && start[6] != 2) || start[7] != 0) {
    return npy_fail(error, path, "npy format version %d.%d is not supported, only 1.0 and 2.0",
                    start[6], start[7]);
  }
  const size_t width = start[6] == 1 ? 2 : 4;
  if (!read_bytes(file, path, start + 8, width, &got, error)) return false;
  if (got < width) return npy_fail(error, path, "truncated: it ends in its header");
  uint32_t length = 0;
  for (size_t i = width; i-- > 0;) length = length << 8 | start[8 + i];
  if (length > MAX_HEADER) {
    return npy_fail(error, path, "header of %" PRIu32 " bytes, more than the limit of %d", length,
                    MAX_HEADER);
  }

  char text[MAX_HEADER + 1];
  if (!read_bytes(file, path, text, length, &got, error)) return false;
  if (got < length) return npy_fail(error, path, "truncated: it ends in its header");
  text[length] = '\0';
  return npy_parse_header(path, text, tensor, error);
}

/* Where the file allows it, its size is checked before memory is asked for, so that a wrong shape
 * is reported as such. */
static bool check_size(FILE* file, const char* path, uint64_t needed, npy_error* error) {
  const long begin = ftell(file);
  if (begin < 0 || fseek(file, 0, SEEK_END) != 0) return true;
  const long end = ftell(file);
  if (end < begin || fseek(file, begin, SEEK_SET) != 0) {
    return npy_fail(error, path, "cannot be read: %s", strerror(errno));
  }
  const uint64_t held = (uint64_t)(end - begin);
  if (held == needed) return true;
  return npy_fail(error, path,
                  "%s: its shape needs %" PRIu64 " bytes of data and it holds %" PRIu64,
                  held < needed ? "truncated" : "too long", needed, held);
}

static bool read_data(FILE* file, const char* path, npy_tensor* tensor, npy_error* error) {
  const size_t count = (size_t)npy_count(tensor);
  const size_t size = count * npy_size(tensor->type);
  if (!check_size(file, path, size, error)) return false;
  tensor->data = malloc(size > 0 ? size : 1);
  if (tensor->data == NULL)
    return npy_fail(error, path, "no memory for its %zu bytes of data", size);
  size_t got = 0;
  bool ok = read_bytes(file, path, tensor->data, size, &got, error);
  if (ok && got < size) {
    ok = npy_fail(error, path, "truncated: its shape needs %zu bytes of data and it holds %zu",
                  size, got);
  }
  if (ok) {
    reorder(tensor->data, count, npy_size(tensor->type));
  } else {
    npy_release(tensor);
  }
  return ok;
}

bool npy_read(const char* path, npy_tensor* tensor, npy_error* error) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return npy_fail(error, path, "cannot be opened: %s", strerror(errno));
  npy_tensor result = {NULL, NPY_F32, 0, {0, 0, 0, 0}};
  const bool ok = read_header(file, path, &result, error) && read_data(file, path, &result, error);
  fclose(file);
  if (ok) *tensor = result;
  return ok;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static bool write_header(FILE* file, const npy_tensor* tensor) {
  static const char* const descr[] = {
      [NPY_F16] = "<f2", [NPY_F32] = "<f4", [NPY_F64] = "<f8", [NPY_BYTE] = "|u1"};
  char text[192];
  int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        descr[tensor->type]);
  for (int i = 0; i < tensor->rank; ++i) {
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%" PRId64, i > 0 ? ", " : "",
                       tensor->shape[i]);
  }
  length +=
      snprintf(text + length, sizeof text - (size_t)length, "%s), }", tensor->rank == 1 ? "," : "");
  /* Spaces and a newline, so that the data begins at a multiple of 64 bytes. */
  while ((10 + length + 1) % 64 != 0) text[length++] = ' ';
  text[length++] = '\n';

  const unsigned char start[4] = {1, 0, (unsigned char)(length & 0xff),
                                  (unsigned char)(length >> 8)};
  return fwrite(npy_magic, 1, sizeof npy_magic, file) == sizeof npy_magic &&
         fwrite(start, 1, sizeof start, file) == sizeof start &&
         fwrite(text, 1, (size_t)length, file) == (size_t)length;
}

static bool write_data(FILE* file, const npy_tensor* tensor) {
  const size_t size = npy_size(tensor->type);
  size_t left = (size_t)npy_count(tensor);
  for (const unsigned char* from = tensor->data; left > 0;) {
    unsigned char bytes[4096];
    const size_t count = left < sizeof bytes / size ? left : sizeof bytes / size;
    memcpy(bytes, from, count * size);
    reorder(bytes, count, size);
    if (fwrite(bytes, size, count, file) != count) return false;
    from += count * size;
    left -= count;
  }
  return true;
}

bool npy_write(const char* path, const npy_tensor* tensor, npy_error* error) {
  if (tensor->rank < 1 || tensor->rank > NPY_MAX_RANK || npy_count(tensor) < 0) {
    return npy_fail(error, path, "cannot be written: the tensor has no valid shape or type");
  }
  FILE* file = fopen(path, "wb");
  if (file == NULL) return npy_fail(error, path, "cannot be written: %s", strerror(errno));
  errno = 0;
  const bool written = write_header(file, tensor) && write_data(file, tensor);
  const int cause = errno;
  /* The last bytes may fail to reach the disk only here. */
  if (fclose(file) != 0 || !written) {
    return npy_fail(error, path, "cannot be written: %s", strerror(written ? errno : cause));
  }
  return true;
}
