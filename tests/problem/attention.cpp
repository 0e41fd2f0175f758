#include "tests/problem/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace heed_test {
namespace {

template <class T>
const T* data_or_null(const std::vector<T>& all) {
  return all.empty() ? nullptr : all.data();
}

template <class T>
std::string list_of(const char* name, const std::vector<T>& all) {
  std::ostringstream list;
  if (!all.empty()) list << " " << name;
  for (std::size_t i = 0; i < all.size(); ++i) list << (i == 0 ? " " : ",") << all[i];
  return list.str();
}

std::string shape_line(const char* name, const std::optional<Tensor>& tensor) {
  std::ostringstream line;
  if (!tensor) return "";
  const Axes& n = tensor->shape();
  line << " " << name << " " << name_of_dtype(tensor->dtype()) << " " << n[0] << "x" << n[1] << "x"
       << n[2] << "x" << n[3];
  return line.str();
}

heed_attention_desc described(const Sizes& s) {
  heed_attention_desc d = HEED_ATTENTION_DESC_INIT;
  d.causal = s.causal;
  d.batch = s.batch;
  d.query_heads = s.query_heads;
  d.key_heads = s.key_heads;
  d.query_length = s.query_length;
  d.key_length = s.key_length;
  d.features = s.features;
  d.value_features = s.value_features;
  d.scale = s.scale;
  d.causal_offset = s.causal_offset;
  d.packed_queries = s.queries.all_rows();
  d.packed_keys = s.keys.all_rows();
  d.query.dtype = s.types.query;
  d.key.dtype = s.types.key;
  d.value.dtype = s.types.value;
  d.out.dtype = s.types.out;
  return d;
}

/// Scales of keys, or values, of 8 bits.
std::optional<Tensor> make_scales(std::uint32_t of, const LaidOut& laid, std::size_t misalign) {
  if (of == HEED_DTYPE_I8) return laid.tensor(misalign);
  if (of == HEED_DTYPE_F8_E4M3)
    return placed({1, 1, 1, 1}, Arrangement::kDefault, HEED_DTYPE_F32, misalign);
  return std::nullopt;
}

}  // namespace

std::int64_t Packing::all_rows() const {
  return packed() ? std::max<std::int64_t>({rows, offsets.back(), 1}) : 0;
}

const void* RealArray::data(bool float64) {
  narrow_.assign(numbers.begin(), numbers.end());
  return numbers.empty() ? nullptr
         : float64       ? static_cast<const void*>(numbers.data())
                         : narrow_.data();
}

AttentionShapes::AttentionShapes(const heed_attention_desc& d) {
  const bool packed_q = d.packed_queries > 0;
  const bool packed_k = d.packed_keys > 0;
  const std::int64_t q_rows = packed_q ? d.packed_queries : d.query_length;
  const std::int64_t k_rows = packed_k ? d.packed_keys : key_rows_of(d);
  query = {packed_q ? 1 : d.batch, d.query_heads, q_rows, d.features};
  key = {packed_k ? 1 : d.pages > 0 ? d.pages : d.batch, key_heads_of(d), k_rows, d.features};
  out = query;
  value = key;
  out[3] = value[3] = value_features_of(d);
}

LaidOutAttention::LaidOutAttention(heed_attention_desc& d)
    : LaidOutAttention(d, AttentionShapes(d)) {}

LaidOutAttention::LaidOutAttention(heed_attention_desc& d, const AttentionShapes& s)
    : query(d.query, s.query, HEED_DTYPE_F32, Use::kRead, d.packed_queries > 0),
      key(LaidOut(d.key, s.key, HEED_DTYPE_F32, Use::kRead, d.packed_keys > 0).stored()),
      value(LaidOut(d.value, s.value, HEED_DTYPE_F32, Use::kRead, d.packed_keys > 0).stored()),
      out(d.out, s.out, HEED_DTYPE_F32, Use::kWritten, d.packed_queries > 0),
      key_scales(d.key_scales, {s.key[0], s.key[1], s.key[2], 1}, HEED_DTYPE_F32, Use::kRead,
                 d.packed_keys > 0),
      value_scales(d.value_scales, {s.key[0], s.key[1], s.key[2], 1}, HEED_DTYPE_F32, Use::kRead,
                   d.packed_keys > 0),
      mask(d.mask, d.mask, pairs_of(d), kByte, Use::kRead),
      bias(d.bias, d.bias, pairs_of(d), real_dtype(d), Use::kRead),
      lse(d.lse, {s.query[0], s.query[1], s.query[2], 1}, real_dtype(d), Use::kWritten),
      weights(d.weights, {d.batch, d.query_heads, weight_rows_of(d), d.key_length}, real_dtype(d),
              Use::kWritten),
      column_sums(d.column_sums, {d.batch, d.query_heads, d.key_length, 1}, real_dtype(d),
                  Use::kWritten),
      desc_(d) {}

