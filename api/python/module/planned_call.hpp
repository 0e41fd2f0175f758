// What the calls of a plan of dense attention have in common with what it was made from.
#pragma once

#include "api/python/module/kept.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {

/// A call as Python gives it; tensors is a dict.
struct GivenCall {
  nb::handle query;
  nb::handle key;
  nb::handle value;
  nb::handle out;
  nb::handle tensors;
};

/// Settings, shapes, strides and types; no tensor.
class PlannedCall {
 public:
  static constexpr int kArrays = 8;

  /// Of a call that has been read. Over ranks `all_keys` are those of all of them; otherwise -1.
  PlannedCall(const Call& call, const Options& options, std::int64_t all_keys = -1);

  /// Reads a call, which must be like the one that the plan was made from by `maker`.
  Outputs read(Call& call, const char* maker, const GivenCall& given) const;

 private:
  void take_plain_out(Call& call) const;
  [[noreturn]] void refuse_difference(const Call& call) const;

  heed_attention_desc desc_;
  std::int64_t all_keys_;
  bool out_given_;
  KeptOptions kept_;
  Form forms_[kArrays];
};

/// read_scores of a rank's rows, whose masks have the keys of all ranks.
void read_shard_scores(Call& call, const Options& options, std::int64_t all_keys);

}  // namespace heed::python
