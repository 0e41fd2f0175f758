/* Pictures of graphs, for Graphviz to draw. */
#ifndef HEED_EXAMPLES_GRAPH_PICTURE_H
#define HEED_EXAMPLES_GRAPH_PICTURE_H

#include <stdbool.h>

#include "edges.h"

/* Writes the graph in the DOT language: each edge that is not repeated is an arrow, the wider the
 * larger its weight, from a hairline at 0 to a bar at 1. False after an error, which is then on
 * stderr. */
bool picture_write(const char* program, const char* path, const edge_list* edges,
                   const bool* repeated, const double* weights);

#endif /* HEED_EXAMPLES_GRAPH_PICTURE_H */