std::vector<LaidOut> LaidOutAttention::all(bool of_block) const {
  std::vector<LaidOut> all = {mask, bias, lse};
  if (!of_block) all.insert(all.end(), {query, key, value, out});
  if (desc_.key.dtype == HEED_DTYPE_I8) all.push_back(key_scales);
  if (desc_.value.dtype == HEED_DTYPE_I8) all.push_back(value_scales);
  if (desc_.weights_point != HEED_WEIGHTS_NONE) all.push_back(weights);
  if (desc_.sum_columns != 0) all.push_back(column_sums);
  return all;
}

Problem::Problem(const Sizes& s) : Problem(0, described(s)) {
  cu_seqlens_q = s.queries.offsets;
  cu_seqlens_k = s.keys.offsets;
}

Problem::Problem(std::size_t misalign, const heed_attention_desc& desc_)
    : desc(desc_),
      query(LaidOutAttention(desc).query.tensor(misalign)),
      key(LaidOutAttention(desc).key.tensor(misalign * 2 % 4)),
      value(LaidOutAttention(desc).value.tensor(misalign * 3 % 4)),
      out(LaidOutAttention(desc).out.tensor(misalign)),
      key_scales(make_scales(desc.key.dtype, LaidOutAttention(desc).key_scales, misalign)),
      value_scales(make_scales(desc.value.dtype, LaidOutAttention(desc).value_scales, misalign)),
      misalign_(misalign) {}

void Problem::fill(std::uint64_t seed, float amplitude) {
  Random random(seed);
  const auto next = [&] { return random.normal() * amplitude; };
  query.fill(next);
  const double largest = 9 * amplitude;  // of a normal distribution a few numbers are above half
  store(&Problem::key, largest, next);
  store(&Problem::value, largest, next);
}

void Problem::store(Tensor Problem::*tensor, double largest, const std::function<double()>& next) {
  Tensor& rows = this->*tensor;
  std::optional<Tensor>& scales = tensor == &Problem::key ? key_scales : value_scales;
  if (!scales) return rows.fill(next);
  if (rows.dtype() == HEED_DTYPE_F8_E4M3) {
    scales->set({0, 0, 0, 0}, largest / format_of(HEED_DTYPE_F8_E4M3).largest);
    const auto scale = static_cast<float>(scales->get({0, 0, 0, 0}));
    return rows.fill([&] { return static_cast<float>(next()) / scale; });
  }
  std::vector<double> row(static_cast<std::size_t>(rows.shape()[3]));
  scales->each([&](const Axes& at) {
    double most = 0;
    bool finite = true;
    for (double& x : row) {
      x = next();
      finite = finite && std::isfinite(x);
      most = std::max(most, std::fabs(x));
    }
    const float step = static_cast<float>(most) / 127;
    const float scale = step < std::numeric_limits<float>::min() ? 0 : step;
    scales->set(at, finite ? static_cast<double>(scale) : kNaN);
    for (std::size_t x = 0; x < row.size(); ++x)
      rows.set({at[0], at[1], at[2], static_cast<std::int64_t>(x)},
               finite && scale > 0 ? static_cast<float>(row[x]) / scale : 0);
  });
}

Tensor& Problem::add(std::optional<Tensor>& tensor, LaidOut LaidOutAttention::*laid,
                     std::uint32_t dtype, Arrangement arrangement) {
  LaidOut lies = LaidOutAttention(desc).*laid;
  lies.arrange(arrangement, dtype);
  return tensor.emplace(lies.tensor(misalign_));
}

Tensor& Problem::add_mask(const Axes& n, Arrangement arrangement) {
  desc.mask = {0, 0, n[0], n[1], n[2], n[3], 0, 0, 0, 0};
  add(mask, &LaidOutAttention::mask, HEED_DTYPE_DEFAULT, arrangement).fill([] { return 1; });
  return *mask;
}

