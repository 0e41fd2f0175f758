// Runs of attention and of its gradients alike: rounds of computing and sending.
#pragma once

#include <type_traits>

#include "engine/mpi/plan.hpp"

namespace heed::mpi {

class Run : protected RankRun {
 protected:
  Run(const Plan& plan, const heed_attention_args& args, const Tensors& inputs,
      std::byte* workspace);

  /// compute(call) for all calls of all rounds, while keys, values and gradients travel.
  template <class Compute>
  void travel(Compute&& compute) {
    if (plan_.shares_heads())
      wait([&] { inputs_ = plan_.exchange.gather(requests_, inputs_, exchange_memory()); });
    attempt([&] { pack(); });
    for (std::size_t n = 0; n < plan_.rounds.size(); ++n) {
      const Round& round = plan_.rounds[n];
      begin(round, n);
      for (const Call& call : round.calls) {
        attempt([&] {
          if (plan_.problems() > 0) compute(call);
        });
        requests_.progress();
      }
      wait([&] { requests_.wait(); });
      attempt([&] { add(round); });
    }
  }

  /// Where ranks share heads: `lay_out` puts what was computed among the group's results, which go
  /// to the ranks whose rows they are.
  template <class LayOut>
  void exchange_results(LayOut&& lay_out) {
    if (!plan_.shares_heads()) return;
    attempt([&] { lay_out(plan_.exchange.results(exchange_memory())); });
    wait([&] { plan_.exchange.scatter(requests_, exchange_memory()); });
  }
  /// This rank's rows of these, to where the caller wants them.
  void write_exchanged(const Writer& writer, const Tensors& to) const {
    plan_.exchange.each_result(exchange_memory(), [&](std::size_t t, const Tensor& result,
                                                      std::int64_t head, const Extent& extent) {
      if (to[t].data != nullptr) writer.write(result, to[t].from(head, 0), extent);
    });
  }

  /// Agrees on how it went, and where it went well lets every rank write.
  template <class Write>
  void end(Write&& write) {
    agree();
    attempt(write);
    agree();
  }

  std::byte* exchange_memory() const { return workspace_ + plan_.exchange_at; }
  std::byte* at(const Bytes& bytes) const {
    return workspace_ + plan_.areas[bytes.area] + bytes.offset;
  }
  const Slice& slice_of(const Call& call) const { return plan_.slices[call.slice]; }

  /// Of values per head those of this rank's heads.
  template <class T>
  T* heads_of(T* values) const {
    if (values == nullptr) return nullptr;
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return static_cast<Byte*>(values) +
           static_cast<std::size_t>(plan_.first_head()) * bytes_of(problem_.real());
  }
  /// Where the mask or bias of a call begins. One that repeats over keys has no stride there,
  /// except where it was gathered.
  std::byte* scores_of(const Tensor& all, const WholeScores& whole, const Call& call) const {
    const Tensor rows = all.from(0, slice_of(call).queries.row);
    if (rows.data == nullptr || whole.keys == 1) return rows.data;
    return rows.data + call.keys.position * rows.layout.stride_feature *
                           static_cast<std::int64_t>(rows.element_bytes());
  }
  /// A sink counts once: where queries are everywhere, on the first rank.
  bool has_sinks() const { return !problem_.everywhere() || plan_.comm.rank() == 0; }

  /// The inputs of a call.
  heed_attention_args arguments(const Call& call) const;

  const Plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  std::byte* const workspace_;
  Tensors inputs_;

 private:
  void pack() const;
  void begin(const Round& round, std::size_t n);
  void add(const Round& round) const;
  const std::int32_t* lengths_of(const Span& keys) const;
};

}  // namespace heed::mpi
