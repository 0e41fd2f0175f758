// Strides at their ends: those along axes of one element, which nothing is reached by, and those
// that are all 0 and mean it.
#include "tests/api/fenced.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

using Axes = std::int64_t[4];

constexpr std::int64_t kFar = std::int64_t{1} << 62;
constexpr std::int64_t kStrides[] = {INT64_MIN, INT64_MAX, kFar, -kFar, std::int64_t{1} << 40};

/// The strides of contiguous axes, the last innermost, but `any` along those of one element.
struct Spelled {
  Spelled(const Axes& axes, std::int64_t any) {
    std::int64_t elements = 1;
    for (int i = 3; i >= 0; --i) {
      strides[i] = axes[i] == 1 ? any : elements;
      elements *= axes[i];
    }
  }
  std::int64_t strides[4];
};

/// [batch][head][row][feature]
heed_layout spelled(const Axes& axes, std::int64_t any) {
  const Spelled s(axes, any);
  return {0, 0, s.strides[0], s.strides[1], s.strides[2], s.strides[3]};
}

/// [row][head][feature] of packed rows, nodes or edges.
heed_layout spelled_rows(std::int64_t rows, std::int64_t heads, std::int64_t features,
                         std::int64_t any) {
  const Spelled s({1, rows, heads, features}, any);
  return {0, 0, any, s.strides[2], s.strides[1], s.strides[3]};
}

heed_matrix_layout spelled(std::int64_t in, std::int64_t out, std::int64_t any) {
  const Spelled s({1, 1, in, out}, any);
  return {0, 0, 0, s.strides[2], s.strides[3]};
}

void fill(Bytes& bytes, std::uint32_t seed) {
  const std::vector<float> all = numbers(4096 / sizeof(float), seed);
  std::memcpy(bytes.at(), all.data(), 4096);
}

heed_status run(Form& form) { return heed_attention(serial().get(), &form.desc, &form.args); }
heed_status run(BlockForm& form) { return heed_multihead(serial().get(), &form.desc, &form.args); }
heed_status run(GraphForm& form) {
  const Context context = serial();
  return attend(context, make_graph(context, form.graph.desc), form);
}

void fill(Form& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes : {&form.query, &form.key, &form.value, &form.bias, &form.slopes})
    fill(*bytes, seed++);
}
void fill(BlockForm& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes : {&form.input_query, &form.input_key, &form.w_query, &form.w_key,
                             &form.w_value, &form.w_out, &form.b_query, &form.b_key, &form.b_value})
    fill(*bytes, seed++);
}
void fill(GraphForm& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes :
       {&form.query, &form.key, &form.value, &form.data, &form.edge_data, &form.edge_bias,
        &form.w_query, &form.w_key, &form.w_value, &form.w_edge_key, &form.w_edge_value})
    fill(*bytes, seed++);
}

template <class AForm>
std::vector<unsigned char> outputs(AForm& form) {
  std::vector<unsigned char> all;
  for (Bytes* const bytes : {&form.out, &form.lse, &form.weights}) {
    const auto* const begin = static_cast<const unsigned char*>(bytes->at());
    all.insert(all.end(), begin, begin + 4096);
  }
  return all;
}

/// What a form, filled with numbers and then changed, gives.
template <class AForm, class Change>
std::vector<unsigned char> outputs_of(Change&& change) {
  AForm form;
  fill(form);
  change(form);
  const heed_status status = run(form);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK_FALSE(form.out.all_are(kPattern));
  return outputs(form);
}

/// Sizes of which several are 1.
struct Small {
  std::int64_t batch, query_heads, key_heads, queries, keys, features, value_features;
};
constexpr Small kSmall[] = {{1, 1, 1, 1, 1, 1, 1},
                            {1, 1, 1, 3, 5, 4, 6},
                            {2, 2, 2, 1, 1, 1, 1},
                            {1, 2, 1, 1, 5, 1, 6},
                            {2, 1, 1, 3, 1, 4, 1}};

void shrink(heed_attention_desc& desc, const Small& s) {
  desc.batch = s.batch;
  desc.query_heads = s.query_heads;
  desc.key_heads = s.key_heads;
  desc.query_length = s.queries;
  desc.key_length = s.keys;
  desc.features = s.features;
  desc.value_features = s.value_features;
}

