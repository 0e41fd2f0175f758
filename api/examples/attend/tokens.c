#include "tokens.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Reads a line and cuts it. False at the end of the file. */
static bool read_token(FILE* file, token* result) {
  size_t length = 0;
  int characters = 0;
  bool any = false;
  for (int c = getc(file); c != EOF; c = getc(file)) {
    any = true;
    if (c == '\n') break;
    if (c == '\r') continue;
    characters += begins_character((char)c);
    if (characters > TOKEN_CHARACTERS || length + 1 == sizeof result->text) continue;
    result->text[length++] = iscntrl(c) ? '?' : (char)c; /* nothing may steer a terminal */
  }
  result->text[length] = '\0';
  return any;
}

bool tokens_read(const char* path, token_list* list) {
  FILE* const file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "attend: %s: cannot be opened: %s\n", path, strerror(errno));
    return false;
  }
  int64_t room = 0;
  token next;
  errno = 0;
  bool ok = true;
  while (ok && read_token(file, &next)) {
    if (list->count == room) {
      room = 2 * room + 256;
      token* const larger = realloc(list->tokens, (size_t)room * sizeof *larger);
      ok = larger != NULL;
      if (ok) list->tokens = larger;
    }
    if (ok) list->tokens[list->count++] = next;
  }
  ok = ok && !ferror(file);
  if (!ok) fprintf(stderr, "attend: %s: cannot be read: %s\n", path, strerror(errno));
  fclose(file);
  return ok;
}
