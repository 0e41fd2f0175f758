/* heed_mpi: attention of heed.h over the ranks of an MPI communicator.
 *
 * The tensors of one attention problem are split along the sequence: every rank brings the rows
 * that it has, its shard, and gets the rows of out that belong to them. The result is that of the
 * whole problem in one process, merged by log-sum-exp in a fixed order: its bits depend on how rows
 * are split over how many ranks, and not on time, threads or executors.
 *
 * Three strategies, of which the plan chooses one, or the caller:
 *
 *   ring     keys and values travel from rank to rank while the shard that came last is computed
 *   heads    all-to-all: every rank gets all rows of its share of the heads, and gives back out
 *   grid     both: ranks next to each other share heads, and shards travel between their groups
 *
 * The life of a program is that of heed.h: context, plan, run. Plans are made, run and destroyed
 * collectively: by all ranks of the communicator, in the same order. Descriptors are compared while
 * the plan is made. Where a rank refuses, finds no memory or fails, all ranks return the same
 * status and the same message, which names the rank; nothing hangs. An error of MPI itself, a
 * lost rank too, goes to the communicator's error handler, which by default ends the program; where
 * it returns, so does the call, with HEED_STATUS_INTERNAL and MPI's message, and the communicator
 * should not be used again.
 *
 * MPI is the caller's: initialised with MPI_THREAD_FUNNELED at least, and called by heed on the
 * calling thread only, which with MPI_THREAD_FUNNELED must be the main one. */
#ifndef HEED_MPI_H
#define HEED_MPI_H

#include <mpi.h>

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The message of the latest call of this header that failed on this thread; "" before the first
 * failure. Fields of heed_attention_desc are called desc.NAME there, as in heed.h. */
HEED_API const char* heed_mpi_last_error(void);

/* ---- Which rows a rank has ------------------------------------------------------------------ */

/* Positions count the rows of the whole sequence. Causal, windows, ALiBi, masks and biases go by
 * them; so where there are none of these, the placement does not matter. */
typedef enum heed_mpi_placement {
  HEED_MPI_CONTIGUOUS = 0, /* in order of ranks: rank 0 has the first rows */
  HEED_MPI_ZIGZAG = 1,     /* of 2 N chunks, rank i has chunk i and then chunk 2 N - 1 - i, which
                              gives all ranks the same share of causal attention. The first of the
                              two is as long as the other or one row longer */
  HEED_MPI_POSITIONS = 2   /* those of desc.query_positions and desc.key_positions */
} heed_mpi_placement;

typedef struct heed_mpi_rows {
  int64_t begin; /* position of the first */
  int64_t count;
} heed_mpi_rows;

/* The rows of a sequence of this length that rank `rank` of `ranks` has, in the order of its shard:
 * with HEED_MPI_CONTIGUOUS rows[0], with HEED_MPI_ZIGZAG rows[0] followed by rows[1]; lengths
 * differ by one row at most. Plans take any other lengths too. Calls no MPI. */
HEED_API heed_status heed_mpi_place(uint32_t placement, int64_t length, int ranks, int rank,
                                    heed_mpi_rows rows[2]);

/* ---- Descriptor ------------------------------------------------------------------------------ */

/* Whose queries. */
typedef enum heed_mpi_queries {
  HEED_MPI_QUERIES_SPLIT = 0,     /* every rank brings those of its rows */
  HEED_MPI_QUERIES_EVERYWHERE = 1 /* every rank brings the same, and all get the same out: few rows
                                     that attend a long cache, which is split over ranks */
} heed_mpi_queries;

/* The tensors that runs of a plan bring besides queries, keys and values, or-ed. */
typedef enum heed_mpi_tensors {
  HEED_MPI_MASK = 1,
  HEED_MPI_BIAS = 2,
  HEED_MPI_ALIBI_SLOPES = 4,
  HEED_MPI_SINKS = 8,
  HEED_MPI_KEY_LENGTHS = 16,
  HEED_MPI_SCORE_WEIGHTS = 32 /* with HEED_SCORE_ADDITIVE, and some with HEED_SCORE_COSINE */
} heed_mpi_tensors;

