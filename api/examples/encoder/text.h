/* A text as an encoder reads it: words and a toy vocabulary made of them. */
#ifndef HEED_EXAMPLES_ENCODER_TEXT_H
#define HEED_EXAMPLES_ENCODER_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "../tokens.h"

/* Finding a word in the vocabulary is a linear search. */
#define TEXT_MOST_WORDS 8192

typedef struct text {
  token_list words; /* as written; punctuation marks are words too */
  int32_t* ids;     /* [words.count] the words of the vocabulary, whatever their case */
  int32_t vocabulary;
} text;

/* Reads a file of UTF-8. False after an error, which is then on stderr. The text must be zeroed;
 * release it in any case. */
bool text_read(const char* path, text* t);
void text_release(text* t);

#endif /* HEED_EXAMPLES_ENCODER_TEXT_H */
