// This rank's descriptor: read and checked, as far as it can be without the others.
#include <cmath>
#include <initializer_list>

#include "engine/mpi/problem.hpp"
#include "engine/mpi/rounds.hpp"
#include "engine/mpi/tensor.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/dropout.hpp"

namespace heed::mpi {
namespace {

void check_positions(const char* field, const std::int64_t* positions, std::uint32_t placement,
                     std::int64_t length) {
  const bool wanted = placement == HEED_MPI_POSITIONS;
  if (positions != nullptr && !wanted)
    refuse(
        "desc.%s is given with desc.placement %u; it must be NULL unless that is "
        "HEED_MPI_POSITIONS (2)",
        field, placement);
  if (positions == nullptr && wanted && length > 0)
    refuse("desc.%s is NULL with desc.placement HEED_MPI_POSITIONS (2)", field);
}

/// Refuses options that attention over ranks lacks.
void check_supported(const heed_attention_desc& d, std::uint32_t tensors) {
  const auto refuse_option = [](const char* what) {
    fail(HEED_STATUS_UNSUPPORTED, "%s is not supported over ranks", what);
  };
  const auto check_not_packed = [](const char* field, std::int64_t rows) {
    if (rows != 0)
      fail(HEED_STATUS_UNSUPPORTED,
           "desc.%s is %lld; over ranks it must be 0, and desc.sequences says that a batch is "
           "packed",
           field, lld(rows));
  };
  check_not_packed("packed_queries", d.packed_queries);
  check_not_packed("packed_keys", d.packed_keys);
  if (d.pages != 0) refuse_option("a cache in pages (desc.pages)");
  if (d.key.dtype > HEED_DTYPE_F16) refuse_option("a key of 8 bits (desc.key.dtype)");
  if (d.value.dtype > HEED_DTYPE_F16) refuse_option("a value of 8 bits (desc.value.dtype)");
  if (d.hard != 0)
    refuse_option("hard attention (desc.hard), which has no log-sum-exp to merge by,");
  if (d.weights_point != HEED_WEIGHTS_NONE)
    refuse_option("an output of weights (desc.weights_point)");
  if (d.sum_columns != 0) refuse_option("an output of column sums (desc.sum_columns)");
  if ((tensors & HEED_MPI_KEY_LENGTHS) != 0 &&
      (d.causal == HEED_CAUSAL_BOTTOM_RIGHT || d.alignment == HEED_ALIGNMENT_BOTTOM_RIGHT))
    refuse_option("bottom-right alignment with HEED_MPI_KEY_LENGTHS, an offset for each sequence,");
}

/// Whether runs bring weights of scores must go with the scores.
void check_score_weights(const Problem& p) {
  const bool brings = p.brings(HEED_MPI_SCORE_WEIGHTS);
  const std::uint32_t score = p.desc.score;
  if (brings && score != HEED_SCORE_ADDITIVE && score != HEED_SCORE_COSINE)
    refuse(
        "desc.tensors has HEED_MPI_SCORE_WEIGHTS (32); desc.score is %u, neither "
        "HEED_SCORE_ADDITIVE (2) nor HEED_SCORE_COSINE (3)",
        score);
  if (!brings && score == HEED_SCORE_ADDITIVE)
    refuse("desc.tensors lacks HEED_MPI_SCORE_WEIGHTS (32); desc.score is HEED_SCORE_ADDITIVE (2)");
}

/// As far as it can be checked without the others' rows.
void check_sequences(const Problem& p) {
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t sequences = p.given.sequences;
  if (sequences < 0 || sequences > kMost)
    refuse("desc.sequences is %lld; it must be 0 to %lld", lld(sequences), lld(kMost));
  const auto check_begins = [&](const char* field, const std::int32_t* begins) {
    if ((begins == nullptr) != (sequences == 0))
      refuse("desc.%s is %s with desc.sequences %lld", field, begins == nullptr ? "NULL" : "given",
             lld(sequences));
    for (std::int64_t i = 0; begins != nullptr && i <= sequences; ++i)
      if (i == 0 ? begins[0] != 0 : begins[i] < begins[i - 1])
        refuse("desc.%s[%lld] is %d; it must be %s%d", field, lld(i), begins[i],
               i == 0 ? "" : "at least ", i == 0 ? 0 : begins[i - 1]);
  };
  check_begins("cu_seqlens_q", p.given.cu_seqlens_q);
  check_begins("cu_seqlens_k", p.given.cu_seqlens_k);
  if (sequences == 0) return;
  if (p.desc.batch != 1)
    refuse("desc.batch is %lld with desc.sequences %lld; a packed batch has a batch of 1",
           lld(p.desc.batch), lld(sequences));
}

/// The shard by itself, as the dense checks see it: masks and biases have the keys of all ranks.
heed_attention_desc shard_alone(heed_attention_desc desc) {
  desc.mask = desc.bias = kNoScores;
  if (desc.causal == HEED_CAUSAL_NONE && desc.alignment == HEED_ALIGNMENT_DEFAULT)
    desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
  return desc;
}

/// Structs have these names in messages.
Problem read_desc(const heed_context& c, const heed_mpi_attention_desc* desc, const char* name,
                  const char* attention) {
  Problem p = {};
  p.given = read_struct(desc, name);
  p.desc = read_struct(p.given.attention, attention);
  check_choice("placement", p.given.placement, "a heed_mpi_placement", HEED_MPI_POSITIONS);
  check_choice("queries", p.given.queries, "a heed_mpi_queries", HEED_MPI_QUERIES_EVERYWHERE);
  check_choice("tensors", p.given.tensors, "heed_mpi_tensors, or-ed", 63);
  if (p.given.head_ranks < 0)
    refuse("desc.head_ranks is %lld; it must be at least 0", lld(p.given.head_ranks));
  const double intensity = p.given.flops_per_byte;
  if (!(intensity >= 0) || std::isinf(intensity))
    refuse("desc.flops_per_byte is %g; it must be finite and above 0, or 0 for the default",
           intensity);
  check_supported(p.desc, p.given.tensors);
  check_sequences(p);
  const heed_attention_desc alone = shard_alone(p.desc);
  make<heed_attention_plan>(&c, &alone);  // the dense checks
  check_score_weights(p);
  if (!p.everywhere())
    check_positions("query_positions", p.given.query_positions, p.given.placement,
                    p.desc.query_length);
  else if (p.given.query_positions != nullptr)
    refuse("desc.query_positions is given; it must be NULL with HEED_MPI_QUERIES_EVERYWHERE");
  check_positions("key_positions", p.given.key_positions, p.given.placement, p.desc.key_length);
  return p;
}

/// The gradients that are asked for must be of something that runs bring.
void check_gradients(const Problem& p) {
  check_choice("gradients", p.gradients, "heed_mpi_gradients, or-ed", 511);
  const auto check_input = [&](heed_mpi_gradients gradient, heed_mpi_tensors tensor,
                               const char* name) {
    if (p.wants(gradient) && !p.brings(tensor))
      refuse("desc.gradients has HEED_MPI_GRAD_%s (%d); desc.tensors lacks HEED_MPI_%s (%d)", name,
             static_cast<int>(gradient), name, static_cast<int>(tensor));
  };
  check_input(HEED_MPI_GRAD_BIAS, HEED_MPI_BIAS, "BIAS");
  check_input(HEED_MPI_GRAD_SINKS, HEED_MPI_SINKS, "SINKS");
  check_input(HEED_MPI_GRAD_ALIBI_SLOPES, HEED_MPI_ALIBI_SLOPES, "ALIBI_SLOPES");
  check_input(HEED_MPI_GRAD_SCORE_WEIGHTS, HEED_MPI_SCORE_WEIGHTS, "SCORE_WEIGHTS");
}

void read_gradients(Problem& p, const heed_context& c,
                    const heed_mpi_attention_backward_desc& desc) {
  constexpr std::uint32_t kUsual = HEED_MPI_GRAD_QUERY | HEED_MPI_GRAD_KEY | HEED_MPI_GRAD_VALUE;
  p.gradients = desc.gradients == 0 ? kUsual : desc.gradients;
  check_gradients(p);
  check_reserved("desc.reserved", desc.reserved);
  p.backward = {(std::uint32_t)sizeof(heed_attention_backward_desc),
                desc.accumulate,
                nullptr,
                desc.grad_out,
                desc.grad_lse,
                desc.grad_query,
                desc.grad_key,
                desc.grad_value,
                desc.grad_bias};
  heed_attention_desc alone = shard_alone(p.desc);
  heed_attention_backward_desc shard = p.backward;
  shard.attention = &alone;
  shard.grad_bias = kNoScores;
  make<heed_attention_backward_plan>(&c, &shard);
}

void fill_defaults(Problem& p) {
  heed_attention_desc& d = p.desc;
  if (d.key_heads == 0) d.key_heads = d.query_heads;
  if (d.value_features == 0) d.value_features = d.features;
  if (p.given.flops_per_byte == 0) p.given.flops_per_byte = 160;
  heed_attention_backward_desc& g = p.backward;
  for (heed_score_layout* scores : {&d.bias, &g.grad_bias})
    if (scores->dtype == HEED_DTYPE_DEFAULT) scores->dtype = p.real();
  const Extent queries = {d.batch, d.query_heads, d.query_length, 0};
  const Extent keys = {d.batch, d.key_heads, d.key_length, 0};
  const auto fill = [&](Extent extent, std::int64_t features,
                        std::initializer_list<heed_layout*> layouts) {
    extent.features = features;
    for (heed_layout* layout : layouts) {
      if (layout->dtype == HEED_DTYPE_DEFAULT) layout->dtype = p.real();
      *layout = explicit_layout(*layout, extent);
    }
  };
  fill(queries, d.features, {&d.query, &g.grad_query});
  fill(queries, d.value_features, {&d.out, &g.grad_out});
  fill(queries, 1, {&d.lse, &g.grad_lse});
  fill(keys, d.features, {&d.key, &g.grad_key});
  fill(keys, d.value_features, {&d.value, &g.grad_value});
}

}  // namespace

Problem read(const heed_context& c, const heed_mpi_attention_desc* desc) {
  Problem p = read_desc(c, desc, "desc", "desc.attention");
  fill_defaults(p);
  return p;
}

Problem read(const heed_context& c, const heed_mpi_attention_backward_desc* desc) {
  const heed_mpi_attention_backward_desc given = read_struct(desc, "desc");
  Problem p = read_desc(c, given.attention, "desc.attention", "desc.attention->attention");
  read_gradients(p, c, given);
  fill_defaults(p);
  return p;
}

// ---- Arguments of runs --------------------------------------------------------------------------

namespace {

/// Throws unless a tensor is given as the flags of desc.`list`, `promised`, say by its own flag:
/// not without that, and with it where it is needed.
void check_promised(const char* list, std::uint32_t promised, const char* field,
                    const void* pointer, std::uint32_t dtype, std::uint32_t flag, const char* name,
                    bool needed) {
  const bool has_flag = (promised & flag) != 0;
  if (pointer != nullptr && !has_flag)
    refuse("%s is given; desc.%s of the plan lacks %s (%u)", field, list, name, flag);
  if (pointer == nullptr && has_flag && needed)
    refuse("%s is NULL; desc.%s of the plan has %s (%u)", field, list, name, flag);
  check_tensor(field, pointer, dtype, false);
}
#define CHECK_PROMISED(list, field, dtype, flag, needed) \
  check_promised(#list, list, "args." #field, args.field, dtype, flag, #flag, needed)

void check_lengths(const Plan& plan, const std::int32_t* lengths) {
  const std::vector<std::int64_t>& begins = plan.problem.key_begins;
  const bool packed = plan.problem.given.sequences > 0;
  const std::int64_t count = packed ? plan.problem.given.sequences : plan.problem.desc.batch;
  for (std::int64_t b = 0; lengths != nullptr && b < count; ++b) {
    const std::size_t sequence = packed ? static_cast<std::size_t>(b) : 0;
    const std::int64_t most = begins[sequence + 1] - begins[sequence];
    if (lengths[b] < 0 || lengths[b] > most)
      refuse("args.key_lengths[%lld] is %d; it must be 0 to %lld, the keys of %s", lld(b),
             lengths[b], lld(most), packed ? "the sequence" : "all ranks");
  }
}

template <class Pointer>
void check_absent(const char* field, Pointer given) {
  if (given != nullptr)
    fail(HEED_STATUS_UNSUPPORTED, "args.%s is given, which is not supported over ranks", field);
}

bool has_rows(const heed_attention_desc& d) {
  return d.batch > 0 && d.query_heads > 0 && d.query_length > 0;
}

/// The size of 0 that all ranks have of a tensor with these heads.
const char* empty_of(const heed_attention_desc& d, std::int64_t heads, const char* name) {
  return d.batch == 0 ? "batch" : (heads == 0 ? name : nullptr);
}

void check_attention(const Plan& plan, const heed_attention_args& args) {
  const heed_attention_desc& d = plan.problem.desc;
  check_reserved("args.reserved", args.reserved);
  const bool rows = has_rows(d);
  const bool keys = d.batch > 0 && d.key_heads > 0 && d.key_length > 0;
  const char* const no_queries = empty_of(d, d.query_heads, "query_heads");
  const char* const no_keys = empty_of(d, d.key_heads, "key_heads");
  check_tensor("args.query", args.query, d.query.dtype, rows, no_queries);
  check_tensor("args.key", args.key, d.key.dtype, keys, no_keys);
  check_tensor("args.value", args.value, d.value.dtype, keys, no_keys);
  check_tensor("args.out", args.out, d.out.dtype, rows, no_queries);
  check_tensor("args.lse", args.lse, d.lse.dtype, false);
  const bool pairs = rows && plan.problem.total_keys > 0;
  const bool heads = d.query_heads > 0;
  const std::uint32_t real = plan.problem.real();
  const std::uint32_t tensors = plan.problem.given.tensors;
  CHECK_PROMISED(tensors, mask, HEED_DTYPE_I8, HEED_MPI_MASK, pairs);
  CHECK_PROMISED(tensors, bias, d.bias.dtype, HEED_MPI_BIAS, pairs);
  CHECK_PROMISED(tensors, alibi_slopes, real, HEED_MPI_ALIBI_SLOPES, heads);
  CHECK_PROMISED(tensors, sinks, real, HEED_MPI_SINKS, heads);
  CHECK_PROMISED(tensors, score_weights, real, HEED_MPI_SCORE_WEIGHTS, heads);
  CHECK_PROMISED(tensors, key_lengths, HEED_DTYPE_F32, HEED_MPI_KEY_LENGTHS, d.batch > 0);
  check_lengths(plan, args.key_lengths);
  check_seeds(resolve_dropout(d.dropout, false), args.dropout_seed, args.dropout_offset);
  check_absent("cu_seqlens_q", args.cu_seqlens_q);
  check_absent("cu_seqlens_k", args.cu_seqlens_k);
  check_absent("score_function", args.score_function);
  check_absent("score_user", args.score_user);
  check_absent("weight_rows", args.weight_rows);
  check_absent("weights", args.weights);
  check_absent("column_sums", args.column_sums);
  check_absent("block_table", args.block_table);
  check_absent("first_keys", args.first_keys);
  check_absent("dropout_origin", args.dropout_origin);
  check_absent("key_scales", args.key_scales);
  check_absent("value_scales", args.value_scales);
}

/// Gradients that are wanted may be NULL, others must.
void check_gradients(const Plan& plan, const heed_attention_backward_args& args) {
  const heed_attention_backward_desc& d = plan.problem.backward;
  const std::uint32_t real = plan.problem.real();
  const std::uint32_t gradients = plan.problem.gradients;
  CHECK_PROMISED(gradients, grad_query, d.grad_query.dtype, HEED_MPI_GRAD_QUERY, false);
  CHECK_PROMISED(gradients, grad_key, d.grad_key.dtype, HEED_MPI_GRAD_KEY, false);
  CHECK_PROMISED(gradients, grad_value, d.grad_value.dtype, HEED_MPI_GRAD_VALUE, false);
  CHECK_PROMISED(gradients, grad_bias, d.grad_bias.dtype, HEED_MPI_GRAD_BIAS, false);
  CHECK_PROMISED(gradients, grad_sinks, real, HEED_MPI_GRAD_SINKS, false);
  CHECK_PROMISED(gradients, grad_alibi_slopes, real, HEED_MPI_GRAD_ALIBI_SLOPES, false);
  CHECK_PROMISED(gradients, grad_score_weights, real, HEED_MPI_GRAD_SCORE_WEIGHTS, false);
  CHECK_PROMISED(gradients, grad_scale, real, HEED_MPI_GRAD_SCALE, false);
  CHECK_PROMISED(gradients, grad_temperature, real, HEED_MPI_GRAD_TEMPERATURE, false);
}
#undef CHECK_PROMISED

}  // namespace

heed_attention_args read_args(const Plan& plan, const heed_attention_args* given,
                              const void* workspace, std::size_t bytes) {
  const heed_attention_args args = read_struct(given, "args");
  check_workspace(plan.workspace_bytes, workspace, bytes);
  check_attention(plan, args);
  return args;
}

BackwardArgs read_args(const Plan& plan, const heed_attention_backward_args* given,
                       const void* workspace, std::size_t bytes) {
  const heed_attention_backward_args args = read_struct(given, "args");
  const heed_attention_args attention = read_struct(args.attention, "args.attention");
  check_workspace(plan.workspace_bytes, workspace, bytes);
  check_reserved("args.reserved", args.reserved);
  check_attention(plan, attention);
  const bool rows = has_rows(plan.problem.desc);
  if (rows && attention.lse == nullptr)
    refuse("args.lse is NULL; gradients need what heed_mpi_attention wrote there");
  check_tensor("args.grad_out", args.grad_out, plan.problem.backward.grad_out.dtype, rows,
               empty_of(plan.problem.desc, plan.problem.desc.query_heads, "query_heads"));
  check_tensor("args.grad_lse", args.grad_lse, plan.problem.backward.grad_lse.dtype, false);
  check_gradients(plan, args);
  check_absent("score_gradient", args.score_gradient);
  return {args, attention};
}

}  // namespace heed::mpi
