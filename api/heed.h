/* heed: attention on CPUs behind a small C API.
 *
 *   out = softmax(scale * q k^T) v      for every batch and head
 *
 * with masks, biases, windows, ragged batches and everything else in api/docs/reference.
 *
 * The life of a program:
 *   1. heed_context_create          picks the instruction set, the executor and the threads
 *   2. heed_attention_plan_create   checks a descriptor and chooses tiles; reusable
 *   3. heed_attention_plan_run      computes; allocates nothing, takes no lock
 * or heed_attention, which does 2 and 3 in one call.
 *
 * Contexts and plans are immutable once made: any number of threads may use the same one at once.
 * Two runs of one plan at the same time need two workspaces.
 *
 * Every struct that is passed by pointer begins with struct_size; initialise it with its _INIT
 * macro. A zero field means its default where it has one, and 0 otherwise. Fields are only ever
 * appended, so programs built against an older header keep working: a shorter struct is accepted if
 * it ends where a field does, a longer one only if the bytes that this library does not know are
 * zero.
 *
 * Every function that can fail returns a heed_status and never aborts, throws or prints, unless
 * HEED_VERBOSE or checked mode ask for it. After an error the outputs are untouched (except
 * with HEED_STATUS_EXECUTOR_FAILED, where some rows may have been computed, and with checked mode's
 * HEED_STATUS_INTERNAL) and heed_last_error() says which field was wrong, its value and the bound
 * it broke.
 */
#ifndef HEED_H
#define HEED_H

#include <stddef.h>
#include <stdint.h>

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0

#if defined(HEED_STATIC)
#define HEED_API
#elif defined(_WIN32) && defined(HEED_BUILDING)
#define HEED_API __declspec(dllexport)
#elif defined(_WIN32)
#define HEED_API __declspec(dllimport)
#else
#define HEED_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status and errors ------------------------------------------------------------------- */

typedef enum heed_status {
  HEED_STATUS_OK = 0,
  HEED_STATUS_INVALID_ARGUMENT = 1,    /* an argument or a descriptor's field is wrong */
  HEED_STATUS_UNSUPPORTED = 2,         /* meaningful, but not in this library or on this CPU */
  HEED_STATUS_OUT_OF_MEMORY = 3,       /* the allocator, or a runtime, has none */
  HEED_STATUS_INVALID_ENVIRONMENT = 4, /* a HEED_* environment variable is malformed */
  HEED_STATUS_INVALID_WORKSPACE = 5,   /* the workspace is NULL, too small, misaligned or in use */
  HEED_STATUS_EXECUTOR_FAILED = 6,     /* the executor did not run every piece of work once */
  HEED_STATUS_INTERNAL = 7,            /* a defect in heed; the message says where */
  HEED_STATUS_BUSY = 8,                /* in use by another call: may be tried again as it is */
  HEED_STATUS_IO = 9,                  /* opening, reading or writing failed, as the system says */
  HEED_STATUS_CORRUPT = 10 /* a file or saved bytes are cut short, altered or malformed */
} heed_status;

/* The name of a status, e.g. "HEED_STATUS_OK"; never NULL. */
HEED_API const char* heed_status_name(heed_status status);

/* The message of the latest call that failed on this thread; "" before the first failure.
 * The text is valid until the next failure on this thread. */
HEED_API const char* heed_last_error(void);

/* The version of the library that is running, which may differ from the header's. */
HEED_API const char* heed_version_string(void);
HEED_API void heed_version(int* major, int* minor, int* patch);

/* ---- This build, on this machine ----------------------------------------------------------- */

typedef struct heed_isa_info {
  uint32_t struct_size;
  uint32_t usable;  /* 1 if this CPU and operating system can run it, else 0 */
  const char* name; /* "scalar", "sse2", "avx2", "avx512", "avx512bf16", "amx", "neon",
                       "neonbf16" */
  uint32_t lanes;   /* query rows computed side by side: float32 values in a vector */
  uint32_t panel;   /* query rows that one kernel call handles at most */
} heed_isa_info;
#define HEED_ISA_INFO_INIT \
  { (uint32_t)sizeof(heed_isa_info), 0, NULL, 0, 0 }

/* The instruction sets compiled in, from the plainest to the widest. */
HEED_API size_t heed_isa_count(void);
HEED_API heed_status heed_isa_get(size_t index, heed_isa_info* info);

/* The names of the executors compiled in: "serial", "threads" and, where found, "openmp" and "tbb";
 * NULL from heed_executor_count() on. */
HEED_API size_t heed_executor_count(void);
HEED_API const char* heed_executor_name(size_t index);

/* The libraries that can compute the projections of multi-head blocks: "heed", whose bits are the
 * same whatever the number of threads, and, where found, "cblas", a BLAS library, which decides
 * about its bits and threads itself. NULL from heed_product_count() on. */
HEED_API size_t heed_product_count(void);
HEED_API const char* heed_product_name(size_t index);

/* ---- Context ------------------------------------------------------------------------------ */

/* Executors share a run among threads: the calling one, which works in any case, and others.
 *
 *   "serial"     no others
 *   "threads"    the context's own, started with it and joined at its end. They look for the next
 *                run for some 0.1 ms after one, and then sleep
 *   "tbb"        oneTBB's workers as they have time, started with the context: no more than oneTBB
 *                allows the process, which is the CPUs unless a tbb::global_control says otherwise
 *   "openmp"     a parallel region; each calling thread has a team of its own, started when it runs
 *   the caller's own
 *
 * Results are the same. heed does without threads that cannot be started, and a "tbb" context that
 * oneTBB has failed goes on with the calling thread alone. Heed cannot prevent one thing: libgomp
 * ends the process if malloc returns NULL to it, or if a thread that could be started a moment
 * before cannot be; so does oneTBB if one of its workers finds no memory to begin with.
 *
 * In the child of a fork() everything made before stays usable. "threads" starts new ones at the
 * first run of a context there. Where a "tbb" context had been made before, "tbb" runs on the
 * calling thread alone; "openmp" does so on the thread that forked, if the parent had other
 * threads, which may have been a pool that anybody's OpenMP kept for it (where heed was loaded
 * after the fork: if the parent has any now), and has new teams on new threads. "serial" is as it
 * was, and so is a caller's executor that survives forks. Runs of other threads are not continued
 * in the child. A child whose parent used "tbb" should leave by _exit() or exec: the destructors of
 * oneTBB that exit() runs wait for ever for a lock that one of the parent's threads held during the
 * fork.
 *
 * 64 KiB of stack are enough, beside the thread-local data of the libraries in the process. The
 * shared library stays in memory after dlclose(), because the runtimes' threads do; link whatever
 * is unloaded and contains the static library with -z nodelete. */

/* A caller's own threads. `run` calls body(argument, i) exactly once for every i in [0, count),
 * in any order, on any threads, and returns when all calls have returned. body never throws. */
typedef struct heed_executor {
  uint32_t struct_size;
  uint32_t threads; /* how many body calls can make progress at once, at least 1 */
  void* user;       /* passed to run */
  void (*run)(void* user, uint32_t count, void (*body)(void* argument, uint32_t index),
              void* argument);
} heed_executor;
#define HEED_EXECUTOR_INIT \
  { (uint32_t)sizeof(heed_executor), 0, NULL, NULL }

/* A caller's own memory. `allocate` returns NULL when there is none; `alignment` is a power of
 * two. Used for contexts, plans, prepared matrices, graphs, caches and the workspaces of calls
 * without a plan; never during a run of a plan. */
typedef struct heed_allocator {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  void* user;
  void* (*allocate)(void* user, size_t size, size_t alignment);
  void (*release)(void* user, void* memory, size_t size);
} heed_allocator;
#define HEED_ALLOCATOR_INIT \
  { (uint32_t)sizeof(heed_allocator), 0, NULL, NULL, NULL }

/* Checked mode helps to find out why a result looks wrong. Every call of a context looks for
 * mistakes that are legal to the letter, or cost too much to look for always. No bit of a result
 * changes. Mistakes beyond doubt are refused:
 *
 *   - an output that overlaps an input or another output, element by element
 *   - a workspace that another run is using, or that overlaps a tensor: INVALID_WORKSPACE
 *   - with index_type 0, edges that only int64 numbers read as int32 look like
 *   - writes past the ends of a workspace during a run: INTERNAL, with the outputs written.
 *     Workspaces need 2 KiB more
 *
 * Oddities are told on stderr, a line each: packed rows and pages of no sequence,
 * several query rows of a sequence of a cache that attend all keys, later ones too, NaN and
 * infinities that are read or come out, numbers that another dtype would explain, strides that
 * count bytes, masks that are not made of bytes, rows that may attend no key, keys that no row may
 * attend, packed rows of no sequence, lengths that look like int64. Runs take a lock for a moment,
 * and some 10 KiB of stack. */
typedef enum heed_check {
  HEED_CHECK_DEFAULT = 0, /* as the environment says, else off */
  HEED_CHECK_ON = 1,
  HEED_CHECK_OFF = 2
} heed_check;

/* How exact results have to be. It lets kernels use units of 16-bit numbers, where the instruction
 * set has them; elsewhere results are as exact as HEED_PRECISION_EXACT makes them.
 * api/docs/reference/precision.md says what each means for every type and instruction set, with its
 * bound; heed_attention_info says which is in effect. Beside PyTorch's
 * set_float32_matmul_precision, "highest" is DEFAULT. */
typedef enum heed_precision {
  HEED_PRECISION_AUTOMATIC = 0, /* as the environment says, else HEED_PRECISION_DEFAULT */
  HEED_PRECISION_EXACT = 1,     /* products and weights as float32 multiply-adds see them, also
                                   where 16 bits and the weights that meet them are multiplied as
                                   parts that are all of them */
  HEED_PRECISION_DEFAULT = 2,   /* float32's own error; where queries, keys and values are all
                                   bfloat16, weights are rounded to it before they meet values,
                                   and on the way back, where the gradient of out is bfloat16 too,
                                   those of scores before they meet queries and keys;
                                   where a block's input_query is, so is what lies between its
                                   products; float16 may lose 3 x 2^-16 of a product; keys and
                                   values of 8 bits may meet integers */
  HEED_PRECISION_HIGH = 3,      /* float32 may lose 3 x 2^-16 of a product, and does on amx; 16
                                   bits: as DEFAULT */
  HEED_PRECISION_MEDIUM = 4     /* float32 queries, keys and values may be rounded to bfloat16; 16
                                   bits: as DEFAULT; products and blocks may round anything of 16
                                   and 32 bits to it */
} heed_precision;

/* For each choice an option given here wins over the environment, and the environment over the
 * automatic choice. The environment is read once, in heed_context_create:
 *
 *   HEED_ISA        a name of heed_isa_get            automatic: the fastest usable
 *   HEED_PARALLEL   a name of heed_executor_name      automatic: tbb, else openmp, else threads
 *   HEED_THREADS    1 ... 1024                        automatic: the CPUs this process may use
 *   HEED_PRODUCT    a name of heed_product_name       automatic: the first, heed's own
 *   HEED_TILE_Q     1 ... 65536 query rows per task   automatic: from the L2 cache
 *   HEED_TILE_KV    1 ... 65536 keys per tile         automatic: from the L2 cache
 *   HEED_TUNING_FILE  a file that says which problems get which tiles, where neither option nor
 *                   variable gives them               automatic: none
 *   HEED_VERBOSE    0 or 1: one line per run on stderr
 *   HEED_CHECK      0 or 1: checked mode              automatic: off
 *   HEED_PRECISION  exact, default, high or medium    automatic: default
 *
 * Tiles are rounded up to what the kernels can do; heed_attention_plan_describe shows them.
 *
 * A tuning file is read once, here, and kept; api/docs/reference/precision.md has its format. One
 * that is missing, malformed or newer than this library, or that has nothing for this CPU and
 * instruction set, is refused: where the option named it as HEED_STATUS_IO, _CORRUPT, _UNSUPPORTED
 * and _INVALID_ARGUMENT, where the variable did as HEED_STATUS_INVALID_ENVIRONMENT. */
