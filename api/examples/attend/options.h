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
  double tolerance;   /* below 0: not given */

  heed_causal causal;
  int64_t causal_offset; /* with HEED_CAUSAL_OFFSET */
  double scale;          /* 0: 1 / sqrt(features) */

  int64_t map_head;  /* -1: no map */
  int64_t map_first; /* rows of the map, both ends included; -1: as many as look good */
  int64_t map_last;
  const char* tokens; /* file name; NULL: numbers */

  const char* isa;      /* NULL: heed chooses */
  const char* executor; /* NULL: heed chooses */
  uint32_t threads;     /* 0: heed chooses */
  int repeat;
  bool quiet;
} attend_options;

/* Reads the command line. False ends the program with *exit_status: after --help, or after an
 * error, which is then on stderr. */
bool attend_options_read(int argc, char** argv, attend_options* options, int* exit_status);

/* Whether all files that must be named are, no result replaces another file of the command line,
 * and no option contradicts another or means nothing without one; else the first that does not fit
 * is on stderr. */
bool attend_options_fit(const attend_options* options);

void attend_print_help(void);

#endif /* HEED_EXAMPLES_ATTEND_OPTIONS_H */
