#include "engine/mpi/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/mpi/placement.hpp"
#include "engine/mpi/tensor.hpp"
#include "engine/runtime/structs.hpp"

namespace heed::mpi {
namespace {

// ---- This rank's descriptor ---------------------------------------------------------------------

void check_choice(const char* field, std::uint32_t value, const char* kind, std::uint32_t most) {
  if (value > most)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %u; it must be %s, 0 to %u", field, value, kind,
         most);
}

void check_positions(const char* field, const std::int64_t* positions, std::uint32_t placement,
                     std::int64_t length) {
  const bool wanted = placement == HEED_MPI_POSITIONS;
  if (positions != nullptr && !wanted)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.%s is given with desc.placement %u; it must be NULL unless that is "
         "HEED_MPI_POSITIONS (2)",
         field, placement);
  if (positions == nullptr && wanted && length > 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is NULL with desc.placement HEED_MPI_POSITIONS (2)",
         field);
}

/// What this library does not do.
void check_supported(const heed_attention_desc& d, std::uint32_t tensors) {
  const auto refuse = [](const char* what) {
    fail(HEED_STATUS_UNSUPPORTED, "%s is not supported over ranks", what);
  };
  if (d.packed_queries != 0) refuse("a packed batch (desc.packed_queries)");
  if (d.packed_keys != 0) refuse("a packed batch (desc.packed_keys)");
  if (d.pages != 0) refuse("a cache in pages (desc.pages)");
  if (d.key.dtype > HEED_DTYPE_F16) refuse("a key of 8 bits (desc.key.dtype)");
  if (d.value.dtype > HEED_DTYPE_F16) refuse("a value of 8 bits (desc.value.dtype)");
  if (d.hard != 0) refuse("hard attention (desc.hard), which has no log-sum-exp to merge by,");
  if (d.weights_point != HEED_WEIGHTS_NONE) refuse("an output of weights (desc.weights_point)");
  if (d.sum_columns != 0) refuse("an output of column sums (desc.sum_columns)");
  if ((tensors & HEED_MPI_KEY_LENGTHS) != 0 &&
      (d.causal == HEED_CAUSAL_BOTTOM_RIGHT || d.alignment == HEED_ALIGNMENT_BOTTOM_RIGHT))
    refuse("bottom-right alignment with HEED_MPI_KEY_LENGTHS, an offset for each sequence,");
}

/// Of a mask or bias that runs do not bring: one element, however long sequences are.
constexpr heed_score_layout kNoScores = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0};

/// The shard by itself, as the dense checks see it: masks and biases have the keys of all ranks.
heed_attention_desc shard_alone(heed_attention_desc desc) {
  desc.mask = desc.bias = kNoScores;
  if (desc.causal == HEED_CAUSAL_NONE && desc.alignment == HEED_ALIGNMENT_DEFAULT)
    desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
  return desc;
}

void read_desc(Problem& p, const heed_context* context, const heed_mpi_attention_desc* desc) {
  Communicator::check_thread();
  const heed_context& c = required(context, "context");
  p.given = read_struct(desc, "desc");
  p.desc = read_struct(p.given.attention, "desc.attention");
  check_choice("placement", p.given.placement, "a heed_mpi_placement", HEED_MPI_POSITIONS);
  check_choice("queries", p.given.queries, "a heed_mpi_queries", HEED_MPI_QUERIES_EVERYWHERE);
  check_choice("tensors", p.given.tensors, "heed_mpi_tensors, or-ed", 31);
  if (p.given.head_ranks < 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.head_ranks is %lld; it must be at least 0",
         static_cast<long long>(p.given.head_ranks));
  const double intensity = p.given.flops_per_byte;
  if (!(intensity >= 0) || std::isinf(intensity))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.flops_per_byte is %g; it must be finite and above 0, or 0 for the default",
         intensity);
  check_supported(p.desc, p.given.tensors);
  p.shard = make_dense_plan(c, shard_alone(p.desc));
  if (!p.everywhere())
    check_positions("query_positions", p.given.query_positions, p.given.placement,
                    p.desc.query_length);
  else if (p.given.query_positions != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.query_positions is given; it must be NULL with HEED_MPI_QUERIES_EVERYWHERE");
  check_positions("key_positions", p.given.key_positions, p.given.placement, p.desc.key_length);
}

