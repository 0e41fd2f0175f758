/* The API from C99: a context, a plan, a run, the one call, a merge, and functions of the caller.
 */
#include <heed.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void expect(int good, const char* what, int line) {
  if (good) return;
  ++failures;
  printf("test_c99.c:%d: FAILED: %s; last error: %s\n", line, what, heed_last_error());
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

/* One query, two keys: scores 0 and log(3), so weights 1/4 and 3/4. */
static const float query[1] = {1.0F};
static const float key[2] = {0.0F, 1.0986122886681098F};
static const float value[4] = {4.0F, 8.0F, 12.0F, 16.0F};
static const float expected[2] = {10.0F, 14.0F};

static heed_attention_desc tiny_desc(void) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1;
  desc.query_heads = 1;
  desc.query_length = 1;
  desc.key_length = 2;
  desc.features = 1;
  desc.value_features = 2;
  desc.scale = 1.0;
  return desc;
}

static heed_attention_args tiny_args(float* out) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query;
  args.key = key;
  args.value = value;
  args.out = out;
  return args;
}

static int is_expected(const float* out) {
  return fabsf(out[0] - expected[0]) < 1e-4F && fabsf(out[1] - expected[1]) < 1e-4F;
}

/* The C library of C99 has no aligned allocation: take more and step to the boundary. */
static void* align(void* memory) {
  const size_t past = (size_t)((uintptr_t)memory % HEED_WORKSPACE_ALIGNMENT);
  return (char*)memory + (past == 0 ? 0 : HEED_WORKSPACE_ALIGNMENT - past);
}

static void check_plan(const heed_context* context) {
  const heed_attention_desc desc = tiny_desc();
  float out[2] = {0.0F, 0.0F};
  const heed_attention_args args = tiny_args(out);
  heed_attention_plan* plan = NULL;
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  size_t bytes = 0;
  void* memory;
  EXPECT(heed_attention_plan_create(context, &desc, &plan) == HEED_STATUS_OK);
  if (plan == NULL) return;
  EXPECT(heed_attention_plan_describe(plan, &info) == HEED_STATUS_OK);
  EXPECT(info.flops == 2.0 * (1 + 2) * 2);
  EXPECT(heed_attention_plan_workspace(plan, &bytes) == HEED_STATUS_OK);
  EXPECT(bytes == info.workspace_bytes);
  memory = malloc(bytes + HEED_WORKSPACE_ALIGNMENT);
  if (memory != NULL) {
    EXPECT(heed_attention_plan_run(plan, &args, align(memory), bytes) == HEED_STATUS_OK);
    EXPECT(is_expected(out));
  }
  free(memory);
  heed_attention_plan_destroy(plan);
}

static void check_one_call(const heed_context* context) {
  const heed_attention_desc desc = tiny_desc();
  float out[2] = {0.0F, 0.0F};
  const heed_attention_args args = tiny_args(out);
  EXPECT(heed_attention(context, &desc, &args) == HEED_STATUS_OK);
  EXPECT(is_expected(out));
}

/* Takes the score of key 1 away; what it did not change stays. */
static void hide_key_1(void* user, const heed_score_tile* tile) {
  int64_t j, r;
  float* const scores = (float*)tile->scores;
  if (tile->dtype != HEED_DTYPE_F32) return;
  for (j = 0; j < tile->keys; ++j)
    for (r = 0; r < tile->rows; ++r)
      if (tile->first_key + j == 1 && tile->query_rows[r] == 0 && tile->query_heads[r] == 0)
        scores[j * tile->stride_key + r] = -INFINITY;
  ++*(int*)user;
}

/* The two keys one at a time, by a mask and by a score function, and put together again. */
static void check_forms(const heed_context* context) {
  const uint8_t second_only[2] = {0, 1};
  float outs[2][2], lses[2], out[2], lse;
  const void* part_outs[2];
  const void* part_lses[2];
  int calls = 0;
  heed_attention_desc desc = tiny_desc();
  heed_attention_args args = tiny_args(outs[0]);
  heed_merge_desc merge = HEED_MERGE_DESC_INIT;
  args.score_function = hide_key_1;
  args.score_user = &calls;
  args.lse = &lses[0];
  EXPECT(heed_attention(context, &desc, &args) == HEED_STATUS_OK);
  EXPECT(calls > 0);
  EXPECT(fabsf(outs[0][0] - 4.0F) < 1e-4F && fabsf(lses[0]) < 1e-4F);
  args = tiny_args(outs[1]);
  args.mask = second_only;
  args.lse = &lses[1];
  desc.mask.batch = desc.mask.heads = desc.mask.rows = 1;
  EXPECT(heed_attention(context, &desc, &args) == HEED_STATUS_OK);
  EXPECT(fabsf(outs[1][0] - 12.0F) < 1e-4F && fabsf(lses[1] - logf(3.0F)) < 1e-4F);
  merge.batch = merge.heads = merge.rows = 1;
  merge.features = 2;
  part_outs[0] = outs[0];
  part_outs[1] = outs[1];
  part_lses[0] = &lses[0];
  part_lses[1] = &lses[1];
  EXPECT(heed_merge(context, &merge, 2, part_outs, part_lses, out, &lse) == HEED_STATUS_OK);
  EXPECT(is_expected(out));
  EXPECT(fabsf(lse - logf(4.0F)) < 1e-4F);
}

static void run_in_order(void* user, uint32_t count, void (*body)(void* argument, uint32_t index),
                         void* argument) {
  uint32_t i;
  (void)user;
  for (i = 0; i < count; ++i) body(argument, i);
}

static void* take(void* user, size_t size, size_t alignment) {
  (void)alignment; /* malloc's suffices for everything but the one call's workspace */
  ++*(int*)user;
  return malloc(size);
}

static void give_back(void* user, void* memory, size_t size) {
  (void)size;
  --*(int*)user;
  free(memory);
}

static void check_callbacks(void) {
  int live = 0;
  heed_executor executor = HEED_EXECUTOR_INIT;
  heed_allocator allocator = HEED_ALLOCATOR_INIT;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  heed_context_info info = HEED_CONTEXT_INFO_INIT;
  heed_context* context = NULL;
  executor.threads = 2;
  executor.run = run_in_order;
  allocator.user = &live;
  allocator.allocate = take;
  allocator.release = give_back;
  options.executor = &executor;
  options.allocator = &allocator;
  EXPECT(heed_context_create(&options, &context) == HEED_STATUS_OK);
  EXPECT(heed_context_describe(context, &info) == HEED_STATUS_OK);
  EXPECT(info.threads == 2);
  EXPECT(strcmp(info.executor, "caller") == 0);
  check_plan(context);
  heed_context_destroy(context);
  EXPECT(live == 0);
}

int main(void) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  heed_context* context = NULL;
  EXPECT(strcmp(heed_last_error(), "") == 0);
  EXPECT(strcmp(heed_status_name((heed_status)99), "unknown heed_status") == 0); /* a later one */
  options.executor_name = "serial";
  EXPECT(heed_context_create(&options, &context) == HEED_STATUS_OK);
  if (context == NULL) return 1;
  check_plan(context);
  check_one_call(context);
  check_forms(context);
  check_callbacks();
  heed_context_destroy(context);
  if (failures == 0) printf("heed %s from C99\n", heed_version_string());
  return failures == 0 ? 0 : 1;
}
