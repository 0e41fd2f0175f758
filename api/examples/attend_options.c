#include "attend_options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEAT 1000000

enum {
  OPTION_QUERY = 256,
  OPTION_KEY,
  OPTION_VALUE,
  OPTION_OUT,
  OPTION_EXPECT,
  OPTION_TOLERANCE,
  OPTION_CAUSAL,
  OPTION_SCALE,
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
    {"isa", required_argument, NULL, OPTION_ISA},
    {"executor", required_argument, NULL, OPTION_EXECUTOR},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0}};

static void print_help(void) {
  fputs(
      "Usage: attend --query FILE --key FILE --value FILE --out FILE [OPTION...]\n"
      "\n"
      "Computes out = softmax(scale * query key^T) value for tensors in .npy files and reports\n"
      "the time it takes.\n"
      "\n"
      "Tensors (float32, C order) have the axes [batch, heads, length, features]; the first, or\n"
      "the first two, may be missing in all of them. There may be fewer heads of keys and values\n"
      "than of queries, if their number divides that of the queries: each then serves a group.\n"
      "\n"
      "  --query FILE       queries\n"
      "  --key FILE         keys\n"
      "  --value FILE       values\n"
      "  --out FILE         where the result goes\n"
      "  --causal WHERE     row i attends key j only if j <= i + offset; WHERE is that offset,\n"
      "                     or top-left for 0, or bottom-right for keys - queries\n"
      "  --scale X          factor of the scores, not 0 (default: 1 / sqrt(features))\n"
      "\n"
      "  --expect FILE      compare the result with this tensor\n"
      "  --tolerance X      the largest absolute difference to accept (default: 1e-5)\n"
      "\n"
      "  --isa NAME         instruction set, here one of:",
      stdout);
  for (size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info isa = HEED_ISA_INFO_INIT;
    if (heed_isa_get(i, &isa) == HEED_STATUS_OK && isa.usable) printf(" %s", isa.name);
  }
  printf("\n  --executor NAME    what runs the threads, here one of:");
  for (size_t i = 0; i < heed_executor_count(); ++i) printf(" %s", heed_executor_name(i));
  fputs(
      "\n"
      "  --threads N        how many threads (default: the CPUs this process may use)\n"
      "  --repeat N         timed runs, after one that is not (default: 20)\n"
      "  --quiet            print nothing but errors\n"
      "  -h, --help         print this text\n"
      "\n"
      "Exit status: 0 if all went well, 1 if a file, the computation or the comparison failed,\n"
      "2 for a wrong command line. The HEED_* environment variables of heed.h work here too.\n"
      "\n"
      "Example: a language model's attention, compared with the model's own result\n"
      "  attend --query minilm_layer3_q.npy --key minilm_layer3_k.npy \\\n"
      "         --value minilm_layer3_v.npy --out out.npy --expect minilm_layer3_out.npy\n",
      stdout);
}

/* ---- Values -------------------------------------------------------------------------------- */

/* The whole text as an integer in [least, most]. */
static bool read_integer(const char* name, const char* text, int64_t least, int64_t most,
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

/* The whole text as a finite number. */
static bool read_number(const char* name, const char* text, double* value) {
  char* end = NULL;
  const double number = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(number)) {
    fprintf(stderr, "attend: %s is '%s', not a finite number\n", name, text);
    return false;
  }
  *value = number;
  return true;
}

static bool read_causal(const char* text, attend_options* options) {
  options->causal_offset = 0;
  if (strcmp(text, "top-left") == 0) {
    options->causal = HEED_CAUSAL_TOP_LEFT;
    return true;
  }
  if (strcmp(text, "bottom-right") == 0) {
    options->causal = HEED_CAUSAL_BOTTOM_RIGHT;
    return true;
  }
  char* end = NULL;
  errno = 0;
  options->causal_offset = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno == ERANGE) {
    fprintf(stderr, "attend: --causal is '%s', not top-left, bottom-right or an integer offset\n",
            text);
    return false;
  }
  options->causal = HEED_CAUSAL_OFFSET;
  return true;
}

/* ---- Command line -------------------------------------------------------------------------- */

/* Takes one option with its value, which is `text`. */
static bool take_option(int option, const char* text, attend_options* options) {
  int64_t integer = 0;
  switch (option) {
    case OPTION_QUERY:
      options->query = text;
      return true;
    case OPTION_KEY:
      options->key = text;
      return true;
    case OPTION_VALUE:
      options->value = text;
      return true;
    case OPTION_OUT:
      options->out = text;
      return true;
    case OPTION_EXPECT:
      options->expect = text;
      return true;
    case OPTION_TOLERANCE:
      if (!read_number("--tolerance", text, &options->tolerance)) return false;
      if (options->tolerance >= 0) return true;
      fprintf(stderr, "attend: --tolerance is %s, less than 0\n", text);
      return false;
    case OPTION_CAUSAL:
      return read_causal(text, options);
    case OPTION_SCALE:
      if (!read_number("--scale", text, &options->scale)) return false;
      if (options->scale != 0) return true;
      fprintf(stderr, "attend: --scale is 0\n");
      return false;
    case OPTION_ISA:
      options->isa = text;
      return true;
    case OPTION_EXECUTOR:
      options->executor = text;
      return true;
    case OPTION_THREADS: /* heed knows how many are too many */
      if (!read_integer("--threads", text, 1, UINT32_MAX, &integer)) return false;
      options->threads = (uint32_t)integer;
      return true;
    case OPTION_REPEAT:
      if (!read_integer("--repeat", text, 1, MAX_REPEAT, &integer)) return false;
      options->repeat = (int)integer;
      return true;
    case OPTION_QUIET:
      options->quiet = true;
      return true;
    default:
      return false;
  }
}

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
  return complete(options);
}

bool attend_options_read(int argc, char** argv, attend_options* options, int* exit_status) {
  memset(options, 0, sizeof *options);
  options->tolerance = 1e-5;
  options->repeat = 20;
  bool help = false;
  if (!read_all(argc, argv, options, &help)) {
    fprintf(stderr, "Try 'attend --help'.\n");
    *exit_status = ATTEND_USAGE;
    return false;
  }
  if (help) {
    print_help();
    *exit_status = ATTEND_OK;
    return false;
  }
  return true;
}
