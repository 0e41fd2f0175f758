#include "perf/ranks/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
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

}  // namespace

MPI_Datatype element_of(const Tensor& tensor) {
  switch (oracle::format_of(tensor.type()).bytes) {
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

Ran ran_of(const heed_mpi_times& times, const Team& team) {
  return {most_of(times.run, team.comm()), most_of(times.compute, team.comm()),
          sum_of(times.compute, team.comm()) / team.size(),
          sum_of(times.wait, team.comm()) / team.size(),
          of_heaviest(times.wait, times.compute, team.comm())};
}

namespace {

/// Copies rows of so many bytes.
void copy_rows(const Tensor& from, std::int64_t first, Tensor& to, std::int64_t to_first,
               std::int64_t rows, std::size_t row_bytes) {
  if (rows == 0) return;
  std::memcpy(static_cast<char*>(to.data()) + static_cast<std::size_t>(to_first) * row_bytes,
              static_cast<const char*>(from.data()) + static_cast<std::size_t>(first) * row_bytes,
              static_cast<std::size_t>(rows) * row_bytes);
}

}  // namespace

Ranked::Ranked(const std::string& workload, const Context& context, int ranks)
    : workload_(parse_workload(workload)),
      zigzag_(workload_.desc.causal != HEED_CAUSAL_NONE),
      team_(ranks),
      shard_(workload_.desc) {
  World::together([&] {
    if (team_.member()) plan(context);
  });
}

std::vector<Ranked::Part> Ranked::parts_of(int rank, std::int64_t length) const {
  heed_mpi_rows rows[2];
  check_mpi(heed_mpi_place(zigzag_ ? HEED_MPI_ZIGZAG : HEED_MPI_CONTIGUOUS, length, team_.size(),
                           rank, rows));
  std::vector<Part> parts = {{rows[0].begin, rows[0].count, 0}};
  if (zigzag_) parts.push_back({rows[1].begin, rows[1].count, rows[0].count});
  return parts;
}

void Ranked::take(const Tensor& from, Tensor& to, std::int64_t heads, std::int64_t length) const {
  const std::vector<Part> parts = parts_of(World::rank(), length);
  const std::int64_t rows = parts.back().row + parts.back().count;
  to = Tensor(from.type(), from.size() / length * rows);
  const std::size_t bytes = from.bytes() / static_cast<std::size_t>(heads * length);
  for (std::int64_t h = 0; h < heads; ++h)
    for (const Part& part : parts)
      copy_rows(from, h * length + part.begin, to, h * rows + part.row, part.count, bytes);
}

void Ranked::plan(const Context& context) {
  // All ranks draw the same numbers.
  whole_ = std::make_unique<Tensors>(workload_);
  const heed_attention_desc& d = workload_.desc;
  const std::int64_t queries = d.batch * d.query_heads;
  const std::int64_t keys = d.batch * d.key_heads;
  take(whole_->query, query_, queries, d.query_length);
  take(whole_->key, key_, keys, d.key_length);
  take(whole_->value, value_, keys, d.key_length);
  take(whole_->out, out_, queries, d.query_length);
  if (workload_.lse) take(whole_->lse, lse_, queries, d.query_length);
  args_ = whole_->args();
  args_.query = query_.data();
  args_.key = key_.data();
  args_.value = value_.data();
  args_.out = out_.data();
  args_.lse = lse_.data();
  shard_.query_length = query_.size() / (queries * d.features);
  shard_.key_length = key_.size() / (keys * d.features);

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
  check_mpi(heed_mpi_attention_plan_create(team_.comm(), context.get(), &desc, &plan));
  plan_ = {plan, heed_mpi_attention_plan_destroy};
  const Plan alone =
      made(heed_attention_plan_create, heed_attention_plan_destroy, context.get(), &workload_.desc);
  precision_ =
      described(heed_attention_plan_describe, alone.get(), HEED_ATTENTION_INFO_INIT).precision;
  const auto info =
      described(heed_mpi_attention_plan_describe, plan_.get(), HEED_MPI_ATTENTION_INFO_INIT);
  workspace_ = std::make_unique<Workspace>(info.workspace_bytes);
  add_up(info);
  if (World::rank() != 0) whole_ = nullptr;
}

void Ranked::add_up(const heed_mpi_attention_info& info) {
  shares_.strategy = info.strategy;
  shares_.flops = sum_of(info.flops, team_.comm());
  shares_.most_flops = most_of(info.flops, team_.comm());
  shares_.bytes = most_of(info.bytes, team_.comm());
  shares_.workspace_bytes = most_of(static_cast<double>(info.workspace_bytes), team_.comm());
  shares_.rounds =
      static_cast<std::int64_t>(most_of(static_cast<double>(info.rounds), team_.comm()));
}

Ran Ranked::run() {
  Ran ran = {};
  World::together([&] {
    if (!team_.member()) return;
    MPI_Barrier(team_.comm());
    check_mpi(
        heed_mpi_attention_plan_run(plan_.get(), &args_, workspace_->data(), workspace_->bytes()));
    ran = ran_of(described(heed_mpi_attention_plan_times, plan_.get(), HEED_MPI_TIMES_INIT), team_);
  });
  return ran;
}

double Ranked::exchange_seconds() const {
  const auto rounds = static_cast<int>(std::max<std::int64_t>(shares_.rounds - 1, 0));
  if (rounds == 0 || shares_.bytes == 0) return 0;
  return perf::exchange_seconds(team_, rounds, shares_.bytes / rounds / 2);
}

void Ranked::count(benchmark::State& state, const Ran& ran) const {
  state.counters["gflop"] = shares_.flops * 1e-9;
  state.counters["gflops"] = shares_.flops / ran.seconds * 1e-9;
  state.counters["balance"] = shares_.most_flops * team_.size() / shares_.flops;
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

void Ranked::gather(const Tensor& own, Tensor& whole) {
  const heed_attention_desc& d = workload_.desc;
  const std::int64_t heads = d.batch * d.query_heads;
  if (World::rank() != 0) {
    MPI_Send(own.data(), static_cast<int>(own.size()), element_of(own), 0, 0, team_.comm());
    return;
  }
  const std::size_t bytes = whole.bytes() / static_cast<std::size_t>(heads * d.query_length);
  for (int rank = 0; rank < team_.size(); ++rank) {
    const std::vector<Part> parts = parts_of(rank, d.query_length);
    const std::int64_t rows = parts.back().row + parts.back().count;
    Tensor theirs(own.type(), whole.size() / d.query_length * rows);
    if (rank == 0)
      copy_rows(own, 0, theirs, 0, heads * rows, bytes);
    else
      MPI_Recv(theirs.data(), static_cast<int>(theirs.size()), element_of(theirs), rank, 0,
               team_.comm(), MPI_STATUS_IGNORE);
    for (std::int64_t h = 0; h < heads; ++h)
      for (const Part& part : parts)
        copy_rows(theirs, h * rows + part.row, whole, h * d.query_length + part.begin, part.count,
                  bytes);
  }
}

const Accuracy& Ranked::accuracy() {
  const bool known = accuracy_ != nullptr;
  if (!known) accuracy_ = std::make_unique<Accuracy>();
  World::together([&] {
    if (known || !team_.member()) return;
    Tensor none;
    gather(out_, whole_ != nullptr ? whole_->out : none);
    if (workload_.lse) gather(lse_, whole_ != nullptr ? whole_->lse : none);
  });
  World::together([&] {
    if (known || World::rank() != 0) return;
    // Each merge rounds numbers that are at most the largest value once more; api/mpi.md.
    double largest = 0;
    for (std::int64_t i = 0; i < whole_->value.size(); ++i)
      largest = std::max(largest, std::fabs(whole_->value[i]));
    const double spans = (zigzag_ ? 2.0 : 1.0) * team_.size();
    const double unit = oracle::is_float64(workload_.desc) ? 0x1p-53 : 0x1p-24;
    *accuracy_ = check_accuracy(workload_, *whole_, precision_, (spans + 3) * unit * largest);
    demand(*accuracy_, workload_.name);
  });
  return *accuracy_;
}

}  // namespace heed::perf
