/* Text from a decoder-only transformer, one byte after the other.
 *
 *   read the prompt in chunks -> [sample a byte, append it, run the model on it]...
 *
 * Every layer appends the new rows' keys and values to a heed_cache and attends to all of its
 * sequence's (history.c). Continuations of one prompt are forks of its sequence: they share its
 * pages and run in one call. */
#define _POSIX_C_SOURCE 200112L /* isatty */

#include <errno.h>
#include <heed.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../arguments.h"
#include "../files.h"
#include "forward.h"
#include "history.h"
#include "make.h"
#include "options.h"
#include "sample.h"
#include "saved.h"
#include "say.h"
#include "weights.h"

/* Small pages, of which short prompts have some to share; and how much of a prompt is read at once.
 */
enum { PAGE_ROWS = 16, CHUNK = 256 };

/* Everything that a run of this program owns; release() takes it back. */
typedef struct job {
  options o;
  model model;
  heed_context* context;
  history history;
  heed_sequence sequences[MOST_FORKS];
  byte_file saved; /* open while it is read */
  uint8_t* loaded; /* its tokens */
  int64_t load;    /* how many */
  char* prompt;    /* standard input's */
  uint8_t* texts;  /* [forks, total] */
  int64_t known;   /* tokens of the prompt, also the loaded ones */
  int64_t total;   /* and what is added */
  activations activations;
  float* scores; /* [forks, TOKENS] of what follows */
  progress progress;
  bool terminal; /* stdout */
} job;

static void release(job* j) {
  model_release(&j->model);
  heed_cache_destroy(j->history.cache);
  heed_context_destroy(j->context);
  bytes_close(true, &j->saved);
  free(j->loaded);
  free(j->prompt);
  free(j->texts);
  activations_release(&j->activations);
  free(j->scores);
}

static uint8_t* text_of(const job* j, int64_t fork) { return j->texts + fork * j->total; }

/* ---- The prompt ---------------------------------------------------------------------------- */

/* From the command line or standard input; after a loaded one there need be none. */
static bool read_text(job* j) {
  const options* const o = &j->o;
  if (o->load != NULL && !saved_open(o->load, j->model.checksum, &j->saved, &j->loaded, &j->load)) {
    return false;
  }
  const char* prompt = o->prompt != NULL ? o->prompt : "";
  size_t length = strlen(prompt);
  if (o->prompt == NULL && o->load == NULL) {
    if (!file_read_all(stdin, &j->prompt, &length)) return failed("stdin: %s", strerror(errno));
    prompt = j->prompt;
  }
  j->known = j->load + (int64_t)length;
  if (j->known == 0) return failed("the prompt is empty");
  j->total = j->known + o->tokens;
  j->texts = malloc((size_t)(o->forks * j->total));
  j->scores = malloc((size_t)(o->forks * TOKENS) * sizeof *j->scores);
  if (j->texts == NULL || j->scores == NULL) return failed("no memory for the text");
  if (j->load > 0) memcpy(j->texts, j->loaded, (size_t)j->load);
  if (length > 0) memcpy(j->texts + j->load, prompt, length);
  return true;
}

/* Room for the prompt once, and for what each continuation adds: the page that the prompt ends in
 * is copied by all but one. */
static bool make_cache(job* j) {
  const int64_t full = j->known / PAGE_ROWS;
  const int64_t all = (j->total + PAGE_ROWS - 1) / PAGE_ROWS;
  return history_create(j->o.cache, PAGE_ROWS, full + j->o.forks * (all - full), j->o.forks,
                        &j->history);
}

/* The sequence, and how many of its tokens it has: of a loaded one all but the last, whose scores
 * were not saved. */
static bool begin(job* j, int64_t* done) {
  history* const h = &j->history;
  h->context = j->context;
  h->sizes = &j->model.sizes;
  h->sequences = j->sequences;
  h->count = 1;
  *done = 0;
  if (j->o.no_cache) return true;
  if (!make_cache(j)) return false;
  if (j->o.load == NULL) return succeeded(heed_cache_sequence_create(h->cache, j->sequences));
  *done = j->load - 1;
  return saved_load(&j->saved, j->load, h->cache, j->sequences) &&
         succeeded(heed_cache_truncate(h->cache, j->sequences[0], *done));
}

static bool read_prompt(int64_t done, job* j) {
  while (done < j->known) {
    const int64_t left = j->known - done;
    const int64_t rows = left < CHUNK || j->o.no_cache ? left : CHUNK;
    progress_show(&j->progress, "prompt", done, j->known);
    if (!forward(&j->model, &j->history, j->texts + done, rows, &j->activations, j->scores)) {
      return false;
    }
    done += rows;
  }
  progress_show(&j->progress, "prompt", done, j->known);
  progress_end(&j->progress);
  return j->o.save == NULL || saved_write(j->o.save, j->model.checksum, j->texts, j->known,
                                          j->history.cache, j->sequences[0]);
}

/* ---- What follows -------------------------------------------------------------------------- */

static bool fork_prompt(job* j) {
  for (int64_t i = 1; i < j->o.forks; ++i) {
    memcpy(text_of(j, i), j->texts, (size_t)j->known);
    memcpy(j->scores + i * TOKENS, j->scores, TOKENS * sizeof *j->scores);
    if (!j->o.no_cache &&
        !succeeded(heed_cache_fork(j->history.cache, j->sequences[0], &j->sequences[i]))) {
      return false;
    }
  }
  return true;
}

