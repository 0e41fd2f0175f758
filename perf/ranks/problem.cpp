#include "perf/ranks/problem.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace heed::perf {

void check_mpi(heed_status status) {
  if (status != HEED_STATUS_OK) throw std::runtime_error(heed_mpi_last_error());
}

double most_of(double own, MPI_Comm comm) {
  double all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, comm);
  return all;
}

double sum_of(double own, MPI_Comm comm) {
  double all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
  return all;
}

namespace {

/// Of the rank whose `weight` is the largest.
double of_heaviest(double own, double weight, MPI_Comm comm) {
  struct {
    double weight;
    int rank;
  } heaviest = {weight, 0};
  MPI_Comm_rank(comm, &heaviest.rank);
  MPI_Allreduce(MPI_IN_PLACE, &heaviest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
  MPI_Bcast(&own, 1, MPI_DOUBLE, heaviest.rank, comm);
  return own;
}

/// An element that counts fit an int by.
MPI_Datatype element_of(const Tensor& tensor) {
  switch (oracle::format_of(tensor.dtype()).bytes) {
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

Tensor with_rows(const Tensor& like, std::size_t rows) {
  oracle::Axes shape = like.shape();
  shape[2] = static_cast<std::int64_t>(rows);
  const bool outside = like.strides()[2] > like.strides()[1];
  return oracle::placed(shape,
                        outside ? oracle::Arrangement::kRowsOutside : oracle::Arrangement::kDefault,
                        like.dtype(), 0);
}

oracle::Axes place_in(const RowNumbers& rows, oracle::Axes at) {
  at[2] = rows[static_cast<std::size_t>(at[2])];
  return at;
}

void put_rows(const Tensor& some, const RowNumbers& rows, Tensor& whole) {
  some.each([&](const oracle::Axes& at) { whole.set(place_in(rows, at), some.get(at)); });
}

}  // namespace

Tensor some_rows(const Tensor& of, const RowNumbers& rows) {
  Tensor some = with_rows(of, rows.size());
  some.fill([&](const oracle::Axes& at) { return of.get(place_in(rows, at)); });
  return some;
}

void gather_rows(const Team& team, const Tensor& own, const RowNumbers& rows, Tensor* whole) {
  const MPI_Datatype element = element_of(own);
  if (World::rank() != 0) {
    MPI_Send(rows.data(), static_cast<int>(rows.size()), MPI_INT64_T, 0, 0, team.comm());
    MPI_Send(own.data(), static_cast<int>(size_of(own)), element, 0, 0, team.comm());
    return;
  }
  put_rows(own, rows, *whole);
  for (int rank = 1; rank < team.size(); ++rank) {
    MPI_Status status;
    int count = 0;
    MPI_Probe(rank, 0, team.comm(), &status);
    MPI_Get_count(&status, MPI_INT64_T, &count);
    RowNumbers theirs(static_cast<std::size_t>(count));
    MPI_Recv(theirs.data(), count, MPI_INT64_T, rank, 0, team.comm(), MPI_STATUS_IGNORE);
    Tensor numbers = with_rows(own, theirs.size());
    MPI_Recv(numbers.data(), static_cast<int>(size_of(numbers)), element, rank, 0, team.comm(),
             MPI_STATUS_IGNORE);
    put_rows(numbers, theirs, *whole);
  }
}

Ran ran_of(const heed_mpi_times& times, const Team& team) {
  return {most_of(times.run, team.comm()), most_of(times.compute, team.comm()),
          sum_of(times.compute, team.comm()) / team.size(),
          sum_of(times.wait, team.comm()) / team.size(),
          of_heaviest(times.wait, times.compute, team.comm())};
}

Ran Shared::run() {
  Ran ran = {};
  World::together([&] {
    if (!team_.member()) return;
    MPI_Barrier(team_.comm());
    ran = ran_of(run_own(), team_);
  });
  return ran;
}

const Accuracy& Shared::accuracy() {
  const bool known = accuracy_ != nullptr;
  if (!known) accuracy_ = std::make_unique<Accuracy>();
  World::together([&] {
    if (!known && team_.member()) gather();
  });
  World::together([&] {
    if (!known && World::rank() == 0) *accuracy_ = compare();
  });
  return *accuracy_;
}

Ranked::Ranked(const std::string& workload, const Context& context, int ranks)
    : Shared(ranks),
      workload_(parse_workload(workload)),
      zigzag_(workload_.desc.causal != HEED_CAUSAL_NONE),
      shard_(workload_.desc) {
  World::together([&] {
    if (team().member()) plan(context);
  });
}

RowNumbers Ranked::own_rows(std::int64_t length) const {
  heed_mpi_rows parts[2];
  check_mpi(heed_mpi_place(zigzag_ ? HEED_MPI_ZIGZAG : HEED_MPI_CONTIGUOUS, length, team().size(),
                           World::rank(), parts));
  RowNumbers rows;
  for (int part = 0; part < (zigzag_ ? 2 : 1); ++part)
    for (std::int64_t row = 0; row < parts[part].count; ++row)
      rows.push_back(parts[part].begin + row);
  return rows;
}

void Ranked::plan(const Context& context) {
  // All ranks draw the same numbers.
  whole_ = std::make_unique<oracle::Problem>(problem_of(workload_));
  const RowNumbers queries = own_rows(workload_.desc.query_length);
  const RowNumbers keys = own_rows(workload_.desc.key_length);
  query_ = some_rows(whole_->query, queries);
  key_ = some_rows(whole_->key, keys);
  value_ = some_rows(whole_->value, keys);
  out_ = some_rows(whole_->out, queries);
  if (workload_.lse) lse_ = some_rows(*whole_->lse, queries);
  args_ = whole_->args();
  args_.query = query_->data();
  args_.key = key_->data();
  args_.value = value_->data();
  args_.out = out_->data();
  args_.lse = workload_.lse ? lse_->data() : nullptr;
  shard_.query_length = static_cast<std::int64_t>(queries.size());
  shard_.key_length = static_cast<std::int64_t>(keys.size());

  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  desc.attention = &shard_;
  desc.placement = zigzag_ ? HEED_MPI_ZIGZAG : HEED_MPI_CONTIGUOUS;
  desc.head_ranks = 1;
  const auto brings = [&](bool given, std::uint32_t tensor) {
    if (given) desc.tensors |= tensor;
  };
  brings(workload_.alibi, HEED_MPI_ALIBI_SLOPES);
  brings(workload_.sinks, HEED_MPI_SINKS);
  brings(!workload_.key_lengths.empty(), HEED_MPI_KEY_LENGTHS);
  heed_mpi_attention_plan* plan = nullptr;
  check_mpi(heed_mpi_attention_plan_create(team().comm(), context->get(), &desc, &plan));
  plan_ = {plan, heed_mpi_attention_plan_destroy};
  precision_ = planned(context, workload_.desc).info().precision;
  const auto info =
      described(heed_mpi_attention_plan_describe, plan_.get(), HEED_MPI_ATTENTION_INFO_INIT);
  workspace_ = std::make_unique<Workspace>(info.workspace_bytes);
  add_up(info);
  if (World::rank() != 0) whole_ = nullptr;
}

void Ranked::add_up(const heed_mpi_attention_info& info) {
  shares_.strategy = info.strategy;
  shares_.flops = sum_of(info.flops, team().comm());
  shares_.most_flops = most_of(info.flops, team().comm());
  shares_.bytes = most_of(info.bytes, team().comm());
  shares_.workspace_bytes = most_of(static_cast<double>(info.workspace_bytes), team().comm());
  shares_.rounds =
      static_cast<std::int64_t>(most_of(static_cast<double>(info.rounds), team().comm()));
}

heed_mpi_times Ranked::run_own() {
  check_mpi(
      heed_mpi_attention_plan_run(plan_.get(), &args_, workspace_->get(), workspace_->bytes()));
  return described(heed_mpi_attention_plan_times, plan_.get(), HEED_MPI_TIMES_INIT);
}

double Ranked::exchange_seconds() const {
  const auto rounds = static_cast<int>(std::max<std::int64_t>(shares_.rounds - 1, 0));
  if (rounds == 0 || shares_.bytes == 0) return 0;
  return perf::exchange_seconds(team(), rounds, shares_.bytes / rounds / 2);
}

void Ranked::count(benchmark::State& state, const Ran& ran) const {
  state.counters["gflop"] = shares_.flops * 1e-9;
  state.counters["gflops"] = shares_.flops / ran.seconds * 1e-9;
  state.counters["balance"] = shares_.most_flops * team().size() / shares_.flops;
  state.counters["rounds"] = static_cast<double>(shares_.rounds);
  state.counters["sent_mbytes"] = shares_.bytes * 1e-6;
  state.counters["workspace_mbytes"] = shares_.workspace_bytes * 1e-6;
}

void Ranked::promise(benchmark::State& state, const std::string& workload) {
  if (workload != "B1_H1_L131072_D128_causal") return;
  state.counters["speedup_target"] = 1.85;
  state.counters["hidden_target"] = 0.9;
  state.counters["balance_target"] = 1.05;
}

std::string Ranked::on_each(const std::string& workload, int ranks) {
  return times_as_long(workload, ranks);
}

void Ranked::gather() {
  const RowNumbers rows = own_rows(workload_.desc.query_length);
  gather_rows(team(), *out_, rows, whole_ != nullptr ? &whole_->out : nullptr);
  if (workload_.lse) gather_rows(team(), *lse_, rows, whole_ != nullptr ? &*whole_->lse : nullptr);
}

// Each merge rounds numbers that are at most the largest value once more;
// api/docs/reference/mpi.md.
Accuracy Ranked::compare() {
  double largest = 0;
  whole_->value.each([&](const oracle::Axes& at) {
    largest = std::max(largest, std::fabs(whole_->value.get(at)));
  });
  const double spans = (zigzag_ ? 2.0 : 1.0) * team().size();
  const double unit = oracle::is_float64(workload_.desc) ? 0x1p-53 : 0x1p-24;
  const Accuracy accuracy = check_accuracy(*whole_, precision_, (spans + 3) * unit * largest);
  demand(accuracy, workload_.name);
  return accuracy;
}

}  // namespace heed::perf