typedef struct heed_context_options {
  uint32_t struct_size;
  uint32_t threads;                /* 0: environment, then automatic */
  const char* isa;                 /* NULL: environment, then automatic */
  const char* executor_name;       /* NULL: environment, then automatic */
  const heed_executor* executor;   /* the caller's own, instead of executor_name; copied */
  const heed_allocator* allocator; /* NULL: the C library's; copied */
  uint32_t tile_q;                 /* 0: environment, then automatic */
  uint32_t tile_kv;                /* 0: environment, then automatic */
  const char* product;             /* of projections; NULL: environment, then automatic */
  uint32_t check;                  /* heed_check */
  uint32_t precision;              /* heed_precision */
  const char* tuning_file;         /* a path; NULL: environment, then none; "": none */
} heed_context_options;
#define HEED_CONTEXT_OPTIONS_INIT \
  { (uint32_t)sizeof(heed_context_options), 0, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0, NULL }

typedef struct heed_context heed_context;

/* options may be NULL for all defaults. *context is written only on success. */
HEED_API heed_status heed_context_create(const heed_context_options* options,
                                         heed_context** context);
/* NULL is allowed. Plans made from the context stay usable: they hold it. */
HEED_API void heed_context_destroy(heed_context* context);

typedef struct heed_context_info {
  uint32_t struct_size;
  uint32_t threads;
  const char* isa;
  const char* executor; /* "caller" for the caller's own */
  size_t l1_bytes;      /* the caches that tiles are derived from, per core */
  size_t l2_bytes;
  const char* product;
  uint32_t check;          /* HEED_CHECK_ON or HEED_CHECK_OFF */
  uint32_t precision;      /* heed_precision, as it was asked for; never AUTOMATIC */
  const char* cpu;         /* what tuning files call this CPU, as "AuthenticAMD-25-17-1" */
  const char* tuning_file; /* NULL: none */
} heed_context_info;
#define HEED_CONTEXT_INFO_INIT \
  { (uint32_t)sizeof(heed_context_info), 0, NULL, NULL, 0, 0, NULL, 0, 0, NULL, NULL }

/* The strings live as long as the library, cpu and tuning_file as long as the context. */
HEED_API heed_status heed_context_describe(const heed_context* context, heed_context_info* info);

/* ---- Dense attention: descriptor ----------------------------------------------------------- */

/* query, key, value and out are each float32, bfloat16 or float16, in any mix: the arithmetic is
 * float32 and out is rounded once, to nearest even. Or all four are float64, and so is the
 * arithmetic. */
typedef enum heed_dtype {
  HEED_DTYPE_DEFAULT = 0, /* float32, or where that is said the arithmetic's: float32 or float64 */
  HEED_DTYPE_F32 = 1,
  HEED_DTYPE_F64 = 2,
  HEED_DTYPE_BF16 = 3,
  HEED_DTYPE_F16 = 4,
  HEED_DTYPE_I8 = 5,     /* key and value only: an integer, -127 to 127, times its row's scale */
  HEED_DTYPE_F8_E4M3 = 6 /* key and value only: OCP's, largest 448, no infinity, times a scale */
} heed_dtype;

/* The meaning of strides of 0 in a layout. Views that repeat elements along any axis, as NumPy's
 * broadcast_to and PyTorch's expand make them, have such strides: whoever passes on strides of
 * tensors that others made says HEED_STRIDES_EXPLICIT. Without it a layout is given as a whole or
 * not at all: a stride of 0 beside others is refused where it is probably one that was forgotten,
 * as each layout says. */
typedef enum heed_strides {
  HEED_STRIDES_DEFAULT = 0, /* contiguous */
  HEED_STRIDES_EXPLICIT = 1 /* what they say: 0 repeats, along every axis */
} heed_strides;

/* Where element [batch, head, row, feature] of a tensor lies: at the sum of index times stride,
 * counted in elements from the tensor's pointer. All four strides 0 means contiguous
 * [batch, head, row, feature], or [row, head, feature] where rows are packed, unless they are
 * explicit. Otherwise the strides are taken as they are: negative steps backwards, and along an
 * axis of one element any will do. A stride_batch or stride_head of 0 repeats an input along that
 * axis; so does a stride_row or stride_feature of 0 where strides are explicit, else it is refused
 * beside others. The strides of an output must keep its elements apart: ordered by size, each must
 * step past everything that the smaller ones reach. */
typedef struct heed_layout {
  uint32_t dtype;    /* heed_dtype */
  uint32_t reserved; /* heed_strides */
  int64_t stride_batch;
  int64_t stride_head;
  int64_t stride_row;
  int64_t stride_feature;
} heed_layout;

/* Where element [batch, head, row, key] of a mask or bias lies. Each size is the problem's or 1,
 * which repeats the one element along that axis; 0 means the problem's. All four strides 0 means
 * contiguous in these sizes, unless they are explicit; otherwise they are taken as they are, but
 * for axes of size 1: 0 repeats, too. Only a stride_key of 0 beside others is refused, unless
 * strides are explicit. */
typedef struct heed_score_layout {
  uint32_t dtype;    /* heed_dtype of a bias; 0 for a mask, which is made of bytes */
  uint32_t reserved; /* heed_strides */
  int64_t batch;
  int64_t heads;
  int64_t rows;
  int64_t keys;
  int64_t stride_batch;
  int64_t stride_head;
  int64_t stride_row;
  int64_t stride_key;
} heed_score_layout;

/* Query row i attends key j iff j <= i + offset. */
typedef enum heed_causal {
  HEED_CAUSAL_NONE = 0,         /* every key */
  HEED_CAUSAL_TOP_LEFT = 1,     /* offset 0: row 0 sees key 0 (PyTorch is_causal) */
  HEED_CAUSAL_BOTTOM_RIGHT = 2, /* offset key_length - query_length: the last row sees every
                                   key (FlashAttention, decoding with a cache) */
  HEED_CAUSAL_OFFSET = 3        /* offset causal_offset, any sign */
} heed_causal;

/* Query row i stands at position i + offset among the keys: what windows and ALiBi measure from.
 * Where causal is set, its offset is this one and alignment must be 0. */
typedef enum heed_alignment {
  HEED_ALIGNMENT_DEFAULT = 0,      /* top left; refused where it matters (a window, ALiBi) unless
                                      query_length and key_length are the same */
  HEED_ALIGNMENT_TOP_LEFT = 1,     /* offset 0 */
  HEED_ALIGNMENT_BOTTOM_RIGHT = 2, /* offset key_length - query_length */
  HEED_ALIGNMENT_OFFSET = 3        /* offset alignment_offset, any sign */
} heed_alignment;

/* The values that args.weights receives. */
typedef enum heed_weights_point {
  HEED_WEIGHTS_NONE = 0,
  HEED_WEIGHTS_SCORES = 1,       /* scale * <q_i, k_j>, masked or not */
  HEED_WEIGHTS_CAPPED = 2,       /* after softcap */
  HEED_WEIGHTS_MASKED = 3,       /* after ALiBi, bias, score function and masks: -inf if masked */
  HEED_WEIGHTS_PROBABILITIES = 4 /* after softmax: what the values are weighted with */
} heed_weights_point;

/* How a query and a key make a score. A NaN among what sums and additive scores are made of makes
 * the rows that attend it NaN, as of products; beside an infinity nothing is promised of their
 * results. */
typedef enum heed_score {
  HEED_SCORE_DOT = 0,      /* <q, k> */
  HEED_SCORE_SUM = 1,      /* act(q + k), one number per head: GAT, Velickovic et al. 2018 */
  HEED_SCORE_ADDITIVE = 2, /* sum over f of a_f act(q_f + k_f): Bahdanau et al. 2015, and GATv2,
                              Brody et al. 2022 */
  HEED_SCORE_COSINE = 3    /* a <q, k> / (|q| |k|), a number per head: Luo et al. 2018, and Swin v2,
                              Liu et al. 2022. A length below 1e-12 counts as that */
} heed_score;

/* act(x) of such scores. */
typedef enum heed_activation {
  HEED_ACTIVATION_IDENTITY = 0,
  HEED_ACTIVATION_LEAKY_RELU = 1, /* x, and slope * x below 0; its derivative at 0 is the slope */
  HEED_ACTIVATION_TANH = 2        /* within 6 ULP */
} heed_activation;

/* One attention problem. Query head h uses key head h / (query_heads / key_heads).
 *
 *   query  [batch, query_heads, query_length, features]
 *   key    [batch, key_heads,   key_length,   features]
 *   value  [batch, key_heads,   key_length,   value_features]
 *   out    [batch, query_heads, query_length, value_features]
 *
 *   s     = scale * <q_i, k_j>
 *         = scale * act(q_i + k_j)                    with HEED_SCORE_SUM
 *         = scale * <a_h, act(q_i + k_j)>             with HEED_SCORE_ADDITIVE, act of each feature
 *         = scale * a_h * <q_i, k_j> / (|q_i| |k_j|)  with HEED_SCORE_COSINE
 *   s     = softcap * tanh(s / softcap)               if softcap is given
 *   s     = s - alibi_slopes[h] * |i + offset - j|    if slopes are given
 *   s     = s + bias[b, h, i, j]                      if a bias is given
 *   s     = what score_function makes of it           if one is given
 *   s     = -inf where mask, causal, window, first key or key length exclude j, or bias is -inf
 *   p     = softmax(s / temperature)                  over j, sinks[h] in the denominator
 *   p     = p / (1 - dropout), or 0 where the pair is dropped, if dropout is given
 *   out_i = sum of p_j v_j
 *
 * A batch, query_heads, query_length or key_length of 0 is a valid empty problem, whose tensors
 * without elements are NULL: a size of 0 beside a tensor of that size is refused, as one that was
 * forgotten. features is at least 1, and in the other two 0 means the default. A row that may
 * attend no key gives exactly 0.
 * Outputs must not overlap each other or an input.
 *
 * Packed batches: with packed_queries (or packed_keys) above 0 the sequences of a batch lie one
 * after the other, sequence b in rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1 of a tensor
 * [packed_queries, query_heads, features]. query_length (key_length) is then the longest
 * sequence's, and stride_batch is not used. Masks, biases and weights are not packed: their rows
 * and keys count from the beginning of each sequence. Where offsets depend on lengths, each
 * sequence has its own. Sequences need not begin at row 0 nor end at the last.
 *
 * Pages: with pages above 0, key and value are pools [pages, key_heads, page_rows, ...], and key t
 * of sequence b is row t % page_rows of page block_table[b][t / page_rows]. A page may serve
 * several sequences. Rows past a sequence's length are not read, nor entries of the table for them.
 *
 * Past the end of a sequence that is shorter than key_length no key is read; weights and column
 * sums hold 0 there, or -inf at HEED_WEIGHTS_MASKED. Rows of weights past its last query are not
 * written.
 *
 * Infinity and NaN: what is not finite in a key or value that a row may not attend does not reach
 * that row. In a query or an attended key a NaN makes the row NaN, in an attended value the
 * feature (hard attention reads no value but the one it picks). Scores of +inf share the weight
 * evenly; scores of -inf get weight 0. Sums are normalised at the end: a row whose |values| add up
 * to more than 1e36 may overflow.
 *
 * Range: scores are numbers of the arithmetic's type, in units of log2(e) s / temperature, or of s
 * where they are shown. A product scale * <q_i, k_j> that overflows there is infinite, or NaN where
 * its terms have both signs. All else that is finite stays finite: biases, of whatever type, what
 * ALiBi adds, what a score function makes, sinks, and sums of these. Past the largest number (of
 * float32 3.4e38) they count as that, of either sign. So no finite bias masks a key, and scores
 * that are equal share the weight evenly wherever they are. A finite lse is written as a finite
 * number. A score of size S is off by a unit in its last place, 2^-23 S of float32.
 *
 * Dropout: lse, weights and column sums do not know of it, and sinks stay. Which pairs are dropped
 * depends on args.dropout_seed and args.dropout_offset, and on the batch, query head, row and key
 * of the pair, these two within their sequence: on nothing else, so that gradients of the same seed
 * and offset are those of the same mask. heed_dropout_mask shows it. A row whose keys are all
 * dropped is 0. Some heads, rows or keys of a larger problem have its mask where
 * args.dropout_origin says at which of them they begin.
 */