void fill_defaults(Problem& p) {
  heed_attention_desc& d = p.desc;
  if (d.key_heads == 0) d.key_heads = d.query_heads;
  if (d.value_features == 0) d.value_features = d.features;
  if (p.given.flops_per_byte == 0) p.given.flops_per_byte = 160;
  p.float64 = d.query.dtype == HEED_DTYPE_F64;
  const Extent query = {d.batch, d.query_heads, d.query_length, d.features};
  const Extent key = {d.batch, d.key_heads, d.key_length, d.features};
  if (d.lse.dtype == HEED_DTYPE_DEFAULT) d.lse.dtype = p.real();
  if (d.bias.dtype == HEED_DTYPE_DEFAULT) d.bias.dtype = p.real();
  d.query = explicit_layout(d.query, query);
  d.key = explicit_layout(d.key, key);
  d.value = explicit_layout(d.value, {d.batch, d.key_heads, d.key_length, d.value_features});
  d.out = explicit_layout(d.out, {d.batch, d.query_heads, d.query_length, d.value_features});
  d.lse = explicit_layout(d.lse, {d.batch, d.query_heads, d.query_length, 1});
}

// ---- The same on all ranks ----------------------------------------------------------------------

/// A field that must be the same on all ranks.
struct Field {
  const char* name;
  bool real;
  std::int64_t bits;
};

Field whole(const char* name, std::int64_t value) { return {name, false, value}; }
Field real(const char* name, double value) {
  Field field = {name, true, 0};
  std::memcpy(&field.bits, &value, sizeof value);
  return field;
}

void print(const Field& field, std::int64_t bits, char (&text)[32]) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  if (field.real)
    std::snprintf(text, sizeof text, "%.17g", value);
  else
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(bits));
}

void compare(const Communicator& comm, const Problem& p) {
  const heed_attention_desc& d = p.desc;
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
                          real("temperature", d.temperature),
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
                          real("flops_per_byte", p.given.flops_per_byte),
                          whole("query_length", p.everywhere() ? d.query_length : 0)};
  constexpr std::size_t kCount = sizeof fields / sizeof *fields;
  std::int64_t first[kCount];
  for (std::size_t i = 0; i < kCount; ++i) first[i] = fields[i].bits;
  check(MPI_Bcast(first, static_cast<int>(kCount), MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  comm.agreed([&] {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (fields[i].bits == first[i]) continue;
      char own[32], other[32];
      print(fields[i], fields[i].bits, own);
      print(fields[i], first[i], other);
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %s; on rank 0 it is %s, and must be the same",
           fields[i].name, own, other);
    }
  });
}

// ---- The whole
// ------------------------------------------------------------------------------------

/// What the dense checks say of the whole problem: where positions count from, and how far masks
/// and biases reach. Tensors are left out.
void check_whole(const heed_context& context, const Problem& p) {
  heed_attention_desc whole = p.desc;
  const auto plain = [](heed_layout& layout) { layout = {layout.dtype, 0, 0, 0, 0, 0}; };
  for (heed_layout* layout : {&whole.query, &whole.key, &whole.value, &whole.out, &whole.lse})
    plain(*layout);
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
}

/// Past all positions, and far from overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 42;

Order order_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  const bool causal = d.causal != HEED_CAUSAL_NONE;
  const std::uint32_t choice = causal ? d.causal : d.alignment;  // the enums mean the same
  const std::int64_t given = causal ? d.causal_offset : d.alignment_offset;
  const std::int64_t offset =
      choice == HEED_ALIGNMENT_BOTTOM_RIGHT ? p.total_keys - p.total_queries : given;
  const bool left = d.window != 0 && d.window_left >= 0;
  const bool right = causal || (d.window != 0 && d.window_right >= 0);
  const auto clamped = [](std::int64_t x) { return std::clamp(x, -kFar, kFar); };
  Order order = {};
  order.matters = left || right || p.brings(HEED_MPI_ALIBI_SLOPES);
  order.offset = clamped(offset);
  order.first = left ? clamped(order.offset - clamped(d.window_left)) : -kFar;
  order.end = right ? clamped(order.offset + (causal ? 0 : clamped(d.window_right)) + 1) : kFar;
  return order;
}

}  // namespace

void check(heed_status status) {
  if (status != HEED_STATUS_OK) fail(status, "%s", heed_last_error());
}

DensePlan make_dense_plan(const heed_context& context, const heed_attention_desc& desc) {
  heed_attention_plan* plan = nullptr;
  check(heed_attention_plan_create(&context, &desc, &plan));
  return DensePlan(plan);
}

Problem make_problem(const Communicator& comm, const heed_context* context,
                     const heed_mpi_attention_desc* desc) {
  Problem p = {};
  comm.agreed([&] { read_desc(p, context, desc), fill_defaults(p); });
  compare(comm, p);
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
  comm.agreed([&] {
    check_whole(*context, p);
    const Extent pairs = {p.desc.batch, p.desc.query_heads, p.desc.query_length, p.total_keys};
    p.desc.mask = p.brings(HEED_MPI_MASK) ? explicit_layout(p.desc.mask, pairs) : kNoScores;
    p.desc.bias = p.brings(HEED_MPI_BIAS) ? explicit_layout(p.desc.bias, pairs) : kNoScores;
  });
  p.order = order_of(p);
  return p;
}

}  // namespace heed::mpi
