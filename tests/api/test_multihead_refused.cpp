// Refusals of multi-head blocks that are not of every field of a kind: the attention inside,
// widths, matrices given and prepared, combiners.
#include "tests/api/blocks.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

constexpr heed_combine kReducing[] = {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX};

void all_float64(BlockForm& form) { form.all_float64(); }

BlockChange reduced(heed_combine combine) {
  return [=](BlockForm& form) { form.reduce(combine); };
}

/// One of the four matrices: as it is, its bias, or prepared.
struct NamedMatrix {
  const char* name;
  const void* heed_multihead_args::*w;
  const void* heed_multihead_args::*b;
  const heed_weights* heed_multihead_args::*p;
  std::int64_t in, out;
};
using Args = heed_multihead_args;
constexpr NamedMatrix kMatrices[] = {
    {"query", &Args::w_query, &Args::b_query, &Args::p_query, 7, 16},
    {"key", &Args::w_key, &Args::b_key, &Args::p_key, 9, 8},
    {"value", &Args::w_value, &Args::b_value, &Args::p_value, 9, 12},
    {"out", &Args::w_out, &Args::b_out, &Args::p_out, 24, 8}};

/// With this matrix prepared instead.
BlockChange instead(const NamedMatrix& matrix, const Weights& weights) {
  return [&](BlockForm& form) {
    form.args.*matrix.w = form.args.*matrix.b = nullptr;
    form.args.*matrix.p = weights.get();
  };
}

}  // namespace

// ---- Descriptors ----

TEST_CASE("the attention of a block is one that dense calls accept", "[refused][multihead]") {
  check_refused<BlockForm>(
      {{[](BlockForm& form) { form.desc.attention = nullptr; }, "desc.attention is NULL"},
       {"desc.attention: desc.features", 0, "must be 1 to"},
       {"desc.attention: desc.scale", kNan, "must be finite"},
       {with("desc.attention: desc.key_heads", 3),
        "desc.attention: desc.query_heads is 4; it must be a multiple of desc.key_heads, 3"},
       {[](BlockForm& form) { form.attention.query_heads = form.attention.key_heads = 0; },
        "desc.attention->query_heads is 0; it must be 1 to"}});
}

TEST_CASE("layouts of the attention inside are the block's own", "[refused][multihead]") {
  const std::pair<const char*, heed_layout heed_attention_desc::*> tensors[] = {
      {"query", &heed_attention_desc::query},
      {"key", &heed_attention_desc::key},
      {"value", &heed_attention_desc::value},
      {"out", &heed_attention_desc::out},
      {"key_scales", &heed_attention_desc::key_scales},
      {"value_scales", &heed_attention_desc::value_scales}};
  const heed_layout layouts[] = {{HEED_DTYPE_F32, 0, 0, 0, 0, 0},
                                 {0, 1, 0, 0, 0, 0},
                                 {0, 0, 1, 0, 0, 0},
                                 {0, 0, 0, 1, 0, 0},
                                 {0, 0, 0, 0, 1, 0},
                                 {0, 0, 0, 0, 0, 1}};
  for (const auto& [name, tensor] : tensors)
    for (const heed_layout& layout : layouts)
      check_refused<BlockForm>(
          {{[&, &of = tensor](BlockForm& form) { form.attention.*of = layout; },
            "desc.attention->" + std::string(name) + " is set; it must be 0"}});
}

TEST_CASE("inputs and output of a block have no heads, and its rows lie apart",
          "[refused][multihead]") {
  check_refused<BlockForm>(
      {{"desc.width_query", 0, "must be 1 to 1099511627776"},
       {"desc.input_query.stride_head", 50, "must be 0: it has no heads"},
       {"desc.input_key.stride_head", 50, "must be 0: it has no heads"},
       {"desc.out.stride_head", 50, "must be 0: it has no heads"},
       {[](BlockForm& form) { form.desc.out = {0, 0, 24, 0, 7, 1}; },
        "desc.out.stride_row is 7; it must exceed 7"},
       {[](BlockForm& form) { form.desc.out = {0, 0, 0, 0, 8, 1}; }, "desc.out.stride_batch is 0"},
       {with("desc.out.reserved", HEED_STRIDES_EXPLICIT),
        "desc.out.stride_ ... is 0; it must exceed 0"},
       {[](BlockForm& form) { form.desc.width_query = form.attention.query_length = kMost; },
        "desc. ... overflows an address"}});
}

