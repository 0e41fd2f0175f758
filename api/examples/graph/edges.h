/* The edges of a graph, as heed takes them, and the names of its nodes. */
#ifndef HEED_EXAMPLES_GRAPH_EDGES_H
#define HEED_EXAMPLES_GRAPH_EDGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct edge_list {
  int32_t nodes;
  int64_t count;
  int64_t room;          /* for this many edges before memory is asked for again */
  int32_t* sources;      /* [count] */
  int32_t* destinations; /* [count] */
  double* weights;       /* [count], above 0 */
  bool weighted;         /* not all weights are 1 */
  char** names;          /* [nodes]; NULL: their numbers */
} edge_list;

/* Adds one. False without memory for it. */
bool edges_add(edge_list* edges, int32_t source, int32_t destination, double weight);

/* repeated[e] becomes whether an earlier edge joins the same two nodes in the same direction: what
 * heed removes. False without memory to find out. */
bool edges_find_repeated(const edge_list* edges, bool* repeated);

/* Reads a file of one edge a line: two integers, or two names with a tab or comma between them, and
 * maybe a weight, or with `unweighted` anything else. An edge of weight 0 is none. Lines that begin
 * with # or % and empty ones are skipped. Nodes that are all integers are numbered by size, others
 * as they appear. False after an error, which is then on stderr with the number of the line; so is
 * a file without edges one. The list must be zeroed; release it in any case. */
bool edges_read(const char* program, const char* path, bool unweighted, edge_list* edges);

void edges_release(edge_list* edges);

#endif /* HEED_EXAMPLES_GRAPH_EDGES_H */
