#include "arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The argument that a text names, up to a '=' or its end. */
static const argument* find(const argument* known, size_t count, const char* text) {
  const size_t length = strcspn(text, "=");
  for (size_t i = 0; i < count; ++i) {
    if (strlen(known[i].name) == length && strncmp(known[i].name, text, length) == 0) {
      return &known[i];
    }
  }
  return NULL;
}

static const argument* find_word(const argument* known, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (known[i].name[0] != '-') return &known[i];
  }
  return NULL;
}

static bool take_integer(const char* program, const argument* a, const char* text) {
  char* end = NULL;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    fprintf(stderr, "%s: %s is '%s', not an integer\n", program, a->name, text);
    return false;
  }
  if (errno == ERANGE || number < a->least || number > a->most) {
    fprintf(stderr, "%s: %s is %s, not in %" PRId64 " ... %" PRId64 "\n", program, a->name, text,
            a->least, a->most);
    return false;
  }
  *(int64_t*)a->value = number;
  return true;
}

static bool take_real(const char* program, const argument* a, const char* text) {
  char* end = NULL;
  const double number = strtod(text, &end);
  const bool zero = a->kind == ARGUMENT_ZERO_UP && number == 0;
  if (end == text || *end != '\0' || !(zero || (number >= 1e-38 && number <= 1e38))) {
    fprintf(stderr, "%s: %s is '%s', not %s, in 1e-38 ... 1e38\n", program, a->name, text,
            a->kind == ARGUMENT_ZERO_UP ? "0 or a number above" : "a number above 0");
    return false;
  }
  *(double*)a->value = number;
  return true;
}

static bool take(const char* program, const argument* a, const char* text) {
  switch (a->kind) {
    case ARGUMENT_INTEGER:
      return take_integer(program, a, text);
    case ARGUMENT_POSITIVE:
    case ARGUMENT_ZERO_UP:
      return take_real(program, a, text);
    default:
      *(const char**)a->value = text;
      return true;
  }
}

/* Takes the option at argv[*at] and what belongs to it. */
static bool take_option(const char* program, const argument* known, size_t count, int argc,
                        char** argv, int* at) {
  const char* const text = argv[*at];
  const argument* const a = find(known, count, text);
  const char* const equals = strchr(text, '=');
  if (a == NULL) {
    fprintf(stderr, "%s: unknown option '%s'\n", program, text);
    return false;
  }
  if (a->kind == ARGUMENT_FLAG) {
    if (equals != NULL) {
      fprintf(stderr, "%s: %s takes no value\n", program, a->name);
      return false;
    }
    *(bool*)a->value = true;
    return true;
  }
  if (equals != NULL) return take(program, a, equals + 1);
  if (*at + 1 == argc) {
    fprintf(stderr, "%s: %s needs a value\n", program, a->name);
    return false;
  }
  return take(program, a, argv[++*at]);
}

bool arguments_read(const char* program, const argument* known, size_t count, int argc,
                    char** argv) {
  const argument* word = find_word(known, count);
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      if (!take_option(program, known, count, argc, argv, &i)) return false;
    } else if (word == NULL) {
      fprintf(stderr, "%s: unexpected argument '%s'\n", program, argv[i]);
      return false;
    } else {
      if (!take(program, word, argv[i])) return false;
      word = NULL; /* there is one */
    }
  }
  return true;
}
