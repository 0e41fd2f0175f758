/* Edge lists in files: edges_read of edges.h. */
#define _POSIX_C_SOURCE 200809L /* getline */

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edges.h"
#include "names.h"

#define SHOWN 60 /* characters of a line that an error shows */

/* Where we are, for errors, and what has come by. */
typedef struct place {
  const char* program;
  const char* path;
  int64_t line;
  char text[SHOWN + 4]; /* the beginning of the line */
  int64_t numbered;     /* lines of two integers */
  int64_t named;        /* other lines, but for a first one */
  int64_t heading;      /* a first line of two names, which may be meant as a heading; else 0 */
  char heading_text[SHOWN + 4];
} place;

/* Without anything that could steer a terminal. */
static void keep_beginning(const char* line, char* text) {
  size_t length = 0;
  for (; line[length] != '\0' && length < SHOWN; ++length) {
    text[length] = iscntrl((unsigned char)line[length]) ? ' ' : line[length];
  }
  memcpy(text + length, line[length] == '\0' ? "" : "...", line[length] == '\0' ? 1 : 4);
}

static bool malformed(const place* at, const char* why) {
  fprintf(stderr, "%s: %s: line %" PRId64 ", '%s', %s\n", at->program, at->path, at->line, at->text,
          why);
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

/* What a line says. */
typedef struct fields {
  char* texts[3]; /* two nodes and a weight */
  int count;      /* 4: there are more than three */
} fields;

/* Cuts a line at every tab, or if there is none at every comma, or else between words. */
static fields split(char* line) {
  char* const nothing = line + strlen(line);
  fields result = {{nothing, nothing, nothing}, 0};
  const char* const separators = strchr(line, '\t') != NULL  ? "\t"
                                 : strchr(line, ',') != NULL ? ","
                                                             : " \v\f";
  for (char* text = trimmed(line); result.count < 4;) {
    char* const end = text + strcspn(text, separators);
    const bool last = *end == '\0';
    *end = '\0';
    if (result.count < 3) result.texts[result.count] = trimmed(text);
    ++result.count;
    if (last) break;
    text = end + 1;
    if (*separators == ' ') text += strspn(text, separators);
  }
  return result;
}

/* The weight of a line; 1 if it says nothing. */
static bool take_weight(const place* at, const fields* f, bool unweighted, double* weight) {
  *weight = 1;
  if (f->count == 2 || unweighted) return true;
  if (f->count > 3) {
    return malformed(at,
                     "has more than two nodes and a weight (--unweighted reads only the nodes)");
  }
  char* end = NULL;
  *weight = strtod(f->texts[2], &end);
  if (end != f->texts[2] && *end == '\0' && *weight >= 0 && *weight <= DBL_MAX) return true;
  return malformed(at,
                   "has a weight that is not a number of at least 0 (--unweighted reads only the "
                   "nodes; a heading begins with #)");
}

/* Whether the line names two nodes. Between words there can be integers only: names have spaces. */
static bool take_nodes(place* at, const fields* f, bool apart) {
  if (f->count < 2 || *f->texts[0] == '\0' || *f->texts[1] == '\0') {
    return malformed(at, apart
                             ? "has a tab or comma without a name on either side"
                             : "is neither two integers nor two names with a tab or comma between");
  }
  long long number = 0;
  const int integers = is_integer(f->texts[0], &number) + is_integer(f->texts[1], &number);
  if (integers < 2 && !apart) {
    return malformed(at, "is neither two integers nor two names with a tab or comma between");
  }
  if (integers == 0 && at->numbered + at->named + at->heading == 0) {
    at->heading = at->line;
    memcpy(at->heading_text, at->text, sizeof at->text);
  } else {
    at->numbered += integers == 2;
    at->named += integers < 2;
  }
  return true;
}

static bool take_line(place* at, char* line, bool unweighted, name_table* names, edge_list* edges) {
  const char* const start = line + strspn(line, " \t");
  if (*start == '\0' || *start == '#' || *start == '%') return true;
  const bool apart = strpbrk(line, "\t,") != NULL;
  const fields f = split(line);
  double weight = 1;
  if (!take_nodes(at, &f, apart) || !take_weight(at, &f, unweighted, &weight)) return false;
  const int32_t source = node_of(names, f.texts[0]);
  const int32_t destination = node_of(names, f.texts[1]);
  if (source >= 0 && destination >= 0 &&
      (weight == 0 || edges_add(edges, source, destination, weight))) {
    return true;
  }
  fprintf(stderr, "%s: %s: no memory left at line %" PRId64 "\n", at->program, at->path, at->line);
  return false;
}

/* What only the whole file shows. */
static bool check_lines(place* at, const edge_list* edges) {
  if (at->heading > 0 && at->named == 0 && at->numbered > 0) {
    at->line = at->heading;
    memcpy(at->text, at->heading_text, sizeof at->text);
    return malformed(at, "looks like a heading, as all other lines have integers: begin it with #");
  }
  if (edges->count > 0) return true;
  fprintf(stderr, "%s: %s: it has no edges\n", at->program, at->path);
  return false;
}

static bool take_lines(const char* program, const char* path, FILE* file, bool unweighted,
                       name_table* names, edge_list* edges) {
  place at = {program, path, 0, "", 0, 0, 0, ""};
  char* line = NULL;
  size_t room = 0;
  bool ok = true;
  errno = 0;
  while (ok) {
    const ssize_t length = getline(&line, &room, file);
    if (length < 0) break;
    ++at.line;
    const bool text = strlen(line) == (size_t)length;
    line[strcspn(line, "\r\n")] = '\0';
    /* Some programs begin files with a mark of their encoding. */
    char* const start = at.line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? line + 3 : line;
    keep_beginning(start, at.text);
    ok = text ? take_line(&at, start, unweighted, names, edges)
              : malformed(&at, "holds a byte that is 0");
  }
  if (ok && !feof(file)) {
    fprintf(stderr, "%s: %s: cannot be read: %s\n", program, path, strerror(errno));
    ok = false;
  }
  free(line);
  return ok && check_lines(&at, edges);
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

bool edges_read(const char* program, const char* path, bool unweighted, edge_list* edges) {
  FILE* const file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "%s: %s: cannot be opened: %s\n", program, path, strerror(errno));
    return false;
  }
  name_table table = {NULL, 0, NULL, 0};
  bool ok = take_lines(program, path, file, unweighted, &table, edges);
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
