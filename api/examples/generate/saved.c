#define _POSIX_C_SOURCE 200112L /* fileno */

#include "saved.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

static const char magic[] = "heed-txt"; /* 8 bytes, and an end that is not written */

enum { VERSION = 1, AT_VERSION = 8, AT_MODEL = 12, AT_COUNT = 20, HEADER = 28, MOST = 1 << 28 };

static bool flushed(const byte_file* f) {
  errno = 0;
  return fflush(f->file) == 0 || failed("%s: %s", f->path, strerror(errno));
}

bool saved_write(const char* path, uint64_t model, const uint8_t* tokens, int64_t count,
                 const heed_cache* cache, heed_sequence sequence) {
  uint8_t header[HEADER] = {0};
  memcpy(header, magic, sizeof magic - 1);
  put_number(VERSION, 4, header + AT_VERSION);
  put_number(model, 8, header + AT_MODEL);
  put_number((uint64_t)count, 8, header + AT_COUNT);
  byte_file f = {0};
  const bool ok = bytes_open(path, "wb", &f) && bytes_write(&f, header, HEADER) &&
                  bytes_write(&f, tokens, (size_t)count) && bytes_write_checksum(&f) &&
                  flushed(&f) && succeeded(heed_cache_save_file(cache, sequence, fileno(f.file)));
  return bytes_close(ok, &f);
}

bool saved_open(const char* path, uint64_t model, byte_file* f, uint8_t** tokens, int64_t* count) {
  uint8_t header[HEADER];
  if (!bytes_open(path, "rb", f) || !bytes_read(f, header, AT_VERSION)) return false;
  if (memcmp(header, magic, sizeof magic - 1) != 0) {
    return failed("%s: it is no prompt that this program saved", path);
  }
  if (!bytes_read(f, header + AT_VERSION, HEADER - AT_VERSION)) return false;
  const uint64_t version = number_at(header + AT_VERSION, 4);
  const uint64_t length = number_at(header + AT_COUNT, 8);
  if (version != VERSION) {
    return failed("%s: its version is %" PRIu64 ", this program knows %d", path, version, VERSION);
  }
  if (length < 1 || length > MOST) {
    return failed("%s: it has %" PRIu64 " tokens, not 1 to %d", path, length, MOST);
  }
  *count = (int64_t)length;
  *tokens = malloc(length);
  if (*tokens == NULL) return failed("no memory for the tokens of %s", path);
  if (!bytes_read(f, *tokens, length) || !bytes_read_checksum(f)) return false;
  return number_at(header + AT_MODEL, 8) == model ||
         failed("%s: it was computed with another model", path);
}

bool saved_load(byte_file* f, int64_t count, heed_cache* cache, heed_sequence* sequence) {
  int64_t length = 0;
  heed_status status = heed_cache_load_file(cache, fileno(f->file), sequence);
  if (status == HEED_STATUS_OK) status = heed_cache_length(cache, *sequence, 0, &length);
  if (status != HEED_STATUS_OK) {
    return failed("%s: %s: %s", f->path, heed_status_name(status), heed_last_error());
  }
  if (length != count) {
    return failed("%s: it has %" PRId64 " tokens, and keys of %" PRId64, f->path, count, length);
  }
  return bytes_read_end(f);
}
