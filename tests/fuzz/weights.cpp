// Weight matrices: heed_weights_create and _describe, and what a block makes of what was prepared.
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/extent.hpp"
#include "tests/fuzz/plan.hpp"
#include "tests/oracle/multihead.hpp"

using namespace heed_test;

namespace {

heed_weights_desc draw_weights(Draw& draw) {
  heed_weights_desc d = HEED_WEIGHTS_DESC_INIT;
  const bool float64 = draw.one_in(3);
  d.arithmetic = float64 ? HEED_DTYPE_F64 : draw.choice(HEED_DTYPE_F32);
  d.matrices = draw.integer(0, 3);
  d.in = draw.one_in(8) ? draw.integer(100, 200) : draw.size(1);
  d.out = draw.size(1);
  d.layout = draw.matrix_layout(d.matrices, d.in, d.out, draw.dtype(float64, true));
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

/// One token whose only head, or one head per matrix, is a row x that reads what was prepared:
/// x W + b.
class Reader {
 public:
  Reader(Draw& draw, const heed_weights_desc& d, GivenMatrix w)
      : real_(d.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32),
        heads_(d.matrices == 0 ? 1 : d.matrices),
        one_({1, 1, 1, 1}, {0, 0, 0, 1}, 0, real_),
        row_({1, 1, 1, heads_ * d.in}, {0, 0, 0, 1}, 0, real_),
        out_({1, 1, 1, d.out}, {0, 0, 0, 1}, 0, real_),
        w_out_(w) {
    Random random(draw.bits());
    one_.fill([] { return 1; });
    row_.fill([&] { return random.normal(); });
    attention_.batch = attention_.query_length = attention_.key_length = attention_.features = 1;
    attention_.query_heads = heads_;
    attention_.value_features = d.in;
    block_.combine = d.matrices == 0 ? HEED_COMBINE_CONCAT : HEED_COMBINE_TENSOR;
    block_.attention = &attention_;
    block_.width_query = 1;
    block_.width_out = d.out;
    block_.input_query.dtype = block_.input_key.dtype = block_.out.dtype = real_;
  }

  void check(const heed_weights* prepared) {
    // Queries and keys, one feature of each head, say nothing: there is one key.
    Tensor ones({1, 1, 1, heads_}, {0, 0, 0, 1}, 0, real_);
    ones.fill([] { return 1; });
    heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
    args.input_query = one_.data();
    args.w_query = args.w_key = ones.data();
    args.w_value = row_.data();
    args.p_out = prepared;
    args.out = out_.data();
    const heed_status status = heed_multihead(fuzz_context().get(), &block_, &args);
    check_accepted(status);
    if (status == HEED_STATUS_OUT_OF_MEMORY) return;
    check_equal("x W + b", out_, expected(ones));
  }

 private:
  std::vector<Element> expected(const Tensor& ones) const {
    GivenBlock given = {attention_, HEED_ATTENTION_ARGS_INIT, nullptr};
    given.attention.query.dtype = given.attention.key.dtype = real_;
    given.attention.value.dtype = given.attention.out.dtype = real_;
    given.combine = block_.combine;
    given.input_query = given.input_key = row(one_);
    given.width_query = given.width_key = 1;
    given.w_query = given.w_key = matrix(ones);
    given.w_value = matrix(row_);
    given.w_out = w_out_;
    given.dtype_out = real_;
    return expect(given).out;
  }
  Source row(const Tensor& tensor) const { return {tensor.data(), real_, {0, 0, 0, 1}}; }
  GivenMatrix matrix(const Tensor& tensor) const { return {row(tensor), {}, tensor.shape()[3]}; }

  std::uint32_t real_;
  std::int64_t heads_;
  Tensor one_, row_, out_;
  GivenMatrix w_out_;
  heed_attention_desc attention_ = HEED_ATTENTION_DESC_INIT;
  heed_multihead_desc block_ = HEED_MULTIHEAD_DESC_INIT;
};

void check_info(Draw& draw, const heed_weights* weights, const heed_weights_desc& d) {
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  require_ok(heed_weights_describe(weights, &info));
  demand(info.in == d.in * (d.matrices == 0 ? 1 : d.matrices) && info.out == d.out,
         "weights describe other sizes");
  Versioned<heed_weights_info> odd(draw, info);
  const heed_status status = heed_weights_describe(weights, odd.get());
  if (status != HEED_STATUS_OK) check_refused(status, {"info."});
}

/// Sizes that may be accepted and are worth allocating: then the matrix is exactly there.
void prepare(Draw& draw, const heed_weights_desc* given, const heed_weights_desc& d,
             const Extent& extent, bool damaged) {
  const std::uint32_t real = d.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  Random random(draw.bits());
  Tensor matrix = extent.tensor(static_cast<std::size_t>(draw.integer(0, 3)));
  matrix.fill([&] { return random.normal(); });
  std::optional<Tensor> bias;
  const bool known = d.bias_dtype <= HEED_DTYPE_F16 && d.out <= 1 << 12;
  if (known && draw.one_in(2)) {
    bias.emplace(Axes{1, 1, 1, d.out}, Axes{0, 0, 0, 1}, 1, dtype_of(d.bias_dtype, real));
    bias->fill([&] { return random.normal(); });
  }
  heed_weights* made = nullptr;
  const heed_status status = heed_weights_create(fuzz_context().get(), given, matrix.data(),
                                                 bias ? bias->data() : nullptr, &made);
  const Weights weights(made);
  if (!planned(status, made, damaged, {"desc."})) return;
  demand(extent.addressable(), "a matrix that no address can reach is accepted");
  check_info(draw, made, d);
  if (!worth_running(draw, damaged)) return;
  const GivenMatrix w = {matrix.source(), bias ? bias->source() : Source{}, d.out};
  Reader(draw, d, w).check(made);
}

void create(Draw& draw, heed_weights_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_weights_desc> given(draw, desc);
  const heed_weights_desc d = given.known();
  const std::uint32_t real = d.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  const Extent extent(d.matrices, d.in, d.out, d.layout, real);
  if (extent.possible() && extent.small())
    return prepare(draw, given.get(), d, extent, damaged || given.odd());
  heed_weights* made = nullptr;
  const heed_status status =
      heed_weights_create(fuzz_context().get(), given.get(), nullptr, nullptr, &made);
  demand(status != HEED_STATUS_OK && made == nullptr, "a matrix may not be NULL");
  check_refused(status, {"desc.", "matrix "});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_weights_desc valid = draw_weights(first);
  each_variant(first, [&](Draw& draw, bool damaged) { create(draw, valid, damaged); });
  return 0;
}
