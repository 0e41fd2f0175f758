#include "tests/fuzz/check.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "tests/support/compare.hpp"

namespace heed_test {
namespace {

constexpr std::size_t kMostMemory = 8 << 20;

void* take(void*, std::size_t size, std::size_t alignment) {
  if (size > kMostMemory) return nullptr;
  void* memory = nullptr;
  const std::size_t at_least = alignment < sizeof(void*) ? sizeof(void*) : alignment;
  return posix_memalign(&memory, at_least, size) == 0 ? memory : nullptr;
}

void give_back(void*, void* memory, std::size_t size) {
  demand(malloc_usable_size(memory) == size, "released with another size than it was allocated");
  std::free(memory);
}

/// Says at the end of the process how many cases there were.
struct Cases {
  ~Cases() { std::fprintf(stderr, "cases: %llu\n", count); }
  unsigned long long count = 0;
};

/// So that a call that fails without a message of its own is seen.
void set_stale_message() { heed_isa_get(SIZE_MAX, nullptr); }

}  // namespace

/// Short stacks and little quarantine: most of a case is allocation. (No setting of the caller's
/// ASAN_OPTIONS is lost.)
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=2:quarantine_size_mb=4:allocator_may_return_null=1";
}

void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

void count_cases(int cases) {
  static Cases all;
  all.count += static_cast<unsigned long long>(cases);
}

void demand(bool right, const char* what) {
  if (!right) finding(what);
}

void check_refused(heed_status status, std::initializer_list<const char*> fields) {
  const std::string message = heed_last_error();
  demand(status != HEED_STATUS_INTERNAL && status != HEED_STATUS_EXECUTOR_FAILED,
         "a refusal is no failure of heed");
  bool named = status == HEED_STATUS_OUT_OF_MEMORY && message.find("alloc") != std::string::npos;
  for (const char* const field : fields) named = named || message.find(field) != std::string::npos;
  if (!named) finding("a refusal names no field: \"" + message + "\"");
  set_stale_message();
}

void check_accepted(heed_status status) {
  if (status == HEED_STATUS_OK || status == HEED_STATUS_OUT_OF_MEMORY) return;
  finding(std::string("what is valid is refused: ") + heed_status_name(status) + ", " +
          heed_last_error());
}

bool check_extent(const Extent& extent) {
  demand(!is_scaled(extent.dtype()), "8 bits are accepted of what is neither key nor value");
  return check_stored(extent);
}

bool check_stored(const Extent& extent) {
  demand(extent.possible(), "a size or type that no tensor has is accepted");
  demand(extent.addressable(), "a tensor that no address can reach is accepted");
  return extent.small();
}

void check_untouched(const Tensor& tensor) {
  const Numbers numbers = tensor.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    demand(!numbers.written(i), "a refused call wrote an output");
  demand(tensor.padding_intact(), "a refused call wrote beside an output");
}

void check_equal(const char* what, const Tensor& tensor, const std::vector<Element>& want) {
  demand(tensor.padding_intact(), "a call wrote beside the elements of an output");
  const Comparison comparison =
      compare_elements(what, tensor.numbers(), want, Unspecified::kAllowed);
  if (!comparison.wrong.empty()) finding(comparison.wrong);
}

void check_wanted(const char* what, const std::optional<Tensor>& tensor, const void* pointer,
                  const std::vector<Element>& want) {
  if (!tensor) return;
  if (pointer != nullptr) return check_equal(what, *tensor, want);
  check_untouched(*tensor);
}

const Context& fuzz_context() {
  static const Context context = [] {
    heed_allocator allocator = HEED_ALLOCATOR_INIT;
    allocator.allocate = take;
    allocator.release = give_back;
    heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
    options.isa = "scalar";
    options.executor_name = "serial";
    options.allocator = &allocator;
    options.tile_q = options.tile_kv = 1;  // as many tiles as small problems can have
    Context made = create<heed_context>(&options);
    set_stale_message();
    return made;
  }();
  return context;
}

MemoryFile::MemoryFile() : file_(memfd_create("case", 0)) {
  demand(file_ >= 0, "no file in memory");
  path_ = "/proc/self/fd/" + std::to_string(file_);
}

MemoryFile::~MemoryFile() { close(file_); }

void MemoryFile::write(const std::string& bytes) {
  const auto size = static_cast<ssize_t>(bytes.size());
  demand(ftruncate(file_, 0) == 0 && pwrite(file_, bytes.data(), bytes.size(), 0) == size,
         "no room for a file in memory");
}

void damage(Draw& draw, std::string& bytes, std::size_t often,
            const std::vector<const char*>& words) {
  if (draw.one_in(8)) bytes = draw.rest();
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) {
    const std::size_t end = draw.one_in(4) ? bytes.size() : std::min(bytes.size(), often);
    const std::size_t at = draw.index(end + 1);
    const std::uint32_t kind = draw.choice(words.empty() ? 3 : 4);
    if (kind == 0 && at < bytes.size()) bytes[at] = static_cast<char>(draw.bits());
    if (kind == 1) bytes.erase(at, 1 + draw.index(8));
    if (kind == 2) bytes.insert(at, draw.text(12));
    if (kind == 3) bytes.insert(at, std::to_string(draw.hostile()));
    if (kind == 4) bytes.insert(at, draw.pick(words));
  }
}

PrintedErrors::PrintedErrors() : before_(stderr) { stderr = open_memstream(&bytes_, &size_); }

PrintedErrors::~PrintedErrors() {
  std::fclose(stderr);
  std::free(bytes_);
  stderr = before_;
}

std::string PrintedErrors::text() {
  std::fflush(stderr);
  return {bytes_, size_};
}

void check_message(const std::string& text, const char* begins) {
  demand(text.rfind(begins, 0) == 0, "a message does not begin with the file that it is about");
  for (const char c : text)
    demand(!std::iscntrl(static_cast<unsigned char>(c)), "a message can steer a terminal");
}

}  // namespace heed_test
