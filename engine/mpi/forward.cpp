// Attention over ranks.
#include <algorithm>

#include "engine/mpi/rounds.hpp"

using namespace heed::mpi;

heed_mpi_attention_plan::heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                                                 const heed_mpi_attention_desc* desc)
    : Plan("attention", parent, given, desc) {
  comm.agreed([&] {
    for (heed_attention_desc& form : forms) {
      form.out = unset_layout(problem.real());
      form.lse = unset_layout(HEED_DTYPE_F64);
      make_dense_plan(dense, form);
    }
    std::int64_t most = 0;
    for (const Slice& slice : slices) most = std::max(most, slice.queries.count);
    heed::Offsets offsets;
    take_results(offsets, query_rows(), results_at);
    merged_bytes = offsets.end("the workspace", {{"desc.query_length", problem.desc.query_length}});
    if (problem.everywhere()) check_message(merged_bytes);
    take_results(offsets, most, partial_at);
    const std::int64_t gathered = problem.everywhere() ? comm.size() : 0;
    gathered_at = offsets.take(gathered, static_cast<std::int64_t>(merged_bytes), 1);
    pointers_at = offsets.take(2 * std::max<std::int64_t>(gathered, 1), 1, sizeof(void*));
    lay_out(offsets);
    if (problem.everywhere()) sent_bytes += static_cast<double>(merged_bytes) * (comm.size() - 1);
  });
}

namespace heed::mpi {
namespace {

class Forward : public Run {
 public:
  Forward(const heed_mpi_attention_plan& plan, const heed_attention_args& args,
          std::byte* workspace)
      : Run(plan, args, inputs_of(plan.problem, args, {}), workspace), own_(plan) {}

 private:
  void compute(const Call& call) override {
    const Slice& slice = slice_of(call);
    heed_attention_args args = arguments(call);
    std::byte* const out = result_of(slice, 0, workspace_);
    std::byte* const lse = result_of(slice, 1, workspace_);
    args.out = call.first ? out : workspace_ + own_.partial_at[0];
    args.lse = call.first ? lse : workspace_ + own_.partial_at[1];
    check(heed_attention_plan_run(own_.dense[call.form].get(), &args, workspace_ + plan_.dense_at,
                                  plan_.dense_bytes));
    if (call.first) return;
    const void* const outs[] = {out, args.out};
    const void* const lses[] = {lse, args.lse};
    merge(slice, 2, outs, lses, {out, unset_layout(problem_.real())},
          {lse, unset_layout(HEED_DTYPE_F64)});
  }

  /// Merges partial results of a slice, which lie side by side.
  void merge(const Slice& slice, std::size_t count, const void* const* outs,
             const void* const* lses, const Tensor& out, const Tensor& lse) const {
    if (plan_.problems() == 0) return;
    mpi::merge(*plan_.context, result_extent(slice), unset_layout(problem_.real()),
               unset_layout(HEED_DTYPE_F64), count, outs, lses, out, lse);
  }

  void lay_out(const Tensors& group) override { write(group); }

  void write() override {
    const Tensors to = {tensor_of(args_.out, problem_.desc.out),
                        tensor_of(args_.lse, problem_.desc.lse)};
    if (plan_.shares_heads())
      write_exchanged({*plan_.context, problem_.real(), nullptr}, to);
    else
      write(to);
  }

  /// Converts the results of all slices, and merges them where all ranks have results of the same
  /// rows.
  void write(const Tensors& to) const {
    const bool gathered = problem_.everywhere();
    const std::size_t ranks = gathered ? static_cast<std::size_t>(plan_.comm.size()) : 1;
    std::byte* const first = workspace_ + (gathered ? own_.gathered_at - own_.results_at[0] : 0);
    auto** const outs = reinterpret_cast<const void**>(workspace_ + own_.pointers_at);
    const void** const lses = outs + ranks;
    for (const Slice& slice : plan_.slices) {
      for (std::size_t i = 0; i < ranks; ++i) {
        outs[i] = result_of(slice, 0, first + i * own_.merged_bytes);
        lses[i] = result_of(slice, 1, first + i * own_.merged_bytes);
      }
      merge(slice, ranks, outs, lses, to[0].from(0, slice.queries.row),
            to[1].from(0, slice.queries.row));
    }
  }

  /// Gathers the results of all ranks, one rank's after the other's, where queries are everywhere.
  void combine() override {
    if (!problem_.everywhere()) return;
    const int units = Communicator::units(own_.merged_bytes);
    HEED_CALL(MPI_Allgather, workspace_ + own_.results_at[0], units, plan_.comm.unit(),
              workspace_ + own_.gathered_at, units, plan_.comm.unit(), plan_.comm.get());
  }

  const heed_mpi_attention_plan& own_;
};

}  // namespace
}  // namespace heed::mpi

void heed_mpi_attention_plan::run(const heed_attention_args* given, void* workspace,
                                  std::size_t bytes) const {
  const auto args = comm.agreed([&] { return read_args(*this, given, workspace, bytes); });
  Forward(*this, args, static_cast<std::byte*>(workspace)).run();
}
