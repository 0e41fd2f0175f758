// The C boundary of attention over MPI.
#include "api/heed_mpi.h"

#include <memory>

#include "engine/mpi/backward.hpp"
#include "engine/mpi/forward.hpp"
#include "engine/mpi/memory.hpp"
#include "engine/mpi/placement.hpp"
#include "engine/runtime/guarded.hpp"
#include "engine/runtime/structs.hpp"

namespace {

using Forward = heed_mpi_attention_plan;
using Backward = heed_mpi_attention_backward_plan;

// What both passes do.

template <class Plan, class Desc>
heed_status create(MPI_Comm communicator, const heed_context* context, const Desc* desc,
                   Plan** plan) {
  return heed::guarded([&] {
    std::unique_ptr<Plan> made(new Plan(communicator, context, desc));
    made->comm.agreed([&] { heed::required(plan, "plan"); });
    *plan = made.release();
  });
}

heed_status describe(const heed::mpi::Plan* plan, heed_mpi_attention_info* info) {
  return heed::guarded([&] {
    const heed::mpi::Plan& p = heed::required(plan, "plan");
    heed_mpi_attention_info known = HEED_MPI_ATTENTION_INFO_INIT;
    known.choices = static_cast<uint32_t>(p.choices.size());
    known.strategy = p.strategy();
    known.ranks = p.comm.size();
    known.rank = p.comm.rank();
    known.head_ranks = p.head_ranks;
    for (const heed::mpi::Round& round : p.rounds) known.rounds += round.calls.empty() ? 0 : 1;
    known.flops = p.flops;
    known.bytes = p.sent_bytes;
    known.workspace_bytes = p.workspace_bytes;
    heed::write_struct(info, known, "info");
  });
}

heed_status tell_choice(const heed::mpi::Plan* plan, uint32_t index, heed_mpi_choice* choice) {
  return heed::guarded([&] {
    const heed::mpi::Plan& p = heed::required(plan, "plan");
    if (index >= p.choices.size())
      heed::fail(HEED_STATUS_INVALID_ARGUMENT, "index is %u; it must be below info.choices, %zu",
                 index, p.choices.size());
    heed::write_struct(choice, p.choices[index], "choice");
  });
}

heed_status tell_workspace(const heed::mpi::Plan* plan, size_t* bytes) {
  return heed::guarded(
      [&] { heed::required(bytes, "bytes") = heed::required(plan, "plan").workspace_bytes; });
}

heed_status tell_times(const heed::mpi::Plan* plan, heed_mpi_times* times) {
  return heed::guarded(
      [&] { heed::write_struct(times, heed::required(plan, "plan").times, "times"); });
}

template <class Plan, class Args>
heed_status run(const Plan* plan, const Args* args, void* workspace, size_t workspace_bytes) {
  return heed::guarded(
      [&] { heed::mpi::run(heed::required(plan, "plan"), args, workspace, workspace_bytes); });
}

template <class Plan, class Desc, class Args>
heed_status run_once(MPI_Comm communicator, const heed_context* context, const Desc* desc,
                     const Args* args) {
  return heed::guarded([&] {
    const Plan plan(communicator, context, desc);
    heed::mpi::Memory workspace;
    plan.comm.agreed([&] { workspace = heed::mpi::allocate(plan.workspace_bytes); });
    heed::mpi::run(plan, args, workspace.get(), plan.workspace_bytes);
  });
}

}  // namespace

const char* heed_mpi_last_error(void) { return heed::last_error(); }

