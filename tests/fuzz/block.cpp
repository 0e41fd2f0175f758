// Multi-head blocks: heed_multihead_plan_create and _run.
#include <cstddef>

#include "tests/fuzz/attention_case.hpp"
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/matrices.hpp"
#include "tests/fuzz/plan.hpp"

using namespace heed_test;

namespace {

bool has_w_out(std::uint32_t combine) {
  return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
}

bool is_float64(const heed_multihead_desc& d) { return d.input_query.dtype == HEED_DTYPE_F64; }

std::uint32_t real_of(const heed_multihead_desc& d) {
  return is_float64(d) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

/// The sizes that 0 stands for, and the shapes that follow.
struct BlockShapes {
  BlockShapes(const heed_multihead_desc& d, const heed_attention_desc& a) {
    const AttentionShapes attention(a);
    width_query = d.width_query;
    width_key = d.width_key == 0 ? d.width_query : d.width_key;
    head = value_features_of(a);
    const std::int64_t natural = has_w_out(d.combine) ? width_query : head;
    width_out = d.width_out == 0 ? natural : d.width_out;
    query = {attention.query[0], 1, attention.query[2], width_query};
    key = {attention.key[0], 1, attention.key[2], width_key};
    out = {query[0], 1, query[2], width_out};
  }
  std::int64_t width_query, width_key, width_out, head;
  Axes query, key, out;
};

heed_multihead_desc draw_block(Draw& draw, const heed_attention_desc& a) {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  const bool float64 = draw.one_in(4);
  d.combine = draw.choice(HEED_COMBINE_TENSOR);
  d.width_query = draw.one_in(16) ? draw.integer(120, 140) : draw.size(1);
  d.width_key = draw.one_in(2) ? 0 : draw.size(1);
  if (has_w_out(d.combine)) d.width_out = draw.one_in(3) ? 0 : draw.size(1);
  const BlockShapes shapes(d, a);
  const auto row_layout = [&](const Axes& shape, Use use, std::uint32_t dtype) {
    heed_layout layout = draw.layout(shape, use, dtype);
    layout.stride_head = 0;  // there are no heads
    return layout;
  };
  d.input_query = row_layout(shapes.query, Use::kRead, draw.dtype(float64, false));
  d.input_key = row_layout(shapes.key, Use::kRead, draw.dtype(float64, true));
  d.out = row_layout(shapes.out, Use::kWritten, draw.dtype(float64, true));
  const auto matrix = [&](std::int64_t matrices, std::int64_t in, std::int64_t out) {
    return draw.matrix_layout(matrices, in, out, draw.dtype(float64, true));
  };
  const std::int64_t heads = a.query_heads;
  d.w_query = matrix(0, shapes.width_query, heads * a.features);
  d.w_key = matrix(0, shapes.width_key, key_heads_of(a) * a.features);
  d.w_value = matrix(0, shapes.width_key, key_heads_of(a) * shapes.head);
  if (d.combine == HEED_COMBINE_CONCAT) d.w_out = matrix(0, heads * shapes.head, shapes.width_out);
  if (d.combine == HEED_COMBINE_TENSOR) d.w_out = matrix(heads, shapes.head, shapes.width_out);
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

/// What the plan's descriptors say to heed; types of the attention are the arithmetic's.
heed_attention_desc inner_of(const heed_multihead_desc& d, heed_attention_desc a) {
  a.query.dtype = a.key.dtype = a.value.dtype = a.out.dtype = real_of(d);
  return a;
}

class BlockCase {
 public:
  BlockCase(const heed_multihead_desc& d, const heed_attention_desc& inner)
      : d_(d),
        inner_(inner),
        shapes_(d, inner),
        attention_(inner, false),
        input_query_(shapes_.query, d.input_query, real_of(d), inner.packed_queries > 0),
        input_key_(shapes_.key, d.input_key, real_of(d), inner.packed_keys > 0),
        out_(shapes_.out, d.out, real_of(d), inner.packed_queries > 0) {
    const auto add = [&](std::int64_t matrices, std::int64_t in, std::int64_t out,
                         const heed_matrix_layout& layout) {
      matrices_.emplace_back(matrices, in, out, layout, real_of(d), d.bias_dtype);
    };
    const std::int64_t heads = inner.query_heads;
    add(0, shapes_.width_query, heads * inner.features, d.w_query);
    add(0, shapes_.width_key, key_heads_of(inner) * inner.features, d.w_key);
    add(0, shapes_.width_key, key_heads_of(inner) * shapes_.head, d.w_value);
    if (d.combine == HEED_COMBINE_CONCAT) add(0, heads * shapes_.head, shapes_.width_out, d.w_out);
    if (d.combine == HEED_COMBINE_TENSOR) add(heads, shapes_.head, shapes_.width_out, d.w_out);
  }

  bool small() {
    bool small = attention_.small();
    for (const Extent* const extent : {&input_query_, &input_key_, &out_})
      small = check_extent(*extent) && small;
    for (const FuzzMatrix& matrix : matrices_) small = matrix.small() && small;
    if (!small) return false;
    demand(out_.apart(), "an output whose elements overlap is accepted");
    return true;
  }

  void run(Draw& draw, const heed_multihead_plan* plan) {
    make(draw);
    const heed_attention_args inner = attention_.args();
    heed_attention_args inner_args = inner;
    inner_args.query = inner_args.key = inner_args.value = nullptr;
    inner_args.out = nullptr;
    const bool inner_damaged = draw.damage_pointers(inner_args, kBytewise);
    const Versioned<heed_attention_args> inner_given(draw, inner_args);
    heed_multihead_args args = this->args();
    args.attention = inner_given.get();
    const bool damaged = draw.damage_pointers(args, kPointersToObjects) || inner_damaged;
    const Versioned<heed_multihead_args> given(draw, args);
    const RunSpace space(draw, plan);
    const heed_status status =
        heed_multihead_plan_run(plan, given.get(), space.get(), space.bytes());
    const bool odd = given.odd() || inner_given.odd();
    if (ran(status, space, attention_.valid() && !damaged && !odd)) {
      const heed_multihead_args known = given.known();
      heed_attention_args none = HEED_ATTENTION_ARGS_INIT;
      return check(known, known.attention == nullptr ? none : inner_given.known());
    }
    check_untouched(*out);
    attention_.check_untouched();
  }

 private:
  /// A byte further, what is no tensor is no object.
  static constexpr std::initializer_list<std::size_t> kPointersToObjects = {
      offsetof(heed_multihead_args, attention), offsetof(heed_multihead_args, p_query),
      offsetof(heed_multihead_args, p_key), offsetof(heed_multihead_args, p_value),
      offsetof(heed_multihead_args, p_out)};

  void make(Draw& draw) {
    attention_.make(draw);
    Random random(draw.bits());
    const auto number = [&] { return random.normal(); };
    const auto misalign = static_cast<std::size_t>(draw.integer(0, 2));
    input_query.emplace(input_query_.tensor(misalign));
    input_query->fill(number);
    const bool fits =
        shapes_.query == shapes_.key && (inner_.packed_queries > 0) == (inner_.packed_keys > 0);
    if (!fits || !draw.one_in(3)) input_key.emplace(input_key_.tensor(0));
    if (input_key) input_key->fill(number);
    if (draw.one_in(16)) draw.plant({&*input_query});
    out.emplace(out_.tensor(1));
    for (FuzzMatrix& matrix : matrices_) {
      matrix.make(draw);
      if (draw.one_in(4)) matrix.prepare();
    }
    if (d_.combine != HEED_COMBINE_WEIGHTED) return;
    head_weights.numbers.resize(static_cast<std::size_t>(inner_.query_heads));
    for (double& weight : head_weights.numbers) weight = random.normal<double>();
  }

  heed_multihead_args args() {
    heed_multihead_args a = HEED_MULTIHEAD_ARGS_INIT;
    a.input_query = input_query->data();
    if (input_key) a.input_key = input_key->data();
    matrices_[0].give(a.w_query, a.b_query, a.p_query);
    matrices_[1].give(a.w_key, a.b_key, a.p_key);
    matrices_[2].give(a.w_value, a.b_value, a.p_value);
    if (matrices_.size() > 3) matrices_[3].give(a.w_out, a.b_out, a.p_out);
    a.head_weights = head_weights.data(is_float64(d_));
    a.out = out->data();
    return a;
  }

  /// A bias that is prepared is not in the arguments, but is there.
  static GivenMatrix given_of(const FuzzMatrix& matrix, const void* bias) {
    GivenMatrix given = matrix.given();
    if (matrix.prepared() == nullptr && bias == nullptr) given.bias.data = nullptr;
    return given;
  }

  void check(const heed_multihead_args& args, const heed_attention_args& inner) {
    GivenBlock given = {inner_, inner, attention_.model_of(inner)};
    given.combine = d_.combine;
    given.input_query = input_query->source();
    given.input_key = (args.input_key != nullptr ? *input_key : *input_query).source();
    given.width_query = shapes_.width_query;
    given.width_key = shapes_.width_key;
    given.w_query = given_of(matrices_[0], args.b_query);
    given.w_key = given_of(matrices_[1], args.b_key);
    given.w_value = given_of(matrices_[2], args.b_value);
    if (matrices_.size() > 3) given.w_out = given_of(matrices_[3], args.b_out);
    given.head_weights = {args.head_weights, real_of(d_), {0, 0, 0, 1}};
    given.dtype_out = out->dtype();
    const Expected want = expect(given);
    check_equal("out", *out, want.out);
    attention_.check_further(inner, want);
  }

  const heed_multihead_desc d_;
  const heed_attention_desc inner_;
  BlockShapes shapes_;
  AttentionCase attention_;
  Extent input_query_, input_key_, out_;
  std::vector<FuzzMatrix> matrices_;
  std::optional<Tensor> input_query, input_key, out;
  RealArray head_weights;
};

void plan(Draw& draw, heed_attention_desc attention, heed_multihead_desc desc, bool damaged) {
  if (damaged && draw.one_in(2)) draw.damage(attention);
  if (damaged) draw.damage(desc, offsetof(heed_multihead_desc, width_query));
  if (damaged && draw.one_in(16)) desc.combine = static_cast<std::uint32_t>(draw.hostile());
  const Versioned<heed_attention_desc> inner(draw, attention);
  desc.attention = inner.get();
  const Versioned<heed_multihead_desc> given(draw, desc);
  heed_multihead_plan* made = nullptr;
  const heed_status status = heed_multihead_plan_create(fuzz_context().get(), given.get(), &made);
  const MultiheadPlan owner(made);
  if (!planned(status, made, damaged || inner.odd() || given.odd(), {"desc."})) return;
  const heed_multihead_desc known = given.known();
  BlockCase block(known, inner_of(known, inner.known()));
  if (block.small() && worth_running(draw, damaged)) block.run(draw, made);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc attention = draw_attention(first, true);
  const heed_multihead_desc block = draw_block(first, attention);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, block, damaged); });
  return 0;
}
