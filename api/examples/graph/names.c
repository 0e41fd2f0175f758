#include "names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void names_release(name_table* table) {
  for (int32_t i = 0; i < table->count; ++i) free(table->names[i]);
  free(table->names);
  free(table->slots);
}

/* FNV-1a. */
static uint64_t hash_of(const char* name) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name != '\0'; ++name) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return hash ^ (hash >> 32);
}

/* The slot that holds a name, or the empty one where it belongs. */
static size_t slot_of(const name_table* table, const char* name) {
  size_t slot = (size_t)hash_of(name) & (table->room - 1);
  while (table->slots[slot] >= 0 && strcmp(table->names[table->slots[slot]], name) != 0) {
    slot = (slot + 1) & (table->room - 1);
  }
  return slot;
}

/* Twice the room, so that at most half of the slots are taken. */
static bool grow(name_table* table) {
  const size_t room = table->room == 0 ? 1024 : 2 * table->room;
  char** const names = realloc(table->names, room / 2 * sizeof *names);
  if (names == NULL) return false;
  table->names = names;
  int32_t* const slots = malloc(room * sizeof *slots);
  if (slots == NULL) return false;
  for (size_t i = 0; i < room; ++i) slots[i] = -1;
  free(table->slots);
  table->slots = slots;
  table->room = room;
  for (int32_t i = 0; i < table->count; ++i) table->slots[slot_of(table, names[i])] = i;
  return true;
}

int32_t names_number(name_table* table, const char* name) {
  if ((size_t)table->count >= table->room / 2 && !grow(table)) return -1;
  const size_t slot = slot_of(table, name);
  if (table->slots[slot] >= 0) return table->slots[slot];
  const size_t size = strlen(name) + 1;
  char* const copy = table->count < INT32_MAX ? malloc(size) : NULL;
  if (copy == NULL) return -1;
  memcpy(copy, name, size);
  table->names[table->count] = copy;
  table->slots[slot] = table->count;
  return table->count++;
}
