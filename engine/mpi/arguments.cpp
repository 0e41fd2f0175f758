#include "engine/mpi/rounds.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

void check_given(const Plan& plan, const char* field, const void* pointer, heed_mpi_tensors tensor,
                 const char* name, bool needed) {
  const bool promised = plan.problem.brings(tensor);
  if (pointer != nullptr && !promised)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is given; desc.tensors of the plan lacks %s (%d)",
         field, name, static_cast<int>(tensor));
  if (pointer == nullptr && promised && needed)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is NULL; desc.tensors of the plan has %s (%d)",
         field, name, static_cast<int>(tensor));
}

void check_lengths(const Plan& plan, const std::int32_t* lengths) {
  const std::vector<std::int64_t>& begins = plan.problem.key_begins;
  const bool packed = plan.problem.given.sequences > 0;
  const std::int64_t count = packed ? plan.problem.given.sequences : plan.problem.desc.batch;
  for (std::int64_t b = 0; lengths != nullptr && b < count; ++b) {
    const std::size_t sequence = packed ? static_cast<std::size_t>(b) : 0;
    const std::int64_t most = begins[sequence + 1] - begins[sequence];
    if (lengths[b] < 0 || lengths[b] > most)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.key_lengths[%lld] is %d; it must be 0 to %lld, the keys of %s",
           static_cast<long long>(b), lengths[b], static_cast<long long>(most),
           packed ? "the sequence" : "all ranks");
  }
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
  check_tensor("query", args.query, d.query.dtype, rows, no_queries);
  check_tensor("key", args.key, d.key.dtype, keys, no_keys);
  check_tensor("value", args.value, d.value.dtype, keys, no_keys);
  check_tensor("out", args.out, d.out.dtype, rows, no_queries);
  check_tensor("lse", args.lse, d.lse.dtype, false);
  check_tensor("bias", args.bias, d.bias.dtype, false);
  const bool pairs = rows && plan.problem.total_keys > 0;
  check_given(plan, "mask", args.mask, HEED_MPI_MASK, "HEED_MPI_MASK", pairs);
  check_given(plan, "bias", args.bias, HEED_MPI_BIAS, "HEED_MPI_BIAS", pairs);
  check_given(plan, "alibi_slopes", args.alibi_slopes, HEED_MPI_ALIBI_SLOPES,
              "HEED_MPI_ALIBI_SLOPES", d.query_heads > 0);
  check_given(plan, "sinks", args.sinks, HEED_MPI_SINKS, "HEED_MPI_SINKS", d.query_heads > 0);
  check_given(plan, "key_lengths", args.key_lengths, HEED_MPI_KEY_LENGTHS, "HEED_MPI_KEY_LENGTHS",
              d.batch > 0);
  check_lengths(plan, args.key_lengths);
  const struct {
    const char* field;
    bool given;
  } others[] = {{"cu_seqlens_q", args.cu_seqlens_q != nullptr},
                {"cu_seqlens_k", args.cu_seqlens_k != nullptr},
                {"score_function", args.score_function != nullptr},
                {"score_user", args.score_user != nullptr},
                {"weight_rows", args.weight_rows != nullptr},
                {"weights", args.weights != nullptr},
                {"column_sums", args.column_sums != nullptr},
                {"block_table", args.block_table != nullptr},
                {"key_scales", args.key_scales != nullptr},
                {"value_scales", args.value_scales != nullptr}};
  for (const auto& other : others)
    if (other.given)
      fail(HEED_STATUS_UNSUPPORTED, "args.%s is given, which is not supported over ranks",
           other.field);
}

/// Gradients that are wanted may be NULL, others must.
void check_gradients(const Plan& plan, const heed_attention_backward_args& args) {
  const heed_attention_backward_desc& d = plan.problem.backward;
  const std::uint32_t real = plan.problem.real();
  const struct {
    const char* field;
    const void* pointer;
    std::uint32_t dtype;
    heed_mpi_gradients gradient;
    const char* name;
  } gradients[] = {
      {"grad_query", args.grad_query, d.grad_query.dtype, HEED_MPI_GRAD_QUERY,
       "HEED_MPI_GRAD_QUERY"},
      {"grad_key", args.grad_key, d.grad_key.dtype, HEED_MPI_GRAD_KEY, "HEED_MPI_GRAD_KEY"},
      {"grad_value", args.grad_value, d.grad_value.dtype, HEED_MPI_GRAD_VALUE,
       "HEED_MPI_GRAD_VALUE"},
      {"grad_bias", args.grad_bias, d.grad_bias.dtype, HEED_MPI_GRAD_BIAS, "HEED_MPI_GRAD_BIAS"},
      {"grad_sinks", args.grad_sinks, real, HEED_MPI_GRAD_SINKS, "HEED_MPI_GRAD_SINKS"},
      {"grad_alibi_slopes", args.grad_alibi_slopes, real, HEED_MPI_GRAD_ALIBI_SLOPES,
       "HEED_MPI_GRAD_ALIBI_SLOPES"},
      {"grad_scale", args.grad_scale, real, HEED_MPI_GRAD_SCALE, "HEED_MPI_GRAD_SCALE"},
      {"grad_temperature", args.grad_temperature, real, HEED_MPI_GRAD_TEMPERATURE,
       "HEED_MPI_GRAD_TEMPERATURE"}};
  for (const auto& g : gradients) {
    if (g.pointer != nullptr && !plan.problem.wants(g.gradient))
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.%s is given; desc.gradients of the plan lacks %s (%d)", g.field, g.name,
           static_cast<int>(g.gradient));
    check_tensor(g.field, g.pointer, g.dtype, false);
  }
}

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
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.lse is NULL; gradients need what heed_mpi_attention wrote there");
  check_tensor("grad_out", args.grad_out, plan.problem.backward.grad_out.dtype, rows,
               empty_of(plan.problem.desc, plan.problem.desc.query_heads, "query_heads"));
  check_tensor("grad_lse", args.grad_lse, plan.problem.backward.grad_lse.dtype, false);
  check_gradients(plan, args);
  if (args.score_gradient != nullptr)
    fail(HEED_STATUS_UNSUPPORTED,
         "args.score_gradient is given, which is not supported over ranks");
  return {args, attention};
}

}  // namespace heed::mpi
