/* The command line of attend. */
#ifndef HEED_EXAMPLES_ATTEND_OPTIONS_H
#define HEED_EXAMPLES_ATTEND_OPTIONS_H

#include <heed.h>
#include <stdbool.h>

/* The exit statuses. */
enum { ATTEND_OK = 0, ATTEND_FAILED = 1, ATTEND_USAGE = 2 };

typedef struct attend_options {
  const char* query; /* file names */
  const char* key;
  const char* value;
  const char* out;
  const char* expect; /* NULL: nothing to compare with */
  double tolerance;
  heed_causal causal;
  int64_t causal_offset; /* with HEED_CAUSAL_OFFSET */
  double scale;          /* 0: 1 / sqrt(features) */
  const char* isa;       /* NULL: heed chooses */
  const char* executor;  /* NULL: heed chooses */
  uint32_t threads;      /* 0: heed chooses */
  int repeat;
  bool quiet;
} attend_options;

/* Reads the command line. False ends the program with *exit_status: after --help, or after an
 * error, which is then on stderr. */
bool attend_options_read(int argc, char** argv, attend_options* options, int* exit_status);

#endif /* HEED_EXAMPLES_ATTEND_OPTIONS_H */
