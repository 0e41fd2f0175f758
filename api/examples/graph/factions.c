/* Learning over a graph: who of a karate club goes with the instructor when it splits, and who with
 * the president? Only these two are labelled. Three steps of attention, data += what neighbours
 * say, carry what each member is to the others; the gradients of the two labels' loss come back
 * along the same edges, to matrices that all members share.
 *
 *   [heed_graph_attention -> score of every member -> loss of two ->
 *    heed_graph_attention_backward -> a step downhill]...
 *
 * Who attends whom, and on which side everybody is, is drawn before and after. */
#include <heed.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arguments.h"
#include "../heat.h"
#include "../random.h"
#include "edges.h"

static const char program[] = "factions";

enum { MEMBERS = 34, HEADS = 2, MATRIX = MEMBERS * MEMBERS, STEPS = 3, LABELLED = 2 };

/* Which members joined the instructor's new club: what Zachary saw in the end. */
static const bool joined[MEMBERS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1,
                                     1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const int labelled[LABELLED] = {0, MEMBERS - 1};

static const char help[] =
    "Usage: factions [OPTION...] FILE\n"
    "\n"
    "Learns the two factions of Zachary's karate club from two labelled members, by attention\n"
    "over who met whom. FILE is karate.txt.\n"
    "\n"
    "  --rounds N     of learning (default: 60)\n"
    "  --rate X       how far a round goes (default: 0.2)\n"
    "  --seed N       of the random numbers (default: 1)\n"
    "  -h, --help     print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if not, 2 for a wrong command line.\n";

typedef struct options {
  const char* file;
  int64_t rounds, seed;
  double rate;
  bool help;
} options;

static bool read_options(int argc, char** argv, options* o) {
  *o = (options){NULL, 60, 1, 0.2, false};
  const argument known[] = {
      {"FILE", ARGUMENT_TEXT, &o->file, 0, 0},
      {"--rounds", ARGUMENT_INTEGER, &o->rounds, 0, 1000000},
      {"--rate", ARGUMENT_POSITIVE, &o->rate, 0, 0},
      {"--seed", ARGUMENT_INTEGER, &o->seed, 0, INT64_MAX},
      {"--help", ARGUMENT_FLAG, &o->help, 0, 0},
      {"-h", ARGUMENT_FLAG, &o->help, 0, 0},
  };
  if (!arguments_read(program, known, sizeof known / sizeof *known, argc, argv)) return false;
  if (o->help || o->file != NULL) return true;
  fprintf(stderr, "%s: which FILE? --help has more\n", program);
  return false;
}

/* ---- The model --------------------------------------------------------------------------------
 */

/* What is learned, and in the same order its gradients. */
typedef struct parameters {
  float w_query[MATRIX], w_key[MATRIX], w_value[MATRIX];
  float readout[MEMBERS];
} parameters;

typedef struct model {
  parameters learned, gradients;
  float data[MATRIX]; /* who a member is: 1 at its own place */
  float out[MATRIX], grad_out[MATRIX];
  float* weights; /* [edges, HEADS] of the last step */
  double scores[MEMBERS];
} model;

static void begin(model* m, int64_t seed) {
  random_source random = {(uint64_t)seed};
  memset(m->data, 0, sizeof m->data);
  for (int i = 0; i < MATRIX; ++i) {
    const bool diagonal = i % (MEMBERS + 1) == 0;
    if (diagonal) m->data[i] = 1;
    m->learned.w_query[i] = (float)(0.1 * random_normal(&random));
    m->learned.w_key[i] = (float)(0.1 * random_normal(&random));
    m->learned.w_value[i] = (float)(0.1 * random_normal(&random)) + (diagonal ? 0.5F : 0);
  }
  for (int x = 0; x < MEMBERS; ++x) m->learned.readout[x] = (float)(0.01 * random_normal(&random));
}

static void describe(heed_graph_attention_desc* desc, heed_graph_attention_args* args, model* m) {
  desc->inputs = HEED_GRAPH_SHARED;
  desc->heads = HEADS;
  desc->features = MEMBERS / HEADS;
  desc->width = MEMBERS;
  desc->steps = STEPS;
  desc->residual = 1;
  args->data = m->data;
  args->w_query = m->learned.w_query;
  args->w_key = m->learned.w_key;
  args->w_value = m->learned.w_value;
  args->out = m->out;
  args->weights = m->weights;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* There: the score of every member, above 0 on the instructor's side. */
static heed_status attend(const heed_context* context, const heed_graph* graph, model* m) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  describe(&desc, &args, m);
  const heed_status status = heed_graph_attention(context, graph, &desc, &args);
  for (int n = 0; n < MEMBERS; ++n) {
    m->scores[n] = 0;
    for (int x = 0; x < MEMBERS; ++x) {
      m->scores[n] += m->learned.readout[x] * m->out[n * MEMBERS + x];
    }
  }
  return status;
}

/* -log of the probability that both labels have. */
static double loss_of(const model* m) {
  double loss = 0;
  for (int i = 0; i < LABELLED; ++i) {
    const int n = labelled[i];
    loss -= log(sigmoid(joined[n] ? m->scores[n] : -m->scores[n]));
  }
  return loss;
}

/* And back: the gradients of the loss. */
static heed_status differentiate(const heed_context* context, const heed_graph* graph, model* m) {
  memset(m->grad_out, 0, sizeof m->grad_out);
  memset(m->gradients.readout, 0, sizeof m->gradients.readout);
  for (int i = 0; i < LABELLED; ++i) {
    const int n = labelled[i];
    const double of_score = sigmoid(m->scores[n]) - (joined[n] ? 1 : 0);
    for (int x = 0; x < MEMBERS; ++x) {
      m->grad_out[n * MEMBERS + x] = (float)(of_score * m->learned.readout[x]);
      m->gradients.readout[x] += (float)(of_score * m->out[n * MEMBERS + x]);
    }
  }
  heed_graph_attention_desc forward = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args inputs = HEED_GRAPH_ATTENTION_ARGS_INIT;
  describe(&forward, &inputs, m);
  heed_graph_attention_backward_desc desc = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &forward;
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  args.attention = &inputs;
  args.grad_out = m->grad_out;
  args.grad_w_query = m->gradients.w_query;
  args.grad_w_key = m->gradients.w_key;
  args.grad_w_value = m->gradients.w_value;
  return heed_graph_attention_backward(context, graph, &desc, &args);
}

static void go_downhill(model* m, double rate) {
  float* const learned = m->learned.w_query; /* all of them lie side by side */
  const float* const gradients = m->gradients.w_query;
  for (size_t i = 0; i < sizeof m->learned / sizeof *learned; ++i) {
    learned[i] -= (float)rate * gradients[i];
  }
}

/* ---- What is printed --------------------------------------------------------------------------
 */

static int right(const model* m) {
  int count = 0;
  for (int n = 0; n < MEMBERS; ++n) count += (m->scores[n] > 0) == joined[n] ? 1 : 0;
  return count;
}

/* A line for each side as it was in the end; the darker a member, the surer the model is that it
 * belongs to the instructor. */
static void print_sides(const model* m) {
  for (int side = 1; side >= 0; --side) {
    printf("%-16s", side == 1 ? "instructor (1)" : "president (34)");
    for (int n = 0; n < MEMBERS; ++n) {
      char text[16];
      if (joined[n] != (side == 1)) continue;
      snprintf(text, sizeof text, " %2d", n + 1);
      heat_cell(sigmoid(4 * m->scores[n]), text);
    }
    printf("\n");
  }
}

/* Whom member 3 attends, who knows people on both sides. */
static void print_attention(const model* m, const edge_list* edges) {
  const int node = 2;
  printf("3 attends       ");
  for (int64_t e = 0; e < edges->count; ++e) {
    char text[16];
    double mean = 0;
    if (edges->destinations[e] != node) continue;
    for (int h = 0; h < HEADS; ++h) mean += (double)m->weights[e * HEADS + h];
    snprintf(text, sizeof text, " %2" PRId32, edges->sources[e] + 1);
    heat_cell(3 * mean / (double)HEADS, text);
  }
  printf("\n");
}

static void print_model(const char* when, const model* m, const edge_list* edges) {
  printf("%s: %d of %d on their side\n", when, right(m), MEMBERS);
  print_sides(m);
  print_attention(m, edges);
}

/* ---- The run ----------------------------------------------------------------------------------
 */

static bool failed(heed_status status) {
  if (status == HEED_STATUS_OK) return false;
  fprintf(stderr, "%s: %s: %s\n", program, heed_status_name(status), heed_last_error());
  return true;
}

static bool learn(const heed_context* context, const heed_graph* graph, const options* o,
                  const edge_list* edges, model* m) {
  if (failed(attend(context, graph, m))) return false;
  print_model("before", m, edges);
  printf("\n");
  for (int64_t round = 0; round < o->rounds; ++round) {
    if (failed(differentiate(context, graph, m))) return false;
    go_downhill(m, o->rate);
    if (failed(attend(context, graph, m))) return false;
    const int64_t told = o->rounds / 4 > 0 ? o->rounds / 4 : 1;
    if ((round + 1) % told == 0) {
      printf("round %3" PRId64 "  loss %.4f\n", round + 1, loss_of(m));
    }
  }
  printf("\n");
  print_model("after", m, edges);
  return true;
}

/* Edges in both directions: everybody attends to everybody they met. */
static bool read_club(const options* o, edge_list* edges) {
  if (!edges_read(program, o->file, false, edges)) return false;
  const int64_t count = edges->count;
  for (int64_t e = 0; e < count; ++e) {
    if (!edges_add(edges, edges->destinations[e], edges->sources[e], 1)) {
      fprintf(stderr, "%s: no memory for the edges\n", program);
      return false;
    }
  }
  if (edges->nodes == MEMBERS) return true;
  fprintf(stderr, "%s: %s: it has %" PRId32 " nodes; the club has %d members\n", program, o->file,
          edges->nodes, MEMBERS);
  return false;
}

static bool run(const options* o) {
  edge_list edges = {0};
  heed_context* context = NULL;
  heed_graph* graph = NULL;
  model* const m = calloc(1, sizeof *m);
  bool ok = read_club(o, &edges);
  if (ok && m != NULL) m->weights = calloc((size_t)edges.count * HEADS, sizeof *m->weights);
  if (ok && (m == NULL || m->weights == NULL)) {
    fprintf(stderr, "%s: no memory for the model\n", program);
    ok = false;
  }
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = edges.nodes;
  desc.edges = edges.count;
  desc.sources = edges.sources;
  desc.destinations = edges.destinations;
  desc.reverse = 1; /* gradients go back along edges */
  ok = ok && !failed(heed_context_create(NULL, &context));
  ok = ok && !failed(heed_graph_create(context, &desc, &graph));
  if (ok) begin(m, o->seed);
  ok = ok && learn(context, graph, o, &edges, m);
  heed_graph_destroy(graph);
  heed_context_destroy(context);
  edges_release(&edges);
  if (m != NULL) free(m->weights);
  free(m);
  return ok;
}

int main(int argc, char** argv) {
  options o;
  if (!read_options(argc, argv, &o)) return EXIT_USAGE;
  if (o.help) {
    fputs(help, stdout);
    return EXIT_WELL;
  }
  return run(&o) ? EXIT_WELL : EXIT_FAILED;
}
