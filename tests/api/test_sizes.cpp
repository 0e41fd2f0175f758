// What callers' numbers multiply and add up to: no plan is made whose workspace or tensors are
// larger than what the library counts with.
#include "tests/api/forms.hpp"

using namespace api_test;

namespace {

/// Sizes whose products just miss, meet and just pass the ranges of 32 and 64 bits.
constexpr std::int64_t kSizes[] = {1,
                                   3,
                                   std::int64_t{1} << 16,
                                   (std::int64_t{1} << 31) - 1,
                                   (std::int64_t{1} << 32) - 65608,
                                   (std::int64_t{1} << 32) + 65458,
                                   kMost};

long double product(std::initializer_list<std::int64_t> sizes) {
  long double all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<long double>(size);
  return all;
}

/// Plans of all four sizes have the room that they must have, or say why there is none:
/// make(a, b, c, d, form) describes one and returns that room.
template <class Make>
void check_room(const char* of, const Context& context, const Graph& graph, Make make) {
  const Planned& functions = *operation(of).planned;
  Form form(of);
  int refused = 0;
  int made = 0;
  for (const std::int64_t a : kSizes)
    for (const std::int64_t b : kSizes)
      for (const std::int64_t c : kSizes)
        for (const std::int64_t d : kSizes) {
          CAPTURE(a, b, c, d);
          const long double room = make(a, b, c, d, form);
          void* raw = nullptr;
          const heed_status status =
              functions.create(context.get(), graph.get(), form.given("desc"), &raw);
          const Object plan(raw, functions.destroy);
          ++(status == HEED_STATUS_OK ? made : refused);
          if (status != HEED_STATUS_OK) {
            check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                          " ... desc ... overflows an address");
            continue;
          }
          const std::size_t bytes = functions.info_of(plan.get()).workspace_bytes;
          CHECK(static_cast<long double>(bytes) >= room);
          CHECK(bytes < std::size_t{1} << 62);
        }
  CHECK(refused > 0);
  CHECK(made > 0);
}

constexpr heed_layout kOnes = {0, 0, 0, 1, 1, 1};
constexpr heed_matrix_layout kOnesOfMatrix = {0, 0, 0, 1, 1};

/// One node with an edge to itself.
struct Loop {
  Loop() : context(serial()) {
    heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
    desc.nodes = desc.edges = 1;
    desc.sources = desc.destinations = &zero;
    graph = heed_test::create<heed_graph>(context.get(), &desc);
  }
  std::int32_t zero = 0;
  Context context;
  Graph graph;
};

/// Edge data and the mean over heads, with strides of 1: only sizes are large.
heed_graph_attention_desc wide_graph(std::int64_t heads, std::int64_t features,
                                     std::int64_t value_features, std::int64_t edge_width) {
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = heads;
  desc.features = features;
  desc.value_features = value_features;
  desc.edge_width = edge_width;
  desc.combine = HEED_COMBINE_MEAN;
  desc.query = desc.key = desc.value = desc.edge_data = kOnes;
  desc.w_edge_key = desc.w_edge_value = kOnesOfMatrix;
  return desc;
}

}  // namespace

TEST_CASE("edge_width times features past 2^64 is refused", "[sizes][graph]") {
  const Loop loop;
  const std::int64_t features = (std::int64_t{1} << 32) - 65608;
  const std::int64_t edge_width = (std::int64_t{1} << 32) + 65458;
  const heed_graph_attention_desc desc = wide_graph(1, features, 1, edge_width);
  heed_graph_attention_plan* plan = nullptr;
  check_refusal(
      heed_graph_attention_plan_create(loop.context.get(), loop.graph.get(), &desc, &plan),
      HEED_STATUS_INVALID_ARGUMENT,
      "desc. ... desc.features is 4294901688 ... desc.edge_width is 4295032754 ... the "
      "workspace overflows an address");
}

TEST_CASE("a workspace over graphs has room for what it must hold", "[sizes][graph]") {
  const Loop loop;
  check_room(
      "graph attention", loop.context, loop.graph,
      [](auto heads, auto features, auto values, auto edge_width, Form& form) {
        form.at<heed_graph_attention_desc>("desc") =
            wide_graph(heads, features, values, edge_width);
        return 4 * (product({heads, features, edge_width}) + product({heads, values, edge_width}));
      });
  for (const auto inputs : {HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})  // for projections
    check_room("graph attention", loop.context, loop.graph,
               [=](auto heads, auto features, auto values, auto width, Form& form) {
                 auto& desc = form.at<heed_graph_attention_desc>("desc");
                 desc = wide_graph(heads, features, values, 0);
                 desc.query = desc.key = desc.value = desc.edge_data = HEED_LAYOUT_INIT;
                 desc.w_edge_key = desc.w_edge_value = HEED_MATRIX_LAYOUT_INIT;
                 desc.inputs = inputs;
                 desc.width = width;
                 desc.data = kOnes;
                 desc.w_query = desc.w_key = desc.w_value = kOnesOfMatrix;
                 return 4 * (2 * product({heads, features}) + product({heads, values}));
               });
}

