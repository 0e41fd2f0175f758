#include "bytes.h"

#include <errno.h>
#include <string.h>

#include "say.h"

bool bytes_open(const char* path, const char* mode, byte_file* f) {
  f->path = path;
  f->checksum = UINT64_C(0xcbf29ce484222325);
  f->file = fopen(path, mode);
  if (f->file == NULL) return failed("%s: %s", path, strerror(errno));
  if (mode[0] == 'r') setvbuf(f->file, NULL, _IONBF, 0);
  return true;
}

bool bytes_close(bool ok, byte_file* f) {
  if (f->file == NULL) return ok;
  errno = 0;
  if (fclose(f->file) != 0 && ok) ok = failed("%s: %s", f->path, strerror(errno));
  f->file = NULL;
  return ok;
}

static void add_to_checksum(byte_file* f, const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    f->checksum = (f->checksum ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
}

bool bytes_read(byte_file* f, void* bytes, size_t count) {
  errno = 0;
  if (fread(bytes, 1, count, f->file) != count) {
    return ferror(f->file) ? failed("%s: %s", f->path, strerror(errno))
                           : failed("%s: it is truncated", f->path);
  }
  add_to_checksum(f, bytes, count);
  return true;
}

bool bytes_write(byte_file* f, const void* bytes, size_t count) {
  errno = 0;
  if (fwrite(bytes, 1, count, f->file) != count) {
    return failed("%s: %s", f->path, strerror(errno));
  }
  add_to_checksum(f, bytes, count);
  return true;
}

bool bytes_read_checksum(byte_file* f) {
  const uint64_t found = f->checksum;
  uint8_t stored[8];
  if (!bytes_read(f, stored, sizeof stored)) return false;
  f->checksum = found;
  return number_at(stored, sizeof stored) == found ||
         failed("%s: its checksum says that it was altered", f->path);
}

bool bytes_write_checksum(byte_file* f) {
  const uint64_t sum = f->checksum;
  uint8_t stored[8];
  put_number(sum, sizeof stored, stored);
  const bool ok = bytes_write(f, stored, sizeof stored);
  f->checksum = sum;
  return ok;
}

bool bytes_read_end(byte_file* f) {
  return fgetc(f->file) == EOF || failed("%s: something follows what belongs to it", f->path);
}

uint64_t number_at(const uint8_t* bytes, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i > 0; --i) number = number << 8 | bytes[i - 1];
  return number;
}

void put_number(uint64_t number, size_t size, uint8_t* bytes) {
  for (size_t i = 0; i < size; ++i) bytes[i] = (uint8_t)(number >> (8 * i));
}
