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
void check_room(const char* of, const std::string& changes, const Context& context, Make make) {
  Form form(of, changes);
  form.graph = form.graph_of(context);
  int refused = 0;
  int made = 0;
  for (const std::int64_t a : kSizes)
    for (const std::int64_t b : kSizes)
      for (const std::int64_t c : kSizes)
        for (const std::int64_t d : kSizes) {
          CAPTURE(a, b, c, d);
          const long double room = make(a, b, c, d, form);
          Object plan;
          const heed_status status = form.create(context, plan);
          ++(status == HEED_STATUS_OK ? made : refused);
          if (status != HEED_STATUS_OK) {
            check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                          " ... desc ... overflows an address");
            continue;
          }
          const std::size_t bytes = form.describe(plan).workspace_bytes;
          CHECK(static_cast<long double>(bytes) >= room);
          CHECK(bytes < std::size_t{1} << 62);
        }
  CHECK(refused > 0);
  CHECK(made > 0);
}

/// Over one node with an edge to itself, the mean over heads, with strides of 1: only sizes are
/// large.
const std::string kLoop =
    "graph.nodes graph.edges = 1, graph.sources graph.destinations = {0}, no residual, "
    "strides of 1, desc.combine = 2";

heed_graph_attention_desc& with_heads(Form& form, std::int64_t heads, std::int64_t features,
                                      std::int64_t value_features) {
  auto& desc = form.at<heed_graph_attention_desc>("desc");
  desc.heads = heads;
  desc.features = features;
  desc.value_features = value_features;
  return desc;
}

}  // namespace

TEST_CASE("a workspace over graphs has room for what it must hold", "[sizes][graph]") {
  const Context context = serial();
  check_room(
      "graph attention", kLoop, context,
      [](auto heads, auto features, auto values, auto edge_width, Form& form) {
        with_heads(form, heads, features, values).edge_width = edge_width;
        return 4 * (product({heads, features, edge_width}) + product({heads, values, edge_width}));
      });
  for (const std::string inputs : {"share", "per node"})  // for projections
    check_room("graph attention",
               kLoop +
                   ", no edge data, desc.edge_data = [0 0 0 0], desc.data = [0 1 1 1], "
                   "desc.(w_edge_key w_edge_value) = [0 0 0], "
                   "desc.(query key value) = [0 0 0 0], "
                   "desc.(w_query w_key w_value) = [0 1 1], " +
                   inputs,
               context, [](auto heads, auto features, auto values, auto width, Form& form) {
                 with_heads(form, heads, features, values).width = width;
                 return 4 * (2 * product({heads, features}) + product({heads, values}));
               });
}

TEST_CASE("a workspace has room for what it must hold", "[sizes][multihead]") {
  check_room("block",
             "mean, desc.attention->batch = 1, desc.attention->(key_heads weights_point) = 0, "
             "desc.(width_query width_key) = 5, desc.(w_query w_key w_value) = [0 1 1]",
             context_with(in_order(1024)),
             [](auto heads, auto features, auto rows, auto values, Form& form) {
               auto& attention = form.at<heed_attention_desc>("desc.attention");
               attention.query_heads = heads;
               attention.query_length = attention.key_length = rows;
               attention.features = features;
               attention.value_features = values;
               return 8 * (product({rows, heads, features}) + product({rows, heads, values}));
             });
  check_room("dense", "", make_context(nullptr, {nullptr, 64}),
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
  CountingAllocator memory;
  heed_context_options options = memory.options();
  options.check = HEED_CHECK_OFF;  // which would read matrices, of which there is but one number
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
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
        Weights weights;
        memory.restart(0);  // its numbers come first
        const heed_status status = make_object(weights, [&](heed_weights** made) {
          return heed_weights_create(context.get(), &desc, &zero, nullptr, made);
        });
        CHECK(memory.live() == live);
        if (status == HEED_STATUS_OUT_OF_MEMORY) {
          CHECK(static_cast<long double>(memory.refused_bytes()) >=
                4 * product({matrices, in, out}));
          continue;
        }
        ++refused;
        check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, " ... overflows an address");
      }
  CHECK(refused > 0);
}

TEST_CASE("a plan that computes nothing takes nothing", "[sizes][empty]") {
  for (const auto size : {&heed_attention_desc::batch, &heed_attention_desc::query_heads,
                          &heed_attention_desc::query_length}) {
    heed_attention_desc desc = small_desc();
    desc.*size = 0;
    const heed_attention_info info = describe(make_plan(serial(), desc));
    CHECK(info.tasks == 0);
    CHECK(info.flops == 0);
    CHECK(info.workspace_bytes == 0);
  }
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
