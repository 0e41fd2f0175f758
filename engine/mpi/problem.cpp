#include "engine/mpi/problem.hpp"

#include <algorithm>

#include "engine/mpi/tensor.hpp"

namespace heed::mpi {
namespace {

// ---- The same on all ranks ----------------------------------------------------------------------

std::vector<Field> fields_of(const Problem& p) {
  heed_attention_desc d = p.desc;  // where a field may differ with a value of its own
  if (!p.everywhere()) d.query_length = 0;
  if (p.gradients == 0) d.lse.dtype = 0;
  if (!p.wants(HEED_MPI_GRAD_BIAS)) d.bias = kNoScores;
  if (d.bias.batch == 0) d.bias.batch = d.batch;
  if (d.bias.heads == 0) d.bias.heads = d.query_heads;
  if (d.bias.keys != 1) d.bias.keys = 0;
  const heed_mpi_attention_desc& given = p.given;
  const heed_attention_backward_desc& g = p.backward;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name
#define SAME(of, field) same(#field, of.field)
  std::vector<Field> fields = {SAME(d, batch),          SAME(d, query_heads),
                               SAME(d, key_heads),      SAME(d, features),
                               SAME(d, value_features), SAME(d, query.dtype),
                               SAME(d, key.dtype),      SAME(d, value.dtype),
                               SAME(d, out.dtype),      SAME(d, scale),
                               SAME(d, softcap),        SAME(d, score),
                               SAME(d, activation),     SAME(d, slope),
                               SAME(d, temperature),    SAME(d, dropout),
                               SAME(d, causal),         SAME(d, causal_offset),
                               SAME(d, alignment),      SAME(d, alignment_offset),
                               SAME(d, window),         SAME(d, window_left),
                               SAME(d, window_right)};
  fields.insert(fields.end(),
                {SAME(given, placement), SAME(given, queries), SAME(given, tensors),
                 SAME(given, head_ranks), SAME(given, sequences), SAME(given, flops_per_byte)});
  fields.insert(fields.end(), {SAME(d, query_length), SAME(p, gradients), SAME(g, accumulate),
                               SAME(d, lse.dtype), SAME(g, grad_out.dtype), SAME(g, grad_lse.dtype),
                               SAME(d, bias.batch), SAME(d, bias.heads), SAME(d, bias.keys)});
#undef SAME
  return fields;
}

/// Along which axes masks and biases do not repeat on all ranks. Keys are counted later.
void unite_scores(const Communicator& comm, Problem& p) {
  constexpr int kAxes = 4;
  const auto varies_along = [](const heed_score_layout& l) -> std::int64_t {
    return (l.batch != 1 ? 1 : 0) | (l.heads != 1 ? 2 : 0) | (l.rows != 1 ? 4 : 0) |
           (l.keys != 1 ? 8 : 0);
  };
  const auto united = [&](std::int64_t axes) {
    return WholeScores{(axes & 1) != 0 ? p.desc.batch : 1, (axes & 2) != 0 ? p.desc.query_heads : 1,
                       (axes & 8) != 0, (axes & 4) != 0};
  };
  const heed_score_layout& mask = p.brings(HEED_MPI_MASK) ? p.desc.mask : kNoScores;
  const heed_score_layout& bias = p.brings(HEED_MPI_BIAS) ? p.desc.bias : kNoScores;
  const std::int64_t all = comm.reduced(varies_along(mask) | varies_along(bias) << kAxes, MPI_BOR);
  p.mask = united(all);
  p.bias = united(all >> kAxes);
  if (!p.wants(HEED_MPI_GRAD_BIAS)) return;
  comm.agreed([&] {
    if (bias.rows == 1 && p.bias.by_rows && p.desc.query_length != 1)
      refuse(
          "desc.bias.rows is 1 with desc.query_length %lld; a bias that repeats over queries must "
          "do so on all ranks",
          lld(p.desc.query_length));
  });
}

// ---- The whole ----------------------------------------------------------------------------------

/// Lets the dense checks judge the whole problem: where positions count from, and how far masks
/// and biases reach. Tensors are left out.
void check_whole(const heed_context& context, const Problem& p) {
  heed_attention_desc whole = p.desc;
  for (heed_layout* layout : {&whole.query, &whole.key, &whole.value, &whole.out, &whole.lse})
    *layout = unset_layout(layout->dtype);
  whole.mask = whole.bias = kNoScores;
  whole.query_length = p.total_queries;
  whole.key_length = p.total_keys;
  make<heed_attention_plan>(&context, &whole);
  if (p.brings(HEED_MPI_MASK)) whole.mask = p.desc.mask;
  if (p.brings(HEED_MPI_BIAS)) whole.bias = p.desc.bias;
  whole.query_length = p.desc.query_length;
  whole.causal = HEED_CAUSAL_NONE;
  whole.causal_offset = whole.alignment_offset = 0;
  whole.alignment = HEED_ALIGNMENT_TOP_LEFT;
  make<heed_attention_plan>(&context, &whole);
  if (!p.wants(HEED_MPI_GRAD_BIAS)) return;
  heed_attention_backward_desc gradients = p.backward;
  gradients.attention = &whole;
  for (heed_layout* layout : {&gradients.grad_out, &gradients.grad_lse, &gradients.grad_query,
                              &gradients.grad_key, &gradients.grad_value})
    *layout = unset_layout(layout->dtype);
  make<heed_attention_backward_plan>(&context, &gradients);
}

/// Finds where sequences begin, and cuts spans there.
void cut_sequences(Problem& p) {
  const std::vector<std::int64_t>& q = p.query_begins = {0, p.total_queries};
  const std::vector<std::int64_t>& k = p.key_begins = {0, p.total_keys};
  const std::int64_t sequences = p.given.sequences;
  if (sequences == 0) return;
  p.query_begins.assign(p.given.cu_seqlens_q, p.given.cu_seqlens_q + sequences + 1);
  p.key_begins.assign(p.given.cu_seqlens_k, p.given.cu_seqlens_k + sequences + 1);
  const auto check_end = [&](const char* field, std::int64_t end, std::int64_t rows) {
    if (end != rows)
      refuse("desc.%s[%lld] is %lld; it must be %lld, the rows of all ranks", field, lld(sequences),
             lld(end), lld(rows));
  };
  check_end("cu_seqlens_q", q.back(), p.total_queries);
  check_end("cu_seqlens_k", k.back(), p.total_keys);
  const bool ordered = p.desc.window != 0 || p.brings(HEED_MPI_ALIBI_SLOPES);
  const bool stands = p.desc.causal != HEED_CAUSAL_NONE || p.desc.alignment != 0;
  for (std::size_t n = 0; ordered && !stands && n + 1 < q.size(); ++n)
    if (q[n + 1] - q[n] != k[n + 1] - k[n])
      refuse(
          "desc.alignment is 0, and sequence %zu has %lld queries and %lld keys; it must say where "
          "queries stand",
          n, lld(q[n + 1] - q[n]), lld(k[n + 1] - k[n]));
  cut("query", q, p.queries);
  cut("key", k, p.keys);
}

/// Past all positions, and far from overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 42;
/// Past these, wherever positions begin.
constexpr std::int64_t kUnbounded = 4 * kFar;

Order order_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const bool causal = d.causal != HEED_CAUSAL_NONE;
  const std::uint32_t choice = causal ? d.causal : d.alignment;  // the enums mean the same
  const std::int64_t given = causal ? d.causal_offset : d.alignment_offset;
  const bool left = d.window != 0 && d.window_left >= 0;
  const bool right = causal || (d.window != 0 && d.window_right >= 0);
  const auto clamped = [](std::int64_t x) { return std::clamp(x, -kFar, kFar); };
  const auto offset = [&](std::int64_t queries, std::int64_t keys) {
    return choice == HEED_ALIGNMENT_BOTTOM_RIGHT ? keys - queries : clamped(given);
  };
  Order order = {};
  order.matters = left || right || p.brings(HEED_MPI_ALIBI_SLOPES);
  const std::vector<std::int64_t>& q = p.query_begins;
  const std::vector<std::int64_t>& k = p.key_begins;
  for (std::size_t n = 0; n + 1 < q.size(); ++n)
    order.offsets.push_back(offset(q[n + 1] - q[n], k[n + 1] - k[n]) + k[n] - q[n]);
  order.first = left ? -clamped(d.window_left) : -kUnbounded;
  order.end = right ? (causal ? 0 : clamped(d.window_right)) + 1 : kUnbounded;
  return order;
}

// ---- Tensors by their rows ----------------------------------------------------------------------

/// The rows of each rank's own queries travel to where the heads are.
SplitRows rows_of(const WholeScores& scores, std::uint32_t dtype) {
  return {false, dtype, scores.by_rows ? scores.keys : 0, scores.batch == 1, scores.heads == 1};
}

void list_tensors(Problem& p) {
  const heed_attention_desc& d = p.desc;
  p.inputs = {{false, d.query.dtype, d.features},
              {true, d.key.dtype, d.features},
              {true, d.value.dtype, d.value_features},
              rows_of(p.mask, HEED_DTYPE_I8),
              rows_of(p.bias, d.bias.dtype)};
  p.parcel = {p.inputs[kKey], p.inputs[kValue]};
  if (p.gradients == 0) {
    p.results = {{false, d.out.dtype, d.value_features}, {false, HEED_DTYPE_F64, 1}};
    p.slice_results = {{false, p.real(), d.value_features}, p.results[1]};
    return;
  }
  p.inputs.insert(p.inputs.end(), {{false, d.out.dtype, d.value_features},
                                   {false, d.lse.dtype, 1},
                                   {false, p.backward.grad_out.dtype, d.value_features},
                                   {false, p.backward.grad_lse.dtype, 1}});
  const auto wanted = [&](heed_mpi_gradients gradient, std::int64_t features) {
    return p.wants(gradient) ? features : 0;
  };
  p.parcel_gradients = {{true, p.real(), wanted(HEED_MPI_GRAD_KEY, d.features)},
                        {true, p.real(), wanted(HEED_MPI_GRAD_VALUE, d.value_features)}};
  p.slice_results = {{false, p.real(), wanted(HEED_MPI_GRAD_QUERY, d.features)}};
  p.results = {p.slice_results[0], p.parcel_gradients[0], p.parcel_gradients[1]};
  if (p.wants(HEED_MPI_GRAD_BIAS)) p.results.push_back(rows_of(p.bias, p.real()));
}

}  // namespace

