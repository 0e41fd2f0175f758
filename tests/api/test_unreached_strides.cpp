// Strides along axes of one element, and of empty tensors: no element is reached by them.
#include "tests/api/problems.hpp"

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

TEST_CASE("any stride does along an axis of one element of a rotation", "[strides][rotate]") {
  const Context context = serial();
  for (const Small& s : kSmall)
    for (const std::int64_t any : kStrides) {
      CAPTURE(&s - kSmall, any);
      heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
      desc.batch = s.batch;
      desc.heads = s.query_heads;
      desc.rows = s.queries;
      desc.features = 6;
      desc.rotary.pairs = HEED_ROTARY_INTERLEAVED;
      const std::vector<float> from = numbers(64, 1);
      std::vector<float> want(64), got(64);
      REQUIRE(heed_rotate(context.get(), &desc, from.data(), nullptr, want.data()) ==
              HEED_STATUS_OK);
      desc.from = desc.to = spelled({s.batch, s.query_heads, s.queries, 6}, any);
      REQUIRE(heed_rotate(context.get(), &desc, from.data(), nullptr, got.data()) ==
              HEED_STATUS_OK);
      CHECK(same_bits(got, want));
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
  const Context context = serial();
  for (const std::int64_t any : kStrides) {
    BlockForm form;
    const std::int32_t offsets[] = {1, 1, 1};
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    form.attention.packed_queries = form.attention.packed_keys = 1;
    form.inner = HEED_ATTENTION_ARGS_INIT;
    form.inner.cu_seqlens_q = form.inner.cu_seqlens_k = offsets;
    form.desc.input_query = form.desc.input_key = form.desc.out = {0, 0, any, 0, any, 1};
    CHECK(heed_multihead(context.get(), &form.desc, &form.args) == HEED_STATUS_OK);
    CHECK(form.outputs_untouched());
  }
}

TEST_CASE("strides of empty tensors are never taken", "[strides]") {
  const Context context = serial();
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
      (keys ? form.args.key : form.args.query) = nullptr;
      form.args.weights = nullptr;
      if (keys) form.args.value = form.args.column_sums = nullptr;
      if (!keys) form.args.out = nullptr;
      CHECK(heed_attention(context.get(), &form.desc, &form.args) == HEED_STATUS_OK);
      INFO(heed_last_error());
    }
}
