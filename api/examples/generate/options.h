/* The command line of generate. */
#ifndef HEED_EXAMPLES_GENERATE_OPTIONS_H
#define HEED_EXAMPLES_GENERATE_OPTIONS_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_FORKS = 64 };

typedef struct options {
  bool help;
  /* What is to be made. */
  const char* make; /* NULL: text */
  int64_t layers;
  bool bfloat16;
  /* What is to be generated. */
  const char* model;
  const char* prompt; /* NULL: standard input, unless there is something to load */
  const char* save;   /* NULL: not given */
  const char* load;   /* NULL: not given */
  int64_t tokens;
  double temperature;
  int64_t forks;
  bool no_cache;
  const char* cache_name;
  heed_dtype cache;
  int64_t threads; /* 0: heed's choice */
  bool quiet;
  bool progress;
  /* Of both. */
  int64_t seed;
} options;

/* False after an error, which is then on stderr. */
bool options_read(int argc, char** argv, options* o);

extern const char options_help[];

#endif /* HEED_EXAMPLES_GENERATE_OPTIONS_H */
