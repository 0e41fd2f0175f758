#include "picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_name(FILE* file, const edge_list* edges, int32_t node) {
  if (edges->names == NULL) {
    fprintf(file, "%" PRId32, node);
    return;
  }
  putc('"', file);
  for (const char* c = edges->names[node]; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') putc('\\', file);
    putc(*c, file);
  }
  putc('"', file);
}

/* Light edges first, so that heavy ones are drawn on top of them: there are ten kinds. */
static void write_edges(FILE* file, const edge_list* edges, const bool* repeated,
                        const double* weights) {
  for (int kind = 0; kind < 10; ++kind) {
    for (int64_t e = 0; e < edges->count; ++e) {
      /* NaN is drawn as 0, and its tooltip says so. */
      const double heard = weights[e] > 0 ? weights[e] : 0;
      const double weight = heard < 1 ? heard : 1;
      if (repeated[e] || (int)(weight * 9.999) != kind) continue;
      fprintf(file, "  ");
      write_name(file, edges, edges->sources[e]);
      fprintf(file, " -> ");
      write_name(file, edges, edges->destinations[e]);
      /* Unheard edges are grey, the others blue. */
      fprintf(file, " [penwidth=%.2f color=\"%s\" tooltip=\"%.3g\"]\n", 0.4 + 3.6 * weight,
              weight < 0.005  ? "#b8b8b8"
              : weight < 0.15 ? "#8fb1d3"
                              : "#1f5f9f",
              weights[e]);
    }
  }
}

bool picture_write(const char* program, const char* path, const edge_list* edges,
                   const bool* repeated, const double* weights) {
  FILE* const file = fopen(path, "w");
  if (file == NULL) {
    fprintf(stderr, "%s: %s: cannot be written: %s\n", program, path, strerror(errno));
    return false;
  }
  fprintf(file,
          "digraph attention {\n"
          "  graph [layout=neato start=3 overlap=false splines=curved outputorder=edgesfirst\n"
          "         bgcolor=white]\n"
          "  node [shape=circle fixedsize=true width=0.36 style=filled fillcolor=\"#fff4d6\"\n"
          "        fontname=\"Helvetica\" fontsize=12]\n"
          "  edge [arrowsize=0.5]\n");
  for (int32_t n = 0; n < edges->nodes; ++n) {
    fprintf(file, "  ");
    write_name(file, edges, n);
    putc('\n', file);
  }
  write_edges(file, edges, repeated, weights);
  fprintf(file, "}\n");
  const bool written = !ferror(file);
  if (fclose(file) == 0 && written) return true;
  fprintf(stderr, "%s: %s: cannot be written to its end\n", program, path);
  return false;
}
