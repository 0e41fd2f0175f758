#include "engine/mpi/forward.hpp"

#include <algorithm>
#include <limits>

#include "engine/mpi/arguments.hpp"
#include "engine/mpi/run.hpp"
#include "engine/mpi/written.hpp"

heed_mpi_attention_plan::heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                                                 const heed_mpi_attention_desc* desc)
    : Plan(parent, given, desc) {
  comm.agreed([&] {
    make_dense_plans(dense, [&](heed_attention_desc& form) {
      form.out = heed_layout{problem.real(), 0, 0, 0, 0, 0};
      form.lse = heed_layout{HEED_DTYPE_F64, 0, 0, 0, 0, 0};
      return heed::mpi::make_dense_plan(*context, form);
    });
    plan_workspace();
  });
}

void heed_mpi_attention_plan::plan_workspace() {
  const heed_attention_desc& d = problem.desc;
  std::int64_t most = 0;
  for (const heed::mpi::Slice& slice : slices) most = std::max(most, slice.queries.count);
  heed::Offsets offsets;
  const heed::Size problems = heed::Size(d.batch) * heads;
  const auto real = static_cast<std::int64_t>(heed::mpi::bytes_of(problem.real()));
  const std::int64_t wide = static_cast<std::int64_t>(sizeof(double));
  out_at = offsets.take(problems * query_rows(), d.value_features, real);
  lse_at = offsets.take(problems * query_rows(), 1, wide);
  merged_bytes = static_cast<std::size_t>(
      offsets.end().checked("the workspace", {{"desc.query_length", d.query_length}}));
  if (problem.everywhere()) heed::mpi::check_message(merged_bytes);
  part_out_at = offsets.take(problems * most, d.value_features, real);
  part_lse_at = offsets.take(problems * most, 1, wide);
  const std::int64_t parts = problem.everywhere() ? comm.size() : 0;
  gathered_at = offsets.take(parts, static_cast<std::int64_t>(merged_bytes), 1);
  pointers_at = offsets.take(2 * parts, 1, sizeof(void*));
  lay_out(offsets);
  if (problem.everywhere()) sent_bytes += static_cast<double>(merged_bytes) * (comm.size() - 1);
}

namespace heed::mpi {
namespace {

struct Results {
  Tensor out, lse;
};

class Forward : Run {
 public:
  Forward(const heed_mpi_attention_plan& plan, const heed_attention_args& args,
          std::byte* workspace)
      : Run(plan, args, inputs_of(plan.problem, args, nullptr), workspace), own_(plan) {}

  void run() {
    timed("attention", [&] { work(); });
  }

 private:
  void work() {
    travel([&](const Call& call) { compute(call); });
    if (shares_heads()) {
      const Tensors results = plan_.exchange.results(exchange_memory());
      attempt([&] { write_all({results[0], results[1]}); });
      wait_.time([&] { plan_.exchange.scatter(requests_, exchange_memory()); });
    }
    if (problem_.everywhere()) wait_.time([&] { gather_results(); });
    end([&] { write_out(); });
  }

  std::byte* out_of(const Slice& slice, std::byte* merged) const {
    const std::int64_t elements = problems() * slice.queries.row * problem_.desc.value_features;
    return merged + own_.out_at + static_cast<std::size_t>(elements) * bytes_of(problem_.real());
  }
  double* lse_of(const Slice& slice, std::byte* merged) const {
    return reinterpret_cast<double*>(merged + own_.lse_at) + problems() * slice.queries.row;
  }

  void compute(const Call& call) {
    if (problems() == 0) return;
    const Slice& slice = slice_of(call);
    heed_attention_args args = arguments(call);
    std::byte* const merged = out_of(slice, workspace_);
    double* const merged_lse = lse_of(slice, workspace_);
    args.out = call.first ? merged : workspace_ + own_.part_out_at;
    args.lse = call.first ? static_cast<void*>(merged_lse) : workspace_ + own_.part_lse_at;
    check(heed_attention_plan_run(own_.dense[call.form].get(), &args, workspace_ + plan_.dense_at,
                                  plan_.dense_bytes));
    if (call.first) return;
    const void* const outs[] = {merged, args.out};
    const void* const lses[] = {merged_lse, args.lse};
    merge(slice, 2, outs, lses,
          {{merged, plain(problem_.real())}, {lse_bytes(merged_lse), plain(HEED_DTYPE_F64)}});
  }

  static heed_layout plain(std::uint32_t dtype) { return {dtype, 0, 0, 0, 0, 0}; }
  static std::byte* lse_bytes(double* lse) { return reinterpret_cast<std::byte*>(lse); }

