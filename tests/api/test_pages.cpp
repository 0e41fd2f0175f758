// Nothing is read or written past either end of a tensor, an array of indices or a workspace: each
// lies against a page that may not be touched, where a stray access ends the program.
#include "tests/api/problems.hpp"
#include "tests/oracle/dtype.hpp"
#include "tests/support/size.hpp"

using namespace api_test;

namespace {

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                     HEED_DTYPE_F16};

/// And those that keys and values may have beside float32.
constexpr std::uint32_t kStored[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                     HEED_DTYPE_F16, HEED_DTYPE_I8,  HEED_DTYPE_F8_E4M3};

/// Calls function(context, dtype, end).
template <class Dtypes, class Function>
void each_isa(const Dtypes& dtypes, Function&& function) {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : dtypes)
      for (const End end : {End::kFirst, End::kLast}) {
        CAPTURE(isa, dtype, end == End::kLast);
        function(context, dtype, end);
      }
  }
}

template <class Function>
void each_isa(Function&& function) {
  each_isa(kDtypes, function);
}

/// Runs the problem of a changed form, whose tensors are changed after that.
template <class AForm>
void check_runs(
    const Context& context, End end, const std::function<void(AForm&)>& change,
    const std::function<void(Problem&)>& move = [](Problem&) {}) {
  const std::unique_ptr<Problem> problem = problem_of<AForm>(change, end);
  move(*problem);
  Object plan;
  const bool made = problem->prepare_and_create(context, plan);
  INFO(heed_last_error());
  REQUIRE(made);
  const std::size_t bytes = problem->describe(plan).workspace_bytes;
  for (const End side : {End::kLast, End::kFirst}) {
    const Fenced workspace(side == End::kLast ? (bytes + 63) / 64 * 64 : bytes, side);
    workspace.fill(0xff);
    CHECK(problem->run(plan, workspace.get(), workspace.bytes()) == HEED_STATUS_OK);
  }
}

void shape(Form& form, std::uint32_t dtype, std::int64_t queries, std::int64_t keys) {
  heed_attention_desc& d = form.desc;
  d.batch = 1;
  d.query_heads = d.key_heads = 2;
  d.query_length = queries;
  d.key_length = keys;
  d.features = 5;
  d.value_features = 7;
  d.weight_rows = 0;
  form.args.weight_rows = nullptr;
  form.args.key_lengths = nullptr;
  d.key.dtype = d.value.dtype = dtype;
  if (heed_test::is_scaled(dtype)) {
    form.args.key_scales = static_cast<float*>(form.key_scales.at());
    form.args.value_scales = static_cast<float*>(form.value_scales.at());
  } else {
    d.query.dtype = d.out.dtype = dtype;
  }
  d.lse.dtype = HEED_DTYPE_F64;
}
void shape_scores(Form& form, std::uint32_t dtype) {
  form.desc.bias.dtype = form.desc.weights.dtype = form.desc.column_sums.dtype = dtype;
}
void only_mask(Form& form) { form.args.bias = form.args.alibi_slopes = nullptr; }
void no_mask(Form& form) {
  only_mask(form);
  form.args.mask = nullptr;
}

}  // namespace

TEST_CASE("no tensor is left at either end", "[pages]") {
  std::size_t index = 0;
  each_isa(kStored, [&](const Context& context, std::uint32_t dtype, End end) {
    for (const std::uint32_t score_dtype : kDtypes)
      for (const std::int64_t queries : {1, 5, 25, 61})
        for (const std::int64_t keys : {1, 7, 130})
          for (const auto& option :
               {Change([](Form&) {}), Change(only_mask), Change(no_mask), Change(&Form::be_hard)}) {
            if (!heed_test::keep(index++)) continue;
            CAPTURE(score_dtype, queries, keys);
            check_runs<Form>(context, end, [&](Form& form) {
              shape(form, dtype, queries, keys);
              shape_scores(form, score_dtype);
              option(form);
            });
          }
  });
}

TEST_CASE("keys past a length are not read", "[pages]") {
  // The tensors have room for `length` keys of the one sequence; the descriptor says 130.
  each_isa(kStored, [](const Context& context, std::uint32_t dtype, End end) {
    for (const std::int32_t length : {0, 1, 7, 64, 129})
      for (const auto& option : {Change([](Form&) {}), Change(no_mask)}) {
        CAPTURE(length);
        Memory few(end);
        check_runs<Form>(
            context, end,
            [&](Form& form) {
              shape(form, dtype, 5, 130);
              form.desc.query_heads = form.desc.key_heads = 1;
              form.key_lengths[0] = length;
              form.args.key_lengths = form.key_lengths;
              option(form);
            },
            [&](Problem& problem) {
              std::vector<const char*> names = {"args.key", "args.value"};
              if (dtype == HEED_DTYPE_I8)
                names.insert(names.end(), {"args.key_scales", "args.value_scales"});
              for (const char* const name : names) {
                Tensor tensor = problem.tensor(name);
                tensor.elements = tensor.elements / 130 * length;
                few.place(tensor);
              }
            });
      }
  });
}

