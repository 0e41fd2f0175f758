/* Edge lists in files: edges_read of edges.h. */
#define _POSIX_C_SOURCE 200809L /* getline */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edges.h"
#include "names.h"

/* Where we are, for errors. */
typedef struct place {
  const char* program;
  const char* path;
  int64_t line;
} place;

/* Shows the beginning of the line, without anything that could steer a terminal. */
static bool malformed(const place* at, const char* text, const char* why) {
  char shown[61];
  size_t length = 0;
  for (; text[length] != '\0' && length + 1 < sizeof shown; ++length) {
    shown[length] = iscntrl((unsigned char)text[length]) ? ' ' : text[length];
  }
  shown[length] = '\0';
  fprintf(stderr, "%s: %s: line %" PRId64 ", '%s%s', %s\n", at->program, at->path, at->line, shown,
          text[length] == '\0' ? "" : "...", why);
  return false;
}

/* Cuts white space off both ends. */
static char* trimmed(char* text) {
  while (isspace((unsigned char)*text)) ++text;
  size_t length = strlen(text);
  while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
  return text;
}

/* Where an integer ends, or NULL. "7" and "07" are the same node: *number is what counts. */
static char* integer_end(const char* text, long long* number) {
  char* end = NULL;
  errno = 0;
  *number = strtoll(text, &end, 10);
  return end == text || errno == ERANGE ? NULL : end;
}

static bool is_integer(const char* text, long long* number) {
  const char* const end = integer_end(text, number);
  return end != NULL && *end == '\0';
}

/* The node of one field. */
static int32_t node_of(name_table* names, const char* field) {
  long long number = 0;
  if (!is_integer(field, &number)) return names_number(names, field);
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", number);
  return names_number(names, digits);
}

/* Cuts a line in two. */
static bool split(const place* at, char* line, char** first, char** second) {
  char* const tab = strchr(line, '\t');
  if (tab != NULL) {
    if (strchr(tab + 1, '\t') != NULL) return malformed(at, line, "has more than two fields");
    *tab = '\0';
    *first = trimmed(line);
    *second = trimmed(tab + 1);
    if (**first != '\0' && **second != '\0') return true;
    *tab = '\t';
    return malformed(at, line, "has a tab without a name on either side");
  }
  long long number = 0;
  char* const end = integer_end(line, &number);
  const bool apart = end != NULL && isspace((unsigned char)*end);
  if (!apart || !is_integer(trimmed(end), &number)) {
    return malformed(at, line, "is neither two integers nor two names with a tab between them");
  }
  *end = '\0';
  *first = line;
  *second = trimmed(end + 1);
  return true;
}

static bool take_line(const place* at, char* line, name_table* names, edge_list* edges) {
  line[strcspn(line, "\r\n")] = '\0';
  const char* const start = line + strspn(line, " \t");
  if (*start == '\0' || *start == '#') return true;
  char* first = NULL;
  char* second = NULL;
  if (!split(at, line, &first, &second)) return false;
  const int32_t source = node_of(names, first);
  const int32_t destination = node_of(names, second);
  if (source >= 0 && destination >= 0 && edges_add(edges, source, destination)) return true;
  fprintf(stderr, "%s: %s: no memory left at line %" PRId64 "\n", at->program, at->path, at->line);
  return false;
}

static bool take_lines(const char* program, const char* path, FILE* file, name_table* names,
                       edge_list* edges) {
  place at = {program, path, 0};
  char* line = NULL;
  size_t room = 0;
  bool ok = true;
  errno = 0;
  while (ok) {
    const ssize_t length = getline(&line, &room, file);
    if (length < 0) break;
    ++at.line;
    ok = strlen(line) == (size_t)length ? take_line(&at, line, names, edges)
                                        : malformed(&at, line, "holds a byte that is 0");
  }
  if (ok && !feof(file)) {
    fprintf(stderr, "%s: %s: cannot be read: %s\n", program, path, strerror(errno));
    ok = false;
  }
  free(line);
  return ok;
}

/* ---- The order of nodes -----------------------------------------------------------------------
 */

typedef struct numbered_name {
  long long value;
  int32_t number;
} numbered_name;

static int by_value(const void* a, const void* b) {
  const numbered_name* const x = a;
  const numbered_name* const y = b;
  return (x->value > y->value) - (x->value < y->value);
}

/* Numbers nodes by size where all names are integers. False without memory. */
static bool sort_integers(edge_list* edges) {
  const size_t nodes = (size_t)edges->nodes;
  numbered_name* const sorted = malloc((nodes + 1) * sizeof *sorted);
  char** const names = malloc((nodes + 1) * sizeof *names);
  int32_t* const renamed = malloc((nodes + 1) * sizeof *renamed);
  const bool ok = sorted != NULL && names != NULL && renamed != NULL;
  bool integers = ok && nodes > 0;
  for (size_t i = 0; integers && i < nodes; ++i) {
    sorted[i].number = (int32_t)i;
    integers = is_integer(edges->names[i], &sorted[i].value);
  }
  if (integers) {
    qsort(sorted, nodes, sizeof *sorted, by_value);
    for (size_t i = 0; i < nodes; ++i) {
      names[i] = edges->names[sorted[i].number];
      renamed[sorted[i].number] = (int32_t)i;
    }
    memcpy(edges->names, names, nodes * sizeof *names);
    for (int64_t e = 0; e < edges->count; ++e) {
      edges->sources[e] = renamed[edges->sources[e]];
      edges->destinations[e] = renamed[edges->destinations[e]];
    }
  }
  free(sorted);
  free(names);
  free(renamed);
  return ok;
}

bool edges_read(const char* program, const char* path, edge_list* edges) {
  FILE* const file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "%s: %s: cannot be opened: %s\n", program, path, strerror(errno));
    return false;
  }
  name_table table = {NULL, 0, NULL, 0};
  bool ok = take_lines(program, path, file, &table, edges);
  fclose(file);
  edges->names = table.names; /* theirs from here on */
  edges->nodes = table.count;
  table.names = NULL;
  table.count = 0;
  names_release(&table);
  if (ok && !sort_integers(edges)) {
    fprintf(stderr, "%s: %s: no memory to sort its nodes\n", program, path);
    ok = false;
  }
  return ok;
}
