// What a run's arguments must be on this rank.
#include "engine/mpi/plan.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

using Plan = heed_mpi_attention_plan;

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
  for (std::int64_t b = 0; lengths != nullptr && b < plan.problem.desc.batch; ++b)
    if (lengths[b] < 0 || lengths[b] > plan.problem.total_keys)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.key_lengths[%lld] is %d; it must be 0 to %lld, the keys of all ranks",
           static_cast<long long>(b), lengths[b], static_cast<long long>(plan.problem.total_keys));
}

}  // namespace

heed_attention_args read_args(const Plan& plan, const heed_attention_args* given,
                              const void* workspace, std::size_t bytes) {
  const heed_attention_args args = read_struct(given, "args");
  check_workspace(plan.workspace.bytes, workspace, bytes);
  const heed_attention_desc& d = plan.problem.desc;
  check_reserved("args.reserved", args.reserved);
  const auto tensor = [&](const char* field, const void* pointer, std::uint32_t dtype,
                          bool elements) {
    if (pointer == nullptr && elements)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is NULL; its tensor has elements", field);
    if (reinterpret_cast<std::uintptr_t>(pointer) % bytes_of(dtype) != 0)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is %p; it must be a multiple of %zu", field,
           pointer, bytes_of(dtype));
  };
  const bool rows = d.batch > 0 && d.query_heads > 0 && d.query_length > 0;
  const bool keys = d.batch > 0 && d.key_heads > 0 && d.key_length > 0;
  tensor("query", args.query, d.query.dtype, rows);
  tensor("key", args.key, d.key.dtype, keys);
  tensor("value", args.value, d.value.dtype, keys);
  tensor("out", args.out, d.out.dtype, rows);
  tensor("lse", args.lse, d.lse.dtype, false);
  tensor("bias", args.bias, d.bias.dtype, false);
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
  return args;
}

}  // namespace heed::mpi
