#define _POSIX_C_SOURCE 200112L /* stat */

#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool same(const char* a, const char* b) {
  struct stat first;
  struct stat second;
  const bool exists = stat(a, &first) == 0;
  if (exists != (stat(b, &second) == 0)) return false;
  if (!exists) return strcmp(a, b) == 0;
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool files_are_apart(const char* program, const named_file* files, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; files[i].written && files[i].path != NULL && k < count; ++k) {
      if (k == i || files[k].path == NULL || !same(files[i].path, files[k].path)) continue;
      fprintf(stderr, "%s: %s is %s, the file of %s, which it would replace\n", program,
              files[i].option, files[i].path, files[k].option);
      return false;
    }
  }
  return true;
}

bool file_read_all(FILE* file, char** content, size_t* length) {
  size_t room = 0;
  *length = 0;
  errno = 0;
  do {
    room = 2 * room + 65536;
    char* const larger = realloc(*content, room);
    if (larger == NULL) return false;
    *content = larger;
    *length += fread(larger + *length, 1, room - *length, file);
  } while (*length == room);
  return feof(file) && !ferror(file);
}
