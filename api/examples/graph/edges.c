#include "edges.h"

#include <stdlib.h>

bool edges_add(edge_list* edges, int32_t source, int32_t destination, double weight) {
  if (edges->count == edges->room) {
    const int64_t room = 2 * edges->room + 256;
    int32_t* const sources = realloc(edges->sources, (size_t)room * sizeof *sources);
    if (sources == NULL) return false;
    edges->sources = sources;
    int32_t* const ends = realloc(edges->destinations, (size_t)room * sizeof *ends);
    if (ends == NULL) return false;
    edges->destinations = ends;
    double* const weights = realloc(edges->weights, (size_t)room * sizeof *weights);
    if (weights == NULL) return false;
    edges->weights = weights;
    edges->room = room;
  }
  edges->sources[edges->count] = source;
  edges->destinations[edges->count] = destination;
  edges->weights[edges->count] = weight;
  edges->weighted = edges->weighted || weight != 1;
  ++edges->count;
  return true;
}

void edges_release(edge_list* edges) {
  for (int32_t i = 0; edges->names != NULL && i < edges->nodes; ++i) free(edges->names[i]);
  free(edges->names);
  free(edges->sources);
  free(edges->destinations);
  free(edges->weights);
}

typedef struct numbered_edge {
  int32_t source;
  int32_t destination;
  int64_t number;
} numbered_edge;

/* By destination, source and number. */
static int by_ends(const void* a, const void* b) {
  const numbered_edge* const x = a;
  const numbered_edge* const y = b;
  if (x->destination != y->destination) return x->destination < y->destination ? -1 : 1;
  if (x->source != y->source) return x->source < y->source ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

bool edges_find_repeated(const edge_list* edges, bool* repeated) {
  numbered_edge* const sorted = malloc((size_t)(edges->count + 1) * sizeof *sorted);
  if (sorted == NULL) return false;
  for (int64_t e = 0; e < edges->count; ++e) {
    sorted[e] = (numbered_edge){edges->sources[e], edges->destinations[e], e};
  }
  qsort(sorted, (size_t)edges->count, sizeof *sorted, by_ends);
  for (int64_t i = 0; i < edges->count; ++i) {
    repeated[sorted[i].number] = i > 0 && sorted[i].source == sorted[i - 1].source &&
                                 sorted[i].destination == sorted[i - 1].destination;
  }
  free(sorted);
  return true;
}
