#define _POSIX_C_SOURCE 200112L /* clock_gettime */

#include "say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* A line of progress stands on the terminal. */
static bool line;

static void take_line_away(void) {
  if (line) fputs("\r\033[K", stderr);
  line = false;
}

bool failed(const char* format, ...) {
  take_line_away();
  va_list arguments;
  va_start(arguments, format);
  fputs("generate: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return false;
}

bool succeeded(heed_status status) {
  if (status == HEED_STATUS_OK) return true;
  return failed("%s: %s", heed_status_name(status), heed_last_error());
}

void progress_show(progress* p, const char* what, int64_t done, int64_t total) {
  if (!p->shown) return;
  if (p->terminal) {
    fprintf(stderr, "\r%s: %" PRId64 " of %" PRId64 " ", what, done, total);
    line = true;
    return;
  }
  const int64_t tenths = 10 * done / total;
  if (tenths != p->told) fprintf(stderr, "%s: %" PRId64 " of %" PRId64 "\n", what, done, total);
  p->told = tenths;
}

void progress_end(progress* p) {
  take_line_away();
  p->told = 0;
}

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
