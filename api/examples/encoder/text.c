#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../files.h"

/* A word of the vocabulary, in the file's content. */
typedef struct entry {
  const char* begin;
  size_t length;
} entry;

static bool failed(const char* path, const char* why) {
  fprintf(stderr, "encoder: %s: %s\n", path, why);
  return false;
}

/* The whole file. *content is to be freed in any case. */
static bool read_file(const char* path, char** content, size_t* length) {
  FILE* const file = fopen(path, "rb");
  if (file == NULL) return failed(path, strerror(errno));
  const bool ok = file_read_all(file, content, length);
  if (!ok) failed(path, strerror(errno));
  fclose(file);
  return ok;
}

/* What words are made of; every byte of a letter outside ASCII counts. */
static bool in_word(char byte) {
  return isalnum((unsigned char)byte) || byte == '\'' || byte == '-' ||
         ((unsigned char)byte & 0x80);
}

/* Where the word that begins at `at` ends: a punctuation mark is one by itself. */
static const char* end_of_word(const char* at, const char* end) {
  if (!in_word(*at)) return at + 1;
  while (at < end && in_word(*at)) ++at;
  return at;
}

static bool same(const entry* a, const entry* b) {
  if (a->length != b->length) return false;
  for (size_t i = 0; i < a->length; ++i) {
    if (tolower((unsigned char)a->begin[i]) != tolower((unsigned char)b->begin[i])) return false;
  }
  return true;
}

/* The word's place in the vocabulary, at the end of it where the word is new. */
static int32_t id_of(const entry* word, entry* vocabulary, int32_t* count) {
  int32_t id = 0;
  while (id < *count && !same(&vocabulary[id], word)) ++id;
  if (id == *count) vocabulary[(*count)++] = *word;
  return id;
}

static bool split(const char* path, const char* content, size_t length, entry* vocabulary,
                  text* t) {
  const char* const end = content + length;
  const char* at = content;
  int32_t count = 0; /* of the vocabulary */
  while (true) {
    while (at < end && isspace((unsigned char)*at)) ++at;
    t->vocabulary = count;
    if (at == end) return count > 0 || failed(path, "there is no word in it");
    if (t->words.count == TEXT_MOST_WORDS) {
      fprintf(stderr, "encoder: %s: more than %d words\n", path, TEXT_MOST_WORDS);
      return false;
    }
    const char* const next = end_of_word(at, end);
    const entry word = {at, (size_t)(next - at)};
    t->ids[t->words.count] = id_of(&word, vocabulary, &count);
    if (!tokens_append(&t->words, word.begin, word.length)) return failed(path, strerror(ENOMEM));
    at = next;
  }
}

bool text_read(const char* path, text* t) {
  char* content = NULL;
  size_t length = 0;
  entry* const vocabulary = malloc(TEXT_MOST_WORDS * sizeof *vocabulary);
  t->ids = malloc(TEXT_MOST_WORDS * sizeof *t->ids);
  const bool ok =
      vocabulary != NULL && t->ids != NULL
          ? read_file(path, &content, &length) && split(path, content, length, vocabulary, t)
          : failed(path, strerror(ENOMEM));
  free(vocabulary);
  free(content);
  return ok;
}

void text_release(text* t) {
  tokens_release(&t->words);
  free(t->ids);
}