TEST_CASE("a workspace has room for what it must hold", "[sizes][multihead]") {
  check_room("block", context_with(in_order(1024)), nullptr,
             [](auto heads, auto features, auto rows, auto values, Form& form) {
               auto& attention = form.at<heed_attention_desc>("desc.attention");
               attention = HEED_ATTENTION_DESC_INIT;
               attention.batch = 1;
               attention.query_heads = heads;
               attention.query_length = attention.key_length = rows;
               attention.features = features;
               attention.value_features = values;
               auto& desc = form.at<heed_multihead_desc>("desc");
               desc.combine = HEED_COMBINE_MEAN;
               desc.width_query = desc.width_key = 5;
               desc.width_out = 0;
               desc.w_query = desc.w_key = desc.w_value = kOnesOfMatrix;
               return 8 * (product({rows, heads, features}) + product({rows, heads, values}));
             });
  check_room("dense", make_context(nullptr, nullptr, 64), nullptr,
             [](auto batch, auto heads, auto rows, auto features, Form& form) {
               auto& desc = form.at<heed_attention_desc>("desc");
               desc = HEED_ATTENTION_DESC_INIT;
               desc.batch = batch;
               desc.query_heads = heads;
               desc.query_length = desc.key_length = rows;
               desc.features = features;
               desc.sum_columns = 1;
               desc.key = desc.query = desc.value = {0, 0, 1, 1, 1, 1};
               return 8 * product({batch, heads, rows}) + 4 * product({features});
             });
}

TEST_CASE("a prepared matrix has room for what it must hold", "[sizes][weights]") {
  struct Asked {
    std::size_t most = 0;
  } asked;
  heed_allocator allocator = HEED_ALLOCATOR_INIT;
  allocator.user = &asked;
  allocator.allocate = [](void* user, std::size_t bytes, std::size_t alignment) -> void* {
    std::size_t& most = static_cast<Asked*>(user)->most;
    most = bytes > most ? bytes : most;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return bytes > 4096 ? nullptr : std::aligned_alloc(alignment, rounded);
  };
  allocator.release = [](void*, void* memory, std::size_t) { std::free(memory); };
  heed_context_options options = serial_options();
  options.allocator = &allocator;
  options.check = HEED_CHECK_OFF;  // which would read matrices, of which there is but one number
  const Context context = make_context(&options);
  const float zero = 0;
  int refused = 0;
  for (const std::int64_t matrices : kSizes)
    for (const std::int64_t in : kSizes)
      for (const std::int64_t out : kSizes) {
        if (product({matrices, in, out}) < 1e4L) continue;  // its numbers would be read
        CAPTURE(matrices, in, out);
        heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
        desc.matrices = matrices;
        desc.in = in;
        desc.out = out;
        desc.layout = {0, 0, 1, 1, 1};
        heed_weights* weights = nullptr;
        asked.most = 0;
        const heed_status status =
            heed_weights_create(context.get(), &desc, &zero, nullptr, &weights);
        if (status == HEED_STATUS_OUT_OF_MEMORY) {
          CHECK(static_cast<long double>(asked.most) >= 4 * product({matrices, in, out}));
          continue;
        }
        ++refused;
        check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, " ... overflows an address");
      }
  CHECK(refused > 0);
}

TEST_CASE("a plan that computes nothing ends at once, however much of it there is", "[sizes]") {
  const Context context = serial();
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = kMost;
  desc.query_heads = 1 << 10;
  desc.key_length = 1;
  desc.features = 1;
  desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
  const float zero = 0;
  desc.key = desc.value = {0, 0, 0, 0, 1, 0};
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.key = args.value = &zero;
  CHECK(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);

  heed_merge_desc merge = HEED_MERGE_DESC_INIT;
  merge.batch = kMost;
  merge.heads = 1 << 10;
  merge.rows = 1;
  merge.part_lse = {0, 0, 0, 0, 1, 0};
  const void* const parts[] = {&zero};
  CHECK(heed_merge(context.get(), &merge, 1, nullptr, parts, nullptr, nullptr) == HEED_STATUS_OK);
}
