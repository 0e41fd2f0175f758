#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file is: 6 bytes of magic, 2 of version, the length of the header (2 bytes in version 1.0,
 * 4 in 2.0, little-endian), the header as the text of a Python dict, and the data. */
static const unsigned char npy_magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Longer headers describe something else than a plain tensor; NumPy's own limit. */
#define MAX_HEADER 10000

/* The values of the header's three keys, as text. */
typedef struct header {
  char descr[128];
  char fortran_order[16];
  char shape[256];
} header;

static bool fail(npy_error* error, const char* path, const char* format, ...) {
  const int length = snprintf(error->text, sizeof error->text, "%s: ", path);
  if (length > 0 && (size_t)length < sizeof error->text) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text + length, sizeof error->text - (size_t)length, format, arguments);
    va_end(arguments);
  }
  /* Parts of the text can come from the file: nothing in it may steer a terminal. */
  for (char* c = error->text; *c != '\0'; ++c) {
    if (iscntrl((unsigned char)*c)) *c = '?';
  }
  return false;
}

int64_t npy_count(const npy_tensor* tensor) {
  const int64_t most = PTRDIFF_MAX / (int64_t)sizeof(float);
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

/* ---- Header -------------------------------------------------------------------------------- */

/* Copies the text up to one of `stops` that lies outside all quotes and brackets, without the
 * spaces around it, and leaves *at on the stop. What does not fit into `text` is left out. */
static bool take_until(const char** at, const char* stops, char* text, size_t size) {
  const char* begin = *at + strspn(*at, " \t\r\n");
  const char* c = begin;
  int depth = 0;
  char quote = '\0';
  for (; *c != '\0'; ++c) {
    if (quote == '\0' && depth == 0 && strchr(stops, *c) != NULL) break;
    if (quote != '\0') {
      if (*c == quote) quote = '\0';
    } else if (*c == '\'' || *c == '"') {
      quote = *c;
    } else if (*c == '(' || *c == '[') {
      ++depth;
    } else if (*c == ')' || *c == ']') {
      --depth;
    }
  }
  if (*c == '\0') return false;
  *at = c;
  size_t length = (size_t)(c - begin);
  while (length > 0 && isspace((unsigned char)begin[length - 1])) --length;
  if (length >= size) length = size - 1;
  memcpy(text, begin, length);
  text[length] = '\0';
  return true;
}

/* Python writes a string in either kind of quotes. */
static bool is_string(const char* text, const char* content) {
  const size_t length = strlen(content);
  return strlen(text) == length + 2 && (text[0] == '\'' || text[0] == '"') &&
         text[length + 1] == text[0] && memcmp(text + 1, content, length) == 0;
}

/* Splits {'descr': ..., 'fortran_order': ..., 'shape': ...}, in any order. */
static bool split_header(const char* at, header* result) {
  memset(result, 0, sizeof *result);
  at += strspn(at, " \t\r\n");
  if (*at++ != '{') return false;
  for (;;) {
    at += strspn(at, " \t\r\n");
    if (*at == '}') break;
    char key[32];
    if (!take_until(&at, ":", key, sizeof key)) return false;
    ++at;
    bool taken = false;
    if (is_string(key, "descr")) {
      taken = take_until(&at, ",}", result->descr, sizeof result->descr);
    } else if (is_string(key, "fortran_order")) {
      taken = take_until(&at, ",}", result->fortran_order, sizeof result->fortran_order);
    } else if (is_string(key, "shape")) {
      taken = take_until(&at, ",}", result->shape, sizeof result->shape);
    }
    if (!taken) return false;
    if (*at == ',') ++at;
  }
  ++at;
  at += strspn(at, " \t\r\n");
  return *at == '\0' && result->descr[0] != '\0' && result->fortran_order[0] != '\0' &&
         result->shape[0] != '\0';
}

/* Reads "(1, 12, 141, 32)" into tensor->rank and shape; the rank may come out as more than fits. */
static bool parse_shape(const char* path, const char* text, npy_tensor* tensor, npy_error* error) {
  const char* c = text;
  tensor->rank = 0;
  bool valid = *c++ == '(';
  while (valid) {
    c += strspn(c, " ");
    if (*c == ')') break;
    if (!isdigit((unsigned char)*c)) {
      valid = false;
      break;
    }
    char* end = NULL;
    errno = 0;
    const long long size = strtoll(c, &end, 10);
    if (errno == ERANGE) return fail(error, path, "shape %s is too large", text);
    if (tensor->rank < NPY_MAX_RANK) tensor->shape[tensor->rank] = size;
    ++tensor->rank;
    c = end + strspn(end, " ");
    if (*c == ',') {
      ++c;
    } else if (*c != ')') {
      valid = false;
    }
  }
  if (!valid || c[1] != '\0') return fail(error, path, "malformed shape %s in its header", text);
  return true;
}

/* Fills tensor->rank and shape, and accepts nothing that the data could not be read as. */
static bool parse_header(const char* path, const char* text, npy_tensor* tensor, npy_error* error) {
  header parts;
  if (!split_header(text, &parts)) {
    return fail(error, path, "malformed npy header: %.200s", text);
  }
  if (!is_string(parts.descr, "<f4")) {
    return fail(error, path, "dtype %s is not supported, only '<f4' (float32)", parts.descr);
  }
  if (strcmp(parts.fortran_order, "True") == 0) {
    return fail(error, path, "Fortran order is not supported, only C order");
  }
  if (strcmp(parts.fortran_order, "False") != 0) {
    return fail(error, path, "malformed fortran_order %s in its header", parts.fortran_order);
  }
  if (!parse_shape(path, parts.shape, tensor, error)) return false;
  if (tensor->rank < 2 || tensor->rank > NPY_MAX_RANK) {
    return fail(error, path, "shape %s has %d dimension%s, not 2 to %d", parts.shape, tensor->rank,
                tensor->rank == 1 ? "" : "s", NPY_MAX_RANK);
  }
  if (npy_count(tensor) < 0) return fail(error, path, "shape %s is too large", parts.shape);
  return true;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads up to `size` bytes; fewer are an error only if the system says so. */
static bool read_bytes(FILE* file, const char* path, void* bytes, size_t size, size_t* got,
                       npy_error* error) {
  errno = 0;
  *got = fread(bytes, 1, size, file);
  if (*got < size && ferror(file)) {
    return fail(error, path, "cannot be read: %s", strerror(errno));
  }
  return true;
}

static bool read_header(FILE* file, const char* path, npy_tensor* tensor, npy_error* error) {
  unsigned char start[12];
  size_t got = 0;
  if (!read_bytes(file, path, start, 8, &got, error)) return false;
  if (got < sizeof npy_magic || memcmp(start, npy_magic, sizeof npy_magic) != 0) {
    return fail(error, path, "not an npy file");
  }
  if (got < 8) return fail(error, path, "truncated: it ends in its header");
  if ((start[6] != 1 && start[6] != 2) || start[7] != 0) {
    return fail(error, path, "npy format version %d.%d is not supported, only 1.0 and 2.0",
                start[6], start[7]);
  }
  const size_t width = start[6] == 1 ? 2 : 4;
  if (!read_bytes(file, path, start + 8, width, &got, error)) return false;
  if (got < width) return fail(error, path, "truncated: it ends in its header");
  uint32_t length = 0;
  for (size_t i = width; i-- > 0;) length = length << 8 | start[8 + i];
  if (length > MAX_HEADER) {
    return fail(error, path, "header of %" PRIu32 " bytes, more than the limit of %d", length,
                MAX_HEADER);
  }

  char text[MAX_HEADER + 1];
  if (!read_bytes(file, path, text, length, &got, error)) return false;
  if (got < length) return fail(error, path, "truncated: it ends in its header");
  text[length] = '\0';
  return parse_header(path, text, tensor, error);
}

/* Where the file allows it, its size is checked before memory is asked for, so that a wrong shape
 * is reported as such. */
static bool check_size(FILE* file, const char* path, uint64_t needed, npy_error* error) {
  const long begin = ftell(file);
  if (begin < 0 || fseek(file, 0, SEEK_END) != 0) return true;
  const long end = ftell(file);
  if (end < begin || fseek(file, begin, SEEK_SET) != 0) {
    return fail(error, path, "cannot be read: %s", strerror(errno));
  }
  const uint64_t held = (uint64_t)(end - begin);
  if (held == needed) return true;
  return fail(error, path, "%s: its shape needs %" PRIu64 " bytes of data and it holds %" PRIu64,
              held < needed ? "truncated" : "too long", needed, held);
}

/* The floats were read as bytes, the least significant first: puts them into the host's order. */
static void decode(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    unsigned char bytes[4];
    memcpy(bytes, &values[i], sizeof bytes);
    const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                          (uint32_t)bytes[3] << 24;
    memcpy(&values[i], &bits, sizeof bits);
  }
}

static bool read_data(FILE* file, const char* path, npy_tensor* tensor, npy_error* error) {
  const size_t size = (size_t)npy_count(tensor) * sizeof(float);
  if (!check_size(file, path, size, error)) return false;
  tensor->data = malloc(size > 0 ? size : 1);
  if (tensor->data == NULL) return fail(error, path, "no memory for its %zu bytes of data", size);
  size_t got = 0;
  bool ok = read_bytes(file, path, tensor->data, size, &got, error);
  if (ok && got < size) {
    ok = fail(error, path, "truncated: its shape needs %zu bytes of data and it holds %zu", size,
              got);
  }
  if (ok) {
    decode(tensor->data, npy_count(tensor));
  } else {
    npy_release(tensor);
  }
  return ok;
}

bool npy_read(const char* path, npy_tensor* tensor, npy_error* error) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return fail(error, path, "cannot be opened: %s", strerror(errno));
  npy_tensor result = {NULL, 0, {0, 0, 0, 0}};
  const bool ok = read_header(file, path, &result, error) && read_data(file, path, &result, error);
  fclose(file);
  if (ok) *tensor = result;
  return ok;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static bool write_header(FILE* file, const npy_tensor* tensor) {
  char text[192];
  int length = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < tensor->rank; ++i) {
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%" PRId64, i > 0 ? ", " : "",
                       tensor->shape[i]);
  }
  length += snprintf(text + length, sizeof text - (size_t)length, "), }");
  /* Spaces and a newline, so that the data begins at a multiple of 64 bytes. */
  while ((10 + length + 1) % 64 != 0) text[length++] = ' ';
  text[length++] = '\n';

  const unsigned char start[4] = {1, 0, (unsigned char)(length & 0xff),
                                  (unsigned char)(length >> 8)};
  return fwrite(npy_magic, 1, sizeof npy_magic, file) == sizeof npy_magic &&
         fwrite(start, 1, sizeof start, file) == sizeof start &&
         fwrite(text, 1, (size_t)length, file) == (size_t)length;
}

