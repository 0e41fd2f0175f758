// The way back. Gradients of a row's pairs need no more than the row's own log-sum-exp and result,
// so the gradients of all blocks of queries and keys simply add up:
//
//   grad_query    of own rows: over all keys that come by, in the order of rounds
//   grad_key      of own rows: this rank's, then the sums that others send back after each round,
//   grad_value    in the order of rounds, from above before from below
//   others        that all ranks have together (sinks, slopes, weights of scores, scale,
//                 temperature; a bias of all queries; queries that are everywhere): over ranks, in
//                 their order
#include <algorithm>

#include "engine/mpi/rounds.hpp"

using namespace heed::mpi;

heed_mpi_attention_backward_plan::heed_mpi_attention_backward_plan(
    MPI_Comm parent, const heed_context* given, const heed_mpi_attention_backward_desc* desc)
    : Plan("attention backward", parent, given, desc) {
  comm.agreed([&] {
    grad_bias.dtype = problem.real();
    if (problem.wants(HEED_MPI_GRAD_BIAS)) {
      take_sizes(grad_bias, problem.backward.grad_bias);
      grad_bias = explicit_layout(grad_bias, extent_of(grad_bias));
    }
    exchanges_bias = shares_heads() && problem.wants(HEED_MPI_GRAD_BIAS) && problem.bias.by_rows;
    if (exchanges_bias)
      grad_bias =
          scores_of_calls(grad_bias, problem.bias, exchange.results(nullptr)[kGradBiasResult]);
    for (heed_attention_desc& form : forms) {
      heed_attention_backward_desc backward = HEED_ATTENTION_BACKWARD_DESC_INIT;
      backward.attention = &form;
      backward.accumulate = 1;
      form.out = call_inputs[kOut].layout;
      form.lse = call_inputs[kLse].layout;
      backward.grad_out = call_inputs[kGradOut].layout;
      backward.grad_lse = call_inputs[kGradLse].layout;
      backward.grad_bias = grad_bias;
      take_sizes(backward.grad_bias, form.bias);
      make_dense_plan(dense, backward);
    }
    plan_workspace();
  });
}

void heed_mpi_attention_backward_plan::plan_workspace() {
  const heed_attention_desc& d = problem.desc;
  const auto real = static_cast<std::int64_t>(bytes_of(problem.real()));
  heed::Offsets offsets;
  const auto end = [&] {
    return offsets.end("the workspace", {{"desc.query_length", d.query_length}});
  };
  const bool sums_bias = problem.wants(HEED_MPI_GRAD_BIAS) && !exchanges_bias;
  const bool shares_bias = problem.everywhere() || !problem.bias.by_rows;
  for (const bool shared : {false, true}) {  // sums of this rank's rows come first
    if (shared) shared_begin = end();
    if (problem.everywhere() == shared) take_results(offsets, query_rows(), results_at);
    if (shares_bias == shared)
      grad_bias_at = offsets.take(heed::Size(sums_bias ? grad_bias.batch : 0) * grad_bias.heads,
                                  heed::Size(grad_bias.rows) * grad_bias.keys, real);
  }
  const std::int64_t heads = d.query_heads;
  const Total all[] = {
      {HEED_MPI_GRAD_SINKS, &heed_attention_backward_args::grad_sinks, heads, 1},
      {HEED_MPI_GRAD_ALIBI_SLOPES, &heed_attention_backward_args::grad_alibi_slopes, heads, 1},
      {HEED_MPI_GRAD_SCORE_WEIGHTS, &heed_attention_backward_args::grad_score_weights, heads,
       problem.weights_of_head()},
      {HEED_MPI_GRAD_SCALE, &heed_attention_backward_args::grad_scale, 1, 1},
      {HEED_MPI_GRAD_TEMPERATURE, &heed_attention_backward_args::grad_temperature, 1, 1}};
  for (const Total& total : all) {
    if (!problem.wants(total.gradient)) continue;
    totals.push_back(total);
    totals.back().at = offsets.take(total.heads, total.of_head, real);
  }
  const auto ranks = static_cast<std::int64_t>(comm.size());
  const auto unit = static_cast<std::int64_t>(kUnitBytes);
  const auto shared = static_cast<std::int64_t>(end() - shared_begin);
  const std::int64_t units = heed::ceil_div(shared, ranks * unit);
  piece_bytes = static_cast<std::size_t>(units * unit);
  check_message(piece_bytes);
  offsets.take(units * ranks * unit - shared, 1, 1);  // up to whole pieces
  sums_end = end();
  pieces_at = offsets.take(units * ranks, unit, 1);
  const std::int64_t widest = std::max(
      {d.features, d.value_features, problem.wants(HEED_MPI_GRAD_BIAS) ? grad_bias.keys : 0});
  const bool adds = problem.backward.accumulate != 0;
  buffer_at = offsets.take_bytes(adds ? Writer::buffer_bytes(problem.real(), widest) : 0);
  lay_out(offsets);
  sent_bytes += 2 * static_cast<double>(piece_bytes) * static_cast<double>(ranks - 1);
}