typedef struct heed_attention_desc {
  uint32_t struct_size;
  uint32_t causal; /* heed_causal */
  int64_t batch;
  int64_t query_heads;
  int64_t key_heads; /* 0: query_heads */
  int64_t query_length;
  int64_t key_length;
  int64_t features;       /* of query and key */
  int64_t value_features; /* of value and out; 0: features */
  heed_layout query;
  heed_layout key;
  heed_layout value;
  heed_layout out;
  double scale;          /* finite; 0: 1 / sqrt(features), of other scores than HEED_SCORE_DOT 1 */
  int64_t causal_offset; /* only with HEED_CAUSAL_OFFSET, else 0 */

  double softcap;           /* finite, above 0; 0: none */
  double temperature;       /* above 0; infinity: the same weight for every attended key whose score
                               is finite; 0: 1 */
  uint32_t hard;            /* 1: weight 1 at the largest score, of equal ones at the lowest key;
                               not with temperature, sinks or lse */
  uint32_t window;          /* 1: the next two apply, and 0 in them is a bound */
  int64_t window_left;      /* attends j >= i + offset - window_left; -1: no bound */
  int64_t window_right;     /* attends j <= i + offset + window_right; -1: no bound */
  int64_t alignment_offset; /* only with HEED_ALIGNMENT_OFFSET, else 0 */
  uint32_t alignment;       /* heed_alignment; only without causal, else 0 */
  uint32_t weights_point;   /* heed_weights_point: what args.weights receives */
  uint32_t sum_columns;     /* 1: args.column_sums receives the probabilities, summed over rows */
  uint32_t reserved;        /* 0 */
  int64_t weight_rows;      /* how many query rows args.weight_rows lists; 0: all */
  int64_t packed_queries;   /* rows of packed query and out tensors; 0: not packed */
  int64_t packed_keys;      /* rows of packed key and value tensors; 0: not packed */
  heed_score_layout mask;
  heed_score_layout bias;
  heed_layout lse;         /* [batch, query_heads, query_length]; packed: [query_heads, rows] */
  heed_layout weights;     /* [batch, query_heads, rows, key_length]; stride_feature: of the keys */
  heed_layout column_sums; /* [batch, query_heads, key_length]; stride_row: of the keys */
  int64_t pages;           /* of the pools that key and value are; 0: not paged */
  int64_t page_rows;       /* keys per page, a multiple of 16; only with pages, else 0 */
  int64_t block_table_stride; /* elements from one sequence's entries of args.block_table to the
                                 next's; 0: key_length / page_rows, rounded up; only with pages */
  heed_layout key_scales;   /* [batch, key_heads, key_length], float32: where the scale of every key
                               lies, if key is HEED_DTYPE_I8; packed and in pages as key is; else 0 */
  heed_layout value_scales; /* likewise of value */
  double dropout;           /* 0 to less than 1, of which the multiple of 1 / 256 nearest to it is
                               used, at least 1 / 256 and at most 255 / 256; 0: none; not with hard */
  uint32_t score;           /* heed_score; with HEED_SCORE_SUM features is 1 */
  uint32_t activation;      /* heed_activation; 0 with HEED_SCORE_DOT and HEED_SCORE_COSINE */
  double slope;             /* of HEED_ACTIVATION_LEAKY_RELU: finite; GAT has 0.2. Else 0 */
} heed_attention_desc;
#define HEED_LAYOUT_INIT \
  { 0, 0, 0, 0, 0, 0 }