TEST_CASE("keys that belong to no packed sequence are not read", "[pages]") {
  // Two sequences of 70 and 60 keys, 100 rows of nobody before them and 50 after.
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    Memory few(end);
    check_runs<Form>(
        context, end,
        [&](Form& form) {
          shape(form, dtype, 3, 70);
          form.desc.batch = 2;
          form.desc.query_heads = form.desc.key_heads = 1;
          form.pack_queries();
          form.pack_keys();
          form.desc.packed_keys = 280;
          form.cu_seqlens_k[0] = 100;
          form.cu_seqlens_k[1] = 170;
          form.cu_seqlens_k[2] = 230;
        },
        [&](Problem& problem) {
          for (const char* const name : {"args.key", "args.value"}) {
            Tensor tensor = problem.tensor(name);
            const std::size_t row = tensor.bytes() / 280;
            tensor.elements = tensor.elements / 280 * 130;
            tensor.point_at(reinterpret_cast<const void*>(
                reinterpret_cast<std::uintptr_t>(few.place(tensor)) - 100 * row));
          }
        });
  });
}

TEST_CASE("no tensor of a merge is left at either end", "[pages]") {
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    for (const std::int64_t features : {1, 7, 300}) {
      CAPTURE(features);
      const std::size_t bytes =
          3 * static_cast<std::size_t>(features * heed_test::format_of(dtype).bytes);
      const Fenced a(bytes, end), b(bytes, end), out(bytes, end);
      const Fenced lse_a(3 * 4, end), lse_b(3 * 4, end), lse(3 * 4, end);
      heed_merge_desc desc = HEED_MERGE_DESC_INIT;
      desc.batch = desc.heads = 1;
      desc.rows = 3;
      desc.features = features;
      desc.part_out.dtype = desc.out.dtype = dtype;
      const void* const outs[] = {a.get(), b.get()};
      const void* const lses[] = {lse_a.get(), lse_b.get()};
      CHECK(heed_merge(context.get(), &desc, 2, outs, lses, out.get(), lse.get()) ==
            HEED_STATUS_OK);
    }
  });
}

TEST_CASE("no tensor of a rotation is left at either end", "[pages][rotate]") {
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    for (const std::int64_t features : {2, 7, 66, 300})
      for (const std::uint32_t pairs : {HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED}) {
        CAPTURE(features, pairs);
        const auto turned = static_cast<std::size_t>(features / 2 * 2);
        const std::size_t bytes =
            3 * static_cast<std::size_t>(features * heed_test::format_of(dtype).bytes);
        const Fenced from(bytes, end), to(bytes, end), positions(3 * 8, end);
        const Fenced cosines(turned / 2 * 4, end), sines(turned / 2 * 4, end);
        heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
        desc.batch = desc.heads = 1;
        desc.rows = 3;
        desc.features = features;
        desc.from.dtype = desc.to.dtype = dtype;
        desc.rotary.pairs = pairs;
        desc.rotary.features = static_cast<std::int64_t>(turned);
        const auto* const all_0 = static_cast<const std::int64_t*>(positions.get());
        CHECK(heed_rotate(context.get(), &desc, from.get(), all_0, to.get()) == HEED_STATUS_OK);
        desc.rotary.cosines = static_cast<const float*>(cosines.get());
        desc.rotary.sines = static_cast<const float*>(sines.get());
        desc.rotary.table_rows = 1;
        CHECK(heed_rotate(context.get(), &desc, to.get(), all_0, to.get()) == HEED_STATUS_OK);
      }
  });
}

TEST_CASE("no tensor of a projection is left at either end", "[pages][weights]") {
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    const std::uint32_t real = dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
    for (const std::int64_t in : {1, 7, 130})
      for (const std::int64_t out : {1, 23, 66}) {
        CAPTURE(in, out);
        const Weights weights = prepared(context, in, out, real);
        const auto bytes = [&](std::int64_t features) {
          return static_cast<std::size_t>(3 * features * heed_test::format_of(dtype).bytes);
        };
        const Fenced x(bytes(in), end), y(bytes(out), end);
        heed_project_desc desc = HEED_PROJECT_DESC_INIT;
        desc.batch = 1;
        desc.rows = 3;
        desc.x.dtype = desc.y.dtype = dtype;
        CHECK(heed_project(context.get(), &desc, weights.get(), x.get(), y.get()) ==
              HEED_STATUS_OK);
      }
  });
}

