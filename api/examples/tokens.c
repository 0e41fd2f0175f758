#include "tokens.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void tokens_release(token_list* list) { free(list->tokens); }

/* In UTF-8 every byte begins a character but those of the form 10xxxxxx. */
static bool begins_character(char byte) { return ((unsigned char)byte & 0xc0) != 0x80; }

int tokens_width(const char* text) {
  int width = 0;
  for (; *text != '\0'; ++text) width += begins_character(*text);
  return width;
}

token tokens_name(const token_list* list, int64_t index) {
  if (list != NULL) return list->tokens[index];
  token number;
  snprintf(number.text, sizeof number.text, "%" PRId64, index);
  return number;
}

static token cut(const char* text, size_t length) {
  token result;
  size_t used = 0;
  int characters = 0;
  for (size_t i = 0; i < length; ++i) {
    characters += begins_character(text[i]);
    if (characters > TOKEN_CHARACTERS || used + 1 == sizeof result.text) break;
    /* Nothing may steer a terminal. */
    result.text[used++] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
  }
  result.text[used] = '\0';
  return result;
}

bool tokens_append(token_list* list, const char* text, size_t length) {
  if (list->count == list->room) {
    const int64_t room = 2 * list->room + 256;
    token* const larger = realloc(list->tokens, (size_t)room * sizeof *larger);
    if (larger == NULL) return false;
    list->tokens = larger;
    list->room = room;
  }
  list->tokens[list->count++] = cut(text, length);
  return true;
}
