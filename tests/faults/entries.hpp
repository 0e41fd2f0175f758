// Every entry point of the C API that allocates, computes or both, as one call of the same form.
#pragma once

#include <cstdint>
#include <vector>

#include "heed.h"

namespace heed_test {

/// A context, and made from it everything that the entry points need, large enough to be shared
/// among threads.
class Scene {
 public:
  /// nullptr for a caller's executor, which runs its bodies one after the other.
  Scene(const char* executor, const heed_allocator* allocator = nullptr, std::uint32_t threads = 4,
        const char* isa = nullptr);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  heed_executor executor = HEED_EXECUTOR_INIT;

  heed_attention_desc dense = HEED_ATTENTION_DESC_INIT;
  heed_attention_desc trained = HEED_ATTENTION_DESC_INIT;
  heed_attention_backward_desc backward = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_merge_desc merge = HEED_MERGE_DESC_INIT;
  heed_rotate_desc rotation = HEED_ROTATE_DESC_INIT;
  heed_cache_desc cache = HEED_CACHE_DESC_INIT;
  heed_weights_desc matrix = HEED_WEIGHTS_DESC_INIT;
  heed_attention_desc inner = HEED_ATTENTION_DESC_INIT;
  heed_multihead_desc block = HEED_MULTIHEAD_DESC_INIT;
  heed_multihead_backward_desc block_backward = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_graph_desc edges = HEED_GRAPH_DESC_INIT;
  heed_graph_attention_desc over_graph = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_backward_desc graph_backward = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;

  heed_attention_args dense_args = HEED_ATTENTION_ARGS_INIT;
  heed_attention_args trained_args = HEED_ATTENTION_ARGS_INIT;
  heed_attention_backward_args backward_args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  heed_multihead_args block_args = HEED_MULTIHEAD_ARGS_INIT;
  heed_multihead_backward_args block_backward_args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  heed_graph_attention_args graph_args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  heed_graph_attention_backward_args graph_backward_args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;

  heed_context* context = nullptr;
  heed_attention_plan* dense_plan = nullptr;
  heed_attention_backward_plan* backward_plan = nullptr;
  heed_multihead_plan* block_plan = nullptr;
  heed_multihead_backward_plan* block_backward_plan = nullptr;
  heed_graph* graph = nullptr;
  heed_graph_attention_plan* graph_plan = nullptr;
  heed_graph_attention_backward_plan* graph_backward_plan = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;

  std::vector<float> in;   ///< all inputs
  std::vector<float> out;  ///< what an entry point computes, from the beginning; if anything
  std::vector<std::int32_t> sources, destinations;

 private:
  void describe();
  void make();
};

/// A heed_status, or kWroteOnFailure of a call that failed and yet gave an object.
constexpr int kWroteOnFailure = -1;

struct Entry {
  const char* name;
  int (*call)(Scene& scene);  ///< destroys what it makes
};
extern const std::vector<Entry> kEntries;

constexpr float kUntouched = -12345.678F;

/// Calls it with `out` untouched before.
int call(const Entry& entry, Scene& scene);
/// What it leaves in `out`, on one thread.
std::vector<float> expected(const Entry& entry);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace heed_test