Tensor& Problem::add_bias(const Axes& n, std::uint32_t dtype, Arrangement arrangement) {
  desc.bias = {0, 0, n[0], n[1], n[2], n[3], 0, 0, 0, 0};
  add(bias, &LaidOutAttention::bias, dtype, arrangement).fill([] { return 0; });
  return *bias;
}

void Problem::score_as(const Problem& other) {
  desc.softcap = other.desc.softcap;
  desc.temperature = other.desc.temperature;
  desc.hard = other.desc.hard;
  desc.score = other.desc.score;
  desc.activation = other.desc.activation;
  desc.slope = other.desc.slope;
  score_weights = other.score_weights;
  desc.dropout = other.desc.dropout;
  dropout_seed = other.dropout_seed;
  dropout_offset = other.dropout_offset;
  dropout_origin = other.dropout_origin;
  desc.window = other.desc.window;
  desc.window_left = other.desc.window_left;
  desc.window_right = other.desc.window_right;
  desc.alignment = other.desc.alignment;
  desc.alignment_offset = other.desc.alignment_offset;
  slopes = other.slopes;
  function = other.function;
}

void Problem::want_lse(std::uint32_t dtype, Arrangement arrangement) {
  add(lse, &LaidOutAttention::lse, dtype, arrangement);
}

void Problem::want_weights(heed_weights_point point, std::uint32_t dtype, Arrangement arrangement,
                           const std::vector<std::int64_t>& rows) {
  weight_rows = rows;
  desc.weights_point = point;
  desc.weight_rows = static_cast<std::int64_t>(rows.size());
  add(weights, &LaidOutAttention::weights, dtype, arrangement);
}

void Problem::want_column_sums(std::uint32_t dtype, Arrangement arrangement) {
  desc.sum_columns = 1;
  add(column_sums, &LaidOutAttention::column_sums, dtype, arrangement);
}

void Problem::want_nothing_else() {
  lse.reset();
  weights.reset();
  column_sums.reset();
  weight_rows.clear();
  desc.weights_point = HEED_WEIGHTS_NONE;
  desc.sum_columns = 0;
  desc.weight_rows = 0;
}

heed_attention_args Problem::args() {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.out = out.data();
  if (key_scales) args.key_scales = static_cast<const float*>(key_scales->data());
  if (value_scales) args.value_scales = static_cast<const float*>(value_scales->data());
  if (mask) args.mask = static_cast<const std::uint8_t*>(mask->data());
  if (bias) args.bias = bias->data();
  for (const IndexList& list : kIndexLists) args.*list.argument = data_or_null(this->*list.indices);
  args.alibi_slopes = slopes.data(is_float64(desc));
  args.sinks = sinks.data(is_float64(desc));
  args.score_weights = score_weights.data(is_float64(desc));
  args.dropout_seed = dropout_seed;
  args.dropout_offset = dropout_offset;
  args.dropout_origin = data_or_null(dropout_origin);
  args.weight_rows = data_or_null(weight_rows);
  if (function.call != nullptr) {
    tiles = std::make_shared<TileCheck>();
    tiles->desc = desc;
    args.score_function = function.call;
    args.score_user = tiles.get();
  }
  if (lse) args.lse = lse->data();
  if (weights) args.weights = weights->data();
  if (column_sums) args.column_sums = column_sums->data();
  return args;
}

Outputs Problem::run_all(const Context& context) {
  return run_all([&](const heed_attention_args& arguments) {
    run_plan(make_plan(context, desc), arguments);
    return HEED_STATUS_OK;
  });
}

Outputs Problem::run_all(const std::function<heed_status(const heed_attention_args&)>& call) {
  return written_by([&] { require_ok(call(args())); }, out);
}

Outputs Problem::written_by(const std::function<void()>& run, Tensor& to) {
  std::vector<Tensor*> all = {&to};
  for (std::optional<Tensor>* const tensor : {&lse, &weights, &column_sums})
    if (*tensor) all.push_back(&**tensor);
  for (Tensor* const tensor : all) tensor->clear();
  run();
  for (const Tensor* const tensor : all)
    if (!tensor->padding_intact()) throw std::runtime_error("wrote outside an output");
  if (tiles && tiles->wrong) throw std::runtime_error("a score tile makes no sense");
  return {to.numbers(), numbers_of(lse), numbers_of(weights), numbers_of(column_sums)};
}

