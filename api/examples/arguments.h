/* Command lines of the form PROGRAM [--NAME VALUE | --NAME=VALUE | --FLAG]... [WORD], from a table
 * of what there is. */
#ifndef HEED_EXAMPLES_ARGUMENTS_H
#define HEED_EXAMPLES_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The exit statuses. */
enum { EXIT_WELL = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum argument_kind {
  ARGUMENT_FLAG,     /* value is a bool*, set to true */
  ARGUMENT_TEXT,     /* value is a const char** */
  ARGUMENT_INTEGER,  /* value is an int64_t*, from least to most */
  ARGUMENT_POSITIVE, /* value is a double*, 1e-38 to 1e38 */
  ARGUMENT_ZERO_UP   /* value is a double*, 0 or 1e-38 to 1e38 */
} argument_kind;

typedef struct argument {
  const char* name; /* with its dashes; one without them is the word that stands alone */
  argument_kind kind;
  void* value;
  int64_t least;
  int64_t most;
} argument;

/* Reads the command line into the values. False after an error, which is then on stderr. */
bool arguments_read(const char* program, const argument* known, size_t count, int argc,
                    char** argv);

#endif /* HEED_EXAMPLES_ARGUMENTS_H */
