/* What is said on stderr. */
#ifndef HEED_EXAMPLES_GENERATE_SAY_H
#define HEED_EXAMPLES_GENERATE_SAY_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>

/* An error, as of printf; false. */
bool failed(const char* format, ...);

/* True for success; else heed's own words are on stderr. */
bool succeeded(heed_status status);

/* How far something has come: a line that is written over on a terminal, ten lines elsewhere. */
typedef struct progress {
  bool shown;
  bool terminal;
  int64_t told; /* tenths */
} progress;

void progress_show(progress* p, const char* what, int64_t done, int64_t total);
/* Takes the line away again, as errors do. */
void progress_end(progress* p);

/* Seconds since some moment. */
double seconds_now(void);

#endif /* HEED_EXAMPLES_GENERATE_SAY_H */