void shrink(Form& form, const Small& s) {
  shrink(form.desc, s);
  form.desc.weight_rows = 1;
  form.key_lengths[0] = form.key_lengths[1] = 1;
}

void stretch(Form& form, const Small& s, std::int64_t any) {
  heed_attention_desc& d = form.desc;
  d.query = spelled({s.batch, s.query_heads, s.queries, s.features}, any);
  d.key = spelled({s.batch, s.key_heads, s.keys, s.features}, any);
  d.value = spelled({s.batch, s.key_heads, s.keys, s.value_features}, any);
  d.out = spelled({s.batch, s.query_heads, s.queries, s.value_features}, any);
  d.lse = spelled({s.batch, s.query_heads, s.queries, 1}, any);
  d.weights = spelled({s.batch, s.query_heads, 1, s.keys}, any);
  d.column_sums = spelled({s.batch, s.query_heads, s.keys, 1}, any);
  const Spelled pairs({s.batch, s.query_heads, s.queries, s.keys}, any);
  for (heed_score_layout* const layout : {&d.mask, &d.bias}) {
    layout->stride_batch = pairs.strides[0];
    layout->stride_head = pairs.strides[1];
    layout->stride_row = pairs.strides[2];
    layout->stride_key = pairs.strides[3];
  }
}

}  // namespace

TEST_CASE("any stride does along an axis of one element", "[strides]") {
  for (const Small& small : kSmall)
    for (const bool wide : {false, true}) {
      const auto change = [&](Form& form) {
        shrink(form, small);
        if (wide) form.all_16_bits();
      };
      const auto want = outputs_of<Form>(change);
      for (const std::int64_t any : kStrides) {
        CAPTURE(&small - kSmall, any, wide);
        CHECK(outputs_of<Form>([&](Form& form) {
                stretch(form, small, any);
                change(form);
              }) == want);
      }
    }
}

TEST_CASE("any stride does along an axis of one element of a block", "[strides][multihead]") {
  for (const Small& s : kSmall)
    for (const std::int64_t width : {1, 7})
      for (const auto how : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN}) {
        const auto change = [&](BlockForm& form) {
          shrink(form.attention, s);
          form.key_lengths[0] = form.key_lengths[1] = 1;
          form.desc.width_query = form.desc.width_key = width;
          if (how == HEED_COMBINE_MEAN) form.reduce(how);
        };
        const auto want = outputs_of<BlockForm>(change);
        for (const std::int64_t any : kStrides) {
          CAPTURE(&s - kSmall, any, width, how);
          CHECK(outputs_of<BlockForm>([&](BlockForm& form) {
                  change(form);
                  heed_multihead_desc& d = form.desc;
                  const std::int64_t out =
                      how == HEED_COMBINE_MEAN ? s.value_features : d.width_out;
                  d.input_query = spelled({s.batch, 1, s.queries, width}, any);
                  d.input_key = spelled({s.batch, 1, s.keys, width}, any);
                  d.out = spelled({s.batch, 1, s.queries, out}, any);
                  for (heed_layout* const layout : {&d.input_query, &d.input_key, &d.out})
                    layout->stride_head = 0;
                  d.w_query = spelled(width, s.query_heads * s.features, any);
                  d.w_key = spelled(width, s.key_heads * s.features, any);
                  d.w_value = spelled(width, s.key_heads * s.value_features, any);
                  if (how == HEED_COMBINE_CONCAT)
                    d.w_out = spelled(s.query_heads * s.value_features, out, any);
                }) == want);
        }
      }
}

