/* A program that loads libheed, runs attention and unloads it, 200 times: it ends well, and the
 * threads of the runtimes do not add up. Or one that forks after a region of its own in OpenMP:
 * heed runs in the child, whatever of it was there before.
 *
 *   test_loading load|fork LIBRARY EXECUTOR */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static heed_status make_context(void* library, const char* executor, heed_context** context) {
  FIND(heed_context_create);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = executor;
  options.threads = 4;
  return p_heed_context_create(&options, context);
}

/* In that context, or in one made for it. */
static heed_status attend(void* library, const char* executor, heed_context* given) {
  static float in[kHeads * kLength * kFeatures];
  static float out[kHeads * kLength * kFeatures];
  FIND(heed_attention);
  FIND(heed_context_destroy);
  for (int i = 0; i < kHeads * kLength * kFeatures; ++i) in[i] = (float)(i % 17) * 0.1F;
  heed_context* context = given;
  heed_status status = given != NULL ? HEED_STATUS_OK : make_context(library, executor, &context);
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
  if (given == NULL) p_heed_context_destroy(context);
  return status;
}

/* How far heed had come before the fork; who forks; and whether it is the child's child that runs.
 */
enum stage { kNothing, kLoaded, kHasContext, kRan, kStages };
struct forking {
  const char *path, *executor;
  enum stage stage;
  int in_thread, twice;
};

static heed_status run_in_child(const struct forking* how, void* library, heed_context* context) {
  if (library == NULL) library = dlopen(how->path, RTLD_NOW | RTLD_LOCAL);
  heed_status status = HEED_STATUS_OK;
  for (int run = 0; run < 3 && status == HEED_STATUS_OK; ++run)
    status = attend(library, how->executor, context);
  return status;
}

/* Waits for a child; 0 if that ended with 0. */
static int ending_of(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2; /* by the alarm */
}

static void* have_region_and_fork(void* given) {
  const struct forking* const how = (const struct forking*)given;
  void* const library = how->stage >= kLoaded ? dlopen(how->path, RTLD_NOW | RTLD_LOCAL) : NULL;
  heed_context* context = NULL;
  if (how->stage >= kHasContext && make_context(library, how->executor, &context) != HEED_STATUS_OK)
    _exit(3);
  int threads = 0;
#if defined(_OPENMP)
#pragma omp parallel num_threads(4) reduction(+ : threads)
#endif
  threads += 1;
  if (how->stage >= kRan && attend(library, how->executor, context) != HEED_STATUS_OK) _exit(4);
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(15);
    const pid_t its_own = how->twice ? fork() : 0;
    (void)alarm(15);
    _exit(its_own != 0 ? ending_of(its_own) : (int)run_in_child(how, library, context));
  }
  const int code = ending_of(child);
  _exit(threads == 1 && code == 0 ? kSkipped : code);
}

/* Each case in a process of its own, which has no threads before. */
static int try_forks(const char* path, const char* executor) {
  int failures = 0;
  for (int i = 0; i < 4 * kStages; ++i) {
    struct forking how = {path, executor, (enum stage)(i / 4), i & 1, i & 2};
    const pid_t process = fork();
    if (process == 0) {
      pthread_t thread;
      if (how.in_thread && pthread_create(&thread, NULL, have_region_and_fork, &how) == 0)
        (void)pthread_join(thread, NULL);
      (void)have_region_and_fork(&how);
    }
    const int code = ending_of(process);
    if (code == kSkipped) return kSkipped;
    if (code == 0) continue;
    ++failures;
    (void)fprintf(stderr, "stage %d, in a thread %d, twice %d: ended with %d\n", (int)how.stage,
                  how.in_thread, how.twice, code);
  }
  return failures == 0 ? 0 : 1;
}

static int try_loads(const char* path, const char* executor) {
  for (int load = 0; load < kLoads; ++load) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const heed_status status = attend(library, executor, NULL);
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

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const int forks = strcmp(arguments[1], "fork") == 0;
  /* Whether it is built in is asked in another process: nothing of heed shall have been here. */
  const pid_t asked = fork();
  if (asked == 0) {
    void* const library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) (void)fprintf(stderr, "%s\n", dlerror());
    _exit(library == NULL ? 1 : has_executor(library, arguments[3]) ? 0 : kSkipped);
  }
  const int code = ending_of(asked);
  if (code != 0) return code;
  return forks ? try_forks(arguments[2], arguments[3]) : try_loads(arguments[2], arguments[3]);
}
