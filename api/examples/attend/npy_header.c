#include "npy_header.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool npy_fail(npy_error* error, const char* path, const char* format, ...) {
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

/* The values of the header's three keys, as text. */
typedef struct header {
  char descr[128];
  char fortran_order[16];
  char shape[256];
} header;

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
    if (errno == ERANGE) return npy_fail(error, path, "shape %s is too large", text);
    if (tensor->rank < NPY_MAX_RANK) tensor->shape[tensor->rank] = size;
    ++tensor->rank;
    c = end + strspn(end, " ");
    if (*c == ',') {
      ++c;
    } else if (*c != ')') {
      valid = false;
    }
  }
  if (valid && c[1] == '\0') return true;
  return npy_fail(error, path, "malformed shape %s in its header", text);
}

static bool parse_type(const char* path, const char* text, npy_type* type, npy_error* error) {
  static const struct {
    const char* descr;
    npy_type type;
  } known[] = {
      {"<f2", NPY_F16}, {"<f4", NPY_F32}, {"<f8", NPY_F64}, {"|b1", NPY_BYTE}, {"|u1", NPY_BYTE}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (is_string(text, known[i].descr)) {
      *type = known[i].type;
      return true;
    }
  }
  return npy_fail(error, path,
                  "dtype %s is not supported, only '<f2', '<f4', '<f8', '|b1' and '|u1'", text);
}

bool npy_parse_header(const char* path, const char* text, npy_tensor* tensor, npy_error* error) {
  header parts;
  if (!split_header(text, &parts)) {
    return npy_fail(error, path, "malformed npy header: %.200s", text);
  }
  if (!parse_type(path, parts.descr, &tensor->type, error)) return false;
  if (strcmp(parts.fortran_order, "True") == 0) {
    return npy_fail(error, path,
                    "Fortran order is not supported, only C order (numpy.ascontiguousarray)");
  }
  if (strcmp(parts.fortran_order, "False") != 0) {
    return npy_fail(error, path, "malformed fortran_order %s in its header", parts.fortran_order);
  }
  if (!parse_shape(path, parts.shape, tensor, error)) return false;
  if (tensor->rank < 1 || tensor->rank > NPY_MAX_RANK) {
    return npy_fail(error, path, "shape %s has %d dimensions, not 1 to %d", parts.shape,
                    tensor->rank, NPY_MAX_RANK);
  }
  if (npy_count(tensor) < 0) return npy_fail(error, path, "shape %s is too large", parts.shape);
  return true;
}