#define HEED_SCORE_LAYOUT_INIT \
  { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define HEED_ATTENTION_DESC_INIT                                                                  \
  {                                                                                               \
    (uint32_t)sizeof(heed_attention_desc), 0, 0, 0, 0, 0, 0, 0, 0, HEED_LAYOUT_INIT,              \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, 0.0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0, 0, HEED_SCORE_LAYOUT_INIT, HEED_SCORE_LAYOUT_INIT, HEED_LAYOUT_INIT,       \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, 0.0, 0,  \
        0, 0.0                                                                                    \
  }

/* Scores on their way to softmax, for a score function to change in place. The score of row r and
 * key first_key + j is scores[j * stride_key + r], for r < rows and j < keys; from rows up to the
 * stride lies scratch. Rows and keys count from the beginning of their sequence. Scores are in the
 * units of scale * <q, k>: softcap, ALiBi and bias have been applied, masks and temperature have
 * not. Masked scores, also those of a bias of -inf, may hold anything and stay masked whatever is
 * written there. */
typedef struct heed_score_tile {
  uint32_t struct_size;
  uint32_t dtype; /* HEED_DTYPE_F32 or HEED_DTYPE_F64: what scores points at */
  int64_t batch;
  int64_t first_key;
  int64_t keys;
  int64_t rows;
  int64_t stride_key;         /* in elements */
  const int64_t* query_rows;  /* [rows] row of the query that row r of the tile is */
  const int64_t* query_heads; /* [rows] and its head */
  void* scores;
} heed_score_tile;

/* Called from every thread of a run, and for a position any number of times (weights ask again):
 * what it does to a score may depend on the score, the indices and constant data, nothing else.
 * It must not call heed with the same workspace, and not throw. */
typedef void (*heed_score_function)(void* user, const heed_score_tile* tile);

/* The tensors. query, key, value, out, their scales, weights and column_sums are NULL if, and only
 * if, the tensor has no elements or it says so; so are the inputs and outputs of all operations.
 * Tensors that may be left out are not looked at where they have no elements.
 * (Packed tensors have packed_queries or packed_keys rows, however many belong to sequences.)
 * Pointers need the alignment of their type, no more. "Real" is the arithmetic's type: double if
 * query, key, value and out are float64, else float. */
typedef struct heed_attention_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  const void* query;
  const void* key;
  const void* value;
  void* out;
  const uint8_t* mask;         /* attend where not 0; NULL: everywhere */
  const void* bias;            /* -inf masks, no finite number does; NULL: none */
  const int32_t* key_lengths;  /* [batch], of at most key_length keys; NULL: all of them */
  const int32_t* cu_seqlens_q; /* [batch + 1], only with packed_queries */
  const int32_t* cu_seqlens_k; /* [batch + 1], only with packed_keys */
  const void* alibi_slopes;    /* Real [query_heads], finite, also times log2(e) / temperature;
                                  NULL: none */
  const void* sinks;           /* Real [query_heads], in units of s / temperature; NULL: none */
  heed_score_function score_function; /* NULL: none */
  void* score_user;                   /* passed to score_function */
  const int64_t* weight_rows; /* [weight_rows], each above the last: the rows of weights wanted */
  void* lse;                  /* natural logarithm of the denominators; NULL: not wanted */
  void* weights;              /* only with weights_point */
  void* column_sums;          /* only with sum_columns */
  const int32_t* block_table; /* [batch, key_length / page_rows, rounded up], each 0 to pages - 1;
                                 only with pages */
  const float* key_scales;    /* only with a key of 8 bits: of HEED_DTYPE_I8 one per row, see
                                 desc.key_scales; of HEED_DTYPE_F8_E4M3 one number for all */
  const float* value_scales;  /* likewise of value */
  const int32_t* first_keys; /* [batch], the first key that rows of a sequence attend, each 0 to its
                                number of keys; NULL: 0 */
  uint64_t dropout_seed;     /* any; only with desc.dropout, else 0 */
  uint64_t dropout_offset;   /* any, another for every call of a seed; likewise */
  const int64_t* dropout_origin; /* [4], the place in a larger problem at which this one begins:
                                    batch, query head, row and key, each 0 to 2^40; only with
                                    desc.dropout. NULL: 0 */
  const void*
      score_weights; /* a: Real [query_heads, features] with HEED_SCORE_ADDITIVE, and
                        [query_heads], or NULL for ones, with HEED_SCORE_COSINE; else NULL */
} heed_attention_args;
#define HEED_ATTENTION_ARGS_INIT                                                                  \
  {                                                                                               \
    (uint32_t)sizeof(heed_attention_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,     \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, \
        NULL                                                                                      \
  }

/* ---- Dense attention: plan and run --------------------------------------------------------- */

typedef struct heed_attention_plan heed_attention_plan;

/* Checks the descriptor and chooses tiles and tasks. *plan is written only on success. */
HEED_API heed_status heed_attention_plan_create(const heed_context* context,
                                                const heed_attention_desc* desc,
                                                heed_attention_plan** plan);
/* NULL is allowed. */
HEED_API void heed_attention_plan_destroy(heed_attention_plan* plan);

typedef struct heed_attention_info {
  uint32_t struct_size;
  uint32_t threads; /* that a run uses: 1 for a problem too small to share */
  const char* isa;
  const char* executor;
  uint32_t tile_q;        /* query rows per task */
  uint32_t tile_kv;       /* keys per tile */
  uint64_t tasks;         /* independent pieces of work */
  size_t workspace_bytes; /* that a run needs, for all its threads together */
  double flops;           /* useful ones: 2 (features + value_features) per attended pair */
  const char* strategy;   /* how it is computed: "prefill", online softmax over tiles of keys;
                             "decode", where few rows share the keys, which are split between
                             threads; "mixed", each sequence as its rows and length say */
  uint32_t tuning_line;   /* of the context's tuning file, which gave tiles; 0: none did */
  uint32_t precision;     /* heed_precision, in effect: HEED_PRECISION_MEDIUM where float32 is
                             rounded, HEED_PRECISION_HIGH where it is two parts of bfloat16,
                             HEED_PRECISION_DEFAULT where it is three, or weights are rounded to
                             bfloat16 or integers, else HEED_PRECISION_EXACT */
} heed_attention_info;
#define HEED_ATTENTION_INFO_INIT \
  { (uint32_t)sizeof(heed_attention_info), 0, NULL, NULL, 0, 0, 0, 0, 0.0, NULL, 0, 0 }

HEED_API heed_status heed_attention_plan_describe(const heed_attention_plan* plan,
                                                  heed_attention_info* info);

/* A workspace begins at a multiple of this many bytes. */
#define HEED_WORKSPACE_ALIGNMENT 64

/* The bytes that a run of this plan needs; 0 is possible. */
HEED_API heed_status heed_attention_plan_workspace(const heed_attention_plan* plan, size_t* bytes);

/* Computes out. The workspace's content before and after means nothing. */
HEED_API heed_status heed_attention_plan_run(const heed_attention_plan* plan,
                                             const heed_attention_args* args, void* workspace,
                                             size_t workspace_bytes);

/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_attention(const heed_context* context, const heed_attention_desc* desc,
                                    const heed_attention_args* args);

/* ---- Dense attention: gradients -------------------------------------------------------------- */

/* The way of gradients back through a score function: `tile` holds the scores as the function found
 * them, gradients[j * stride_key + r] the gradient of what it made of each, of the tile's type, to
 * be multiplied with the function's derivative in place. The same rules as for score functions. */
typedef void (*heed_score_gradient)(void* user, const heed_score_tile* tile, void* gradients);

/* The gradients of attention, from its inputs, its results and the gradient of out:
 *
 *   delta_i      = <grad_out_i, out_i> - grad_lse_i
 *   grad_value_j = sum over i of p_ij grad_out_i
 *   grad_z_ij    = p_ij (<grad_out_i, value_j> - delta_i)      z = s / temperature
 *   grad_s_ij    = grad_z_ij / temperature, then back through the score function, bias, ALiBi and
 *                  softcap (times 1 - tanh^2) to the product <q_i, k_j>
 *   grad_query_i = scale * sum over j of grad_s_ij key_j
 *   grad_key_j   = scale * sum over i of grad_s_ij query_i
 *   (of sums and additive scores both are scale * sum of grad_s_ij a act'(query_i + key_j), and
 *   grad_score_weights_h = scale * sum over i and j of grad_s_ij act(query_i + key_j); of cosines
 *   all three are those of scale a_h <query_i, key_j> / (|query_i| |key_j|))
 *
 * and with dropout grad_value_j = sum over i of m_ij p_ij grad_out_i / (1 - dropout), grad_z_ij =
 * p_ij (m_ij <grad_out_i, value_j> / (1 - dropout) - delta_i), m_ij being 0 where the pair was
 * dropped, else 1;
 * where query heads that share a key head are summed. Probabilities are computed again from lse, so
 * nothing of size query_length times key_length is kept. Pairs that do not attend contribute
 * nothing, whatever they hold; rows that attend nothing, and keys that nobody attends, get exactly
 * 0. A row whose lse is infinite otherwise, or NaN, has gradients that are NaN. Where lse has too
 * few digits for probabilities, beyond 1024 in float32 and 2^39 in float64, and is that of these
 * keys as far as its digits tell, probabilities are summed again and normalised by that. The same
 * happens to few query rows where scale |query_i| |key_j| / temperature is so large, which the
 * forward run may round otherwise: lse is that of these keys as far as the roundings of scores
 * tell. (For keys that are a part of more, whose lse is further out than 2^20, give lse in
 * float64.) Gradients are summed in the arithmetic's type and rounded once. Bits do not depend on
 * threads, executors or tiles.
 *
 * Not of hard attention, which is not differentiable, nor of pages or keys and values of 8 bits:
 * HEED_STATUS_UNSUPPORTED. */
typedef struct heed_attention_backward_desc {
  uint32_t struct_size;
  uint32_t accumulate; /* 1: gradients are added to what is there; 0: they replace it */
  /* As for heed_attention; weights_point, sum_columns and weight_rows 0. Read while the plan is
   * made. */
  const heed_attention_desc* attention;
  heed_layout grad_out;   /* [batch, query_heads, query_length, value_features] */
  heed_layout grad_lse;   /* [batch, query_heads, query_length]; as lse, of a type of its own */
  heed_layout grad_query; /* as query, key and value in shape; float64 if, and only if, they are.
                             A dtype of 0, here and of grad_out and grad_bias: the arithmetic's */
  heed_layout grad_key;
  heed_layout grad_value;
  heed_score_layout grad_bias; /* sizes as those of bias: over repeated axes gradients are summed */
} heed_attention_backward_desc;
#define HEED_ATTENTION_BACKWARD_DESC_INIT                                                        \
  {                                                                                              \
    (uint32_t)sizeof(heed_attention_backward_desc), 0, NULL, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_SCORE_LAYOUT_INIT             \
  }

/* Gradients that are not wanted are NULL. */
typedef struct heed_attention_backward_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  /* As for heed_attention, with its results: out and lse are read, lse is needed. Its weights,
   * weight_rows and column_sums are NULL. */
  const heed_attention_args* attention;
  const void* grad_out;
  const void* grad_lse; /* NULL: 0 */
  void* grad_query;
  void* grad_key;
  void* grad_value;
  void* grad_bias;                    /* only with a bias */
  void* grad_sinks;                   /* Real [query_heads], only with sinks */
  void* grad_alibi_slopes;            /* Real [query_heads], only with slopes */
  void* grad_scale;                   /* Real: one number, of the scale in use */
  void* grad_temperature;             /* Real: one number, of the temperature in use */
  heed_score_gradient score_gradient; /* with a score function, and only then */
  void* grad_score_weights;           /* as score_weights, and only with them */
} heed_attention_backward_args;
#define HEED_ATTENTION_BACKWARD_ARGS_INIT                                                        \
  {                                                                                              \
    (uint32_t)sizeof(heed_attention_backward_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL                                                       \
  }

typedef struct heed_attention_backward_plan heed_attention_backward_plan;

/* Checks the descriptor and chooses tiles and tasks. *plan is written only on success. */
HEED_API heed_status heed_attention_backward_plan_create(const heed_context* context,
                                                         const heed_attention_backward_desc* desc,
                                                         heed_attention_backward_plan** plan);
/* NULL is allowed. */
HEED_API void heed_attention_backward_plan_destroy(heed_attention_backward_plan* plan);

/* flops are useful ones: 4 (features + value_features) + 2 features per attended pair, those of
 * the five products; strategy is "backward". */
HEED_API heed_status heed_attention_backward_plan_describe(const heed_attention_backward_plan* plan,
                                                           heed_attention_info* info);
/* The bytes that a run of this plan needs; 0 is possible. It grows with the lengths of sequences
 * times their features, never with their product. */
HEED_API heed_status
heed_attention_backward_plan_workspace(const heed_attention_backward_plan* plan, size_t* bytes);
HEED_API heed_status heed_attention_backward_plan_run(const heed_attention_backward_plan* plan,
                                                      const heed_attention_backward_args* args,
                                                      void* workspace, size_t workspace_bytes);
/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_attention_backward(const heed_context* context,
                                             const heed_attention_backward_desc* desc,
                                             const heed_attention_backward_args* args);

/* Shows which pairs of one query row dropout keeps: kept[j], for `keys` keys from first_key on, is
 * 1, or 0 where the pair is dropped. The first byte of four words of Philox4x32-10 (J. K. Salmon et
 * al. 2011) is that of the first of 16 keys, the lowest of each word first; a pair is dropped if
 * its byte is less than 256 times the dropout in use. The counter is {key / 16, row, head, batch};
 * its key the first two words of Philox4x32-10 of the counter {offset, offset >> 32, 0, 0}, with
 * the seed for its key. */
HEED_API heed_status heed_dropout_mask(double dropout, uint64_t seed, uint64_t offset,
                                       int64_t batch, int64_t head, int64_t row, int64_t first_key,
                                       int64_t keys, uint8_t* kept);

/* ---- Merging partial results ---------------------------------------------------------------- */

/* Results of the same queries over different keys, each with its log-sum-exp:
 *
 *   lse = log(sum of e^lse_k)      out = sum of e^(lse_k - lse) out_k
 *
 *   out  [batch, heads, rows, features]      lse  [batch, heads, rows]
 *
 * A part whose lse is -inf is empty: its out is not read. If all parts are empty, out is 0 and lse
 * -inf. Parts whose lse is +inf share the result evenly. Computed in float64, in the order of the
 * parts, and rounded once. Types: any for out, float32 or float64 for lse, the default float32.
 * Weights are off by as much as lse is: by a factor e^(2^-24 |lse_k|) in float32. Parts whose
 * scores are all far from 0, as those of a mask of -1e9 over everything, need float64. */
typedef struct heed_merge_desc {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  int64_t batch;
  int64_t heads;
  int64_t rows;
  int64_t features;
  heed_layout part_out; /* of every part */
  heed_layout part_lse;
  heed_layout out;
  heed_layout lse;
} heed_merge_desc;
#define HEED_MERGE_DESC_INIT                                                              \
  {                                                                                       \
    (uint32_t)sizeof(heed_merge_desc), 0, 0, 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT                                                \
  }

/* part_outs and part_lses are [parts], parts at least 1. lse may be NULL. out and lse may be those
 * of a part with the same layout and type, so that parts can be added as they come; otherwise
 * outputs must not overlap parts. */
HEED_API heed_status heed_merge(const heed_context* context, const heed_merge_desc* desc,
                                size_t parts, const void* const* part_outs,
                                const void* const* part_lses, void* out, void* lse);

/* ---- Rotary embedding -------------------------------------------------------------------------
 */

/* Which features of a row are turned together. */
typedef enum heed_rotary_pairs {
  HEED_ROTARY_NONE = 0,
  HEED_ROTARY_HALVES = 1,     /* i and i + R / 2: GPT-NeoX, Llama in transformers */
  HEED_ROTARY_INTERLEAVED = 2 /* 2 i and 2 i + 1: the original, GPT-J */
} heed_rotary_pairs;

/* A row at position p turns pair i of its first R features by the angle p * base^(-2 i / R):
 *
 *   (a, b)  ->  (a cos - b sin, a sin + b cos)
 *
 * The other features stay. Angles are computed in float64, cosines and sines are rounded once to
 * the arithmetic's type; or both come from the caller's tables, which stay the caller's.
 * Source: J. Su et al. 2021, "RoFormer: enhanced transformer with rotary position embedding". */
typedef struct heed_rotary {
  uint32_t pairs;       /* heed_rotary_pairs; with HEED_ROTARY_NONE all other fields must be 0 */
  uint32_t reserved;    /* 0 */
  int64_t features;     /* R: even, at most the features of a row; 0: all of them */
  double base;          /* finite, at least 1e-256; 0: 10000; with tables 0 */
  const float* cosines; /* [table_rows, R / 2]: of position p in row p; NULL: from base */
  const float* sines;
  int64_t table_rows;   /* positions are 0 to table_rows - 1; 0: no tables */
  int64_t table_stride; /* elements from one row of a table to the next; 0: R / 2 */
} heed_rotary;
#define HEED_ROTARY_INIT \
  { 0, 0, 0, 0.0, NULL, NULL, 0, 0 }

/* Tensors [batch, heads, rows, features], of any type but the 8-bit ones; float64 both or none. */
typedef struct heed_rotate_desc {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  int64_t batch;
  int64_t heads;
  int64_t rows;
  int64_t features;
  heed_layout from;
  heed_layout to;
  heed_rotary rotary; /* not HEED_ROTARY_NONE */
  int64_t position;   /* of row 0, where none are given; the other rows follow it; at least 0 */
} heed_rotate_desc;
#define HEED_ROTATE_DESC_INIT                                                              \
  {                                                                                        \
    (uint32_t)sizeof(heed_rotate_desc), 0, 0, 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_ROTARY_INIT, 0                                                                \
  }

/* positions is [batch, rows], each 0 to 2^40, or NULL. `to` may be `from` where layout and type are
 * the same; otherwise they must not overlap. */
HEED_API heed_status heed_rotate(const heed_context* context, const heed_rotate_desc* desc,
                                 const void* from, const int64_t* positions, void* to);

/* ---- Cache of keys and values ------------------------------------------------------------------
 */

/* Keys and values of growing sequences, in pages of one pool, for programs that generate.
 *
 *   heed_cache_create                takes all memory at once
 *   heed_cache_sequence_create       an empty sequence
 *   heed_cache_append                keys and values of new rows, layer by layer
 *   heed_cache_attention             queries of any of its sequences, of one layer
 *   heed_cache_fork, _truncate, _free, _save, _load
 *
 * A page holds page_rows keys and values of all layers and heads. Sequences that were forked share
 * pages; whoever writes into a shared one has it copied first, and with it the shared ones after
 * it: a fork whose layer is shorter than others' copies from there on.
 *
 * Threads: any number may use one cache at once. Calls that change a sequence (append, truncate,
 * free) are refused while another call uses it, and so is every call while another changes it:
 * HEED_STATUS_BUSY, nothing is changed, and the call may be tried again. Calls on different
 * sequences, forks too, never refuse each other. In the child of a fork() a cache may be used if no
 * other thread was in a call of it. */
typedef struct heed_cache heed_cache;

/* Names a sequence of one cache. Never 0, and never used again: a sequence that was freed, or is of
 * another cache, is refused. */
typedef uint64_t heed_sequence;

typedef struct heed_cache_desc {
  uint32_t struct_size;
  uint32_t dtype;         /* heed_dtype of what is stored, not F64; 0: float32 */
  int64_t layers;         /* 0: 1 */
  int64_t key_heads;      /* at least 1 */
  int64_t features;       /* of a key, at least 1 */
  int64_t value_features; /* 0: features */
  int64_t page_rows;      /* a multiple of 16; 0: 64 */
  int64_t pages;          /* at least 1 */
  int64_t sequences;      /* at once, at most 2^20; 0: 1024 */
  double key_scale;   /* HEED_DTYPE_F8_E4M3: what stored keys are multiplied with; above 0; 0: 1 */
  double value_scale; /* likewise of values; other types: both 0 */
  heed_rotary rotary; /* turns keys as they are appended, and queries as they attend; tables must
                         stay as long as the cache */
} heed_cache_desc;
#define HEED_CACHE_DESC_INIT \
  { (uint32_t)sizeof(heed_cache_desc), 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, HEED_ROTARY_INIT }

/* The bytes that heed_cache_create takes from the context's allocator. */
HEED_API heed_status heed_cache_bytes(const heed_cache_desc* desc, size_t* bytes);
/* *cache is written only on success. Holds its context. */
HEED_API heed_status heed_cache_create(const heed_context* context, const heed_cache_desc* desc,
                                       heed_cache** cache);
/* NULL is allowed. Frees its sequences. Not while another call uses it. */
HEED_API void heed_cache_destroy(heed_cache* cache);

typedef struct heed_cache_info {
  uint32_t struct_size;
  uint32_t dtype;
  int64_t pages;
  int64_t pages_used;
  int64_t pages_shared; /* of those used: by more than one sequence */
  int64_t page_rows;
  int64_t sequences; /* alive */
  size_t bytes;      /* of memory held */
  size_t page_bytes; /* of these, per page: keys, values and scales of all layers and heads */
} heed_cache_info;
#define HEED_CACHE_INFO_INIT \
  { (uint32_t)sizeof(heed_cache_info), 0, 0, 0, 0, 0, 0, 0, 0 }

HEED_API heed_status heed_cache_describe(const heed_cache* cache, heed_cache_info* info);

/* *sequence is written only on success. */
HEED_API heed_status heed_cache_sequence_create(heed_cache* cache, heed_sequence* sequence);
/* A sequence with the same rows, which both share. */
HEED_API heed_status heed_cache_fork(heed_cache* cache, heed_sequence from, heed_sequence* fork);
/* Gives the sequence's pages back, except pages that others share. */
HEED_API heed_status heed_cache_free(heed_cache* cache, heed_sequence sequence);
/* Keeps the first `length` rows of every layer; refused where a layer has fewer. */
HEED_API heed_status heed_cache_truncate(heed_cache* cache, heed_sequence sequence, int64_t length);
/* The rows that a layer of the sequence has. */
HEED_API heed_status heed_cache_length(const heed_cache* cache, heed_sequence sequence,
                                       int64_t layer, int64_t* length);

/* New rows of one layer of a sequence: key is [rows, key_heads, features], value [rows, key_heads,
 * value_features]. In their layouts, all strides 0 means contiguous in this order; stride_batch is
 * not used. Rows are converted to what is stored, each element rounded once to nearest even: to
 * HEED_DTYPE_I8 with the scale max|x| / 127 of the row and head, where a row that is not finite has
 * the scale NaN; to HEED_DTYPE_F8_E4M3 after division by the cache's scale, and past 448 to 448.
 *
 * The first layer that grows past the sequence's pages takes new ones, which all layers share.
 * HEED_STATUS_OUT_OF_MEMORY, with nothing changed, where the pool has too few. */
typedef struct heed_cache_append_desc {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  int64_t layer;
  int64_t rows;
  heed_layout key; /* not F64, not of 8 bits */
  heed_layout value;
  int64_t position_offset;  /* row t of the sequence stands at position t + position_offset */
  const int64_t* positions; /* [rows], at least 0, instead: position_offset is 0; NULL: none. Only
                               with desc.rotary of the cache */
} heed_cache_append_desc;
#define HEED_CACHE_APPEND_DESC_INIT \
  { (uint32_t)sizeof(heed_cache_append_desc), 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, 0, NULL }

HEED_API heed_status heed_cache_append(heed_cache* cache, heed_sequence sequence,
                                       const heed_cache_append_desc* desc, const void* key,
                                       const void* value);

/* Attention of one layer: sequence b of the batch attends the keys and values of sequences[b],
 * which may be listed more than once. `attention` gives the other sizes, layouts and options,
 * causal bottom right as a rule: without it the rows of a prompt attend those after them, which
 * checked mode tells; what the cache knows must be 0 there: key_heads, features,
 * value_features, the layouts of key and value, pages and what belongs to them. key_length is 0,
 * for the longest of the sequences, or at least that; masks, biases and weights have so many keys.
 * Queries may be packed.
 *
 * With rotary embedding, the last query row of a sequence stands where its last key does, unless
 * positions are given; rows are turned before they are multiplied. */
typedef struct heed_cache_attention_desc {
  uint32_t struct_size;
  uint32_t reserved;                    /* 0 */
  const heed_attention_desc* attention; /* read during the call, as is `sequences` */
  const heed_sequence* sequences;       /* [attention->batch] */
  int64_t layer;
  int64_t position_offset;  /* added to every position */
  const int64_t* positions; /* of query rows, at least 0, instead: [batch, query_length], packed
                               [packed_queries]; position_offset is 0. Only with rotary */
} heed_cache_attention_desc;
#define HEED_CACHE_ATTENTION_DESC_INIT \
  { (uint32_t)sizeof(heed_cache_attention_desc), 0, NULL, NULL, 0, 0, NULL }

/* args as of heed_attention, with key, value, key_lengths, cu_seqlens_k, block_table, key_scales
 * and value_scales NULL: they are the cache's. */
HEED_API heed_status heed_cache_attention(const heed_cache* cache,
                                          const heed_cache_attention_desc* desc,
                                          const heed_attention_args* args);

/* A sequence as bytes, which a later process, or a cache with other pages, may load. All layers
 * must have the same length. api/docs/reference/cache.md states the format: little-endian,
 * versioned, with a checksum. To load, layers, heads, features, dtype, scales and rotary embedding
 * must be the cache's, else HEED_STATUS_INVALID_ARGUMENT; what is truncated, foreign or altered is
 * HEED_STATUS_CORRUPT, another version HEED_STATUS_UNSUPPORTED. Nothing is changed then. Saving
 * takes some memory from the context's allocator for the list of pages. */
HEED_API heed_status heed_cache_save_bytes(const heed_cache* cache, heed_sequence sequence,
                                           size_t* bytes);
HEED_API heed_status heed_cache_save(const heed_cache* cache, heed_sequence sequence, void* memory,
                                     size_t bytes);
/* `bytes` may be more than what was saved. *sequence is written only on success. */
HEED_API heed_status heed_cache_load(heed_cache* cache, const void* memory, size_t bytes,
                                     heed_sequence* sequence);
/* The same with an open file, pipe or socket, from where it stands on, through a buffer of 64 KiB
 * from the context's allocator. Where writing or reading fails, HEED_STATUS_IO, the message names
 * what the system says. */
HEED_API heed_status heed_cache_save_file(const heed_cache* cache, heed_sequence sequence,
                                          int descriptor);
HEED_API heed_status heed_cache_load_file(heed_cache* cache, int descriptor,
                                          heed_sequence* sequence);

/* ---- Weight matrices ------------------------------------------------------------------------ */

/* Where element [matrix, in, out] of one or several matrices lies: at the sum of index times
 * stride, counted in elements. y[out] = sum over in of x[in] * matrix[in, out]. All three strides
 * 0 means contiguous [matrix, in, out], unless they are explicit; otherwise they are taken as they
 * are: stride_in 1 and stride_out the number of inputs is [out, in], which PyTorch stores, and a
 * stride_in past the number of outputs is a part of wider rows, as in a packed W_qkv. A stride of 0
 * beside others, along an axis of more than one element, is refused unless strides are explicit:
 * then it repeats. */
typedef struct heed_matrix_layout {
  uint32_t dtype;        /* heed_dtype; 0: the arithmetic's */
  uint32_t reserved;     /* heed_strides */
  int64_t stride_matrix; /* from one head's or node's matrix to the next; else 0 */
  int64_t stride_in;
  int64_t stride_out;
} heed_matrix_layout;
#define HEED_MATRIX_LAYOUT_INIT \
  { 0, 0, 0, 0, 0 }

/* A matrix and its bias, prepared once in the order that products read them, for any number of
 * plans, runs and threads, of any context whose product (heed_context_info) is the same: fastest of
 * one with the same instruction set and precision. Contexts of another precision, and graphs,
 * refuse a matrix that a context with HEED_PRECISION_MEDIUM has rounded. Immutable; holds its
 * context. */
typedef struct heed_weights heed_weights;

typedef struct heed_weights_desc {
  uint32_t struct_size;
  uint32_t arithmetic; /* HEED_DTYPE_F32 or HEED_DTYPE_F64: of the runs that use it; 0: F32 */
  int64_t matrices;    /* that lie one below the other: heads of HEED_COMBINE_TENSOR; 0: one */
  int64_t in;          /* features in, of each */
  int64_t out;         /* features out */
  heed_matrix_layout layout;
  uint32_t bias_dtype; /* heed_dtype; 0: the arithmetic's */
  uint32_t reserved;   /* 0 */
} heed_weights_desc;
#define HEED_WEIGHTS_DESC_INIT \
  { (uint32_t)sizeof(heed_weights_desc), 0, 0, 0, 0, HEED_MATRIX_LAYOUT_INIT, 0, 0 }

/* Reads matrix and bias, which are not needed afterwards. bias is [out], NULL: none. *weights is
 * written only on success. */
HEED_API heed_status heed_weights_create(const heed_context* context, const heed_weights_desc* desc,
                                         const void* matrix, const void* bias,
                                         heed_weights** weights);
/* NULL is allowed. Not while a run uses it. */
HEED_API void heed_weights_destroy(heed_weights* weights);

typedef struct heed_weights_info {
  uint32_t struct_size;
  uint32_t arithmetic; /* HEED_DTYPE_F32 or HEED_DTYPE_F64 */
  int64_t in;          /* of all matrices together */
  int64_t out;
  size_t bytes; /* of memory held */
} heed_weights_info;
#define HEED_WEIGHTS_INFO_INIT \
  { (uint32_t)sizeof(heed_weights_info), 0, 0, 0, 0 }

HEED_API heed_status heed_weights_describe(const heed_weights* weights, heed_weights_info* info);

/* Rows times a prepared matrix, which is a linear layer:
 *
 *   y = x W + bias
 *
 *   x  [batch, rows, in]      y  [batch, rows, out]      in and out of heed_weights_info
 *
 * Types: x and y are each float32, bfloat16 or float16, with arithmetic in float32; or both are
 * float64, as the weights then must be. A dtype of 0 is the arithmetic's. */
typedef struct heed_project_desc {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  int64_t batch;
  int64_t rows;
  heed_layout x; /* of both: no stride_head */
  heed_layout y;
} heed_project_desc;
#define HEED_PROJECT_DESC_INIT \
  { (uint32_t)sizeof(heed_project_desc), 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT }

/* The weights are those of a context whose product is the same. y must not overlap x. Takes a
 * little memory for each thread from the context's allocator. */
HEED_API heed_status heed_project(const heed_context* context, const heed_project_desc* desc,
                                  const heed_weights* weights, const void* x, void* y);

/* How the results of the heads become one. */
typedef enum heed_combine {
  HEED_COMBINE_CONCAT = 0,   /* side by side; in a multi-head block then times W_out */
  HEED_COMBINE_WEIGHTED = 1, /* sum over h of head_weights[h] * head_h */
  HEED_COMBINE_MEAN = 2,     /* sum over h of head_h, over their number */
  HEED_COMBINE_MAX = 3,      /* the largest of the heads, feature by feature; NaN if one is */
  HEED_COMBINE_TENSOR = 4,   /* sum over h of head_h W_out[h]; multi-head blocks only */
  HEED_COMBINE_HEADS = 5     /* side by side, without a W_out; multi-head blocks only: of graphs
                                HEED_COMBINE_CONCAT is that */
} heed_combine;

/* ---- Multi-head attention blocks --------------------------------------------------------------
 */

/* A block from inputs and weight matrices to outputs:
 *
 *   Q = input_query W_query + b_query        [batch, query_length, query_heads * features]
 *   K = input_key W_key + b_key              [batch, key_length, key_heads * features]
 *   V = input_key W_value + b_value          [batch, key_length, key_heads * value_features]
 *   head_h = attention of head h, as `attention` describes it, with all its options
 *   out = combine(head_1 ... head_h)         [batch, query_length, width_out]
 *
 *   input_query  [batch, query_length, width_query]
 *   input_key    [batch, key_length, width_key]
 *   W_query      [width_query, query_heads * features]
 *   W_key        [width_key, key_heads * features]
 *   W_value      [width_key, key_heads * value_features]
 *   W_out        [query_heads * value_features, width_out]       HEED_COMBINE_CONCAT
 *                [query_heads][value_features, width_out]        HEED_COMBINE_TENSOR
 *
 * Biases are vectors as wide as their products, contiguous. The other ways to combine have no
 * W_out, and width_out is value_features, or query_heads * value_features with HEED_COMBINE_HEADS,
 * whose out is the heads side by side. Where attention is packed, so are inputs and out:
 * [packed_queries, width_query], [packed_keys, width_key], [packed_queries, width_out].
 *
 * There they begin and end with the sequences: rows before the first or after the last are neither
 * read nor written.
 *
 * Types: inputs, matrices, biases and out are each float32, bfloat16 or float16, in any mix, with
 * arithmetic and everything in between in float32; or all are float64, which a float64 input_query
 * asks for. A dtype of 0 is float32 of input_query, and the arithmetic's of everything else. Where
 * input_query is bfloat16 and the instruction set multiplies pairs, Q, K, V and what W_out
 * multiplies are rounded to bfloat16, unless the precision is HEED_PRECISION_EXACT. */
typedef struct heed_multihead_desc {
  uint32_t struct_size;
  uint32_t combine; /* heed_combine */
  /* Sizes and options of the attention, at least one query head; its layouts of query, key, value
   * and out are the block's own and must be 0. Read while the plan is made. */
  const heed_attention_desc* attention;
  int64_t width_query;
  int64_t width_key;       /* 0: width_query */
  int64_t width_out;       /* 0: width_query with a W_out, else that of what is combined */
  heed_layout input_query; /* of inputs and out: no stride_head */
  heed_layout input_key;
  heed_layout out;
  heed_matrix_layout w_query; /* of matrices that are given as they are, not prepared */
  heed_matrix_layout w_key;
  heed_matrix_layout w_value;
  heed_matrix_layout w_out;
  uint32_t bias_dtype; /* of all biases; 0: the arithmetic's */
  uint32_t keep;       /* 1: args.kept receives what heed_multihead_backward needs of a run, so that
                          it need not compute it again; not with hard attention */
} heed_multihead_desc;
#define HEED_MULTIHEAD_DESC_INIT                                                                 \
  {                                                                                              \
    (uint32_t)sizeof(heed_multihead_desc), 0, NULL, 0, 0, 0, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT,                      \
        HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, 0, 0                                   \
  }

/* A matrix is given either as it is (w_, and b_ or NULL for none) or prepared (p_, with its bias
 * inside; then w_ and b_ are NULL). */
typedef struct heed_multihead_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  /* Masks, lengths, log-sum-exp, weights and so on; its query, key, value and out must be NULL.
   * NULL: none of it. */
  const heed_attention_args* attention;
  const void* input_query;
  const void* input_key; /* NULL: input_query, which then must fit in shape */
  const void* w_query;
  const void* w_key;
  const void* w_value;
  const void* w_out;
  const void* b_query;
  const void* b_key;
  const void* b_value;
  const void* b_out;
  const heed_weights* p_query;
  const heed_weights* p_key;
  const heed_weights* p_value;
  const heed_weights* p_out;
  const void* head_weights; /* Real [query_heads], only with HEED_COMBINE_WEIGHTED */
  void* out;
  void* kept; /* at a multiple of HEED_WORKSPACE_ALIGNMENT; only with desc.keep, and needed there */
  size_t kept_bytes; /* at least those of heed_multihead_info; without desc.keep 0 */
} heed_multihead_args;
#define HEED_MULTIHEAD_ARGS_INIT                                                              \
  {                                                                                           \
    (uint32_t)sizeof(heed_multihead_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0                         \
  }

typedef struct heed_multihead_plan heed_multihead_plan;

/* Checks the descriptor and lays out the workspace, which grows with tokens times width, never
 * with query_length times key_length. *plan is written only on success. */
HEED_API heed_status heed_multihead_plan_create(const heed_context* context,
                                                const heed_multihead_desc* desc,
                                                heed_multihead_plan** plan);
/* NULL is allowed. */
HEED_API void heed_multihead_plan_destroy(heed_multihead_plan* plan);

typedef struct heed_multihead_info {
  uint32_t struct_size;
  uint32_t threads; /* that a run uses */
  const char* isa;
  const char* executor;
  const char* product; /* what computes the projections: "heed" or "cblas" */
  size_t workspace_bytes;
  double projection_flops; /* 2 per element of a matrix and row of an input */
  double attention_flops;  /* as in heed_attention_info */
  size_t kept_bytes;       /* of args.kept: projections, heads and their log-sum-exp; 0 without
                              desc.keep */
  uint32_t precision; /* heed_precision, in effect: HEED_PRECISION_MEDIUM where everything may be
                         rounded, HEED_PRECISION_DEFAULT where what lies between products is
                         bfloat16, else HEED_PRECISION_EXACT */
  uint32_t reserved;  /* 0 */
} heed_multihead_info;
#define HEED_MULTIHEAD_INFO_INIT \
  { (uint32_t)sizeof(heed_multihead_info), 0, NULL, NULL, NULL, 0, 0.0, 0.0, 0, 0, 0 }

HEED_API heed_status heed_multihead_plan_describe(const heed_multihead_plan* plan,
                                                  heed_multihead_info* info);
/* The bytes that a run of this plan needs; 0 is possible. */
HEED_API heed_status heed_multihead_plan_workspace(const heed_multihead_plan* plan, size_t* bytes);
/* Computes out, and kept with desc.keep. The workspace's content before and after means nothing. */
HEED_API heed_status heed_multihead_plan_run(const heed_multihead_plan* plan,
                                             const heed_multihead_args* args, void* workspace,
                                             size_t workspace_bytes);
/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_multihead(const heed_context* context, const heed_multihead_desc* desc,
                                    const heed_multihead_args* args);

/* ---- Multi-head attention blocks: gradients ----------------------------------------------------
 */

/* The gradients of a block, from its inputs and the gradient of out:
 *
 *   grad_heads       = back through the combiner: grad_out W_out^T, or head_weights[h] grad_out, or
 *                      grad_out over the number of heads, or grad_out where the head was the
 *                      largest, of equal ones the first, or of HEED_COMBINE_HEADS grad_out
 *   grad_Q, _K, _V   = as heed_attention_backward has them, of every head
 *   grad_W_query     = input_query^T grad_Q                  summed over all rows of the batch
 *   grad_W_key       = input_key^T grad_K
 *   grad_W_value     = input_key^T grad_V
 *   grad_W_out       = heads^T grad_out
 *   grad_b_query     = sum over rows of grad_Q, and so on
 *   grad_input_query = grad_Q W_query^T
 *   grad_input_key   = grad_K W_key^T + grad_V W_value^T
 *   grad_head_weights[h] = sum over rows of <grad_out, head_h>
 *
 * Where input_key is NULL, one input serves as both: grad_input_query is the sum of both gradients,
 * and grad_input_key must be NULL.
 *
 * Q, K, V, the heads and their log-sum-exp are those that a run with desc.keep left in args.kept,
 * with the same descriptor, in the same context; without desc.keep they are computed again. The
 * bits are the same. Sums are taken in the arithmetic's type in an order that the shape decides,
 * never threads, executors or tiles (except with the product "cblas"), and rounded once.
 *
 * Rows that belong to no sequence are neither read nor written. NaN, infinities, rows
 * that attend nothing and keys that nobody attends have the effect that they have in
 * heed_attention_backward; products then carry NaN on by the rules of IEEE 754. Hard attention is
 * not differentiable: HEED_STATUS_UNSUPPORTED. */
typedef struct heed_multihead_backward_desc {
  uint32_t struct_size;
  uint32_t accumulate; /* 1: gradients are added to what is there; 0: they replace it */
  /* As for heed_multihead, with weights_point, sum_columns and weight_rows of its attention 0. Read
   * while the plan is made. */
  const heed_multihead_desc* block;
  heed_layout grad_out; /* as out in shape; a dtype of 0, here and below: the arithmetic's */
  heed_layout grad_lse; /* [batch, query_heads, query_length]; as lse, of a type of its own */
  heed_layout
      grad_input_query;       /* as the inputs in shape; of all gradients below: float64 if, and */
  heed_layout grad_input_key; /* only if, the arithmetic is */
  heed_matrix_layout grad_w_query; /* as the matrices in shape; elements must be apart */
  heed_matrix_layout grad_w_key;
  heed_matrix_layout grad_w_value;
  heed_matrix_layout grad_w_out;
  heed_score_layout grad_bias; /* sizes as those of the attention's bias, as in
                                  heed_attention_backward_desc */
  uint32_t grad_b_dtype;       /* of grad_b_query, grad_b_key, grad_b_value and grad_b_out */
  uint32_t reserved;           /* 0 */
} heed_multihead_backward_desc;
#define HEED_MULTIHEAD_BACKWARD_DESC_INIT                                                        \
  {                                                                                              \
    (uint32_t)sizeof(heed_multihead_backward_desc), 0, NULL, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT,    \
        HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_SCORE_LAYOUT_INIT, 0, 0           \
  }

/* Gradients that are not wanted are NULL. */
typedef struct heed_multihead_backward_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  /* As for heed_multihead, matrices prepared or not; kept is read. Its out is not looked at, nor is
   * the lse of its attention, whose weights, weight_rows and column_sums are NULL. */
  const heed_multihead_args* block;
  const void* grad_out;
  const void* grad_lse; /* NULL: 0 */
  void* grad_input_query;
  void* grad_input_key; /* only with block->input_key */
  void* grad_w_query;
  void* grad_w_key;
  void* grad_w_value;
  void* grad_w_out;   /* this and grad_b_out only with HEED_COMBINE_CONCAT and _TENSOR */
  void* grad_b_query; /* as wide as the bias, contiguous; also where none was given */
  void* grad_b_key;
  void* grad_b_value;
  void* grad_b_out;
  void* grad_head_weights; /* Real [query_heads], only with HEED_COMBINE_WEIGHTED */
  void* grad_bias;         /* these, of the attention, as in heed_attention_backward_args */
  void* grad_sinks;
  void* grad_alibi_slopes;
  void* grad_scale;
  void* grad_temperature;
  heed_score_gradient score_gradient;
  void* grad_score_weights;
} heed_multihead_backward_args;
#define HEED_MULTIHEAD_BACKWARD_ARGS_INIT                                                        \
  {                                                                                              \
    (uint32_t)sizeof(heed_multihead_backward_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL       \
  }

typedef struct heed_multihead_backward_plan heed_multihead_backward_plan;

/* Checks the descriptor and lays out the workspace, which grows with tokens times width and with
 * the matrices, never with query_length times key_length. *plan is written only on success. */
HEED_API heed_status heed_multihead_backward_plan_create(const heed_context* context,
                                                         const heed_multihead_backward_desc* desc,
                                                         heed_multihead_backward_plan** plan);
/* NULL is allowed. */
HEED_API void heed_multihead_backward_plan_destroy(heed_multihead_backward_plan* plan);

/* Flops are useful ones of a run that computes every gradient from what was kept: twice those of
 * the forward projections, and those of heed_attention_backward_plan_describe. */
HEED_API heed_status heed_multihead_backward_plan_describe(const heed_multihead_backward_plan* plan,
                                                           heed_multihead_info* info);
/* The bytes that a run of this plan needs; 0 is possible. */
HEED_API heed_status
heed_multihead_backward_plan_workspace(const heed_multihead_backward_plan* plan, size_t* bytes);
HEED_API heed_status heed_multihead_backward_plan_run(const heed_multihead_backward_plan* plan,
                                                      const heed_multihead_backward_args* args,
                                                      void* workspace, size_t workspace_bytes);
/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_multihead_backward(const heed_context* context,
                                             const heed_multihead_backward_desc* desc,
                                             const heed_multihead_backward_args* args);

/* ---- Graphs ------------------------------------------------------------------------------------
 */

typedef enum heed_index_type {
  HEED_INDEX_DEFAULT = 0, /* int32 */
  HEED_INDEX_I32 = 1,
  HEED_INDEX_I64 = 2
} heed_index_type;

/* The fate of edges with the source and destination of an earlier one. */
typedef enum heed_duplicates {
  HEED_DUPLICATES_DEFAULT = 0, /* removed from an edge list, kept in rows */
  HEED_DUPLICATES_REMOVE = 1,  /* the first stays, with what belongs to it */
  HEED_DUPLICATES_KEEP = 2     /* each counts */
} heed_duplicates;

/* Directed edges from sources to destinations, over which destinations attend to sources: either
 * an edge list (sources and destinations, any order), or rows by destination (sources and offsets,
 * CSR): the edges offsets[n] to offsets[n + 1] - 1 end at node n. A self-loop is an edge like any
 * other. With source_nodes edges lead from nodes of another kind, which have numbers of their own.
 */
typedef struct heed_graph_desc {
  uint32_t struct_size;
  uint32_t index_type;      /* heed_index_type of the three arrays */
  int64_t nodes;            /* at most 2^31 - 1 */
  int64_t edges;            /* given; at most 2^40 */
  const void* sources;      /* [edges], 0 to nodes - 1, or source_nodes - 1; NULL without edges */
  const void* destinations; /* [edges]; NULL with offsets, or without edges */
  const void* offsets;      /* [nodes + 1], from 0 to edges, never decreasing; else NULL */
  uint32_t duplicates;      /* heed_duplicates */
  uint32_t reverse;         /* 1: also keeps edges sorted by source, which gradients need */
  /* At most 2^31 - 1. 0: edges lead from the nodes where they end. Otherwise keys and values have
   * so many rows, and all else one for each of `nodes`; inputs must be HEED_GRAPH_PROJECTED, and
   * reverse 0 (1: HEED_STATUS_UNSUPPORTED). */
  int64_t source_nodes;
} heed_graph_desc;
#define HEED_GRAPH_DESC_INIT \
  { (uint32_t)sizeof(heed_graph_desc), 0, 0, 0, NULL, NULL, NULL, 0, 0, 0 }

/* Edges checked and sorted by destination and source; immutable, for any number of plans, runs and
 * threads. Does not need the caller's arrays afterwards. Holds its context. */
typedef struct heed_graph heed_graph;

/* Built with the context's threads. *graph is written only on success. */
HEED_API heed_status heed_graph_create(const heed_context* context, const heed_graph_desc* desc,
                                       heed_graph** graph);
/* NULL is allowed. Plans made from the graph stay usable: they hold it. */
HEED_API void heed_graph_destroy(heed_graph* graph);

typedef struct heed_graph_info {
  uint32_t struct_size;
  uint32_t reverse; /* 1: edges are sorted by source too */
  int64_t nodes;
  int64_t edges;        /* that count: without removed duplicates */
  int64_t edges_given;  /* edges that tensors over edges have */
  int64_t isolated;     /* nodes without incoming edges */
  int64_t most;         /* incoming edges of a node */
  size_t bytes;         /* of memory held, the reverse order included */
  int64_t source_nodes; /* as given */
} heed_graph_info;
#define HEED_GRAPH_INFO_INIT \
  { (uint32_t)sizeof(heed_graph_info), 0, 0, 0, 0, 0, 0, 0, 0 }

HEED_API heed_status heed_graph_describe(const heed_graph* graph, heed_graph_info* info);

/* ---- Attention over graphs ------------------------------------------------------------------- */

/* Where queries, keys and values come from. */
typedef enum heed_graph_inputs {
  HEED_GRAPH_PROJECTED = 0, /* they are given, per node */
  HEED_GRAPH_SHARED = 1,    /* data of the node times matrices that all nodes share */
  HEED_GRAPH_PER_NODE = 2   /* data of the node times matrices of its own */
} heed_graph_inputs;

/* Every node attends to the sources of its incoming edges, for every head:
 *
 *   s_e   = scale * <q_n, k_m + edge_k_e>             for every edge e from m to n
 *         = scale * act(q_n + k_m + edge_k_e)         with HEED_SCORE_SUM
 *         = scale * <a, act(q_n + k_m + edge_k_e)>    with HEED_SCORE_ADDITIVE, act of each feature
 *         = scale * a * <q_n, k_m> / (|q_n| |k_m|)    with HEED_SCORE_COSINE, without edge_k
 *   s_e   = softcap * tanh(s_e / softcap)             if softcap is given
 *   s_e   = s_e + edge_bias[e]                        if a bias is given; -inf leaves the edge out
 *   p_e   = softmax(s_e / temperature)                over the edges into n
 *   p_e   = p_e / (1 - dropout), or 0 where the edge is dropped, if dropout is given
 *   new_n = combine over heads of (sum of p_e (v_m + edge_v_e))
 *   out_n = new_n, or data_n + new_n with residual    all nodes at once
 *
 *   query, key [nodes, heads, features]      value [nodes, heads, value_features]
 *              (key and value [source_nodes, ...] where the graph has such)
 *   data       [nodes, width]
 *   W_query, W_key [width, heads * features]  W_value [width, heads * value_features]
 *              one each, or one per node; q = data W_query + b_query and so on
 *   edge_k = edge_data W_edge_key    edge_v = edge_data W_edge_value
 *   a          [heads, features], with HEED_SCORE_COSINE [heads]; score_weights
 *   edge_data  [edges given, edge_width]
 *   W_edge_key [edge_width, heads * features]  W_edge_value [edge_width, heads * value_features]
 *   out        [nodes, heads, value_features]; if not concatenated [nodes, value_features]
 *
 * Row e of a tensor over edges belongs to the e-th edge given. A node without incoming edges (or
 * with none but of bias -inf) gets new_n = 0 exactly, and the log-sum-exp -inf. Steps after the
 * first take out for data. Without tensors over edges and dropout, the order in which edges were
 * given changes no bit of the result; threads and executors never do.
 *
 * Infinity and NaN, hard attention and types are as in dense attention: all tensors are float64, or
 * none is. A float64 out asks for that; a dtype of 0 is float32 of out, and the arithmetic's of
 * everything else. The share of edge data is computed from <W_edge_key q_n, f_e> and
 * W_edge_value^T (sum of p_e f_e), with two products per node instead of two per edge: what is not
 * finite in edge data may become NaN. Of other scores than HEED_SCORE_DOT edge_k takes a product
 * per edge. Where key and value are one tensor, its rows are fetched once. Layouts and arguments of
 * tensors that a problem does not have must be 0.
 *
 * Dropout is that of dense attention, where heads take the place of keys: row e mod 2^32 of head
 * e / 2^32 of heed_dropout_mask, for the e-th edge given, has its heads for keys; the batch is 0.
 * Some edges of a larger graph have its mask where args.dropout_edges says which of them they are.
 * Every step after the first has an offset that is 1 more. lse and weights do not know of it. */
typedef struct heed_graph_attention_desc {
  uint32_t struct_size;
  uint32_t inputs; /* heed_graph_inputs */
  int64_t heads;
  int64_t features;
  int64_t value_features; /* 0: features */
  int64_t width;          /* of data; 0 where there is none */
  int64_t edge_width;     /* of edge_data; 0: none */
  int64_t steps;          /* 0: 1; more only where inputs come from data as wide as out's rows */
  double scale;           /* finite; 0: 1 / sqrt(features), of other scores than HEED_SCORE_DOT 1 */
  double softcap;         /* finite, above 0; 0: none */
  double temperature;     /* above 0; infinity: the same weight for every edge; 0: 1 */
  uint32_t hard;          /* 1: weight 1 at the largest score, of equal ones at the lowest source,
                             then the edge given first; not with temperature or lse */
  uint32_t combine;       /* heed_combine; not HEED_COMBINE_TENSOR */
  uint32_t residual;      /* 1: out = data + new; data must be as wide as out's rows */
  uint32_t bias_dtype;    /* of b_query, b_key and b_value; 0: the arithmetic's */
  heed_layout query;      /* of tensors over nodes and edges: stride_row from one to the next, */
  heed_layout key;        /* no stride_batch; contiguous is [row, head, feature] */
  heed_layout value;
  heed_layout data;
  heed_layout edge_data;
  heed_layout edge_bias; /* [edges given, heads]; stride_head 0 beside others: one for all heads */
  heed_layout out;
  heed_layout lse;     /* [nodes, heads] */
  heed_layout weights; /* [edges given, heads]; removed duplicates get 0 */
  heed_matrix_layout w_query;
  heed_matrix_layout w_key;
  heed_matrix_layout w_value;
  heed_matrix_layout w_edge_key;
  heed_matrix_layout w_edge_value;
  uint32_t score;      /* heed_score; with HEED_SCORE_SUM features is 1 */
  uint32_t activation; /* heed_activation; 0 with HEED_SCORE_DOT */
  double slope;        /* of HEED_ACTIVATION_LEAKY_RELU: finite; GAT has 0.2. Else 0 */
  double dropout;      /* as in heed_attention_desc; not with hard */
} heed_graph_attention_desc;
#define HEED_GRAPH_ATTENTION_DESC_INIT                                                            \
  {                                                                                               \
    (uint32_t)sizeof(heed_graph_attention_desc), 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0, 0, 0, 0,  \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT,                   \
        HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT,                \
        HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, 0, 0, 0.0, 0.0                          \
  }

typedef struct heed_graph_attention_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  const void* query; /* query, key and value with HEED_GRAPH_PROJECTED, else NULL */
  const void* key;
  const void* value;
  const void* data;    /* otherwise, and with residual */
  const void* w_query; /* w_ and b_ as they are, or p_ prepared, as in multi-head blocks; b_ and */
  const void* w_key;   /* p_ only with HEED_GRAPH_SHARED */
  const void* w_value;
  const void* b_query;
  const void* b_key;
  const void* b_value;
  const heed_weights* p_query;
  const heed_weights* p_key;
  const heed_weights* p_value;
  const void* edge_data;    /* only with edge_width */
  const void* w_edge_key;   /* NULL: edges add nothing to keys; with edge_width one of the two at */
  const void* w_edge_value; /* least. NULL: edges add nothing to values; may be w_edge_key */
  const void* edge_bias;    /* NULL: none */
  const void* head_weights; /* Real [heads], only with HEED_COMBINE_WEIGHTED */
  void* out;                /* may be data where layout and type are the same */
  void* lse;                /* of the last step; NULL: not wanted */
  void* weights;            /* of the last step; NULL: not wanted */
  const void*
      score_weights;       /* Real, a: see above; NULL without, or for ones of HEED_SCORE_COSINE */
  uint64_t dropout_seed;   /* any; only with desc.dropout, else 0 */
  uint64_t dropout_offset; /* any, another for every call of a seed; likewise */
  const int64_t* dropout_edges; /* [edges given], the number of each in a larger graph; only with
                                   desc.dropout. NULL: 0, 1, 2, ... */
} heed_graph_attention_args;
#define HEED_GRAPH_ATTENTION_ARGS_INIT                                                            \
  {                                                                                               \
    (uint32_t)sizeof(heed_graph_attention_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL,     \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        0, 0, NULL                                                                                \
  }

typedef struct heed_graph_attention_plan heed_graph_attention_plan;

/* Checks the descriptor against the graph and lays out the workspace: with HEED_GRAPH_PROJECTED
 * some numbers per thread and per part of a node with very many edges; otherwise the projections
 * too; never something per edge. *plan is written only on success; it holds the graph. */
HEED_API heed_status heed_graph_attention_plan_create(const heed_context* context,
                                                      const heed_graph* graph,
                                                      const heed_graph_attention_desc* desc,
                                                      heed_graph_attention_plan** plan);
/* NULL is allowed. */
HEED_API void heed_graph_attention_plan_destroy(heed_graph_attention_plan* plan);

typedef struct heed_graph_attention_info {
  uint32_t struct_size;
  uint32_t threads; /* that a run uses */
  const char* isa;
  const char* executor;
  uint64_t tasks; /* independent pieces of work over the edges of one step */
  size_t workspace_bytes;
  double gathered_bytes; /* of keys and values, read through edges in one step */
} heed_graph_attention_info;
#define HEED_GRAPH_ATTENTION_INFO_INIT \
  { (uint32_t)sizeof(heed_graph_attention_info), 0, NULL, NULL, 0, 0, 0.0 }

HEED_API heed_status heed_graph_attention_plan_describe(const heed_graph_attention_plan* plan,
                                                        heed_graph_attention_info* info);
/* The bytes that a run of this plan needs; 0 is possible. */
HEED_API heed_status heed_graph_attention_plan_workspace(const heed_graph_attention_plan* plan,
                                                         size_t* bytes);
/* Computes out. The workspace's content before and after means nothing. */
HEED_API heed_status heed_graph_attention_plan_run(const heed_graph_attention_plan* plan,
                                                   const heed_graph_attention_args* args,
                                                   void* workspace, size_t workspace_bytes);
/* Where the queries, keys and values of all nodes lie in a workspace: tensors over nodes of the
 * arithmetic's type, as desc.query, key and value with HEED_GRAPH_PROJECTED describe them. */
typedef struct heed_graph_projections {
  uint32_t struct_size;
  uint32_t reserved;
  const void* query;
  const void* key;
  const void* value;
  heed_layout query_layout;
  heed_layout key_layout;
  heed_layout value_layout;
} heed_graph_projections;
#define HEED_GRAPH_PROJECTIONS_INIT                                                  \
  {                                                                                  \
    (uint32_t)sizeof(heed_graph_projections), 0, NULL, NULL, NULL, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT                                           \
  }

/* Only the products of data with matrices with which the first step of a run begins, for programs
 * that send rows of them elsewhere. args as for a run, but out, lse and weights are not looked at.
 * The projections stay in the workspace until it is used again. HEED_STATUS_INVALID_ARGUMENT with
 * HEED_GRAPH_PROJECTED. */
HEED_API heed_status heed_graph_attention_plan_project(const heed_graph_attention_plan* plan,
                                                       const heed_graph_attention_args* args,
                                                       void* workspace, size_t workspace_bytes,
                                                       heed_graph_projections* projections);
/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_graph_attention(const heed_context* context, const heed_graph* graph,
                                          const heed_graph_attention_desc* desc,
                                          const heed_graph_attention_args* args);

/* ---- Attention over graphs: gradients ---------------------------------------------------------
 */

/* The gradients of attention over a graph that keeps its edges by source too (heed_graph_desc.
 * reverse), from its inputs and the gradient of out. For every edge e from m to n and every head,
 * with grad_n what reaches the head's result through combine:
 *
 *   delta_n      = <grad_n, result_n> - grad_lse_n
 *   grad_z_e     = p_e (<grad_n, v_m + edge_v_e> - delta_n)        z = s / temperature
 *   grad_bias_e  = grad_z_e / temperature
 *   grad_s_e     = grad_bias_e, times 1 - tanh^2 of the softcap
 *   grad_query_n = scale * sum over e into n of grad_s_e (k_m + edge_k_e)
 *   grad_key_m   = scale * sum over e from m of grad_s_e q_n
 *   grad_value_m = sum over e from m of p_e grad_n
 *
 * and of scores <a, act(z_e)> that are no products, with z_e = q_n + k_m + edge_k_e,
 *
 *   grad_z_e     = scale * grad_s_e a act'(z_e)       of q_n, k_m and edge_k_e alike, summed over e
 *   grad_a       = scale * sum over e of grad_s_e act(z_e)
 *
 * and from these to all that q, k, v, edge_k and edge_v are made of: data, matrices, edge data. The
 * largest of heads passes its gradient to the first head that has it. With residual data gets that
 * of out besides; with steps all are differentiated.
 *
 * Nothing is kept per edge and head: scores and results are computed again, so no result of the
 * forward run is needed. Sums run along edges in their order, by destination or by source, in
 * splits where a node has very many: bits depend on neither threads nor executors. Nodes and edges
 * that take no part get exactly 0, removed duplicates too. Infinities and NaN are as in
 * heed_attention_backward; in a query, or a gradient of a result, they make their feature of the
 * gradient of W_edge_key or W_edge_value NaN, whether the node has edges or not.
 *
 * Not of hard attention, which is not differentiable, nor with prepared matrices:
 * HEED_STATUS_UNSUPPORTED. */
typedef struct heed_graph_attention_backward_desc {
  uint32_t struct_size;
  uint32_t accumulate; /* 1: gradients are added to what is there; 0: they replace it */
  /* As for heed_graph_attention; its layout of out is only read for the type. Read while the plan
   * is made. */
  const heed_graph_attention_desc* attention;
  heed_layout grad_out;   /* as out in shape */
  heed_layout grad_lse;   /* as lse, of a type of its own */
  heed_layout grad_query; /* as query, key, value, data and edge_data in shape; float64 if, and only
                             if, they are. A dtype of 0: the arithmetic's, everywhere here */
  heed_layout grad_key;
  heed_layout grad_value;
  heed_layout grad_data;
  heed_layout grad_edge_data;
  heed_layout grad_edge_bias; /* [edges given, heads]; [edges given], summed over heads, where the
                                 bias is one for all heads */
  heed_matrix_layout grad_w_query; /* as the matrices in shape */
  heed_matrix_layout grad_w_key;
  heed_matrix_layout grad_w_value;
  heed_matrix_layout grad_w_edge_key;
  heed_matrix_layout grad_w_edge_value;
} heed_graph_attention_backward_desc;
#define HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT                                                   \
  {                                                                                               \
    (uint32_t)sizeof(heed_graph_attention_backward_desc), 0, NULL, HEED_LAYOUT_INIT,              \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, \
        HEED_LAYOUT_INIT, HEED_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT,     \
        HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT, HEED_MATRIX_LAYOUT_INIT                 \
  }

/* Gradients that are not wanted are NULL, and so are those of what the problem does not have. */
typedef struct heed_graph_attention_backward_args {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  /* As for heed_graph_attention; out, lse and weights are not looked at. Data must be what it was
   * before, where out has replaced it. */
  const heed_graph_attention_args* attention;
  const void* grad_out;
  const void* grad_lse; /* of the last step; NULL: 0 */
  void* grad_query;     /* with HEED_GRAPH_PROJECTED */
  void* grad_key;
  void* grad_value;
  void* grad_data;    /* where there is data */
  void* grad_w_query; /* unless HEED_GRAPH_PROJECTED */
  void* grad_w_key;
  void* grad_w_value;
  void* grad_b_query; /* Real [heads * features], with b_query and so on */
  void* grad_b_key;
  void* grad_b_value;
  void* grad_edge_data;     /* with edge_data */
  void* grad_w_edge_key;    /* with w_edge_key */
  void* grad_w_edge_value;  /* with w_edge_value, apart from it even where both are one matrix */
  void* grad_edge_bias;     /* with edge_bias */
  void* grad_head_weights;  /* Real [heads], with head_weights */
  void* grad_score_weights; /* as score_weights, and only with them */
} heed_graph_attention_backward_args;
#define HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT                                                  \
  {                                                                                              \
    (uint32_t)sizeof(heed_graph_attention_backward_args), 0, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL             \
  }

typedef struct heed_graph_attention_backward_plan heed_graph_attention_backward_plan;

/* Checks the descriptor against the graph and lays out the workspace: three numbers per node and
 * head, as many as a result where combine is not HEED_COMBINE_CONCAT, four times edge_width with
 * edge data, what gradients need of every node and step where data is projected, and never
 * something per edge. *plan is written only on success; it holds the graph. */
HEED_API heed_status heed_graph_attention_backward_plan_create(
    const heed_context* context, const heed_graph* graph,
    const heed_graph_attention_backward_desc* desc, heed_graph_attention_backward_plan** plan);
/* NULL is allowed. */
HEED_API void heed_graph_attention_backward_plan_destroy(heed_graph_attention_backward_plan* plan);
/* Tasks are those over edges by destination and by source; gathered bytes those of keys and values,
 * then of queries and gradients of results. */
HEED_API heed_status heed_graph_attention_backward_plan_describe(
    const heed_graph_attention_backward_plan* plan, heed_graph_attention_info* info);
/* The bytes that a run of this plan needs; 0 is possible. */
HEED_API heed_status heed_graph_attention_backward_plan_workspace(
    const heed_graph_attention_backward_plan* plan, size_t* bytes);
HEED_API heed_status heed_graph_attention_backward_plan_run(
    const heed_graph_attention_backward_plan* plan, const heed_graph_attention_backward_args* args,
    void* workspace, size_t workspace_bytes);
/* Plan, workspace (from the context's allocator) and run in one call. */
HEED_API heed_status heed_graph_attention_backward(const heed_context* context,
                                                   const heed_graph* graph,
                                                   const heed_graph_attention_backward_desc* desc,
                                                   const heed_graph_attention_backward_args* args);

#ifdef __cplusplus
}
#endif

#endif /* HEED_H */