TEST_CASE("without a W_out a block is as wide as a head", "[refused][multihead]") {
  for (const heed_combine combine : kReducing) {
    check_refused<BlockForm>(
        reduced(combine),
        {{"desc.width_out", 8, "without a W_out it must be value_features, 6, or 0"}});
    check_accepted<BlockForm>(
        [=](BlockForm& form) { form.reduce(combine), form.desc.width_out = 6; });
  }
}

TEST_CASE("one matrix has no stride between matrices", "[refused][multihead]") {
  for (const char* const name : {"desc.w_query", "desc.w_key", "desc.w_value", "desc.w_out"})
    check_refused<BlockForm>(
        {{name + std::string(".stride_matrix"), 64, "must be 0: there is one"}});
  check_accepted<BlockForm>([](BlockForm& form) {
    form.desc.combine = HEED_COMBINE_TENSOR;
    form.desc.w_out = {0, 0, 64, 8, 1};
  });
}

TEST_CASE("a block whose workspace overflows is refused", "[refused][multihead]") {
  // Every tensor of its own stays in range; what a thread works in does, too; that of all threads
  // does not.
  const Context context = context_with(in_order(1024));
  for (int shift = 40; shift <= 60; ++shift) {
    CAPTURE(shift);
    BlockForm form;
    form.attention.batch = form.attention.query_length = form.attention.key_length = 1;
    form.attention.key_heads = 1;
    form.attention.query_heads = std::int64_t{1} << (shift - 39);
    form.attention.value_features = std::int64_t{1} << 39;
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    heed_multihead_plan* made = nullptr;
    const heed_status status = heed_multihead_plan_create(context.get(), &form.desc, &made);
    const MultiheadPlan plan(made);
    if (status != HEED_STATUS_OK) {
      check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, " ... overflows an address");
      continue;
    }
    // Heads of 2^shift numbers in all.
    CHECK(describe(plan).workspace_bytes > std::size_t{4} << shift);
    CHECK(describe(plan).workspace_bytes < std::size_t{1} << 62);
  }
}

// ---- Arguments ----

TEST_CASE("inputs and output of a block are given", "[refused][multihead]") {
  const auto self = [](BlockForm& form) {  // attention of rows to themselves
    form.args.input_key = nullptr;
    form.desc.width_key = 7;
    form.attention.key_length = 3;
    form.key_lengths[0] = 3;
  };
  check_refused<BlockForm>({{"args.input_query", kNull, "its tensor has elements"},
                            {"args.out", kNull, "its tensor has elements"}});
  check_refused<BlockForm>(
      self, {{with("desc.width_key", 9), "args.input_key is NULL ... 6 x 7 are not 6 x 9"},
             {with("desc.attention: desc.key_length", 5),
              "args.input_key is NULL ... 6 x 7 are not 10 x 7"}});
}

TEST_CASE("a matrix is aligned to its own type", "[refused][multihead]") {
  check_accepted<BlockForm>([](BlockForm& form) {
    form.desc.w_key.dtype = HEED_DTYPE_F16;
    set(form, "args.w_key", moved(2));
    set(form, "args.w_query", moved(4));
  });
  check_refused<BlockForm>(with("desc.w_key.dtype", HEED_DTYPE_F16),
                           {{"args.w_key", moved(1), "must be a multiple of 2"}});
}

TEST_CASE("every matrix of a block is given once, as it is or prepared for the block",
          "[refused][multihead]") {
  const Context context = serial();
  for (const NamedMatrix& m : kMatrices) {
    const std::string w = std::string("args.w_") + m.name;
    const std::string b = std::string("args.b_") + m.name;
    const std::string p = std::string("args.p_") + m.name;
    const std::string sizes =
        "must be from " + std::to_string(m.in) + " to " + std::to_string(m.out);
    const Weights good = prepared(context, m.in, m.out);
    const Weights wide = prepared(context, m.in, m.out, HEED_DTYPE_F64);
    check_refused<BlockForm>({{[&](BlockForm& form) { form.args.*m.w = form.args.*m.b = nullptr; },
                               w + " and " + p + " are both NULL"},
                              {[&](BlockForm& form) { form.args.*m.p = good.get(); },
                               w + " and " + p + " are both given"}});
    check_refused<BlockForm>(
        instead(m, good), {{b, kGiven, "must be NULL with " + p + ", which has its bias inside"}});
    for (const int change : {-1, 1}) {
      const Weights in = prepared(context, m.in + change, m.out);
      const Weights out = prepared(context, m.in, m.out + change);
      check_refused<BlockForm>(
          {{instead(m, in),
            p + " is prepared from " + std::to_string(m.in + change) + " ... " + sizes},
           {instead(m, out),
            p + " is prepared from ... to " + std::to_string(m.out + change) + "; it " + sizes}});
    }
    check_refused<BlockForm>(
        {{instead(m, wide), p + " is prepared for float64 arithmetic; this plan's is float32"}});
    check_refused<BlockForm>(
        [&](BlockForm& form) { all_float64(form), instead(m, wide)(form); },
        {{instead(m, good), p + " is prepared for float32 arithmetic; this plan's is float64"}});
  }
}