TEST_CASE("blocks stay inside their tensors", "[pages][multihead]") {
  std::size_t index = 0;
  each_isa([&](const Context& context, std::uint32_t dtype, End end) {
    for (const heed_combine combine :
         {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR, HEED_COMBINE_WEIGHTED})
      for (const std::int64_t rows : {1, 5, 26})
        for (const std::int64_t width : {1, 9, 131})
          for (const bool transposed : {false, true}) {
            if (!heed_test::keep(index++)) continue;
            CAPTURE(combine, rows, width, transposed);
            check_runs<BlockForm>(context, end, [&](BlockForm& form) {
              heed_attention_desc& d = form.attention;
              heed_multihead_desc& b = form.desc;
              d.batch = 1;
              d.query_heads = d.key_heads = 2;
              d.query_length = d.key_length = rows;
              d.features = 5;
              d.value_features = 7;
              b.width_query = b.width_key = width;
              b.width_out = 9;
              b.combine = combine;
              if (combine == HEED_COMBINE_WEIGHTED) form.reduce(combine);
              b.input_query.dtype = b.input_key.dtype = b.out.dtype = b.bias_dtype = dtype;
              b.w_query.dtype = b.w_key.dtype = b.w_value.dtype = b.w_out.dtype = dtype;
              form.inner = HEED_ATTENTION_ARGS_INIT;
              d.weights_point = HEED_WEIGHTS_NONE;
              if (!transposed) return;
              for (heed_matrix_layout* const layout : {&b.w_query, &b.w_key, &b.w_value}) {
                layout->stride_in = 1;
                layout->stride_out = width;
              }
            });
          }
  });
}

TEST_CASE("matrices to prepare are read inside their memory", "[pages][weights]") {
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    for (const std::int64_t in : {1, 7, 129})
      for (const std::int64_t out : {1, 15, 17, 33})
        for (const bool transposed : {false, true}) {
          CAPTURE(in, out, transposed);
          heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
          desc.arithmetic = dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
          desc.in = in;
          desc.out = out;
          desc.layout.dtype = desc.bias_dtype = dtype;
          if (transposed) desc.layout.stride_in = 1;
          if (transposed) desc.layout.stride_out = in;
          const auto width = static_cast<std::size_t>(heed_test::format_of(dtype).bytes);
          const Fenced matrix(static_cast<std::size_t>(in * out) * width, end);
          const Fenced bias(static_cast<std::size_t>(out) * width, end);
          Object made;
          CHECK(make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
                  return heed_weights_create(context.get(), &desc, matrix.get(), bias.get(),
                                             weights);
                }) == HEED_STATUS_OK);
        }
  });
}

namespace {

struct Sizes {
  std::int64_t nodes, edges, heads, features, value_features;
};

/// Edges that end at all nodes in turn, as a list or as rows.
struct Edges {
  Edges(const Sizes& s, bool by_rows) {
    for (std::int64_t e = 0; e < s.edges; ++e) {
      from.push_back(static_cast<std::int32_t>((e * 7 + 1) % s.nodes));
      to.push_back(static_cast<std::int32_t>(s.nodes - 1 - e % s.nodes));
    }
    for (std::int64_t n = 0; n <= s.nodes; ++n)
      first.push_back(static_cast<std::int32_t>(s.edges * n / s.nodes));
    desc.nodes = s.nodes;
    desc.edges = s.edges;
    desc.sources = from.data();
    if (by_rows) desc.offsets = first.data();
    if (!by_rows) desc.destinations = to.data();
    desc.duplicates = HEED_DUPLICATES_KEEP;
  }
  std::vector<std::int32_t> from, to, first;
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
};

void check_graph(const Context& context, const Sizes& s, std::uint32_t inputs, std::uint32_t dtype,
                 End end) {
  CAPTURE(s.nodes, s.edges, inputs);
  const Edges edges(s, dtype == HEED_DTYPE_F32);
  check_runs<GraphForm>(context, end, [&](GraphForm& form) {
    heed_graph_attention_desc& d = form.desc;
    form.graph.desc = edges.desc;
    form.no_residual();
    if (inputs == HEED_GRAPH_SHARED) form.share();
    if (inputs == HEED_GRAPH_PER_NODE) form.per_node();
    d.heads = s.heads;
    d.features = s.features;
    d.value_features = s.value_features;
    d.edge_width = 3;
    if (inputs == HEED_GRAPH_PROJECTED) {
      d.query.dtype = d.key.dtype = d.value.dtype = dtype;
    } else {
      d.width = 6;
      form.args.data = form.data.at();
      d.data.dtype = d.w_query.dtype = d.w_key.dtype = d.w_value.dtype = dtype;
      if (inputs == HEED_GRAPH_SHARED) d.bias_dtype = dtype;
    }
    d.edge_data.dtype = d.edge_bias.dtype = d.out.dtype = d.weights.dtype = dtype;
    d.w_edge_key.dtype = d.w_edge_value.dtype = dtype;
  });
}

}  // namespace

TEST_CASE("attention over graphs touches no page beyond its tensors", "[pages][graph]") {
  each_isa([](const Context& context, std::uint32_t dtype, End end) {
    for (const std::uint32_t inputs :
         {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})
      for (const Sizes& s : {Sizes{1, 1, 1, 1, 1}, Sizes{3, 5, 2, 3, 5}, Sizes{5, 70, 1, 8, 16},
                             Sizes{7, 200, 3, 9, 7}, Sizes{4, 33, 8, 16, 8}})
        check_graph(context, s, inputs, dtype, end);
  });
}

TEST_CASE("a hub touches no page beyond its tensors", "[pages][graph]") {
  for (const std::string& isa : usable_isas())
    check_graph(make_context(isa.c_str(), "serial", 1), {1, 20000, 2, 5, 3}, HEED_GRAPH_PROJECTED,
                HEED_DTYPE_F32, End::kLast);
}