Sizes sizes_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  Sizes sizes = {d.query_length, d.key_length,     d.features, p.value.shape()[3], d.batch,
                 d.query_heads,  p.key.shape()[1], d.causal,   d.causal_offset,    d.scale};
  sizes.types = {d.query.dtype, d.key.dtype, d.value.dtype, d.out.dtype};
  if (d.packed_queries > 0) sizes.queries = {p.cu_seqlens_q, p.query.shape()[2]};
  if (d.packed_keys > 0) sizes.keys = {p.cu_seqlens_k, p.key.shape()[2]};
  return sizes;
}

const char* name_of_point(std::uint32_t point) {
  constexpr const char* kNames[] = {"none", "scores", "capped", "masked", "probabilities"};
  return kNames[point];
}

std::string line_of(const heed_attention_desc& d) {
  std::ostringstream line;
  line.precision(17);
  line << "B" << d.batch << " Hq" << d.query_heads << " Hkv" << d.key_heads << " Lq"
       << d.query_length << " Lkv" << d.key_length << " D" << d.features << " Dv"
       << d.value_features << " " << name_of_dtype(d.query.dtype) << "/"
       << name_of_dtype(d.key.dtype) << "/" << name_of_dtype(d.value.dtype) << "/"
       << name_of_dtype(d.out.dtype) << " causal " << d.causal << " offset " << d.causal_offset
       << " scale " << d.scale;
  if (d.packed_queries > 0) line << " packed_queries " << d.packed_queries;
  if (d.packed_keys > 0) line << " packed_keys " << d.packed_keys;
  if (d.pages > 0) line << " pages " << d.pages << " of " << d.page_rows << " rows";
  if (d.score != 0) line << " score " << d.score << " of activation " << d.activation;
  if (d.slope != 0) line << " slope " << d.slope;
  if (d.softcap != 0) line << " softcap " << d.softcap;
  if (d.temperature != 0) line << " temperature " << d.temperature;
  if (d.hard != 0) line << " hard";
  if (d.dropout != 0) line << " dropout " << d.dropout;
  if (d.window != 0) line << " window " << d.window_left << "," << d.window_right;
  if (d.alignment != 0) line << " alignment " << d.alignment << " by " << d.alignment_offset;
  if (d.weights_point != 0)
    line << " weights " << name_of_point(d.weights_point) << " " << name_of_dtype(d.weights.dtype)
         << " of " << d.weight_rows << " rows";
  if (d.sum_columns != 0) line << " column sums " << name_of_dtype(d.column_sums.dtype);
  return line.str();
}

std::string line_of(const Problem& p) {
  std::string line = line_of(p.desc) + shape_line("mask", p.mask) + shape_line("bias", p.bias);
  for (const IndexList& list : kIndexLists) line += list_of(list.name, p.*list.indices);
  line += list_of("slopes", p.slopes.numbers) + list_of("sinks", p.sinks.numbers) +
          list_of("weight_rows", p.weight_rows);
  if (p.desc.dropout != 0)
    line += " of " + std::to_string(p.dropout_seed) + ", " + std::to_string(p.dropout_offset) +
            list_of("from", p.dropout_origin);
  if (p.function.call != nullptr) line += std::string(" function ") + p.function.name;
  if (p.lse) line += std::string(" lse ") + name_of_dtype(p.desc.lse.dtype);
  return line;
}

bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i) {
  const bool of_key = gradient == kGradKey || gradient == kGradValue;
  if (!of_key && gradient != kGradQuery) return true;
  const std::vector<std::int32_t>& offsets = of_key ? p.cu_seqlens_k : p.cu_seqlens_q;
  return offsets.empty() || (i >= offsets.front() && i < offsets.back());
}

const char* name_of(GradientOf gradient) {
  constexpr const char* kNames[] = {"query",  "key",   "value",       "bias",         "sinks",
                                    "slopes", "scale", "temperature", "score_weights"};
  return kNames[gradient];
}

bool has_input_of(GradientOf gradient, const Problem& p) {
  if (gradient == kGradBias) return p.bias.has_value();
  if (gradient == kGradSinks) return !p.sinks.numbers.empty();
  if (gradient == kGradSlopes) return !p.slopes.numbers.empty();
  if (gradient == kGradScoreWeights) return !p.score_weights.numbers.empty();
  return true;
}