/* `attention` describes this rank's part of the problem: query_length and key_length are the rows
 * of its shard, 0 too, and layouts say where they lie. All else is that of the whole: batch, heads
 * and options are the same on all ranks, except layouts' strides. Offsets are those of the whole,
 * too: at the bottom right the last of all queries stands at the last of all keys. Of mask and bias
 * every rank brings the rows of its queries and the keys of the whole sequence, in order of
 * positions. One that repeats over queries, with rows of 1 on all ranks, is the same on all of
 * them; 0 says that it does not, also where a rank has a single query.
 *
 * Packed batches: with desc.sequences above 0 the sequences of a batch lie one after the other in
 * the rows of all ranks, and a row attends keys of its own sequence alone. Positions count all
 * rows, for placements, masks and biases too; causal, windows and ALiBi count from the beginning of
 * each sequence, and key lengths are one per sequence. `attention` has a batch of 1 and
 * packed_queries and packed_keys of 0, whatever the rows of a shard belong to.
 *
 * Dropout goes by the batch or sequence, head, row and key of the whole: what is dropped does not
 * depend on how rows are split, and is what heed_attention drops.
 *
 * Not over ranks, HEED_STATUS_UNSUPPORTED: pages, keys and values of 8 bits, hard attention, score
 * functions, weights and column sums; bottom-right positions with HEED_MPI_KEY_LENGTHS, which runs
 * tell and plans would need: a packed batch has lengths that its plan knows. */
typedef struct heed_mpi_attention_desc {
  uint32_t struct_size;
  uint32_t placement;                   /* heed_mpi_placement, of queries and keys */
  const heed_attention_desc* attention; /* read while the plan is made, as are positions */
  const int64_t*
      query_positions;          /* [query_length] and [key_length], with HEED_MPI_POSITIONS, else */
  const int64_t* key_positions; /* NULL: together those of all ranks are 0, 1, 2, ..., each once.
                                   Rows at consecutive positions, of one sequence, are computed
                                   together: a shard may have 1024 such spans of queries, and of
                                   keys */
  uint32_t queries;             /* heed_mpi_queries */
  uint32_t tensors;             /* heed_mpi_tensors */
  int64_t head_ranks;    /* ranks next to each other that share heads: 1 is the ring, all ranks are
                            heads, between them a grid. Must divide the number of ranks and key_heads;
                            with HEED_MPI_QUERIES_EVERYWHERE 1. 0: the plan chooses */
  double flops_per_byte; /* finite, above 0: operations that a rank computes while the network
                            brings it a byte, to choose by; 0: 160, which is 2 TFLOP/s over 100
                            Gbit/s */
  int64_t sequences;     /* of a packed batch; 0: not packed */
  const int32_t* cu_seqlens_q; /* [sequences + 1], from 0 to the queries of all ranks, and */
  const int32_t* cu_seqlens_k; /* likewise of keys: where sequences begin, and the last ends. The
                                  same on all ranks, read while the plan is made; else NULL */
} heed_mpi_attention_desc;
#define HEED_MPI_ATTENTION_DESC_INIT \
  { (uint32_t)sizeof(heed_mpi_attention_desc), 0, NULL, NULL, NULL, 0, 0, 0, 0.0, 0, NULL, NULL }

/* ---- Plan and run ---------------------------------------------------------------------------- */

typedef struct heed_mpi_attention_plan heed_mpi_attention_plan;

/* Collective. Duplicates the communicator, compares descriptors, chooses the strategy and plans all
 * that this rank computes and sends. *plan is written only on success; it holds the context. */
HEED_API heed_status heed_mpi_attention_plan_create(MPI_Comm communicator,
                                                    const heed_context* context,
                                                    const heed_mpi_attention_desc* desc,
                                                    heed_mpi_attention_plan** plan);
