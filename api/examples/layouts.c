/* The same attention from tensors that lie in memory in different ways. None is copied: a
 * heed_layout says in strides where element [batch, head, row, feature] lies. */
#include <heed.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define B INT64_C(2)
#define H INT64_C(3)
#define L INT64_C(5)
#define D INT64_C(4)
#define SIZE (B * H * L * D)

/* In elements: batch, head, row, feature. Explicit, so that strides which are all 0, of a view that
 * repeats one element, would not be taken for "contiguous". */
static const heed_layout bhld = {.reserved = HEED_STRIDES_EXPLICIT,
                                 .stride_batch = H * L * D,
                                 .stride_head = L * D,
                                 .stride_row = D,
                                 .stride_feature = 1};
/* [B, L, H, D]: what a projection of [B, L, H * D] is when its columns are split into heads. */
static const heed_layout blhd = {.reserved = HEED_STRIDES_EXPLICIT,
                                 .stride_batch = L * H * D,
                                 .stride_head = D,
                                 .stride_row = H * D,
                                 .stride_feature = 1};
/* [B, L, 3, H, D]: one projection that makes queries, keys and values side by side. */
static const heed_layout packed = {.reserved = HEED_STRIDES_EXPLICIT,
                                   .stride_batch = L * 3 * H * D,
                                   .stride_head = D,
                                   .stride_row = 3 * H * D,
                                   .stride_feature = 1};
/* [B, H, D, L]: transposed, as some store keys. */
static const heed_layout bhdl = {.reserved = HEED_STRIDES_EXPLICIT,
                                 .stride_batch = H * D * L,
                                 .stride_head = D * L,
                                 .stride_row = 1,
                                 .stride_feature = L};

/* The problem, contiguous [B, H, L, D], and its answer. */
static float query[SIZE], key[SIZE], value[SIZE], answer[SIZE];

static heed_attention_desc problem(void) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT; /* no strides: contiguous */
  desc.batch = B;
  desc.query_heads = H;
  desc.query_length = desc.key_length = L;
  desc.features = D;
  return desc;
}

static void check(heed_status status) {
  if (status == HEED_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  exit(EXIT_FAILURE);
}

static void attend(const heed_context* context, const heed_attention_desc* desc, const float* q,
                   const float* k, const float* v, float* out) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = q;
  args.key = k;
  args.value = v;
  args.out = out;
  check(heed_attention(context, desc, &args));
}

/* Puts a contiguous tensor where a layout wants it: a program has its tensors as they are. */
static void arrange(const float* tensor, const heed_layout* to, float* memory) {
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < L; ++i)
        for (int x = 0; x < D; ++x)
          memory[b * to->stride_batch + h * to->stride_head + i * to->stride_row +
                 x * to->stride_feature] = *tensor++;
}

/* How far `count` elements are off the answer in the same layout. */
static void compare(const char* name, const float* out, const heed_layout* layout, int count) {
  float expected[SIZE];
  arrange(answer, layout, expected);
  double most = 0;
  for (int i = 0; i < count; ++i) {
    const double d = fabs((double)out[i] - (double)expected[i]);
    if (!(d <= most)) most = d; /* NaN too */
  }
  printf("%-24s  %s\n", name, most < 1e-6 ? "the same answer" : "another answer");
  if (!(most < 1e-6)) exit(EXIT_FAILURE);
}

/* One query vector [D] over keys and values [L, D] is a single row. */
static void vector_query(const heed_context* context) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = desc.query_heads = desc.query_length = 1;
  desc.key_length = L;
  desc.features = D;
  float out[D];
  attend(context, &desc, query, key, value, out);
  compare("[D], a vector query", out, &bhld, D);
}

/* Queries, keys, values and results that lie in memory alike. */
static void alike(const heed_context* context, const char* name, const heed_layout* layout) {
  float q[SIZE], k[SIZE], v[SIZE], out[SIZE];
  arrange(query, layout, q);
  arrange(key, layout, k);
  arrange(value, layout, v);

  heed_attention_desc desc = problem();
  desc.query = desc.key = desc.value = desc.out = *layout;
  attend(context, &desc, q, k, v, out);
  compare(name, out, layout, SIZE);
}

static void packed_qkv(const heed_context* context) {
  float qkv[3 * SIZE], out[SIZE];
  float* const q = qkv; /* three pointers into the one tensor */
  float* const k = qkv + H * D;
  float* const v = qkv + 2 * H * D;
  arrange(query, &packed, q);
  arrange(key, &packed, k);
  arrange(value, &packed, v);

  heed_attention_desc desc = problem();
  desc.query = desc.key = desc.value = packed;
  desc.out = blhd; /* as the next projection wants it */
  attend(context, &desc, q, k, v, out);
  compare("[B, L, 3, H, D], packed", out, &blhd, SIZE);
}

static void fill(float* tensor, double step) {
  for (int i = 0; i < SIZE; ++i) tensor[i] = (float)sin(step * i);
}

int main(void) {
  fill(query, 1.1);
  fill(key, 2.3);
  fill(value, 0.7);
  heed_context* context = NULL;
  check(heed_context_create(NULL, &context));
  const heed_attention_desc desc = problem();
  attend(context, &desc, query, key, value, answer);

  vector_query(context);
  alike(context, "[B, L, H, D]", &blhd);
  packed_qkv(context);
  alike(context, "[B, H, D, L], transposed", &bhdl);
  heed_context_destroy(context);
  return 0;
}