heed_status heed_mpi_place(uint32_t placement, int64_t length, int ranks, int rank,
                           heed_mpi_rows rows[2]) {
  return heed::guarded([&] {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const auto refuse = [](const char* field, long long value, const char* must) {
      heed::fail(HEED_STATUS_INVALID_ARGUMENT, "%s is %lld; it must be %s", field, value, must);
    };
    heed::required(rows, "rows");
    if (placement > HEED_MPI_ZIGZAG)
      refuse("placement", placement, "HEED_MPI_CONTIGUOUS (0) or HEED_MPI_ZIGZAG (1)");
    if (length < 0 || length > kMost) refuse("length", length, "0 to 1099511627776");
    if (ranks < 1) refuse("ranks", ranks, "at least 1");
    if (rank < 0 || rank >= ranks) refuse("rank", rank, "0 to ranks - 1");
    heed::mpi::place(placement, length, ranks, rank, rows);
  });
}

heed_status heed_mpi_attention_plan_create(MPI_Comm communicator, const heed_context* context,
                                           const heed_mpi_attention_desc* desc,
                                           heed_mpi_attention_plan** plan) {
  return create(communicator, context, desc, plan);
}

void heed_mpi_attention_plan_destroy(heed_mpi_attention_plan* plan) { delete plan; }

heed_status heed_mpi_attention_plan_describe(const heed_mpi_attention_plan* plan,
                                             heed_mpi_attention_info* info) {
  return describe(plan, info);
}

heed_status heed_mpi_attention_plan_choice(const heed_mpi_attention_plan* plan, uint32_t index,
                                           heed_mpi_choice* choice) {
  return tell_choice(plan, index, choice);
}

heed_status heed_mpi_attention_plan_workspace(const heed_mpi_attention_plan* plan, size_t* bytes) {
  return tell_workspace(plan, bytes);
}

heed_status heed_mpi_attention_plan_run(const heed_mpi_attention_plan* plan,
                                        const heed_attention_args* args, void* workspace,
                                        size_t workspace_bytes) {
  return run(plan, args, workspace, workspace_bytes);
}

heed_status heed_mpi_attention_plan_times(const heed_mpi_attention_plan* plan,
                                          heed_mpi_times* times) {
  return tell_times(plan, times);
}

heed_status heed_mpi_attention(MPI_Comm communicator, const heed_context* context,
                               const heed_mpi_attention_desc* desc,
                               const heed_attention_args* args) {
  return run_once<Forward>(communicator, context, desc, args);
}

heed_status heed_mpi_attention_backward_plan_create(MPI_Comm communicator,
                                                    const heed_context* context,
                                                    const heed_mpi_attention_backward_desc* desc,
                                                    heed_mpi_attention_backward_plan** plan) {
  return create(communicator, context, desc, plan);
}

void heed_mpi_attention_backward_plan_destroy(heed_mpi_attention_backward_plan* plan) {
  delete plan;
}

heed_status heed_mpi_attention_backward_plan_describe(const heed_mpi_attention_backward_plan* plan,
                                                      heed_mpi_attention_info* info) {
  return describe(plan, info);
}

heed_status heed_mpi_attention_backward_plan_choice(const heed_mpi_attention_backward_plan* plan,
                                                    uint32_t index, heed_mpi_choice* choice) {
  return tell_choice(plan, index, choice);
}

heed_status heed_mpi_attention_backward_plan_workspace(const heed_mpi_attention_backward_plan* plan,
                                                       size_t* bytes) {
  return tell_workspace(plan, bytes);
}

heed_status heed_mpi_attention_backward_plan_run(const heed_mpi_attention_backward_plan* plan,
                                                 const heed_attention_backward_args* args,
                                                 void* workspace, size_t workspace_bytes) {
  return run(plan, args, workspace, workspace_bytes);
}

heed_status heed_mpi_attention_backward_plan_times(const heed_mpi_attention_backward_plan* plan,
                                                   heed_mpi_times* times) {
  return tell_times(plan, times);
}

heed_status heed_mpi_attention_backward(MPI_Comm communicator, const heed_context* context,
                                        const heed_mpi_attention_backward_desc* desc,
                                        const heed_attention_backward_args* args) {
  return run_once<Backward>(communicator, context, desc, args);
}
