/* Numbers for names: the first new name is 0, the next 1 and so on. */
#ifndef HEED_EXAMPLES_GRAPH_NAMES_H
#define HEED_EXAMPLES_GRAPH_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct name_table {
  char** names; /* [count], each from malloc */
  int32_t count;
  int32_t* slots; /* [room], a power of two: the number of a name, or -1 */
  size_t room;
} name_table;

/* The number of a name, which is copied if it is new; -1 without memory or numbers for it. */
int32_t names_number(name_table* table, const char* name);

/* A zeroed table is allowed. */
void names_release(name_table* table);

#endif /* HEED_EXAMPLES_GRAPH_NAMES_H */
