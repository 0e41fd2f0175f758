#include "tests/problem/block.hpp"

#include <sstream>
#include <stdexcept>

namespace heed_test {
namespace {

std::string line_of(const char* name, const WeightMatrix& w) {
  std::ostringstream line;
  line << " " << name << " " << name_of_dtype(w.layout().dtype) << " " << w.layout().stride_in
       << "," << w.layout().stride_out;
  if (w.prepared) line << " prepared";
  if (w.bias) line << " bias " << name_of_dtype(w.bias->dtype());
  return line.str();
}

}  // namespace

LaidOutBlock::LaidOutBlock(heed_multihead_desc& d)
    : LaidOutBlock(d, *d.attention, AttentionShapes(*d.attention)) {}

LaidOutBlock::LaidOutBlock(heed_multihead_desc& d, const heed_attention_desc& a,
                           const AttentionShapes& s)
    : width_query(d.width_query),
      width_key(d.width_key == 0 ? d.width_query : d.width_key),
      width_out(d.width_out != 0                  ? d.width_out
                : has_w_out(d.combine)            ? d.width_query
                : d.combine == HEED_COMBINE_HEADS ? a.query_heads * s.value[3]
                                                  : s.value[3]),
      real(real_dtype(d)),
      input_query(rows(d.input_query, s.query, width_query, Use::kRead, a.packed_queries > 0)),
      input_key(rows(d.input_key, s.key, width_key, Use::kRead, a.packed_keys > 0)),
      out(rows(d.out, s.query, width_out, Use::kWritten, a.packed_queries > 0)) {
  const Index heads = a.query_heads, head = s.value[3];
  add(d.w_query, 0, width_query, heads * a.features);
  add(d.w_key, 0, width_key, key_heads_of(a) * a.features);
  add(d.w_value, 0, width_key, key_heads_of(a) * head);
  if (d.combine == HEED_COMBINE_CONCAT) add(d.w_out, 0, heads * head, width_out);
  if (d.combine == HEED_COMBINE_TENSOR) add(d.w_out, heads, head, width_out);
}

LaidOut LaidOutBlock::rows(heed_layout& layout, const Axes& like, Index width, Use use,
                           bool packed) const {
  return LaidOut(layout, {like[0], 1, like[2], width}, real, use, packed).without(1);
}

void LaidOutBlock::add(heed_matrix_layout& layout, Index count, Index in, Index out_features) {
  matrices.push_back({count, in, out_features, &layout,
                      LaidOut(layout, count, in, out_features, real, Use::kRead)});
}

std::vector<LaidOut> LaidOutBlock::all() const {
  std::vector<LaidOut> all = {input_query, input_key, out};
  for (const LaidOutMatrix& matrix : matrices) all.push_back(matrix.laid);
  return all;
}

heed_multihead_desc block_desc(std::uint32_t dtype, Index width) {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  d.width_query = d.width_key = d.width_out = width;
  d.input_query.dtype = d.input_key.dtype = d.out.dtype = d.bias_dtype = dtype;
  for (heed_matrix_layout* const w : {&d.w_query, &d.w_key, &d.w_value, &d.w_out}) w->dtype = dtype;
  return d;
}

Block plain_block(Index queries, Index keys, Index heads, Index features,
                  const heed_multihead_desc& given, Index batch, Index key_heads,
                  Index value_features) {
  Sizes sizes = {queries, keys == 0 ? queries : keys, features,
                 value_features == 0 ? features : value_features};
  sizes.batch = batch;
  sizes.query_heads = heads;
  sizes.key_heads = key_heads == 0 ? heads : key_heads;
  sizes.types = all_of(real_dtype(given));
  const Problem attention(sizes);
  heed_multihead_desc desc = given;
  desc.attention = &attention.desc;
  if (!has_w_out(desc.combine)) desc.width_out = 0, desc.w_out = HEED_MATRIX_LAYOUT_INIT;
  Block block(attention, desc, keys == 0);
  for (WeightMatrix* const w : block.matrices()) w->add_bias(desc.bias_dtype, 0);
  return block;
}

Block::Block(const Problem& attention_, const heed_multihead_desc& desc, bool self,
             std::size_t misalign)
    : attention(attention_),
      own_desc(desc),
      real(real_dtype(desc)),
      input_query(laid_out().input_query.tensor(misalign)),
      w_query(matrix(0)),
      w_key(matrix(1)),
      w_value(matrix(2)),
      out(laid_out().out.tensor(misalign)) {
  if (!self) input_key.emplace(laid_out().input_key.tensor(misalign));
  if (has_w_out(desc.combine)) w_out.emplace(matrix(3));
}

LaidOutBlock Block::laid_out() {
  own_desc.attention = &attention.desc;
  return LaidOutBlock(own_desc);
}

WeightMatrix Block::matrix(std::size_t i) {
  const LaidOutBlock laid = laid_out();
  const LaidOutMatrix& m = laid.matrices[i];
  return WeightMatrix(m.matrices, m.in, m.out, *m.layout, real);
}

std::vector<WeightMatrix*> Block::matrices() {
  std::vector<WeightMatrix*> all = {&w_query, &w_key, &w_value};
  if (w_out) all.push_back(&*w_out);
  return all;
}

void Block::fill(std::uint64_t seed, double amplitude) {
  Random random(seed);
  input_query.fill([&] { return random.normal(); });
  if (input_key) input_key->fill([&] { return random.normal(); });
  for (WeightMatrix* const w : matrices()) w->fill(random, w_out && w == &*w_out ? 1 : amplitude);
  fill_head_weights(random);
}

void Block::fill_head_weights(Random& random) {
  head_weights.numbers.clear();
  for (Index h = 0; combine() == HEED_COMBINE_WEIGHTED && h < attention.desc.query_heads; ++h)
    head_weights.numbers.push_back(static_cast<double>(random.normal()));
}

heed_multihead_desc Block::desc() {
  inner_ = attention.desc;
  inner_.query = inner_.key = inner_.value = inner_.out = HEED_LAYOUT_INIT;
  inner_.key_scales = inner_.value_scales = HEED_LAYOUT_INIT;
  own_desc.attention = &inner_;
  return own_desc;
}

heed_multihead_args Block::args() {
  heed_multihead_args a = HEED_MULTIHEAD_ARGS_INIT;
  inner_args_ = attention.args();
  inner_args_.query = inner_args_.key = inner_args_.value = nullptr;
  inner_args_.key_scales = inner_args_.value_scales = nullptr;
  inner_args_.out = nullptr;
  a.attention = &inner_args_;
  a.input_query = input_query.data();
  if (input_key) a.input_key = input_key->data();
  a.w_query = w_query.raw();
  a.w_key = w_key.raw();
  a.w_value = w_value.raw();
  a.b_query = w_query.raw_bias();
  a.b_key = w_key.raw_bias();
  a.b_value = w_value.raw_bias();
  if (w_out) a.w_out = w_out->raw();
  if (w_out) a.b_out = w_out->raw_bias();
  a.head_weights = head_weights.data(real == HEED_DTYPE_F64);
  a.out = out.data();
  return a;
}

Block::Prepared Block::prepare(const Context& context) const {
  return {w_query.prepare(context), w_key.prepare(context), w_value.prepare(context),
          w_out ? w_out->prepare(context) : nullptr};
}

heed_multihead_args Block::args(const Prepared& prepared) {
  heed_multihead_args a = args();
  a.p_query = prepared[0].get();
  a.p_key = prepared[1].get();
  a.p_value = prepared[2].get();
  a.p_out = prepared[3].get();
  return a;
}

GivenBlock Block::given() {
  const heed_multihead_args a = args();
  GivenBlock given = this->given(a, inner_args_);
  for (const char* const isa : isa_names())
    given.tells_parts = given.tells_parts || multiplies_parts(isa);
  return given;
}

namespace {

/// A bias that is prepared is not in the arguments, but is there.
GivenMatrix given_of(const WeightMatrix& matrix, const void* bias) {
  GivenMatrix given = matrix.given();
  if (!matrix.prepared && bias == nullptr) given.bias.data = nullptr;
  return given;
}

}  // namespace

GivenBlock Block::given(const heed_multihead_args& a, const heed_attention_args& inner) const {
  GivenBlock given = {attention.desc, inner, {}};
  if (inner.score_function != nullptr) given.function = attention.function.model;
  // Types of the attention's own tensors say nothing but what the arithmetic is.
  given.attention.query.dtype = given.attention.key.dtype = real;
  given.attention.value.dtype = given.attention.out.dtype = real;
  given.combine = combine();
  given.input_query = input_query.source();
  given.input_key = (a.input_key != nullptr ? *input_key : input_query).source();
  given.width_query = w_query.in();
  given.width_key = w_key.in();
  given.w_query = given_of(w_query, a.b_query);
  given.w_key = given_of(w_key, a.b_key);
  given.w_value = given_of(w_value, a.b_value);
  if (w_out) given.w_out = given_of(*w_out, a.b_out);
  given.head_weights = {a.head_weights, real, {0, 0, 0, 1}};
  given.dtype_out = out.dtype();
  return given;
}

Expected Block::expected(heed_precision precision) {
  GivenBlock block = given();
  block.rounds = precision == HEED_PRECISION_MEDIUM;
  block.parts = block.high = precision == HEED_PRECISION_HIGH;
  block.pairs = block.rounds || block.parts;
  return expect(block);
}

Outputs Block::run_all(const Context& context) {
  const Prepared prepared = prepare(context);
  heed_multihead_args arguments = args(prepared);
  return attention.written_by([&] { run_and_keep(context, arguments); }, out);
}

Workspace Block::run_and_keep(const Context& context, heed_multihead_args& arguments) {
  const MultiheadPlan plan = make_plan(context, desc());
  Workspace kept(describe(plan).kept_bytes);
  if (own_desc.keep != 0) {
    arguments.kept = kept.get();
    arguments.kept_bytes = kept.bytes();
  }
  run_plan(plan, arguments);
  if (!kept.intact()) throw std::runtime_error("wrote outside what is kept");
  return kept;
}

const char* name_of_combine(std::uint32_t combine) {
  constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor", "heads"};
  return kNames[combine];
}

std::string line_of(const Block& b) {
  const heed_multihead_desc& d = b.own_desc;
  std::ostringstream line;
  line << name_of_combine(d.combine) << " widths " << b.w_query.in() << "," << b.w_key.in() << ","
       << b.out_width() << (b.input_key ? "" : " self") << " in "
       << name_of_dtype(d.input_query.dtype) << " " << name_of_dtype(d.input_key.dtype) << " out "
       << name_of_dtype(d.out.dtype) << line_of("wq", b.w_query) << line_of("wk", b.w_key)
       << line_of("wv", b.w_value);
  if (b.w_out) line << line_of("wo", *b.w_out);
  line << "; " << line_of(b.attention);
  return line.str();
}

const char* name_of(BlockGradientOf gradient) {
  constexpr const char* kNames[] = {"input_query", "input_key", "w_query",     "w_key",
                                    "w_value",     "w_out",     "b_query",     "b_key",
                                    "b_value",     "b_out",     "head_weights"};
  return gradient < kBlockBias ? kNames[gradient] : name_of(inside(gradient));
}

LaidOutGradients<kBlockGradients> laid_out(heed_multihead_backward_desc& d) {
  heed_multihead_desc block = *d.block;
  const heed_attention_desc& a = *block.attention;
  const LaidOutBlock laid(block);
  const auto rows = [&](heed_layout& layout, const LaidOut& like, Use use, bool packed) {
    return LaidOut(layout, like.shape(), laid.real, use, packed).without(1);
  };
  const auto numbers = [&](Index count, std::uint32_t* dtype = nullptr) {
    return LaidOut(count, dtype, laid.real, Use::kWritten);
  };
  const bool packed_q = a.packed_queries > 0;
  const Axes q = AttentionShapes(a).query;
  LaidOutGradients<kBlockGradients> all = {
      rows(d.grad_out, laid.out, Use::kRead, packed_q),
      LaidOut(d.grad_lse, {q[0], q[1], q[2], 1}, laid.real, Use::kRead)};
  all.of[kBlockInputQuery] = rows(d.grad_input_query, laid.input_query, Use::kWritten, packed_q);
  all.of[kBlockInputKey] = rows(d.grad_input_key, laid.input_key, Use::kWritten, a.packed_keys > 0);
  heed_matrix_layout* const layouts[] = {&d.grad_w_query, &d.grad_w_key, &d.grad_w_value,
                                         &d.grad_w_out};
  for (std::size_t i = 0; i < laid.matrices.size(); ++i) {
    const LaidOutMatrix& m = laid.matrices[i];
    all.of[kBlockWQuery + i] =
        LaidOut(*layouts[i], m.matrices, m.in, m.out, laid.real, Use::kWritten);
    all.of[kBlockBQuery + i] = numbers(m.out, &d.grad_b_dtype);
  }
  if (block.combine == HEED_COMBINE_WEIGHTED) all.of[kBlockHeadWeights] = numbers(a.query_heads);
  for (std::size_t of = kBlockBias; of < kBlockGradients; ++of)
    all.of[of] = laid_out(inside(of), d.grad_bias, a, laid.real);
  return all;
}

BlockBackward::BlockBackward(Block block_, std::uint64_t seed, const Form& of_out)
    : GradientProblem(HEED_MULTIHEAD_BACKWARD_DESC_INIT), block(std::move(block_)) {
  give_grad_out(seed, of_out);
}

BlockBackward::BlockBackward(Block block_, const heed_multihead_backward_desc& desc)
    : GradientProblem(desc), block(std::move(block_)) {}

LaidOutGradients<kBlockGradients> BlockBackward::laid_out() {
  of_block_ = block.desc();
  desc_.block = &of_block_;
  return heed_test::laid_out(desc_);
}

bool BlockBackward::can_want(BlockGradientOf gradient) const {
  switch (gradient) {
    case kBlockInputKey:
      return block.input_key.has_value();
    case kBlockWOut:
    case kBlockBOut:
      return block.w_out.has_value();
    case kBlockHeadWeights:
      return block.combine() == HEED_COMBINE_WEIGHTED;
    default:
      return gradient < kBlockBias || has_input_of(inside(gradient), block.attention);
  }
}

bool BlockBackward::owns(BlockGradientOf gradient, Index row) const {
  const Problem& a = block.attention;
  const bool of_query = in_sequence(kGradQuery, a, row);
  const bool of_key = in_sequence(kGradKey, a, row);
  if (gradient == kBlockInputKey) return of_key;
  if (gradient != kBlockInputQuery) return true;
  return of_query || (!block.input_key && of_key);
}

heed_multihead_backward_args BlockBackward::args(const heed_multihead_args& of_block) {
  heed_multihead_backward_args a = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  a.block = &of_block;
  using Args = heed_multihead_backward_args;
  give(a, {&Args::grad_input_query, &Args::grad_input_key, &Args::grad_w_query, &Args::grad_w_key,
           &Args::grad_w_value, &Args::grad_w_out, &Args::grad_b_query, &Args::grad_b_key,
           &Args::grad_b_value, &Args::grad_b_out, &Args::grad_head_weights, &Args::grad_bias,
           &Args::grad_sinks, &Args::grad_alibi_slopes, &Args::grad_scale, &Args::grad_temperature,
           &Args::grad_score_weights});
  a.score_gradient = block.attention.function.gradient;
  return a;
}

ExpectedBlockGradients BlockBackward::expected(const char* isa) {
  begin();
  GivenBlockBackward given = {};
  given.block = block.given();
  const bool pairs = isa != nullptr && multiplies_pairs(isa) && !is_float64(block.attention.desc);
  given.block.parts = pairs && multiplies_parts(isa);
  given.block.pairs = given.block.parts || (pairs && may_pair(given.block));
  given.block.attention.lse = HEED_LAYOUT_INIT;
  given.block.attention.lse.dtype = HEED_DTYPE_F64;  // what is kept
  given.gradients = this->given();
  given.one_input = !block.input_key;
  given.derivative = block.attention.function.derivative;
  return expect_block_gradients(given);
}

BlockGradients BlockBackward::run(const Context& context) {
  const Block::Prepared prepared = block.prepare(context);
  heed_multihead_args block_args = block.args(prepared);
  std::optional<Workspace> kept;
  if (block.own_desc.keep != 0) kept.emplace(block.run_and_keep(context, block_args));
  block_args.out = nullptr;
  begin();
  const heed_multihead_desc of_block = block.desc();
  run_plan(make_plan(context, desc(of_block)), args(block_args));
  BlockGradients got = this->got();
  if (kept && !kept->intact()) throw std::runtime_error("wrote outside what is kept");
  if (block.attention.tiles && block.attention.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got;
}

}  // namespace heed_test
