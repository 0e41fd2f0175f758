// Every entry point of the C API that allocates, computes or both, as one call of the same form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/api/problems.hpp"

namespace heed_test {

/// A context, and made from it everything that the entry points need, large enough to be shared
/// among threads.
class Scene {
 public:
  /// nullptr for a caller's executor, which runs its bodies one after the other.
  Scene(const char* executor, const heed_allocator* allocator = nullptr, std::uint32_t threads = 4,
        const char* isa = nullptr);

  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  heed_executor executor = HEED_EXECUTOR_INIT;
  Context context;

  /// Of every operation, those with plans first: a problem, its plan, and room for any of their
  /// runs.
  std::vector<std::unique_ptr<api_test::Form>> problems;
  std::vector<api_test::Object> plans;
  std::unique_ptr<Workspace> workspace;

  // Of a cache:
  heed_cache_desc cache = HEED_CACHE_DESC_INIT;
  std::vector<float> in;  ///< all inputs

  std::vector<float> own_out;  ///< what these compute, from the beginning

  /// What was computed since the last call of forget(), which needs no memory.
  std::vector<unsigned char> out() const;
  void forget();
};

struct Entry {
  std::string name;
  /// Destroys what it makes. An internal error where it failed and yet gave an object.
  std::function<heed_status(Scene& scene)> call;
};
const std::vector<Entry>& entries();
/// heed_attention, which computes on threads.
const Entry& attention_entry();

/// Whether heed has an executor of this name; nullptr, a caller's, it always has.
bool built_in(const char* executor);

/// Calls it with all outputs untouched before.
heed_status call(const Entry& entry, Scene& scene);
/// What it leaves in outputs, on one thread.
std::vector<unsigned char> expected(const Entry& entry);
/// What outputs are before a call.
std::vector<unsigned char> untouched(const Scene& scene);

}  // namespace heed_test