TEST_CASE("any stride does along an axis of one element over a graph", "[strides][graph]") {
  struct Sizes {
    std::int64_t nodes, edges, heads, features, value_features, edge_width;
  };
  constexpr Sizes kSizes[] = {
      {1, 1, 1, 1, 1, 1}, {4, 6, 1, 8, 8, 1}, {4, 6, 1, 1, 1, 2}, {1, 1, 2, 3, 1, 1}};
  for (const Sizes& s : kSizes)
    for (const bool projected : {true, false}) {
      const auto change = [&](GraphForm& form) {
        if (s.nodes == 1) form.graph.desc.nodes = form.graph.desc.edges = 1;
        if (s.nodes == 1) form.graph.sources[0] = 0;
        heed_graph_attention_desc& d = form.desc;
        d.heads = s.heads;
        d.features = s.features;
        d.value_features = s.value_features;
        d.edge_width = s.edge_width;
        d.width = s.heads * s.value_features;
        if (!projected) form.per_node();
      };
      const auto want = outputs_of<GraphForm>(change);
      for (const std::int64_t any : kStrides) {
        CAPTURE(&s - kSizes, any, projected);
        CHECK(outputs_of<GraphForm>([&](GraphForm& form) {
                change(form);
                heed_graph_attention_desc& d = form.desc;
                if (projected) {
                  d.query = d.key = spelled_rows(s.nodes, s.heads, s.features, any);
                  d.value = spelled_rows(s.nodes, s.heads, s.value_features, any);
                } else {
                  const Spelled keys({1, s.nodes, d.width, s.heads * s.features}, any);
                  const Spelled values({1, s.nodes, d.width, d.width}, any);
                  d.w_query = d.w_key = {0, 0, keys.strides[1], keys.strides[2], keys.strides[3]};
                  d.w_value = {0, 0, values.strides[1], values.strides[2], values.strides[3]};
                }
                d.data = spelled_rows(s.nodes, 1, d.width, any);
                d.edge_data = spelled_rows(s.edges, 1, s.edge_width, any);
                d.edge_bias = d.weights = spelled_rows(s.edges, s.heads, 1, any);
                d.out = spelled_rows(s.nodes, s.heads, s.value_features, any);
                d.lse = spelled_rows(s.nodes, s.heads, 1, any);
                d.w_edge_key = spelled(s.edge_width, s.heads * s.features, any);
                d.w_edge_value = spelled(s.edge_width, s.heads * s.value_features, any);
              }) == want);
      }
    }
}

TEST_CASE("any stride does along an axis of one element of a merge", "[strides][merge]") {
  const Context context = serial();
  for (const Small& s : kSmall)
    for (const std::int64_t any : kStrides) {
      CAPTURE(&s - kSmall, any);
      heed_merge_desc desc = HEED_MERGE_DESC_INIT;
      desc.batch = s.batch;
      desc.heads = s.query_heads;
      desc.rows = s.queries;
      desc.features = s.value_features;
      const std::vector<float> part = numbers(64, 1);
      const std::vector<float> weight = numbers(64, 2);
      const void* const parts[] = {part.data(), part.data() + 20};
      const void* const weights[] = {weight.data(), weight.data() + 20};
      std::vector<float> want(64), got(64), want_lse(64), got_lse(64);
      REQUIRE(heed_merge(context.get(), &desc, 2, parts, weights, want.data(), want_lse.data()) ==
              HEED_STATUS_OK);
      desc.part_out = desc.out = spelled({s.batch, s.query_heads, s.queries, desc.features}, any);
      desc.part_lse = desc.lse = spelled({s.batch, s.query_heads, s.queries, 1}, any);
      REQUIRE(heed_merge(context.get(), &desc, 2, parts, weights, got.data(), got_lse.data()) ==
              HEED_STATUS_OK);
      CHECK(same_bits(got, want));
      CHECK(same_bits(got_lse, want_lse));
    }
}

TEST_CASE("no stride is taken to where empty packed sequences begin", "[strides]") {
  // Empty ones begin past the only row there is.
  const auto pack = [](Form& form) {
    form.desc.packed_queries = form.desc.packed_keys = 1;
    form.args.cu_seqlens_q = form.cu_seqlens_q;
    form.args.cu_seqlens_k = form.cu_seqlens_k;
    form.args.key_lengths = nullptr;
    for (std::int32_t* const offsets : {form.cu_seqlens_q, form.cu_seqlens_k}) {
      offsets[0] = 0;
      offsets[1] = offsets[2] = 1;
    }
  };
  const auto want = outputs_of<Form>(pack);
  for (const std::int64_t any : kStrides)
    CHECK(outputs_of<Form>([&](Form& form) {
            pack(form);
            heed_attention_desc& d = form.desc;
            d.query = spelled_rows(1, 4, 4, any);
            d.key = spelled_rows(1, 2, 4, any);
            d.value = spelled_rows(1, 2, 6, any);
            d.out = spelled_rows(1, 4, 6, any);
          }) == want);
}