namespace heed::mpi {
namespace {

class Backward : public Run {
  using Total = heed_mpi_attention_backward_plan::Total;

 public:
  Backward(const heed_mpi_attention_backward_plan& plan, const BackwardArgs& args,
           std::byte* workspace)
      : Run(plan, args.attention, inputs_of(plan.problem, args.attention, args.gradients),
            workspace),
        own_(plan),
        gradients_(args.gradients),
        grad_bias_(sums_of_bias()),
        writer_(*plan.context, problem_.real(),
                problem_.backward.accumulate != 0 ? workspace + plan.buffer_at : nullptr) {}

 private:
  void begin() override {
    std::fill_n(workspace_, own_.sums_end, std::byte{0});
    std::fill_n(at({kSums, 0}), plan_.area_bytes[kSums], std::byte{0});
    if (own_.exchanges_bias)
      std::fill_n(grad_bias_.data, checked_bytes(own_.grad_bias.dtype, extent_of(own_.grad_bias)),
                  std::byte{0});
  }

  void lay_out(const Tensors& group) override {
    each_gradient([&](std::size_t t, const Tensor& sums, std::int64_t row, const Extent& extent) {
      copy(sums, group[t].from(0, row), extent);
    });
  }

  bool wants(heed_mpi_gradients gradient) const { return problem_.wants(gradient); }

  Tensor sums_of_bias() const {
    if (own_.exchanges_bias) return plan_.exchange.results(exchange_memory())[kGradBiasResult];
    void* const sums = wants(HEED_MPI_GRAD_BIAS) ? workspace_ + own_.grad_bias_at : nullptr;
    return tensor_of(sums, own_.grad_bias).from(plan_.first_head(), 0);
  }

  void compute(const Call& call) override {
    heed_attention_args attention = arguments(call);
    heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
    args.attention = &attention;
    const std::int64_t row = slice_of(call).queries.row;
    attention.out = inputs_[kOut].from(0, row).data;
    attention.lse = inputs_[kLse].from(0, row).data;
    args.grad_out = inputs_[kGradOut].from(0, row).data;
    args.grad_lse = inputs_[kGradLse].from(0, row).data;
    if (wants(HEED_MPI_GRAD_QUERY)) args.grad_query = result_of(slice_of(call), 0, workspace_);
    const Tensors of_keys =
        plan_.share.laid_out(problem_.parcel_gradients, at(call.gradients), {0, call.keys.count});
    if (wants(HEED_MPI_GRAD_KEY)) args.grad_key = of_keys[0].data;
    if (wants(HEED_MPI_GRAD_VALUE)) args.grad_value = of_keys[1].data;
    if (attention.bias != nullptr) args.grad_bias = scores_of(grad_bias_, problem_.bias, call);
    for (const Total& total : own_.totals) {
      std::byte* const sums = workspace_ + total.at;
      args.*total.to = total.heads == 1 ? sums : heads_of(sums, total.of_head);
    }
    if (attention.sinks == nullptr) args.grad_sinks = nullptr;
    check(heed_attention_backward_plan_run(own_.dense[call.form].get(), &args,
                                           workspace_ + plan_.dense_at, plan_.dense_bytes));
  }