/* Collective, and before MPI_Finalize. NULL is allowed, if it is on all ranks. */
HEED_API void heed_mpi_attention_plan_destroy(heed_mpi_attention_plan* plan);

typedef struct heed_mpi_attention_info {
  uint32_t struct_size;
  uint32_t choices;     /* that were compared: heed_mpi_attention_plan_choice */
  const char* strategy; /* "ring", "heads", "grid", or "everywhere" for such queries */
  int64_t ranks;
  int64_t rank;
  int64_t head_ranks;
  int64_t rounds;         /* of this rank: those of its own keys, and of what arrives */
  double flops;           /* useful ones, of this rank: as in heed_attention_info */
  double bytes;           /* that this rank sends in a run */
  size_t workspace_bytes; /* of this rank */
} heed_mpi_attention_info;
#define HEED_MPI_ATTENTION_INFO_INIT \
  { (uint32_t)sizeof(heed_mpi_attention_info), 0, NULL, 0, 0, 0, 0, 0.0, 0.0, 0 }

HEED_API heed_status heed_mpi_attention_plan_describe(const heed_mpi_attention_plan* plan,
                                                      heed_mpi_attention_info* info);

/* The cost of a number of head_ranks for the rank that it costs most. With I for
 * desc.flops_per_byte, the cost is
 *
 *   max(flops, I ring_bytes) + I heads_bytes
 *
 * because what travels around the ring does so meanwhile, and an all-to-all does not. The plan
 * takes the least; of equal ones, the fewest head_ranks. */
typedef struct heed_mpi_choice {
  uint32_t struct_size;
  uint32_t chosen;
  int64_t head_ranks;
  double flops;
  double ring_bytes;
  double heads_bytes;
  double cost;
} heed_mpi_choice;
#define HEED_MPI_CHOICE_INIT \
  { (uint32_t)sizeof(heed_mpi_choice), 0, 0, 0.0, 0.0, 0.0, 0.0 }

/* index is below info.choices. */
HEED_API heed_status heed_mpi_attention_plan_choice(const heed_mpi_attention_plan* plan,
                                                    uint32_t index, heed_mpi_choice* choice);

/* The bytes that a run of this plan needs on this rank: of the ring two shards of keys and values
 * at most, partial results of its queries in the arithmetic's type, and what heed_attention needs.
 */
HEED_API heed_status heed_mpi_attention_plan_workspace(const heed_mpi_attention_plan* plan,
                                                       size_t* bytes);

/* Collective. args as of heed_attention, of this rank's shard; what desc.tensors names must be
 * given, and nothing else. Slopes, sinks, weights of scores, key lengths (of the whole sequences),
 * and seed and offset of dropout are the same on all ranks. lse may be wanted by some ranks alone.
 * A rank with HEED_VERBOSE=1 in its environment when the plan was made prints a line: the time it
 * computed, the time it waited, the bytes it sent. */
HEED_API heed_status heed_mpi_attention_plan_run(const heed_mpi_attention_plan* plan,
                                                 const heed_attention_args* args, void* workspace,
                                                 size_t workspace_bytes);

/* Seconds that the latest run of a plan took on this rank; 0 before the first. The rest of
 * `run` is MPI's: it is called between pieces of computing, so that messages move on. */
typedef struct heed_mpi_times {
  uint32_t struct_size;
  uint32_t reserved;
  double run;     /* from call to return */
  double compute; /* in heed_attention, and moving rows on this rank */
  double wait;    /* for messages and other ranks, with nothing else to do */
} heed_mpi_times;
#define HEED_MPI_TIMES_INIT \
  { (uint32_t)sizeof(heed_mpi_times), 0, 0.0, 0.0, 0.0 }

HEED_API heed_status heed_mpi_attention_plan_times(const heed_mpi_attention_plan* plan,
                                                   heed_mpi_times* times);

/* Collective. Plan, workspace and run in one call. */
HEED_API heed_status heed_mpi_attention(MPI_Comm communicator, const heed_context* context,
                                        const heed_mpi_attention_desc* desc,
                                        const heed_attention_args* args);

