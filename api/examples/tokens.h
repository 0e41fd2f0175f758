/* The tokens of a text, to name the rows and columns of a picture with. */
#ifndef HEED_EXAMPLES_TOKENS_H
#define HEED_EXAMPLES_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer ones are cut to this many characters. */
#define TOKEN_CHARACTERS 12

typedef struct token {
  char text[4 * TOKEN_CHARACTERS + 1]; /* UTF-8 */
} token;

typedef struct token_list {
  token* tokens;
  int64_t count;
  int64_t room; /* for so many before the list must grow */
} token_list;

/* Cuts a text of `length` bytes and appends it. The list must have been zeroed before its first
 * token; release it in any case. False without memory. */
bool tokens_append(token_list* list, const char* text, size_t length);
void tokens_release(token_list* list);

/* The token with this index; the index itself if there is no list. */
token tokens_name(const token_list* list, int64_t index);

/* How many columns of a terminal a text takes, in scripts of one column a character. */
int tokens_width(const char* text);

#endif /* HEED_EXAMPLES_TOKENS_H */
