#include "engine/mpi/problem.hpp"

#include <algorithm>

#include "engine/mpi/tensor.hpp"

namespace heed::mpi {
namespace {

// ---- The same on all ranks ----------------------------------------------------------------------

void compare(const Communicator& comm, const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const bool backward = p.gradients != 0;
  const heed_score_layout bias = p.wants(HEED_MPI_GRAD_BIAS) ? d.bias : kNoScores;
  const Field fields[] = {whole("batch", d.batch),
                          whole("query_heads", d.query_heads),
                          whole("key_heads", d.key_heads),
                          whole("features", d.features),
                          whole("value_features", d.value_features),
                          whole("query.dtype", d.query.dtype),
                          whole("key.dtype", d.key.dtype),
                          whole("value.dtype", d.value.dtype),
                          whole("out.dtype", d.out.dtype),
                          real("scale", d.scale),
                          real("softcap", d.softcap),
                          whole("score", d.score),
                          whole("activation", d.activation),
                          real("slope", d.slope),
                          real("temperature", d.temperature),
                          real("dropout", d.dropout),
                          whole("causal", d.causal),
                          whole("causal_offset", d.causal_offset),
                          whole("alignment", d.alignment),
                          whole("alignment_offset", d.alignment_offset),
                          whole("window", d.window),
                          whole("window_left", d.window_left),
                          whole("window_right", d.window_right),
                          whole("placement", p.given.placement),
                          whole("queries", p.given.queries),
                          whole("tensors", p.given.tensors),
                          whole("head_ranks", p.given.head_ranks),
                          whole("sequences", p.given.sequences),
                          real("flops_per_byte", p.given.flops_per_byte),
                          whole("query_length", p.everywhere() ? d.query_length : 0),
                          whole("gradients", p.gradients),
                          whole("accumulate", p.backward.accumulate),
                          whole("lse.dtype", backward ? d.lse.dtype : 0),
                          whole("grad_out.dtype", p.backward.grad_out.dtype),
                          whole("grad_lse.dtype", p.backward.grad_lse.dtype),
                          whole("bias.batch", bias.batch == 0 ? d.batch : bias.batch),
                          whole("bias.heads", bias.heads == 0 ? d.query_heads : bias.heads),
                          whole("bias.keys", bias.keys == 1 ? 1 : 0)};
  mpi::compare(comm, fields);
}

/// Where sequences begin, too.
void compare_sequences(const Communicator& comm, const Problem& p) {
  if (p.given.sequences == 0) return;
  mpi::compare(comm, "cu_seqlens_q", p.given.cu_seqlens_q, p.given.sequences + 1);
  mpi::compare(comm, "cu_seqlens_k", p.given.cu_seqlens_k, p.given.sequences + 1);
}

/// Along which axes masks and biases do not repeat on all ranks. Keys are counted later.
void unite_scores(const Communicator& comm, Problem& p) {
  constexpr int kFlags = 8;
  const auto varies = [](std::int64_t size) { return size == 1 ? 0 : 1; };
  const heed_score_layout& mask = p.brings(HEED_MPI_MASK) ? p.desc.mask : kNoScores;
  const heed_score_layout& bias = p.brings(HEED_MPI_BIAS) ? p.desc.bias : kNoScores;
  const int own[kFlags] = {varies(mask.batch), varies(mask.heads), varies(mask.rows),
                           varies(mask.keys),  varies(bias.batch), varies(bias.heads),
                           varies(bias.rows),  varies(bias.keys)};
  int all[kFlags] = {};
  check(MPI_Allreduce(own, all, kFlags, MPI_INT, MPI_MAX, comm.get()), "MPI_Allreduce");
  const auto united = [&](const int* flags) {
    return WholeScores{flags[0] != 0 ? p.desc.batch : 1, flags[1] != 0 ? p.desc.query_heads : 1,
                       flags[3], flags[2] != 0};
  };
  p.mask = united(all);
  p.bias = united(all + kFlags / 2);
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
  make_dense_plan(context, whole);
  if (p.brings(HEED_MPI_MASK)) whole.mask = p.desc.mask;
  if (p.brings(HEED_MPI_BIAS)) whole.bias = p.desc.bias;
  whole.query_length = p.desc.query_length;
  whole.causal = HEED_CAUSAL_NONE;
  whole.causal_offset = whole.alignment_offset = 0;
  whole.alignment = HEED_ALIGNMENT_TOP_LEFT;
  make_dense_plan(context, whole);
  if (!p.wants(HEED_MPI_GRAD_BIAS)) return;
  heed_attention_backward_desc gradients = p.backward;
  gradients.attention = &whole;
  for (heed_layout* layout : {&gradients.grad_out, &gradients.grad_lse, &gradients.grad_query,
                              &gradients.grad_key, &gradients.grad_value})
    *layout = unset_layout(layout->dtype);
  make_dense_plan(context, gradients);
}

/// Cuts spans where sequences of a packed batch begin.
void cut_sequences(Problem& p) {
  if (p.given.sequences == 0) return;
  const auto sequences = static_cast<std::size_t>(p.given.sequences);
  const auto check_end = [&](const char* field, const std::int32_t* begins, std::int64_t rows) {
    if (begins[sequences] != rows)
      refuse("desc.%s[%zu] is %d; it must be %lld, the rows of all ranks", field, sequences,
             begins[sequences], lld(rows));
  };
  const std::int32_t* const q = p.given.cu_seqlens_q;
  const std::int32_t* const k = p.given.cu_seqlens_k;
  check_end("cu_seqlens_q", q, p.total_queries);
  check_end("cu_seqlens_k", k, p.total_keys);
  const bool ordered = p.desc.window != 0 || p.brings(HEED_MPI_ALIBI_SLOPES);
  const bool stands = p.desc.causal != HEED_CAUSAL_NONE || p.desc.alignment != 0;
  for (std::size_t n = 0; ordered && !stands && n < sequences; ++n)
    if (q[n + 1] - q[n] != k[n + 1] - k[n])
      refuse(
          "desc.alignment is 0, and sequence %zu has %d queries and %d keys; it must say where "
          "queries stand",
          n, q[n + 1] - q[n], k[n + 1] - k[n]);
  cut({"query", 0, nullptr}, q, sequences, p.queries);
  cut({"key", 0, nullptr}, k, sequences, p.keys);
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
  if (p.given.sequences == 0) order.offsets = {offset(p.total_queries, p.total_keys)};
  const std::int32_t* const q = p.given.cu_seqlens_q;
  const std::int32_t* const k = p.given.cu_seqlens_k;
  for (std::int64_t n = 0; n < p.given.sequences; ++n)
    order.offsets.push_back(offset(q[n + 1] - q[n], k[n + 1] - k[n]) + k[n] - q[n]);
  order.first = left ? -clamped(d.window_left) : -kUnbounded;
  order.end = right ? (causal ? 0 : clamped(d.window_right)) + 1 : kUnbounded;
  return order;
}

}  // namespace

double Problem::flops_per_pair() const {
  const double both = static_cast<double>(desc.features + desc.value_features);
  const double products =
      gradients == 0 ? 2 * both : 4 * both + 2 * static_cast<double>(desc.features);
  return products * static_cast<double>(desc.batch) * static_cast<double>(desc.query_heads);
}

namespace {

/// Of descriptors that all ranks have read.
void complete(Problem& p, const Communicator& comm, const heed_context& context) {
  unite_scores(comm, p);
  p.keys = gather_spans(comm, p.given.placement, {"key", p.desc.key_length, p.given.key_positions});
  if (p.everywhere()) {
    comm.agreed([&] {
      p.queries.assign(static_cast<std::size_t>(comm.size()), {{0, p.desc.query_length, 0}});
    });
    p.total_queries = p.desc.query_length;
  } else {
    p.queries = gather_spans(comm, p.given.placement,
                             {"query", p.desc.query_length, p.given.query_positions});
    for (const Spans& spans : p.queries) p.total_queries += rows_in(spans);
  }
  for (const Spans& spans : p.keys) p.total_keys += rows_in(spans);
  for (WholeScores* scores : {&p.mask, &p.bias})
    scores->keys = scores->keys != 0 ? p.total_keys : 1;
  comm.agreed([&] {
    check_whole(context, p);
    cut_sequences(p);
    p.query_begins = {0, p.total_queries};
    p.key_begins = {0, p.total_keys};
    if (p.given.sequences > 0) {
      p.query_begins.assign(p.given.cu_seqlens_q, p.given.cu_seqlens_q + p.given.sequences + 1);
      p.key_begins.assign(p.given.cu_seqlens_k, p.given.cu_seqlens_k + p.given.sequences + 1);
    }
    const Extent pairs = {p.desc.batch, p.desc.query_heads, p.desc.query_length, p.total_keys};
    p.desc.mask = p.brings(HEED_MPI_MASK) ? explicit_layout(p.desc.mask, pairs) : kNoScores;
    p.desc.bias = p.brings(HEED_MPI_BIAS) ? explicit_layout(p.desc.bias, pairs) : kNoScores;
    heed_score_layout& bias = p.backward.grad_bias;
    if (!p.wants(HEED_MPI_GRAD_BIAS)) bias = kNoScores;
    take_sizes(bias, p.desc.bias);
    bias = explicit_layout(bias, pairs);
    p.order = order_of(p);
  });
}

}  // namespace

Problem make_problem(const Communicator& comm, const heed_context* context,
                     const std::function<void(Problem&, const heed_context&)>& read_desc) {
  Problem p = {};
  comm.agreed([&] {
    Communicator::check_thread();
    read_desc(p, required(context, "context"));
  });
  compare(comm, p);
  compare_sequences(comm, p);
  complete(p, comm, *context);
  return p;
}

}  // namespace heed::mpi