/* ---- Gradients --------------------------------------------------------------------------------
 */

/* Which gradients runs of a plan compute, or-ed. */
typedef enum heed_mpi_gradients {
  HEED_MPI_GRAD_QUERY = 1,
  HEED_MPI_GRAD_KEY = 2,
  HEED_MPI_GRAD_VALUE = 4,
  HEED_MPI_GRAD_BIAS = 8,
  HEED_MPI_GRAD_SINKS = 16,
  HEED_MPI_GRAD_ALIBI_SLOPES = 32,
  HEED_MPI_GRAD_SCALE = 64,
  HEED_MPI_GRAD_TEMPERATURE = 128,
  HEED_MPI_GRAD_SCORE_WEIGHTS = 256
} heed_mpi_gradients;

/* The gradients of attention over ranks, by the formulas of heed_attention_backward and with the
 * strategies of heed_mpi_attention. Around the ring keys and values travel as they do there, and
 * what a rank has of the gradients of another's goes straight back to it while the next shard is
 * computed. Sums are made in the arithmetic's type, in an order that depends on how rows are split
 * over how many ranks alone, and rounded once. Every rank gets the gradients of its rows. Those of
 * what all ranks have together are the same on all of them, bit by bit: of sinks, slopes, weights
 * of scores, scale and temperature; of a bias that repeats over queries; and with
 * HEED_MPI_QUERIES_EVERYWHERE of queries and biases.
 *
 * A bias whose gradient is wanted repeats over queries on all ranks or on none. Its other sizes are
 * the same on all ranks.
 *
 * Not over ranks: what heed_mpi_attention does not do, nor score functions' derivatives. */
typedef struct heed_mpi_attention_backward_desc {
  uint32_t struct_size;
  uint32_t accumulate; /* as in heed_attention_backward_desc; the same on all ranks */
  /* As for heed_mpi_attention. Its fields, and those of its attention, are called desc.NAME too.
   * Read while the plan is made. */
  const heed_mpi_attention_desc* attention;
  uint32_t gradients;   /* heed_mpi_gradients; 0: those of query, key and value */
  uint32_t reserved;    /* 0 */
  heed_layout grad_out; /* of this rank's rows, as in heed_attention_backward_desc; dtypes of */
  heed_layout grad_lse; /* grad_out, lse and grad_lse are the same on all ranks */
  heed_layout grad_query;
  heed_layout grad_key;
  heed_layout grad_value;
  heed_score_layout grad_bias;
} heed_mpi_attention_backward_desc;
#define HEED_MPI_ATTENTION_BACKWARD_DESC_INIT                                            \
  {                                                                                      \
    (uint32_t)sizeof(heed_mpi_attention_backward_desc), 0, NULL, 0, 0, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT,          \
        HEED_SCORE_LAYOUT_INIT                                                           \
  }

typedef struct heed_mpi_attention_backward_plan heed_mpi_attention_backward_plan;

/* Collective, and otherwise as the functions of plans above. flops are those of the five products,
 * as in heed_attention_backward_plan_describe; bytes count gradients on their way back. */
HEED_API heed_status heed_mpi_attention_backward_plan_create(
    MPI_Comm communicator, const heed_context* context,
    const heed_mpi_attention_backward_desc* desc, heed_mpi_attention_backward_plan** plan);
HEED_API void heed_mpi_attention_backward_plan_destroy(heed_mpi_attention_backward_plan* plan);
HEED_API heed_status heed_mpi_attention_backward_plan_describe(
    const heed_mpi_attention_backward_plan* plan, heed_mpi_attention_info* info);
HEED_API heed_status heed_mpi_attention_backward_plan_choice(
    const heed_mpi_attention_backward_plan* plan, uint32_t index, heed_mpi_choice* choice);
/* Of the ring two shards of keys and values at most, and of their gradients in the arithmetic's
 * type four: own ones, two that are computed or sent, one that arrives; gradients of queries in
 * that type, one of a bias too, and what heed_attention_backward needs. */
