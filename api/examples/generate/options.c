#include "options.h"

#include <stdio.h>
#include <string.h>

#include "../arguments.h"
#include "../files.h"
#include "say.h"

const char options_help[] =
    "Usage: generate [OPTION...] MODEL\n"
    "       generate --make MODEL [--seed N] [--layers N] [--type TYPE]\n"
    "\n"
    "Continues a text, byte by byte, with the decoder-only transformer in the file MODEL. Its "
    "keys\n"
    "and values are kept in a cache of heed's.\n"
    "\n"
    "  --prompt TEXT     the text to continue (default: standard input)\n"
    "  --tokens N        how many bytes to add (default: 100)\n"
    "  --temperature X   0 takes the likeliest byte; above, bytes are drawn (default: 0)\n"
    "  --seed N          of the random numbers they are drawn with (default: 1)\n"
    "  --fork N          writes N continuations, which share the prompt's pages; continuation i "
    "is\n"
    "                    what seed + i - 1 gives alone\n"
    "  --cache TYPE      of keys and values: float32, float16, bfloat16, int8 or fp8 (default:\n"
    "                    float32)\n"
    "  --no-cache        keeps nothing: computes the whole text anew for every byte\n"
    "  --save FILE       keeps the prompt's keys and values, for --load\n"
    "  --load FILE       begins with a prompt that was saved, which --prompt adds to\n"
    "  --threads N       of attention (default: heed's choice)\n"
    "  --progress        shows progress on stderr also where that is no terminal\n"
    "  --quiet           says nothing on stderr but errors\n"
    "  -h, --help        print this text\n"
    "\n"
    "Making a model, of which two layers are written by hand and the rest is random numbers:\n"
    "  --make MODEL      the file to write\n"
    "  --seed N          of the random numbers (default: 1)\n"
    "  --layers N        how many layers it has (default: 2)\n"
    "  --type TYPE       of its numbers: float32 or bfloat16 (default: float32)\n"
    "\n"
    "The text is on stdout, everything else on stderr. Control characters are shown as \\xNN on a\n"
    "terminal. Exit status: 0 if all went well, 1 if a file or the computation failed, 2 for a\n"
    "wrong command line. The HEED_* environment variables of heed.h work here too.\n";

typedef struct type {
  const char* name;
  heed_dtype dtype;
} type;

static const type types[] = {{"float32", HEED_DTYPE_F32},
                             {"bfloat16", HEED_DTYPE_BF16},
                             {"float16", HEED_DTYPE_F16},
                             {"int8", HEED_DTYPE_I8},
                             {"fp8", HEED_DTYPE_F8_E4M3}};

/* One of the first `count` types. */
static bool take_type(const char* option, const char* name, size_t count, heed_dtype* dtype) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(name, types[i].name) != 0) continue;
    *dtype = types[i].dtype;
    return true;
  }
  fprintf(stderr, "generate: %s is '%s', not one of", option, name);
  for (size_t i = 0; i < count; ++i) fprintf(stderr, " %s", types[i].name);
  fputc('\n', stderr);
  return false;
}

/* Options that were given, for what they do not go with. */
typedef struct given {
  const char* name;
  bool given;
} given;

static bool none_given(const given* options, size_t count, const char* with) {
  for (size_t i = 0; i < count; ++i) {
    if (options[i].given) return failed("%s does not go with %s", options[i].name, with);
  }
  return true;
}

static bool check_make(const options* o, const char* cache) {
  const given generating[] = {
      {"MODEL", o->model != NULL},  {"--prompt", o->prompt != NULL},
      {"--tokens", o->tokens >= 0}, {"--temperature", o->temperature >= 0},
      {"--fork", o->forks > 0},     {"--cache", cache != NULL},
      {"--no-cache", o->no_cache},  {"--save", o->save != NULL},
      {"--load", o->load != NULL},  {"--threads", o->threads > 0},
      {"--progress", o->progress},
  };
  return none_given(generating, sizeof generating / sizeof *generating, "--make");
}

static bool check_generate(const options* o, const char* cache, const char* weights) {
  const given making[] = {{"--layers", o->layers > 0}, {"--type", weights != NULL}};
  const given caching[] = {
      {"--cache", cache != NULL}, {"--save", o->save != NULL}, {"--load", o->load != NULL}};
  if (o->model == NULL) return failed("MODEL, a file, is missing");
  if (!none_given(making, 2, "a MODEL, only with --make")) return false;
  if (o->no_cache && !none_given(caching, 3, "--no-cache")) return false;
  const named_file files[] = {
      {"MODEL", o->model, false}, {"--load", o->load, false}, {"--save", o->save, true}};
  return files_are_apart("generate", files, sizeof files / sizeof *files);
}

bool options_read(int argc, char** argv, options* o) {
  memset(o, 0, sizeof *o);
  o->tokens = o->seed = -1;
  o->temperature = -1;
  const char* weights = NULL;
  const char* cache = NULL;
  const argument known[] = {
      {"MODEL", ARGUMENT_TEXT, &o->model, 0, 0},
      {"--make", ARGUMENT_TEXT, &o->make, 0, 0},
      {"--layers", ARGUMENT_INTEGER, &o->layers, 2, 64},
      {"--type", ARGUMENT_TEXT, &weights, 0, 0},
      {"--seed", ARGUMENT_INTEGER, &o->seed, 0, INT64_MAX - MOST_FORKS},
      {"--prompt", ARGUMENT_TEXT, &o->prompt, 0, 0},
      {"--tokens", ARGUMENT_INTEGER, &o->tokens, 0, 1 << 24},
      {"--temperature", ARGUMENT_ZERO_UP, &o->temperature, 0, 0},
      {"--fork", ARGUMENT_INTEGER, &o->forks, 1, MOST_FORKS},
      {"--cache", ARGUMENT_TEXT, &cache, 0, 0},
      {"--no-cache", ARGUMENT_FLAG, &o->no_cache, 0, 0},
      {"--save", ARGUMENT_TEXT, &o->save, 0, 0},
      {"--load", ARGUMENT_TEXT, &o->load, 0, 0},
      {"--threads", ARGUMENT_INTEGER, &o->threads, 1, 1024},
      {"--progress", ARGUMENT_FLAG, &o->progress, 0, 0},
      {"--quiet", ARGUMENT_FLAG, &o->quiet, 0, 0},
      {"--help", ARGUMENT_FLAG, &o->help, 0, 0},
      {"-h", ARGUMENT_FLAG, &o->help, 0, 0},
  };
  if (!arguments_read("generate", known, sizeof known / sizeof *known, argc, argv)) return false;
  if (o->help) return true;
  if (o->make != NULL ? !check_make(o, cache) : !check_generate(o, cache, weights)) return false;
  heed_dtype weights_dtype = HEED_DTYPE_F32;
  o->cache = HEED_DTYPE_F32;
  if (weights != NULL && !take_type("--type", weights, 2, &weights_dtype)) return false;
  if (cache != NULL && !take_type("--cache", cache, 5, &o->cache)) return false;
  o->bfloat16 = weights_dtype == HEED_DTYPE_BF16;
  o->cache_name = cache != NULL ? cache : "float32";
  if (o->layers == 0) o->layers = 2;
  if (o->seed < 0) o->seed = 1;
  if (o->tokens < 0) o->tokens = 100;
  if (o->temperature < 0) o->temperature = 0;
  if (o->forks == 0) o->forks = 1;
  return true;
}
