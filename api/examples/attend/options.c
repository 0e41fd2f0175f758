#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "values.h"

#define MAX_REPEAT 1000000
#define MAX_THREADS 1024 /* heed's own limit */

enum {
  OPTION_QUERY = 256,
  OPTION_KEY,
  OPTION_VALUE,
  OPTION_OUT,
  OPTION_EXPECT,
  OPTION_TOLERANCE,
  OPTION_CAUSAL,
  OPTION_SCALE,
  OPTION_MAP,
  OPTION_ROWS,
  OPTION_TOKENS,
  OPTION_ISA,
  OPTION_EXECUTOR,
  OPTION_THREADS,
  OPTION_REPEAT,
  OPTION_QUIET,
  OPTION_HELP
};

static const struct option known_options[] = {
    {"query", required_argument, NULL, OPTION_QUERY},
    {"key", required_argument, NULL, OPTION_KEY},
    {"value", required_argument, NULL, OPTION_VALUE},
    {"out", required_argument, NULL, OPTION_OUT},
    {"expect", required_argument, NULL, OPTION_EXPECT},
    {"tolerance", required_argument, NULL, OPTION_TOLERANCE},
    {"causal", required_argument, NULL, OPTION_CAUSAL},
    {"scale", required_argument, NULL, OPTION_SCALE},
    {"map", required_argument, NULL, OPTION_MAP},
    {"rows", required_argument, NULL, OPTION_ROWS},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"isa", required_argument, NULL, OPTION_ISA},
    {"executor", required_argument, NULL, OPTION_EXECUTOR},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0}};

/* Where the text of an option goes that needs no reading; NULL for the others. */
static const char** text_of(int option, attend_options* options) {
  switch (option) {
    case OPTION_QUERY:
      return &options->query;
    case OPTION_KEY:
      return &options->key;
    case OPTION_VALUE:
      return &options->value;
    case OPTION_OUT:
      return &options->out;
    case OPTION_EXPECT:
      return &options->expect;
    case OPTION_TOKENS:
      return &options->tokens;
    case OPTION_ISA:
      return &options->isa;
    case OPTION_EXECUTOR:
      return &options->executor;
    default:
      return NULL;
  }
}

/* ---- Options that mean something to heed ----------------------------------------------------- */

static bool take_causal(const char* text, attend_options* options) {
  int kind = 0;
  if (!value_offset("--causal", text, &kind, &options->causal_offset)) return false;
  options->causal = (heed_causal)kind;
  return true;
}

static bool take_scale(const char* text, attend_options* options) {
  if (!value_number("--scale", text, &options->scale)) return false;
  if (options->scale != 0) return true;
  fprintf(stderr, "attend: --scale is 0\n");
  return false;
}

/* ---- Options of the program ---------------------------------------------------------------- */

static bool take_rows(const char* text, attend_options* options) {
  if (!value_pair("--rows", text, "FIRST,LAST", 0, &options->map_first, &options->map_last)) {
    return false;
  }
  if (options->map_first <= options->map_last) return true;
  fprintf(stderr, "attend: --rows is %s, with the last before the first\n", text);
  return false;
}

static bool take_tolerance(const char* text, attend_options* options) {
  if (!value_number("--tolerance", text, &options->tolerance)) return false;
  if (options->tolerance >= 0) return true;
  fprintf(stderr, "attend: --tolerance is %s, less than 0\n", text);
  return false;
}

/* Takes one option with its value, which is `text`. */
static bool take_option(int option, const char* text, attend_options* options) {
  const char** const slot = text_of(option, options);
  if (slot != NULL) {
    *slot = text;
    return true;
  }
  int64_t integer = 0;
  switch (option) {
    case OPTION_TOLERANCE:
      return take_tolerance(text, options);
    case OPTION_CAUSAL:
      return take_causal(text, options);
    case OPTION_SCALE:
      return take_scale(text, options);
    case OPTION_MAP:
      return value_integer("--map", text, 0, INT64_MAX, &options->map_head);
    case OPTION_ROWS:
      return take_rows(text, options);
    case OPTION_THREADS:
      if (!value_integer("--threads", text, 1, MAX_THREADS, &integer)) return false;
      options->threads = (uint32_t)integer;
      return true;
    case OPTION_REPEAT:
      if (!value_integer("--repeat", text, 1, MAX_REPEAT, &integer)) return false;
      options->repeat = (int)integer;
      return true;
    case OPTION_QUIET:
      options->quiet = true;
      return true;
    default:
      return false;
  }
}

static bool read_all(int argc, char** argv, attend_options* options, bool* help) {
  opterr = 0; /* the messages are ours */
  for (;;) {
    const int option = getopt_long(argc, argv, ":h", known_options, NULL);
    if (option == -1) break;
    if (option == OPTION_HELP || option == 'h') {
      *help = true;
      return true;
    }
    if (option == ':') {
      fprintf(stderr, "attend: %s needs a value\n", argv[optind - 1]);
      return false;
    }
    if (option == '?') {
      if (optopt >= OPTION_QUERY) { /* --quiet=x */
        fprintf(stderr, "attend: %s: this option takes no value\n", argv[optind - 1]);
      } else if (optopt != 0) {
        fprintf(stderr, "attend: unknown option '-%c'\n", optopt);
      } else {
        fprintf(stderr, "attend: unknown or ambiguous option '%s'\n", argv[optind - 1]);
      }
      return false;
    }
    if (!take_option(option, optarg, options)) return false;
  }
  if (optind < argc) {
    fprintf(stderr, "attend: unexpected argument '%s'\n", argv[optind]);
    return false;
  }
  return attend_options_fit(options);
}

bool attend_options_read(int argc, char** argv, attend_options* options, int* exit_status) {
  memset(options, 0, sizeof *options);
  options->repeat = 20;
  options->map_head = options->map_first = -1;
  options->tolerance = -1;
  bool help = false;
  if (!read_all(argc, argv, options, &help)) {
    fprintf(stderr, "Try 'attend --help'.\n");
    *exit_status = ATTEND_USAGE;
    return false;
  }
  if (help) {
    attend_print_help();
    *exit_status = ATTEND_OK;
    return false;
  }
  if (options->tolerance < 0) options->tolerance = 1e-5;
  return true;
}
