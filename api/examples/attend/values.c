#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_integer(const char* name, const char* text, int64_t least, int64_t most,
                   int64_t* value) {
  char* end = NULL;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    fprintf(stderr, "attend: %s is '%s', not an integer\n", name, text);
    return false;
  }
  if (errno == ERANGE || number < least || number > most) {
    fprintf(stderr, "attend: %s is %s, not in %" PRId64 " ... %" PRId64 "\n", name, text, least,
            most);
    return false;
  }
  *value = number;
  return true;
}

bool value_pair(const char* name, const char* text, const char* meaning, int64_t least,
                int64_t* first, int64_t* second) {
  char* comma = NULL;
  char* end = NULL;
  errno = 0;
  const long long a = strtoll(text, &comma, 10);
  const long long b = comma != text && *comma == ',' ? strtoll(comma + 1, &end, 10) : 0;
  if (end == NULL || end == comma + 1 || *end != '\0' || errno == ERANGE) {
    fprintf(stderr, "attend: %s is '%s', not %s\n", name, text, meaning);
    return false;
  }
  if (a < least || b < least) {
    fprintf(stderr, "attend: %s is %s, with a number less than %" PRId64 "\n", name, text, least);
    return false;
  }
  *first = a;
  *second = b;
  return true;
}

bool value_number(const char* name, const char* text, double* value) {
  char* end = NULL;
  const double number = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(number)) {
    fprintf(stderr, "attend: %s is '%s', not a finite number\n", name, text);
    return false;
  }
  *value = number;
  return true;
}

bool value_offset(const char* name, const char* text, int* kind, int64_t* offset) {
  *offset = 0;
  if (strcmp(text, "top-left") == 0) {
    *kind = 1;
    return true;
  }
  if (strcmp(text, "bottom-right") == 0) {
    *kind = 2;
    return true;
  }
  char* end = NULL;
  errno = 0;
  *offset = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno == ERANGE) {
    fprintf(stderr, "attend: %s is '%s', not top-left, bottom-right or an integer offset\n", name,
            text);
    return false;
  }
  *kind = 3;
  return true;
}
