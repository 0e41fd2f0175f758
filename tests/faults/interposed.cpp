#include "tests/faults/interposed.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);
}

namespace heed_test {
namespace {

std::atomic<Resource> armed{Resource::kNone};
std::atomic<std::int64_t> left{0};  ///< requests until the one to refuse
std::atomic<bool> hit{false};

std::atomic<std::uint64_t> requests{0};
std::atomic<std::int64_t> blocks{0};
std::atomic<std::int64_t> threads_alive{0};

/// Counts a request, and what came of it.
void* counted(void* memory) {
  requests.fetch_add(1, std::memory_order_relaxed);
  if (memory != nullptr) blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* no_memory() {
  errno = ENOMEM;
  return counted(nullptr);
}

/// What a thread was created for. Many more than are alive at once, so that none is reused early.
struct Start {
  void* (*function)(void*);
  void* argument;
};
Start starts[4096];
std::atomic<std::uint32_t> next_start{0};

void* run_thread(void* start) {
  const Start given = *static_cast<Start*>(start);
  void* const result = given.function(given.argument);
  threads_alive.fetch_sub(1);
  return result;
}

}  // namespace

void refuse(Resource what, std::int64_t nth) {
  left = nth;
  hit = false;
  armed = what;
}

bool stop_refusing() {
  armed = Resource::kNone;
  return hit;
}

bool refused(Resource what) {
  if (armed.load(std::memory_order_relaxed) != what) return false;
  const bool now =
      what == Resource::kThreadsAtOnce ? threads_alive >= left : left.fetch_sub(1) == 1;
  if (now) hit = true;
  return now;
}

std::uint64_t memory_requests() { return requests.load(); }
std::int64_t live_blocks() { return blocks.load(); }

}  // namespace heed_test

using heed_test::counted;
using heed_test::no_memory;
using heed_test::refused;
using heed_test::Resource;

extern "C" {
void* malloc(std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_malloc(size));
}
void* calloc(std::size_t items, std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_calloc(items, size));
}
void* realloc(void* memory, std::size_t size) {
  if (refused(Resource::kMalloc)) return no_memory();
  void* const moved = counted(__libc_realloc(memory, size));
  if (memory != nullptr && (moved != nullptr || size == 0))
    heed_test::blocks.fetch_sub(1, std::memory_order_relaxed);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory == nullptr) return;
  heed_test::requests.fetch_add(1, std::memory_order_relaxed);
  heed_test::blocks.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(memory);
}

[[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                  const pthread_attr_t* attributes,
                                                  void* (*function)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (refused(Resource::kThread) || refused(Resource::kThreadsAtOnce)) return EAGAIN;
  heed_test::Start& start = heed_test::starts[heed_test::next_start++ % 4096];
  start = {function, argument};
  ++heed_test::threads_alive;
  const int failed = create(thread, attributes, heed_test::run_thread, &start);
  if (failed != 0) --heed_test::threads_alive;
  return failed;
}
}

void* operator new(std::size_t size) {
  void* const memory = refused(Resource::kNew) ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* const memory =
      refused(Resource::kNew) ? nullptr : memalign(static_cast<std::size_t>(alignment), size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