  /// Calls function(t, sums, row, extent) with the sums of rows that lie side by side, of the
  /// gradients t of queries, keys and values.
  template <class Function>
  void each_gradient(Function&& function) const {
    if (wants(HEED_MPI_GRAD_QUERY))
      for (const Slice& slice : plan_.slices) {
        const Extent rows = result_extent(slice);
        function(0, contiguous(result_of(slice, 0, workspace_), problem_.real(), rows),
                 slice.queries.row, rows);
      }
    const RowsList& list = problem_.parcel_gradients;
    for (std::size_t i = 0; i < plan_.shard.keys.size(); ++i) {
      const Span& keys = plan_.shard.keys[i];
      const Tensors sums =
          plan_.share.laid_out(list, at({kSums, plan_.sums_at[i]}), {0, keys.count});
      for (std::size_t t = 0; t < list.size(); ++t)
        if (list[t].features > 0)
          function(1 + t, sums[t], keys.row, plan_.share.extent(list[t], {0, keys.count}));
    }
  }

  /// Every rank sums a piece, which all get.
  void combine() override {
    const int units = Communicator::units(own_.piece_bytes);
    if (units == 0) return;
    std::byte* const shared = workspace_ + own_.shared_begin;
    std::byte* const pieces = workspace_ + own_.pieces_at;
    HEED_CALL(MPI_Alltoall, shared, units, plan_.comm.unit(), pieces, units, plan_.comm.unit(),
              plan_.comm.get());
    for (int rank = 1; rank < plan_.comm.size(); ++rank)
      mpi::add(pieces + static_cast<std::size_t>(rank) * own_.piece_bytes, pieces, own_.piece_bytes,
               problem_.real());
    HEED_CALL(MPI_Allgather, pieces, units, plan_.comm.unit(), shared, units, plan_.comm.unit(),
              plan_.comm.get());
  }

  void write() override {
    const heed_attention_backward_desc& d = problem_.backward;
    const Tensors to = {tensor_of(gradients_.grad_query, d.grad_query),
                        tensor_of(gradients_.grad_key, d.grad_key),
                        tensor_of(gradients_.grad_value, d.grad_value),
                        tensor_of(gradients_.grad_bias, d.grad_bias)};
    if (plan_.shares_heads())
      write_exchanged(writer_, to);
    else
      each_gradient([&](std::size_t t, const Tensor& sums, std::int64_t row, const Extent& extent) {
        if (to[t].data != nullptr) writer_.write(sums, to[t].from(0, row), extent);
      });
    if (!own_.exchanges_bias) write_bias();
    for (const Total& total : own_.totals) {
      if (gradients_.*total.to == nullptr) continue;
      const Extent extent = {1, 1, total.heads, total.of_head};
      writer_.write(contiguous(workspace_ + total.at, problem_.real(), extent),
                    contiguous(gradients_.*total.to, problem_.real(), extent), extent);
    }
  }

  void write_bias() const {
    if (gradients_.grad_bias == nullptr) return;
    const heed_score_layout& l = problem_.backward.grad_bias;
    writer_.write(tensor_of(workspace_ + own_.grad_bias_at, own_.grad_bias),
                  tensor_of(gradients_.grad_bias, l), extent_of(l));
  }

  const heed_mpi_attention_backward_plan& own_;
  const heed_attention_backward_args& gradients_;
  Tensor grad_bias_;  ///< sums, of this rank's heads
  const Writer writer_;
};

}  // namespace
}  // namespace heed::mpi

void heed_mpi_attention_backward_plan::run(const heed_attention_backward_args* given,
                                           void* workspace, std::size_t bytes) const {
  const auto args = comm.agreed([&] { return read_args(*this, given, workspace, bytes); });
  Backward(*this, args, static_cast<std::byte*>(workspace)).run();
}