double Problem::flops_per_pair() const {
  const double both = static_cast<double>(desc.features + desc.value_features);
  const double products =
      gradients == 0 ? 2 * both : 4 * both + 2 * static_cast<double>(desc.features);
  return products * static_cast<double>(desc.batch) * static_cast<double>(desc.query_heads);
}

void complete(Problem& p, const Communicator& comm, const heed_context& context) {
  compare(comm, [&] { return fields_of(p); });
  if (p.given.sequences > 0) {
    compare(comm, "cu_seqlens_q", p.given.cu_seqlens_q, p.given.sequences + 1);
    compare(comm, "cu_seqlens_k", p.given.cu_seqlens_k, p.given.sequences + 1);
  }
  unite_scores(comm, p);
  p.keys = gather_spans(comm, p.given.placement, "key", p.desc.key_length, p.given.key_positions);
  if (p.everywhere()) {
    p.queries = comm.agreed([&] {
      return std::vector<Spans>(p.keys.size(), {{0, p.desc.query_length, 0}});
    });
    p.total_queries = p.desc.query_length;
  } else {
    p.queries = gather_spans(comm, p.given.placement, "query", p.desc.query_length,
                             p.given.query_positions);
    for (const Spans& spans : p.queries) p.total_queries += rows_in(spans);
  }
  for (const Spans& spans : p.keys) p.total_keys += rows_in(spans);
  for (WholeScores* scores : {&p.mask, &p.bias})
    scores->keys = scores->keys != 0 ? p.total_keys : 1;
  comm.agreed([&] {
    check_whole(context, p);
    cut_sequences(p);
    const Extent pairs = {p.desc.batch, p.desc.query_heads, p.desc.query_length, p.total_keys};
    p.desc.mask = p.brings(HEED_MPI_MASK) ? explicit_layout(p.desc.mask, pairs) : kNoScores;
    p.desc.bias = p.brings(HEED_MPI_BIAS) ? explicit_layout(p.desc.bias, pairs) : kNoScores;
    heed_score_layout& bias = p.backward.grad_bias;
    if (!p.wants(HEED_MPI_GRAD_BIAS)) bias = kNoScores;
    take_sizes(bias, p.desc.bias);
    bias = explicit_layout(bias, pairs);
    p.order = order_of(p);
    list_tensors(p);
  });
}

Tensors inputs_of(const Problem& p, const heed_attention_args& args,
                  const heed_attention_backward_args& backward) {
  Tensors inputs = {tensor_of(args.query, p.desc.query), tensor_of(args.key, p.desc.key),
                    tensor_of(args.value, p.desc.value)};
  inputs[kMask] = tensor_of(args.mask, p.desc.mask);
  inputs[kMask].layout.dtype = HEED_DTYPE_I8;
  inputs[kBias] = tensor_of(args.bias, p.desc.bias);
  inputs[kOut] = tensor_of(args.out, p.desc.out);
  inputs[kLse] = tensor_of(args.lse, p.desc.lse);
  inputs[kGradOut] = tensor_of(backward.grad_out, p.backward.grad_out);
  inputs[kGradLse] = tensor_of(backward.grad_lse, p.backward.grad_lse);
  return inputs;
}

}  // namespace heed::mpi