TEST_CASE("no stride is taken to where empty packed sequences of a block begin",
          "[strides][multihead]") {
  for (const std::int64_t any : kStrides) {
    BlockForm form;
    const std::int32_t offsets[] = {1, 1, 1};
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    form.attention.packed_queries = form.attention.packed_keys = 1;
    form.inner = HEED_ATTENTION_ARGS_INIT;
    form.inner.cu_seqlens_q = form.inner.cu_seqlens_k = offsets;
    form.desc.input_query = form.desc.input_key = form.desc.out = {0, 0, any, 0, any, 1};
    CHECK(run(form) == HEED_STATUS_OK);
    CHECK(form.outputs_untouched());
  }
}

TEST_CASE("strides of empty tensors are never taken", "[strides]") {
  for (const std::int64_t any : kStrides)
    for (const bool keys : {false, true}) {
      Form form;
      heed_attention_desc& d = form.desc;
      (keys ? d.key_length : d.query_length) = 0;
      d.weight_rows = 0;
      d.weights_point = HEED_WEIGHTS_MASKED;
      d.mask.stride_head = d.bias.stride_key = any;
      form.args.weight_rows = nullptr;
      form.args.key_lengths = nullptr;
      const heed_layout far = {0, 0, any, any, any, any};
      if (keys) d.key = d.value = d.weights = d.column_sums = far;
      if (!keys) d.query = d.out = d.lse = d.weights = far;
      CHECK(run(form) == HEED_STATUS_OK);
      INFO(heed_last_error());
    }
}

namespace {

/// The bytes of a number, or of an element of a mask, all alike.
constexpr unsigned char kByte = 0x3f;

/// An input of one element, repeated by explicit strides of 0, gives what a contiguous tensor full
/// of it does; no other element is read.
template <class AForm, class Desc, class Layout, class Args, class Element, class Prepare>
void check_repeats(Layout Desc::*layout, const Element* Args::*pointer, Prepare&& prepare) {
  const Fenced one(std::is_same_v<Element, std::uint8_t> ? 1 : sizeof(float), End::kLast);
  one.fill(kByte);
  Bytes full(kByte);
  const auto want = outputs_of<AForm>([&](AForm& form) {
    prepare(form);
    form.args.*pointer = static_cast<const Element*>(full.at());
  });
  const auto got = outputs_of<AForm>([&](AForm& form) {
    prepare(form);
    form.args.*pointer = static_cast<const Element*>(one.get());
    (form.desc.*layout).reserved = HEED_STRIDES_EXPLICIT;
  });
  CHECK(got == want);
}

template <class AForm>
void as_it_is(AForm&) {}

}  // namespace

