/* The files that a command line names: read whole, and never replaced by what is made from them. */
#ifndef HEED_EXAMPLES_FILES_H
#define HEED_EXAMPLES_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct named_file {
  const char* option; /* that names it */
  const char* path;   /* NULL: not given */
  bool written;
} named_file;

/* True if no file that is written is another one of them, by whatever path; else the two options
 * are on stderr. Devices may come up twice. */
bool files_are_apart(const char* program, const named_file* files, size_t count);

/* What is left of an open file. *content, NULL or allocated before, is to be freed in any case.
 * False after an error, which is then in errno. */
bool file_read_all(FILE* file, char** content, size_t* length);

#endif /* HEED_EXAMPLES_FILES_H */