HEED_API heed_status heed_mpi_attention_backward_plan_workspace(
    const heed_mpi_attention_backward_plan* plan, size_t* bytes);

/* Collective. args as of heed_attention_backward, of this rank's shard: out and lse are what
 * heed_mpi_attention gave it, lse as float64 where it may be beyond 2^20. Gradients that
 * desc.gradients names may be NULL on ranks that do not want them; others must be. grad_lse may be
 * given by some ranks alone. Sinks, slopes, scale and temperature have their gradients on all
 * ranks, of all query heads. */
HEED_API heed_status heed_mpi_attention_backward_plan_run(
    const heed_mpi_attention_backward_plan* plan, const heed_attention_backward_args* args,
    void* workspace, size_t workspace_bytes);
HEED_API heed_status heed_mpi_attention_backward_plan_times(
    const heed_mpi_attention_backward_plan* plan, heed_mpi_times* times);

/* Collective. Plan, workspace and run in one call. */
HEED_API heed_status heed_mpi_attention_backward(MPI_Comm communicator, const heed_context* context,
                                                 const heed_mpi_attention_backward_desc* desc,
                                                 const heed_attention_backward_args* args);

/* ---- Graphs over ranks -----------------------------------------------------------------------
 */

/* The nodes of a graph are split over ranks. A rank has the rows of its own nodes, in order of
 * their numbers, and the edges that end there; it computes their results, for which it gets from
 * the others, once per step, the keys and values of just those nodes that its edges lead from.
 *
 * Every rank brings some of the edges, whichever; each goes to the rank that has its destination.
 * Or all ranks read one file together, each its share of the bytes. */
typedef struct heed_mpi_graph_desc {
  uint32_t struct_size;
  uint32_t index_type; /* heed_index_type of sources and destinations */
  int64_t nodes;       /* of the whole graph, at most 2^31 - 1. With a path 0 is one more than the
                          largest in the file */
  int64_t edges;       /* that this rank brings; 0 too */
  const void* sources; /* [edges], 0 to nodes - 1 */
  const void* destinations; /* [edges] */
  const char* path;      /* NULL, or a text file that all ranks can read, instead of edges: "source
                            destination" a line; empty lines and those that begin with # or % do
                            not count */
  const int32_t* owners; /* [nodes] the rank that has each node, the same on all ranks. NULL:
                            ranges in order of ranks, with as many nodes and edges together on
                            every rank as can be */
  uint32_t duplicates;   /* heed_duplicates. The first is that of the lowest rank */
  uint32_t reserved;     /* 0 */
} heed_mpi_graph_desc;
#define HEED_MPI_GRAPH_DESC_INIT \
  { (uint32_t)sizeof(heed_mpi_graph_desc), 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0 }

typedef struct heed_mpi_graph heed_mpi_graph;

/* Collective. Duplicates the communicator; finds out which rows every rank needs of which others,
 * and tells these. *graph is written only on success; it holds the context. */
HEED_API heed_status heed_mpi_graph_create(MPI_Comm communicator, const heed_context* context,
                                           const heed_mpi_graph_desc* desc, heed_mpi_graph** graph);
/* Collective, and before MPI_Finalize. NULL is allowed, if it is on all ranks. Plans made from the
 * graph stay usable: they hold it. */
HEED_API void heed_mpi_graph_destroy(heed_mpi_graph* graph);

