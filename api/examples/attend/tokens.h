/* The tokens of a text, one a line of a file, to name rows and keys with. */
#ifndef HEED_EXAMPLES_ATTEND_TOKENS_H
#define HEED_EXAMPLES_ATTEND_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

/* Longer ones are cut to this many characters. */
#define TOKEN_CHARACTERS 12

typedef struct token {
  char text[4 * TOKEN_CHARACTERS + 1]; /* UTF-8 */
} token;

typedef struct token_list {
  token* tokens;
  int64_t count;
} token_list;

/* False after an error, which is then on stderr. The list must be zeroed; release it in any case.
 */
bool tokens_read(const char* path, token_list* list);
void tokens_release(token_list* list);

/* The token with this index; the index itself if there is no list. */
token tokens_name(const token_list* list, int64_t index);

/* How many columns of a terminal a text takes, in scripts of one column a character. */
int tokens_width(const char* text);

#endif /* HEED_EXAMPLES_ATTEND_TOKENS_H */