static bool write_data(FILE* file, const float* values, int64_t count) {
  while (count > 0) {
    unsigned char bytes[4096];
    const size_t n = count < 1024 ? (size_t)count : 1024;
    for (size_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      memcpy(&bits, &values[i], sizeof bits);
      for (size_t b = 0; b < 4; ++b) bytes[4 * i + b] = (unsigned char)(bits >> 8 * b & 0xff);
    }
    if (fwrite(bytes, 4, n, file) != n) return false;
    values += n;
    count -= (int64_t)n;
  }
  return true;
}

bool npy_write(const char* path, const npy_tensor* tensor, npy_error* error) {
  const int64_t count = npy_count(tensor);
  if (tensor->rank < 2 || tensor->rank > NPY_MAX_RANK || count < 0) {
    return fail(error, path, "cannot be written: the tensor has no valid shape");
  }
  FILE* file = fopen(path, "wb");
  if (file == NULL) return fail(error, path, "cannot be written: %s", strerror(errno));
  errno = 0;
  const bool written = write_header(file, tensor) && write_data(file, tensor->data, count);
  const int cause = errno;
  /* The last bytes may fail to reach the disk only here. */
  if (fclose(file) != 0 || !written) {
    return fail(error, path, "cannot be written: %s", strerror(written ? errno : cause));
  }
  return true;
}