  /// Parts of a slice that lie side by side, merged to where `to` is.
  void merge(const Slice& slice, std::size_t parts, const void* const* outs,
             const void* const* lses, const Results& to) const {
    if (problems() == 0) return;
    heed_merge_desc desc = HEED_MERGE_DESC_INIT;
    desc.batch = problem_.desc.batch;
    desc.heads = plan_.heads;
    desc.rows = slice.queries.count;
    desc.features = problem_.desc.value_features;
    desc.part_out = plain(problem_.real());
    desc.part_lse = plain(HEED_DTYPE_F64);
    desc.out = to.out.layout;
    desc.lse = to.lse.layout;
    check(heed_merge(plan_.context, &desc, parts, outs, lses, to.out.data, to.lse.data));
  }

  /// Rows that attend nothing on this rank, but perhaps a sink.
  void clear(const Slice& slice) const {
    const std::int64_t heads = plan_.heads;
    const std::int64_t rows = slice.queries.count;
    const std::int64_t elements = problems() * rows * problem_.desc.value_features;
    std::fill_n(out_of(slice, workspace_),
                static_cast<std::size_t>(elements) * bytes_of(problem_.real()), std::byte{0});
    double* lse = lse_of(slice, workspace_);
    const void* const sinks = has_sinks() ? heads_of(args_.sinks) : nullptr;
    for (std::int64_t p = 0; p < problems(); ++p, lse += rows) {
      double sink = -std::numeric_limits<double>::infinity();
      if (sinks != nullptr)
        sink = problem_.float64 ? static_cast<const double*>(sinks)[p % heads]
                                : static_cast<const float*>(sinks)[p % heads];
      std::fill_n(lse, rows, sink);
    }
  }

  /// The results of all slices, converted.
  void write_all(const Results& to) const {
    for (const Slice& slice : plan_.slices) {
      if (!slice.attended) clear(slice);
      const void* const outs[] = {out_of(slice, workspace_)};
      const void* const lses[] = {lse_of(slice, workspace_)};
      merge(slice, 1, outs, lses, rows_of(to, slice));
    }
  }

  static Results rows_of(const Results& all, const Slice& slice) {
    const std::int64_t row = slice.queries.row;
    Results rows = {all.out.from(0, row), all.lse};
    if (all.lse.data != nullptr) rows.lse = all.lse.from(0, row);
    return rows;
  }

  /// Everybody's results of the same rows, one rank's after the other's.
  void gather_results() {
    for (const Slice& slice : plan_.slices)
      if (!slice.attended) clear(slice);
    const int units = Communicator::units(own_.merged_bytes);
    mpi::check(
        MPI_Allgather(workspace_ + own_.out_at, units, plan_.comm.unit(),
                      workspace_ + own_.gathered_at, units, plan_.comm.unit(), plan_.comm.get()),
        "MPI_Allgather");
  }

  void write_out() {
    const Results to = {{static_cast<std::byte*>(args_.out), problem_.desc.out},
                        {static_cast<std::byte*>(args_.lse), problem_.desc.lse}};
    if (shares_heads()) return write_exchanged(to);
    if (!problem_.everywhere()) return write_all(to);
    const auto ranks = static_cast<std::size_t>(plan_.comm.size());
    auto** const outs = reinterpret_cast<const void**>(workspace_ + own_.pointers_at);
    const void** const lses = outs + ranks;
    for (const Slice& slice : plan_.slices) {
      for (std::size_t i = 0; i < ranks; ++i) {
        std::byte* const merged =
            workspace_ + own_.gathered_at + i * own_.merged_bytes - own_.out_at;
        outs[i] = out_of(slice, merged);
        lses[i] = lse_of(slice, merged);
      }
      merge(slice, ranks, outs, lses, rows_of(to, slice));
    }
  }

  void write_exchanged(const Results& to) const {
    const Writer writer(*plan_.context, problem_.real(), nullptr);
    plan_.exchange.each_result(exchange_memory(), [&](std::size_t t, const Tensor& result,
                                                      std::int64_t head, const Extent& extent) {
      const Tensor& whole = t == 0 ? to.out : to.lse;
      if (whole.data != nullptr) writer.write(result, whole.from(head, 0), extent);
    });
  }

  const heed_mpi_attention_plan& own_;
};

}  // namespace

void run(const heed_mpi_attention_plan& plan, const heed_attention_args* given, void* workspace,
         std::size_t bytes) {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  plan.comm.agreed([&] { args = read_args(plan, given, workspace, bytes); });
  Forward(plan, args, static_cast<std::byte*>(workspace)).run();
}

}  // namespace heed::mpi