TEST_CASE("matrices that lie one below the other may be prepared as one", "[refused][multihead]") {
  const Weights tensor = prepared(serial(), 6, 8, HEED_DTYPE_F32, 4);
  for (const heed_combine combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR})
    check_accepted<BlockForm>([&](BlockForm& form) {
      form.desc.combine = combine;
      instead(kMatrices[3], tensor)(form);
    });
}

TEST_CASE("W_out and head weights come with their combiners alone", "[refused][multihead]") {
  const Weights weights = prepared(serial(), 24, 8);
  for (const heed_combine combine : kReducing)
    check_refused<BlockForm>(
        reduced(combine),
        {{"args.w_out", kGiven, "must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0)"},
         {"args.b_out", kGiven, "must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0)"},
         {[&](BlockForm& form) { form.args.p_out = weights.get(); },
          "args.p_out is given; it must be NULL unless ... HEED_COMBINE_TENSOR (4)"}});
  check_refused<BlockForm>(
      reduced(HEED_COMBINE_WEIGHTED),
      {{"args.head_weights", kNull, "combine 1; it must be given with HEED_COMBINE_WEIGHTED (1)"}});
  for (const heed_combine combine :
       {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX, HEED_COMBINE_TENSOR})
    check_refused<BlockForm>(
        [=](BlockForm& form) {
          if (combine == HEED_COMBINE_MEAN || combine == HEED_COMBINE_MAX) form.reduce(combine);
          form.desc.combine = combine;
        },
        {{"args.head_weights", kGiven,
          "with desc.combine " + std::to_string(combine) + " ... NULL otherwise"}});
}

TEST_CASE("what a dense run refuses, a block's run refuses inside", "[refused][multihead]") {
  check_refused<BlockForm>(
      {{[](BlockForm& form) { form.inner.query = form.input_query.at(); },
        "args.attention->query is given; it must be NULL"},
       {[](BlockForm& form) { form.inner.key = form.input_key.at(); },
        "args.attention->key is given; it must be NULL"},
       {[](BlockForm& form) { form.inner.value = form.input_key.at(); },
        "args.attention->value is given; it must be NULL"},
       {[](BlockForm& form) { form.inner.out = form.out.at(); },
        "args.attention->out is given; it must be NULL"},
       {"args.attention: args.key_lengths[1]", 6, "must be 0 to 5"},
       {"args.attention: args.cu_seqlens_q", kGiven, "must be NULL with desc.packed_queries 0"},
       {"args.attention: args.column_sums", kGiven, "must be NULL with desc.sum_columns 0"}});
}

TEST_CASE("a packed block's offsets make sense before anything is read", "[refused][multihead]") {
  const std::int32_t good[] = {0, 3, 6}, falling[] = {3, 2, 6}, far[] = {0, 3, 1 << 30},
                     negative[] = {-1, 2, 3};
  check_refused<BlockForm>(
      [&](BlockForm& form) {
        form.attention.packed_queries = 6;
        form.attention.packed_keys = 10;
        form.inner.cu_seqlens_q = form.inner.cu_seqlens_k = good;
        form.inner.key_lengths = nullptr;
      },
      {{"args.attention: args.cu_seqlens_q", kNull, "desc.packed_queries is 6"},
       {"args.attention: args.cu_seqlens_k", kNull, "desc.packed_keys is 10"},
       {[](BlockForm& form) {
          form.attention.weights_point = HEED_WEIGHTS_NONE;
          form.args.attention = nullptr;
        },
        "args.attention: args.cu_seqlens_q is NULL"},
       {[&](BlockForm& form) { form.inner.cu_seqlens_q = falling; },
        "args.attention: args.cu_seqlens_q[1] is 2; it must be 3 to 6"},
       {[&](BlockForm& form) { form.inner.cu_seqlens_k = far; },
        "args.attention: args.cu_seqlens_k[2] is 1073741824; it must be 3 to 10"},
       {[&](BlockForm& form) { form.inner.cu_seqlens_k = negative; },
        "args.attention: args.cu_seqlens_k[0] is -1; it must be 0 to 10"}});
}