std::optional<LaidOut> laid_out(GradientOf gradient, heed_score_layout& grad_bias,
                                const heed_attention_desc& a, std::uint32_t real) {
  if (gradient == kGradBias) return LaidOut(grad_bias, a.bias, pairs_of(a), real, Use::kWritten);
  const auto numbers = [&](std::int64_t n) { return LaidOut(n, nullptr, real, Use::kWritten); };
  if (gradient == kGradScale || gradient == kGradTemperature) return numbers(1);
  if (gradient != kGradScoreWeights || a.score == HEED_SCORE_COSINE) return numbers(a.query_heads);
  if (a.score != HEED_SCORE_ADDITIVE) return std::nullopt;
  return numbers(a.query_heads * a.features);
}

LaidOutGradients<kGradients> laid_out(heed_attention_backward_desc& d) {
  const heed_attention_desc& a = *d.attention;
  const AttentionShapes s(a);
  const std::uint32_t real = real_dtype(a);
  const bool packed_q = a.packed_queries > 0;
  const bool packed_k = a.packed_keys > 0;
  LaidOutGradients<kGradients> all = {
      {d.grad_out, s.out, real, Use::kRead, packed_q},
      {d.grad_lse, {s.query[0], s.query[1], s.query[2], 1}, real, Use::kRead},
      {LaidOut(d.grad_query, s.query, real, Use::kWritten, packed_q),
       LaidOut(d.grad_key, s.key, real, Use::kWritten, packed_k),
       LaidOut(d.grad_value, s.value, real, Use::kWritten, packed_k)}};
  for (std::size_t of = kGradBias; of < kGradients; ++of)
    all.of[of] = laid_out(static_cast<GradientOf>(of), d.grad_bias, a, real);
  return all;
}

BackwardProblem::BackwardProblem(Problem problem, std::uint64_t seed, const Form& of_out)
    : GradientProblem(HEED_ATTENTION_BACKWARD_DESC_INIT), forward(std::move(problem)) {
  if (!forward.lse) forward.want_lse();
  give_grad_out(seed, of_out);
}

BackwardProblem::BackwardProblem(Problem problem, const heed_attention_backward_desc& desc)
    : GradientProblem(desc), forward(std::move(problem)) {}

LaidOutGradients<kGradients> BackwardProblem::laid_out() {
  desc();
  return heed_test::laid_out(desc_);
}

void BackwardProblem::attend_as_expected() {
  const Expected expected = forward.expected();
  const auto take = [](Tensor& to, const std::vector<Element>& from) {
    std::size_t n = 0;
    to.clear();
    to.each([&](const Axes& at) {
      if (from[n].written) to.set(at, from[n].value);
      ++n;
    });
  };
  take(forward.out, expected.out);
  take(*forward.lse, expected.lse);
}

const heed_attention_backward_desc& BackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

heed_attention_backward_args BackwardProblem::args() {
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  using Args = heed_attention_backward_args;
  give(args, {&Args::grad_query, &Args::grad_key, &Args::grad_value, &Args::grad_bias,
              &Args::grad_sinks, &Args::grad_alibi_slopes, &Args::grad_scale,
              &Args::grad_temperature, &Args::grad_score_weights});
  args.score_gradient = forward.function.gradient;
  return args;
}

ExpectedGradients BackwardProblem::expected() {
  begin();
  const heed_attention_args arguments = forward.args();
  const ScoreFunction& function = forward.function;
  return expect_gradients({forward.desc, arguments, function.model, function.derivative, given()});
}

Gradients BackwardProblem::run(const Context& context) {
  return run([&](const heed_attention_backward_args& arguments) {
    run_plan(make_plan(context, desc()), arguments);
    return HEED_STATUS_OK;
  });
}

