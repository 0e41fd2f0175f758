/* What the nodes of a graph are known by. */
#ifndef HEED_EXAMPLES_GRAPH_FEATURES_H
#define HEED_EXAMPLES_GRAPH_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "edges.h"

typedef struct feature_rows {
  float* rows; /* [nodes, width] */
  int64_t width;
  double unit; /* of a product of two rows: a shared acquaintance of acquaintances() */
} feature_rows;

/* Nodes by the company that they keep: each row is the node's own vector plus those of the sources
 * of its edges. The vectors are unit vectors where there are no more nodes than `width`, and the
 * product of two rows is the number of nodes that both know, themselves included. Otherwise they
 * are random signs, and it is `width` times that number, nearly. False without memory. */
bool features_by_acquaintance(const edge_list* edges, const bool* repeated, int64_t width,
                              int64_t seed, feature_rows* features);

/* The rows of an .npy file, [nodes, width] of any floats. False after an error, which is then on
 * stderr. */
bool features_read(const char* program, const char* path, const edge_list* edges,
                   feature_rows* features);

#endif /* HEED_EXAMPLES_GRAPH_FEATURES_H */