/* The scores of what follows the first `length` tokens of every text. */
static bool advance(int64_t length, job* j) {
  uint8_t last[MOST_FORKS];
  for (int64_t i = 0; i < j->o.forks; ++i) {
    last[i] = text_of(j, i)[length - 1];
    if (j->o.no_cache && !forward(&j->model, &j->history, text_of(j, i), length, &j->activations,
                                  j->scores + i * TOKENS)) {
      return false;
    }
  }
  if (j->o.no_cache) return true;
  j->history.count = j->o.forks;
  return forward(&j->model, &j->history, last, 1, &j->activations, j->scores);
}

/* Bytes as they are; on a terminal, which might obey them, control characters as \xNN. */
static bool print(const uint8_t* text, int64_t count, const job* j) {
  errno = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool control = (text[i] < ' ' && text[i] != '\n' && text[i] != '\t') || text[i] == 0x7f;
    if (control && j->terminal) printf("\\x%02x", text[i]);
    if (!control || !j->terminal) putchar(text[i]);
  }
  return (fflush(stdout) == 0 && !ferror(stdout)) || failed("stdout: %s", strerror(errno));
}

static bool print_all(const job* j) {
  for (int64_t i = 0; i < j->o.forks; ++i) {
    if (j->o.forks > 1) printf("--- %" PRId64 "\n", i + 1);
    /* One continuation has been printed as it grew. */
    if (!print(text_of(j, i) + j->known, j->o.forks > 1 ? j->o.tokens : 0, j)) return false;
    putchar('\n');
  }
  return print(NULL, 0, j);
}

static bool continue_text(job* j) {
  random_source random[MOST_FORKS];
  for (int64_t i = 0; i < j->o.forks; ++i) random[i].state = (uint64_t)(j->o.seed + i);
  for (int64_t length = j->known; length < j->total; ++length) {
    if (length > j->known && !advance(length, j)) return false;
    for (int64_t i = 0; i < j->o.forks; ++i) {
      if (!sample(j->scores + i * TOKENS, j->o.temperature, &random[i], &text_of(j, i)[length])) {
        return false;
      }
    }
    if (j->o.forks == 1 && !print(j->texts + length, 1, j)) return false;
    /* A text that grows on the terminal is its own progress. */
    if (j->o.forks > 1 || !j->terminal) {
      progress_show(&j->progress, "text", length + 1 - j->known, j->o.tokens);
    }
  }
  progress_end(&j->progress);
  return true;
}

/* ---- The program --------------------------------------------------------------------------- */

static bool report(const job* j, int64_t computed, double reading, double writing) {
  const model_sizes* const s = &j->model.sizes;
  fprintf(stderr,
          "model      %" PRId64 " layers, width %" PRId64 ", %" PRId64 " query heads, %" PRId64
          " key heads, %zu weights\n",
          s->layers, s->width, s->query_heads, s->key_heads, j->model.count);
  fprintf(stderr, "prompt     %" PRId64 " tokens, %" PRId64 " of them loaded\n", j->known, j->load);
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  if (j->o.no_cache) {
    fprintf(stderr, "cache      none\n");
  } else if (!succeeded(heed_cache_describe(j->history.cache, &info))) {
    return false;
  } else {
    fprintf(stderr, "cache      %s, %.1f KiB a page of %" PRId64 " tokens\n", j->o.cache_name,
            (double)info.page_bytes / 1024, info.page_rows);
    fprintf(stderr, "pages      %" PRId64 " used, %" PRId64 " of them shared\n", info.pages_used,
            info.pages_shared);
  }
  fprintf(stderr, "speed      %.0f tokens/s of the prompt", (double)computed / reading);
  if (j->o.tokens > 0) {
    fprintf(stderr, ", %.0f tokens/s after it", (double)(j->o.forks * j->o.tokens) / writing);
  }
  fputc('\n', stderr);
  return true;
}

static bool generate(job* j) {
  heed_context_options context = HEED_CONTEXT_OPTIONS_INIT;
  context.threads = (uint32_t)j->o.threads;
  int64_t done = 0;
  if (!model_read(j->o.model, &j->model) || !read_text(j) ||
      !succeeded(heed_context_create(&context, &j->context)) || !begin(j, &done)) {
    return false;
  }
  const double start = seconds_now();
  if (!read_prompt(done, j) || !fork_prompt(j)) return false;
  const double middle = seconds_now();
  if (!continue_text(j)) return false;
  const double end = seconds_now();
  return print_all(j) && (j->o.quiet || report(j, j->known - done, middle - start, end - middle));
}

static bool make(const options* o) {
  model m = {0};
  const bool ok =
      model_make((uint64_t)o->seed, o->layers, &m) && model_write(o->make, o->bfloat16, &m);
  if (ok && !o->quiet) fprintf(stderr, "model      %zu weights\n", m.count);
  model_release(&m);
  return ok;
}

int main(int argc, char** argv) {
  job j;
  memset(&j, 0, sizeof j);
  if (!options_read(argc, argv, &j.o)) {
    fprintf(stderr, "Try 'generate --help'.\n");
    return EXIT_USAGE;
  }
  if (j.o.help) {
    fputs(options_help, stdout);
    return EXIT_WELL;
  }
  if (j.o.make != NULL) return make(&j.o) ? EXIT_WELL : EXIT_FAILED;
  j.terminal = isatty(STDOUT_FILENO);
  j.progress.terminal = isatty(STDERR_FILENO);
  j.progress.shown = j.o.progress || (!j.o.quiet && j.progress.terminal);
  const bool ok = generate(&j);
  release(&j);
  return ok ? EXIT_WELL : EXIT_FAILED;
}