Gradients BackwardProblem::run(
    const std::function<heed_status(const heed_attention_backward_args&)>& call) {
  begin();
  require_ok(call(args()));
  if (forward.tiles && forward.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got();
}

// ---- Pages ----

namespace {

constexpr std::int32_t kUnread = INT32_MIN;

/// Puts what remake(tensor) makes in the place of keys, values and the scales of their rows.
template <class Remake>
void remake_keys(Problem& p, Arrangement arrangement, Remake&& remake) {
  const auto put = [&](Tensor& tensor, heed_layout& layout) {
    tensor = remake(tensor);
    layout = layout_of(tensor, arrangement, layout.dtype);
  };
  put(p.key, p.desc.key);
  put(p.value, p.desc.value);
  if (p.desc.key.dtype == HEED_DTYPE_I8) put(*p.key_scales, p.desc.key_scales);
  if (p.desc.value.dtype == HEED_DTYPE_I8) put(*p.value_scales, p.desc.value_scales);
}

/// What descriptor and arguments say of every sequence.
std::vector<Sequence> sequences_of(Problem& p) {
  const heed_attention_args args = p.args();
  std::vector<Sequence> all;
  for (Index b = 0; b < p.desc.batch; ++b) all.push_back(sequence_of(p.desc, args, b));
  return all;
}

/// So many pages in any order.
std::vector<std::int32_t> shuffled(Index pages, Random& random) {
  std::vector<std::int32_t> order;
  for (Index n = 0; n < pages; ++n) {
    order.push_back(static_cast<std::int32_t>(n));
    std::swap(order.back(), order[static_cast<std::size_t>(random.integer(0, n))]);
  }
  return order;
}

}  // namespace

std::vector<std::int32_t> draw_block_table(Problem& p, bool share, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int32_t> order = shuffled(p.desc.pages, random);
  const Index stride = block_table_stride_of(p.desc);
  std::vector<std::int32_t> table;
  std::vector<std::int32_t> taken;
  for (const Sequence& s : sequences_of(p))
    for (Index n = 0; n < stride; ++n) {
      const bool read = n * p.desc.page_rows < s.keys;
      table.push_back(read && !order.empty() ? order.back() : kUnread);
      if (!read) continue;
      if (order.empty() || (share && !taken.empty() && random.integer(0, 2) == 0))
        table.back() = random.pick(taken);
      else
        order.pop_back();
      taken.push_back(table.back());
    }
  const Index behind = stride - block_table_width_of(p.desc);  // the last one, there is nothing
  if (!table.empty()) table.resize(table.size() - static_cast<std::size_t>(behind));
  return table;
}

Problem paged(const Problem& p, Random& random, bool share) {
  Problem q = p;
  heed_attention_desc& d = q.desc;
  d.page_rows = 16 * random.integer(1, random.integer(0, 2) == 0 ? 5 : 1);
  d.pages = 1;
  const Index width = block_table_width_of(d);
  d.pages = width * d.batch + random.integer(1, 3);
  if (random.integer(0, 3) == 0) d.block_table_stride = width + random.integer(1, 5);
  q.block_table = draw_block_table(q, share, random.bits());
  const std::vector<Sequence> sequences = sequences_of(q);
  const auto last = static_cast<Index>(Arrangement::kCount) - 1;
  const auto arrangement =
      static_cast<Arrangement>(random.integer(0, 1) == 0 ? 0 : random.integer(0, last));
  const auto misalign = static_cast<std::size_t>(random.integer(0, 3));
  remake_keys(q, arrangement, [&](const Tensor& from) {
    const Axes& n = from.shape();
    Tensor pool = placed({d.pages, n[1], d.page_rows, n[3]}, arrangement, from.dtype(), misalign);
    pool.fill([] { return kNaN; });
    from.each([&](const Axes& at) {
      const Sequence& s = sequences[static_cast<std::size_t>(at[0])];
      if (at[2] >= s.keys) return;
      const RowPlace to = key_row(s, at[2]);
      pool.set({to.batch, at[1], to.row, at[3]}, from.get(at));
    });
    return pool;
  });
  return q;
}

Problem contiguous(const Problem& p) {
  Problem q = p;
  if (p.desc.pages == 0) return q;
  const std::vector<Sequence> sequences = sequences_of(q);
  remake_keys(q, Arrangement::kDefault, [&](const Tensor& pool) {
    const Axes& n = pool.shape();
    Tensor rows = placed({p.desc.batch, n[1], p.desc.key_length, n[3]}, Arrangement::kDefault,
                         pool.dtype(), 0);
    rows.fill([&](const Axes& at) {
      const Sequence& s = sequences[static_cast<std::size_t>(at[0])];
      if (at[2] >= s.keys) return kNaN;
      const RowPlace from = key_row(s, at[2]);
      return pool.get({from.batch, at[1], from.row, at[3]});
    });
    return rows;
  });
  q.desc.pages = q.desc.page_rows = q.desc.block_table_stride = 0;
  q.block_table.clear();
  return q;
}

}  // namespace heed_test
