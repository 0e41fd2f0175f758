/* Which options go together: attend_options_fit of options.h. */
#include <stdio.h>

#include "../files.h"
#include "options.h"

/* The files that must be named. */
static bool complete(const attend_options* options) {
  const char* missing = options->query == NULL   ? "--query"
                        : options->key == NULL   ? "--key"
                        : options->value == NULL ? "--value"
                        : options->out == NULL   ? "--out"
                                                 : NULL;
  if (missing != NULL) fprintf(stderr, "attend: %s is missing\n", missing);
  return missing == NULL;
}

static bool keeps_files(const attend_options* options) {
  const named_file files[] = {
      {"--query", options->query, false},   {"--key", options->key, false},
      {"--value", options->value, false},   {"--expect", options->expect, false},
      {"--tokens", options->tokens, false}, {"--out", options->out, true},
  };
  return files_are_apart("attend", files, sizeof files / sizeof *files);
}

static bool consistent(const attend_options* options) {
  const struct {
    bool wrong;
    const char* why;
  } rules[] = {
      {options->map_head < 0 && options->map_first >= 0, "--rows without --map"},
      {options->map_head < 0 && options->tokens != NULL, "--tokens without --map"},
      {options->tolerance >= 0 && options->expect == NULL, "--tolerance without --expect"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
    if (!rules[i].wrong) continue;
    fprintf(stderr, "attend: %s\n", rules[i].why);
    return false;
  }
  return true;
}

bool attend_options_fit(const attend_options* options) {
  return complete(options) && consistent(options) && keeps_files(options);
}
