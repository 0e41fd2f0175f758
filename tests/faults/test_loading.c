/* A program that loads libheed, runs attention and unloads it, 200 times: it ends well, and the
 * threads of the runtimes do not add up.
 *
 *   test_loading LIBRARY EXECUTOR */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heed.h"

enum { kLoads = 200, kLength = 128, kFeatures = 64, kHeads = 4, kSkipped = 77 };

static int threads_alive(void) {
  int threads = 0;
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == NULL) return -1;
  for (const struct dirent* task = NULL; (task = readdir(tasks)) != NULL;)
    if (task->d_name[0] != '.') ++threads;
  (void)closedir(tasks);
  return threads;
}

/* The function of that name, as a pointer to one of any type. */
static void (*find(void* library, const char* name))(void) {
  void (*function)(void) = NULL;
  void* const address = dlsym(library, name);
  memcpy(&function, &address, sizeof function);
  return function;
}
#define FIND(name) const __typeof__(&name) p_##name = (__typeof__(&name))find(library, #name)

static int has_executor(void* library, const char* executor) {
  FIND(heed_executor_count);
  FIND(heed_executor_name);
  for (size_t i = 0; i < p_heed_executor_count(); ++i)
    if (strcmp(p_heed_executor_name(i), executor) == 0) return 1;
  return 0;
}

static heed_status attend(void* library, const char* executor, const float* in, float* out) {
  FIND(heed_context_create);
  FIND(heed_attention);
  FIND(heed_context_destroy);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = executor;
  options.threads = 4;
  heed_context* context = NULL;
  heed_status status = p_heed_context_create(&options, &context);
  if (status != HEED_STATUS_OK) return status;
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1;
  desc.query_heads = kHeads;
  desc.query_length = desc.key_length = kLength;
  desc.features = kFeatures;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = args.key = args.value = in;
  args.out = out;
  status = p_heed_attention(context, &desc, &args);
  p_heed_context_destroy(context);
  return status;
}

int main(int count, char** arguments) {
  static float in[kHeads * kLength * kFeatures];
  static float out[kHeads * kLength * kFeatures];
  if (count != 3) return 2;
  for (int i = 0; i < kHeads * kLength * kFeatures; ++i) in[i] = (float)(i % 17) * 0.1F;
  for (int load = 0; load < kLoads; ++load) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      (void)fprintf(stderr, "load %d: %s\n", load, dlerror());
      return 1;
    }
    if (!has_executor(library, arguments[2])) return kSkipped;
    const heed_status status = attend(library, arguments[2], in, out);
    (void)dlclose(library);
    if (status != HEED_STATUS_OK) {
      (void)fprintf(stderr, "load %d: status %d\n", load, (int)status);
      return 1;
    }
  }
  const int threads = threads_alive();
  (void)printf("%d threads after %d loads\n", threads, kLoads);
  return threads > 0 && threads <= 8 ? 0 : 1;
}