/* Of this rank, except the first two. */
typedef struct heed_mpi_graph_info {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t nodes;       /* of all ranks */
  int64_t edges;       /* of all ranks, that count: without removed duplicates */
  int64_t own_nodes;   /* rows of tensors over nodes */
  int64_t own_given;   /* rows of tensors over edges */
  int64_t own_edges;   /* of these, those that count */
  int64_t inner_nodes; /* own nodes whose sources are all own: computed while rows travel */
  int64_t inner_edges; /* that end there */
  int64_t remote_rows; /* that come from other ranks in every step */
  int64_t sent_rows;   /* that go to others */
  int64_t senders;     /* ranks that the former come from */
  int64_t receivers;   /* and that the latter go to */
  size_t bytes;        /* of memory held */
} heed_mpi_graph_info;
#define HEED_MPI_GRAPH_INFO_INIT \
  { (uint32_t)sizeof(heed_mpi_graph_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

HEED_API heed_status heed_mpi_graph_describe(const heed_mpi_graph* graph,
                                             heed_mpi_graph_info* info);

/* Which nodes this rank has: nodes[own_nodes], ascending. Row i of its tensors belongs to nodes[i].
 */
HEED_API heed_status heed_mpi_graph_nodes(const heed_mpi_graph* graph, int64_t* nodes);

/* Which edges, by numbers of the whole graph: row e of its tensors over edges belongs to the edge
 * from sources[e] to destinations[e], the given[e]-th of those that all ranks brought, in order of
 * ranks, or that the file has. [own_given] each; NULL: not wanted. */
HEED_API heed_status heed_mpi_graph_edges(const heed_mpi_graph* graph, int64_t* sources,
                                          int64_t* destinations, int64_t* given);

typedef struct heed_mpi_graph_attention_plan heed_mpi_graph_attention_plan;

/* Collective, as are the next except describe. All that heed_graph_attention computes, of this
 * rank's rows: desc is as there, of own nodes and edges, and the same on all ranks except strides
 * and the types of tensors over edges. Results have the bits of heed_graph_attention over the whole
 * graph on one process of the same instruction set, however nodes are split. With dropout, too: an
 * edge has the number that heed_mpi_graph_edges gives. The plan holds the graph. */
HEED_API heed_status heed_mpi_graph_attention_plan_create(const heed_context* context,
                                                          const heed_mpi_graph* graph,
                                                          const heed_graph_attention_desc* desc,
                                                          heed_mpi_graph_attention_plan** plan);
HEED_API void heed_mpi_graph_attention_plan_destroy(heed_mpi_graph_attention_plan* plan);

typedef struct heed_mpi_graph_attention_info {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t ranks;
  int64_t rank;
  int64_t steps;
  double step_bytes;     /* that this rank sends in a step */
  double gathered_bytes; /* of keys and values, read through its edges in a step */
  size_t workspace_bytes;
} heed_mpi_graph_attention_info;
#define HEED_MPI_GRAPH_ATTENTION_INFO_INIT \
  { (uint32_t)sizeof(heed_mpi_graph_attention_info), 0, 0, 0, 0, 0.0, 0.0, 0 }

HEED_API heed_status heed_mpi_graph_attention_plan_describe(
    const heed_mpi_graph_attention_plan* plan, heed_mpi_graph_attention_info* info);
/* The bytes that a run of this plan needs on this rank: keys and values of its own nodes and those
 * that its edges lead from, those of them that are packed to travel, and what heed_graph_attention
 * needs. */
HEED_API heed_status
heed_mpi_graph_attention_plan_workspace(const heed_mpi_graph_attention_plan* plan, size_t* bytes);
/* Collective. args as of heed_graph_attention, of this rank's rows; matrices that nodes share are
 * the same on all ranks. While rows travel, a second thread computes, and the calling one sees to
 * MPI. Where a rank fails in the midst of a run, out, lse and weights mean nothing on any. */
HEED_API heed_status heed_mpi_graph_attention_plan_run(const heed_mpi_graph_attention_plan* plan,
                                                       const heed_graph_attention_args* args,
                                                       void* workspace, size_t workspace_bytes);
HEED_API heed_status heed_mpi_graph_attention_plan_times(const heed_mpi_graph_attention_plan* plan,
                                                         heed_mpi_times* times);
/* Collective. Plan, workspace and run in one call. */
HEED_API heed_status heed_mpi_graph_attention(const heed_context* context,
                                              const heed_mpi_graph* graph,
                                              const heed_graph_attention_desc* desc,
                                              const heed_graph_attention_args* args);

#ifdef __cplusplus
}
#endif

#endif /* HEED_MPI_H */
