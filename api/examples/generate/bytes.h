/* Files of little-endian numbers that end in a checksum of what came before. */
#ifndef HEED_EXAMPLES_GENERATE_BYTES_H
#define HEED_EXAMPLES_GENERATE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct byte_file {
  FILE* file;
  const char* path;
  uint64_t checksum; /* of all bytes so far: 64-bit FNV-1a */
} byte_file;

/* False after an error, which is then on stderr. Reads take nothing from the file that was not
 * asked for, so that its descriptor may be read on. */
bool bytes_open(const char* path, const char* mode, byte_file* f);
/* Closes what is open. `ok`, unless what was written has not arrived. */
bool bytes_close(bool ok, byte_file* f);

bool bytes_read(byte_file* f, void* bytes, size_t count);
bool bytes_write(byte_file* f, const void* bytes, size_t count);

/* The checksum so far, which follows in the file. */
bool bytes_read_checksum(byte_file* f);
bool bytes_write_checksum(byte_file* f);
/* That nothing follows. */
bool bytes_read_end(byte_file* f);

/* Numbers of `size` bytes. */
uint64_t number_at(const uint8_t* bytes, size_t size);
void put_number(uint64_t number, size_t size, uint8_t* bytes);

#endif /* HEED_EXAMPLES_GENERATE_BYTES_H */