TEST_CASE("explicit strides of 0 repeat one element", "[strides]") {
  using Desc = heed_attention_desc;
  using Args = heed_attention_args;
  for (const auto& prepare : {Change(as_it_is<Form>), Change(&Form::pack_keys)}) {
    check_repeats<Form>(&Desc::query, &Args::query, prepare);
    check_repeats<Form>(&Desc::key, &Args::key, prepare);
    check_repeats<Form>(&Desc::value, &Args::value, prepare);
    check_repeats<Form>(&Desc::mask, &Args::mask, prepare);
    check_repeats<Form>(&Desc::bias, &Args::bias, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element for a block", "[strides][multihead]") {
  using Desc = heed_multihead_desc;
  using Args = heed_multihead_args;
  const auto tensor = [](BlockForm& form) { form.desc.combine = HEED_COMBINE_TENSOR; };
  for (const auto& prepare : {BlockChange(as_it_is<BlockForm>), BlockChange(tensor)}) {
    check_repeats<BlockForm>(&Desc::input_query, &Args::input_query, prepare);
    check_repeats<BlockForm>(&Desc::input_key, &Args::input_key, prepare);
    check_repeats<BlockForm>(&Desc::w_query, &Args::w_query, prepare);
    check_repeats<BlockForm>(&Desc::w_key, &Args::w_key, prepare);
    check_repeats<BlockForm>(&Desc::w_value, &Args::w_value, prepare);
    check_repeats<BlockForm>(&Desc::w_out, &Args::w_out, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element over a graph", "[strides][graph]") {
  using Desc = heed_graph_attention_desc;
  using Args = heed_graph_attention_args;
  check_repeats<GraphForm>(&Desc::query, &Args::query, as_it_is<GraphForm>);
  check_repeats<GraphForm>(&Desc::key, &Args::key, as_it_is<GraphForm>);
  check_repeats<GraphForm>(&Desc::value, &Args::value, as_it_is<GraphForm>);
  check_repeats<GraphForm>(&Desc::edge_bias, &Args::edge_bias, as_it_is<GraphForm>);
  for (const auto& prepare : {GraphChange(&GraphForm::share), GraphChange(&GraphForm::per_node)}) {
    check_repeats<GraphForm>(&Desc::data, &Args::data, prepare);
    check_repeats<GraphForm>(&Desc::edge_data, &Args::edge_data, prepare);
    check_repeats<GraphForm>(&Desc::w_query, &Args::w_query, prepare);
    check_repeats<GraphForm>(&Desc::w_key, &Args::w_key, prepare);
    check_repeats<GraphForm>(&Desc::w_value, &Args::w_value, prepare);
    check_repeats<GraphForm>(&Desc::w_edge_key, &Args::w_edge_key, prepare);
    check_repeats<GraphForm>(&Desc::w_edge_value, &Args::w_edge_value, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element in a merge", "[strides][merge]") {
  const Context context = serial();
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = desc.heads = desc.rows = desc.features = 3;
  desc.part_out.reserved = desc.part_lse.reserved = HEED_STRIDES_EXPLICIT;
  const void* const parts[] = {one.get()};
  std::vector<float> out(81);
  CHECK(heed_merge(context.get(), &desc, 1, parts, parts, out.data(), nullptr) == HEED_STATUS_OK);
  float element = 0;
  std::memcpy(&element, one.get(), sizeof element);
  CHECK(same_bits(out, std::vector<float>(81, element)));
}

TEST_CASE("explicit strides of a prepared matrix", "[strides][weights]") {
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = 5;
  desc.out = 21;
  desc.layout.reserved = HEED_STRIDES_EXPLICIT;
  heed_weights* made = nullptr;
  const heed_status status = heed_weights_create(serial().get(), &desc, one.get(), nullptr, &made);
  const Weights weights(made);
  CHECK(status == HEED_STATUS_OK);
}

TEST_CASE("explicit strides of 0 would let the elements of an output overlap", "[strides]") {
  const auto explicitly = [](heed_layout& layout) { layout.reserved = HEED_STRIDES_EXPLICIT; };
  for (const NamedLayout& layout : {kInputs[3], kOutputs[0], kOutputs[1], kOutputs[2]})
    check_desc_refused([&](Form& form) { explicitly(form.desc.*layout.layout); },
                       {layout.name, " is 0; it must exceed 0"});
  check_block_desc_refused([&](BlockForm& form) { explicitly(form.desc.out); },
                           {"desc.out", " is 0; it must exceed 0"});
  using Desc = heed_graph_attention_desc;
  for (heed_layout Desc::*const layout : {&Desc::out, &Desc::lse, &Desc::weights})
    check_graph_desc_refused([&](GraphForm& form) { explicitly(form.desc.*layout); },
                             {"desc.", " is 0; it must exceed 0"});
  check_accepted([&](Form& form) {
    form.desc.batch = form.desc.query_heads = form.desc.key_heads = form.desc.value_features = 1;
    form.desc.query_length = form.desc.weight_rows = 1;
    explicitly(form.desc.out);
  });
}

TEST_CASE("nothing else is known of how strides are meant", "[strides]") {
  const char* const bound = "must be 0 or HEED_STRIDES_EXPLICIT (1)";
  for (const std::uint32_t reserved : {2U, 0xffffffffU}) {
    check_desc_refused([&](Form& form) { form.desc.value.reserved = reserved; },
                       {"desc.value.reserved is ", bound});
    check_desc_refused([&](Form& form) { form.desc.mask.reserved = reserved; },
                       {"desc.mask.reserved is ", bound});
    check_block_desc_refused([&](BlockForm& form) { form.desc.w_key.reserved = reserved; },
                             {"desc.w_key.reserved is ", bound});
    check_graph_desc_refused([&](GraphForm& form) { form.desc.lse.reserved = reserved; },
                             {"desc.lse.reserved is ", bound});
  }
}
