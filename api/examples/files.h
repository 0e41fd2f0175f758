/* The files that a command line names, so that a result never replaces what it was made from. */
#ifndef HEED_EXAMPLES_FILES_H
#define HEED_EXAMPLES_FILES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct named_file {
  const char* option; /* that names it */
  const char* path;   /* NULL: not given */
  bool written;
} named_file;

/* True if no file that is written is another one of them, by whatever path; else the two options
 * are on stderr. Devices may come up twice. */
bool files_are_apart(const char* program, const named_file* files, size_t count);

#endif /* HEED_EXAMPLES_FILES_H */
