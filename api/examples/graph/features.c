#include "features.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../attend/npy.h"
#include "../random.h"

/* row += the vector of a node, which is a unit vector or random signs. */
static void add_vector(float* row, int64_t width, bool units, int64_t seed, int32_t node) {
  if (units) {
    row[node] += 1;
    return;
  }
  /* Seeds lie far apart, so that no two nodes see the same numbers one after the other. */
  random_source start = {(uint64_t)node};
  random_source random = {random_bits(&start) ^ (uint64_t)seed};
  uint64_t bits = 0;
  for (int64_t x = 0; x < width; ++x, bits >>= 1) {
    if (x % 64 == 0) bits = random_bits(&random);
    row[x] += (bits & 1) != 0 ? 1.0F : -1.0F;
  }
}

bool features_by_acquaintance(const edge_list* edges, const bool* repeated, int64_t width,
                              int64_t seed, feature_rows* features) {
  const bool units = edges->nodes <= width;
  features->width = units && edges->nodes > 0 ? edges->nodes : width;
  features->unit = units ? 1 : (double)width;
  features->rows =
      calloc((size_t)edges->nodes * (size_t)features->width + 1, sizeof *features->rows);
  if (features->rows == NULL) return false;
  for (int32_t n = 0; n < edges->nodes; ++n) {
    add_vector(features->rows + n * features->width, features->width, units, seed, n);
  }
  for (int64_t e = 0; e < edges->count; ++e) {
    if (repeated[e] || edges->sources[e] == edges->destinations[e]) continue;
    float* const row = features->rows + edges->destinations[e] * features->width;
    add_vector(row, features->width, units, seed, edges->sources[e]);
  }
  return true;
}

bool features_read(const char* program, const char* path, const edge_list* edges,
                   feature_rows* features) {
  npy_tensor tensor;
  npy_tensor rows = {NULL, NPY_F32, 0, {0, 0, 0, 0}};
  npy_error error;
  if (!npy_read(path, &tensor, &error)) {
    fprintf(stderr, "%s: %s\n", program, error.text);
    return false;
  }
  bool ok = tensor.rank == 2 && tensor.shape[0] == edges->nodes && tensor.shape[1] > 0;
  if (!ok) {
    fprintf(stderr, "%s: %s: its shape is [", program, path);
    for (int i = 0; i < tensor.rank; ++i) {
      fprintf(stderr, "%s%" PRId64, i > 0 ? ", " : "", tensor.shape[i]);
    }
    fprintf(stderr, "], not [%" PRId32 ", features], a row for each node\n", edges->nodes);
  } else if (!npy_to_f32(&tensor, &rows)) {
    fprintf(stderr, "%s: %s: no memory to convert it\n", program, path);
    ok = false;
  }
  features->rows = rows.data;
  features->width = tensor.shape[1];
  features->unit = 1;
  npy_release(&tensor);
  return ok;
}
