#include "tests/problem/block.hpp"

#include <sstream>
#include <stdexcept>

namespace heed_test {
namespace {

std::string line_of(const char* name, const WeightMatrix& w, const MatrixChoice& choice) {
  std::ostringstream line;
  line << " " << name << " " << name_of_dtype(choice.dtype) << " " << name_of(choice.arrangement);
  if (choice.before + choice.after > 0) line << " " << choice.before << "+" << choice.after;
  if (w.prepared) line << " prepared";
  if (w.bias) line << " bias " << name_of_dtype(w.bias->dtype());
  return line.str();
}

}  // namespace

BlockChoice choice_of(std::uint32_t dtype) {
  BlockChoice choice;
  choice.dtype_query = choice.dtype_key = choice.dtype_out = choice.bias_dtype = dtype;
  for (MatrixChoice* const w : {&choice.w_query, &choice.w_key, &choice.w_value, &choice.w_out})
    w->dtype = w->bias_dtype = dtype;
  return choice;
}

Block::Block(const Problem& attention_, const BlockChoice& choice_)
    : attention(attention_),
      choice(choice_),
      real(real_dtype(attention.desc)),
      input_query(
          tensor(attention.query.shape(), choice.width_query, choice.query, choice.dtype_query)),
      w_query(matrix(choice.width_query, attention.desc.query_heads * attention.desc.features,
                     choice.w_query)),
      w_key(matrix(choice.width_key, key_heads() * attention.desc.features, choice.w_key)),
      w_value(matrix(choice.width_key, key_heads() * head_width(), choice.w_value)),
      out(tensor(attention.query.shape(), out_width(), choice.out, choice.dtype_out)) {
  if (!choice.self)
    input_key.emplace(
        tensor(attention.key.shape(), choice.width_key, choice.key, choice.dtype_key));
  const Index heads = attention.desc.query_heads;
  if (choice.combine == HEED_COMBINE_CONCAT)
    w_out.emplace(matrix(heads * head_width(), choice.width_out, choice.w_out));
  if (choice.combine == HEED_COMBINE_TENSOR)
    w_out.emplace(heads, head_width(), choice.width_out, bias_type(choice.w_out), real);
}

void Block::fill(std::uint64_t seed, double amplitude) {
  Random random(seed);
  input_query.fill([&] { return random.normal(); });
  if (input_key) input_key->fill([&] { return random.normal(); });
  for (WeightMatrix* const w : {&w_query, &w_key, &w_value}) w->fill(random, amplitude);
  if (w_out) w_out->fill(random, 1);
  head_weights.numbers.clear();
  for (Index h = 0; choice.combine == HEED_COMBINE_WEIGHTED && h < attention.desc.query_heads; ++h)
    head_weights.numbers.push_back(static_cast<double>(random.normal()));
}

heed_multihead_desc Block::desc() {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  inner_ = attention.desc;
  inner_.query = inner_.key = inner_.value = inner_.out = HEED_LAYOUT_INIT;
  inner_.key_scales = inner_.value_scales = HEED_LAYOUT_INIT;
  d.combine = choice.combine;
  d.attention = &inner_;
  d.width_query = choice.width_query;
  d.width_key = choice.width_key;
  d.width_out = out_width();
  d.input_query = layout(input_query, choice.query, choice.dtype_query);
  if (input_key) d.input_key = layout(*input_key, choice.key, choice.dtype_key);
  d.out = layout(out, choice.out, choice.dtype_out);
  d.w_query = w_query.layout();
  d.w_key = w_key.layout();
  d.w_value = w_value.layout();
  if (w_out) d.w_out = w_out->layout();
  d.bias_dtype = choice.bias_dtype;
  return d;
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
  a.head_weights = head_weights.data(is_float64(attention.desc));
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
  GivenBlock given = {attention.desc, attention.args(), attention.function.model};
  // Types of the attention's own tensors say nothing but what the arithmetic is.
  given.attention.query.dtype = given.attention.key.dtype = real;
  given.attention.value.dtype = given.attention.out.dtype = real;
  given.combine = choice.combine;
  given.input_query = input_query.source();
  given.input_key = (input_key ? *input_key : input_query).source();
  given.width_query = choice.width_query;
  given.width_key = choice.width_key;
  given.w_query = w_query.given();
  given.w_key = w_key.given();
  given.w_value = w_value.given();
  if (w_out) given.w_out = w_out->given();
  given.head_weights = {head_weights.data(is_float64(attention.desc)), real, {0, 0, 0, 1}};
  given.dtype_out = out.dtype();
  for (const char* const isa : isa_names())
    given.tells_parts = given.tells_parts || multiplies_parts(isa);
  return given;
}

Expected Block::expected_medium() {
  GivenBlock block = given();
  block.pairs = block.rounds = true;
  return expect(block);
}

Expected Block::expected_high() {
  GivenBlock block = given();
  block.pairs = block.parts = block.high = true;
  return expect(block);
}

Outputs Block::run_all(const Context& context) {
  for (Tensor* const written : written_tensors()) written->clear();
  const Prepared prepared = prepare(context);
  const MultiheadPlan plan = make_plan(context, desc());
  Workspace workspace(describe(plan).workspace_bytes);
  const heed_multihead_args arguments = args(prepared);
  require_ok(heed_multihead_plan_run(plan.get(), &arguments, workspace.get(), workspace.bytes()));
  for (const Tensor* const written : written_tensors())
    if (!written->padding_intact()) throw std::runtime_error("wrote outside an output");
  if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
  if (attention.tiles && attention.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return outputs();
}

Outputs Block::run_all(const char* isa) { return run_all(make_context(isa)); }

Tensor Block::tensor(const Axes& like, Index width, Arrangement arrangement,
                     std::uint32_t dtype) const {
  const Axes shape = {like[0], 1, like[2], width};
  return Tensor(shape, strides_of(arrangement, shape), choice.misalign,
                dtype_of(dtype, HEED_DTYPE_F32));
}

heed_layout Block::layout(const Tensor& tensor, Arrangement arrangement, std::uint32_t dtype) {
  heed_layout layout = arrangement == Arrangement::kDefault ? heed_layout{} : tensor.layout();
  layout.dtype = dtype;
  layout.stride_head = 0;
  return layout;
}

MatrixChoice Block::bias_type(const MatrixChoice& w) const {
  MatrixChoice same = w;
  if (!w.prepared) same.bias_dtype = choice.bias_dtype;
  return same;
}

WeightMatrix Block::matrix(Index in, Index out_features, const MatrixChoice& w) const {
  return WeightMatrix(1, in, out_features, bias_type(w), real);
}

std::vector<Tensor*> Block::written_tensors() {
  std::vector<Tensor*> all = {&out};
  for (std::optional<Tensor>* const written :
       {&attention.lse, &attention.weights, &attention.column_sums})
    if (*written) all.push_back(&**written);
  return all;
}

Outputs Block::outputs() const {
  Outputs outputs{out.numbers(), {}, {}, {}};
  if (attention.lse) outputs.lse = attention.lse->numbers();
  if (attention.weights) outputs.weights = attention.weights->numbers();
  if (attention.column_sums) outputs.column_sums = attention.column_sums->numbers();
  return outputs;
}

const char* name_of_combine(std::uint32_t combine) {
  constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor", "heads"};
  return kNames[combine];
}

std::string line_of(const Block& b) {
  const BlockChoice& c = b.choice;
  std::ostringstream line;
  line << name_of_combine(c.combine) << " widths " << c.width_query << "," << c.width_key << ","
       << b.out_width() << (c.self ? " self" : "") << " in " << name_of_dtype(c.dtype_query) << " "
       << name_of(c.query) << " " << name_of_dtype(c.dtype_key) << " " << name_of(c.key) << " out "
       << name_of_dtype(c.dtype_out) << " " << name_of(c.out) << line_of("wq", b.w_query, c.w_query)
       << line_of("wk", b.w_key, c.w_key) << line_of("wv", b.w_value, c.w_value);
  if (b.w_out) line << line_of("wo", *b.w_out, c.w_out);
  line << "; " << line_of(b.attention);
  return line.str();
}

}  // namespace heed_test
