// What runs of attention and of its gradients do alike: rounds of computing and sending.
#pragma once

#include <type_traits>

#include "engine/mpi/attempts.hpp"
#include "engine/mpi/plan.hpp"
#include "engine/mpi/requests.hpp"

namespace heed::mpi {

class Run {
 protected:
  Run(const Plan& plan, const heed_attention_args& args, const Tensors& inputs,
      std::byte* workspace);

  /// compute(call) for all calls of all rounds, while keys, values and gradients travel.
  template <class Compute>
  void travel(Compute&& compute) {
    if (shares_heads())
      wait_.time([&] { inputs_ = plan_.exchange.gather(requests_, inputs_, exchange_memory()); });
    attempt([&] { pack(); });
    for (std::size_t n = 0; n < plan_.rounds.size(); ++n) {
      const Round& round = plan_.rounds[n];
      begin(round, n);
      for (const Call& call : round.calls) {
        attempt([&] { compute(call); });
        requests_.progress();
      }
      wait_.time([&] { requests_.wait(); });
      attempt([&] { add(round); });
    }
  }

  /// Agrees on how it went, and where it went well lets every rank write.
  template <class Write>
  void end(Write&& write) {
    wait_.time([&] { attempts_.agree(plan_.comm); });
    attempt(write);
    wait_.time([&] { attempts_.agree(plan_.comm); });
  }

  /// Does all of a run, and notes where its time went.
  template <class Work>
  void timed(const char* what, Work&& work) {
    Clock all;
    all.time(work);
    plan_.times.run = all.seconds();
    plan_.times.compute = attempts_.seconds();
    plan_.times.wait = wait_.seconds();
    if (plan_.verbose) print(what);
  }

  template <class Function>
  void attempt(Function&& function) {
    attempts_.attempt(function);
  }

  bool shares_heads() const { return plan_.head_ranks > 1; }
  std::byte* exchange_memory() const { return workspace_ + plan_.exchange_at; }
  std::byte* at(const Place& place) const {
    return workspace_ + plan_.areas[place.area] + place.offset;
  }
  std::int64_t problems() const { return problem_.desc.batch * plan_.heads; }
  const Slice& slice_of(const Call& call) const { return plan_.slices[call.slice]; }

  /// Of numbers per head those of this rank's heads.
  template <class T>
  T* heads_of(T* numbers) const {
    if (numbers == nullptr) return nullptr;
    using Bytes = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return static_cast<Bytes*>(numbers) +
           static_cast<std::size_t>(plan_.first_head()) * bytes_of(problem_.real());
  }
  /// Where the mask or bias of a call begins. One that repeats over keys has no stride there, but
  /// where it was gathered.
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
  Requests requests_;
  Tensors inputs_;
  Attempts attempts_;
  Clock wait_;

 private:
  void pack() const;
  void begin(const Round& round, std::size_t n);
  void add(const Round& round) const;
  const std::int32_t* lengths_of(const Span& keys) const;
  void print(const char* what) const;
};

}  // namespace heed::mpi
