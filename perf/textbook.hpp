// Attention as the textbook has it, row by row: what results are checked against, and what heed is
// compared with.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/sequences.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// One head at a time, in float or double.
template <class Real>
class Textbook {
 public:
  /// Keeps references to both.
  Textbook(const Workload& workload, const Tensors& tensors);

  /// Turns to a head, and reads the keys and values of its sequence.
  void enter(std::int64_t batch, std::int64_t head);
  const Sequence& sequence() const { return sequence_; }

  /// Computes a row of that head; the rest are its results.
  void compute(std::int64_t row);
  const std::vector<Real>& query() const { return query_; }
  const std::vector<Real>& keys() const { return key_; }      ///< [sequence().keys, features]
  const std::vector<Real>& values() const { return value_; }  ///< [sequence().keys, value features]
  const std::vector<Real>& scores() const { return scores_; }  ///< [key_length], -inf where masked
  const std::vector<Real>& probabilities() const { return weights_; }  ///< [key_length]
  const std::vector<Real>& out() const { return out_; }
  Real lse() const { return lse_; }

 private:
  bool attends(std::int64_t row, std::int64_t key) const;
  Real score(std::int64_t row, std::int64_t key) const;
  void softmax(const KeyRange& keys);

  const Workload& workload_;
  const Tensors& tensors_;
  std::int64_t batch_ = 0;
  std::int64_t head_ = 0;
  Sequence sequence_{};
  HeadRows query_rows_{};
  Real scale_;
  std::vector<Real> query_, key_, value_;
  std::vector<Real> scores_, weights_, out_;
  Real lse_ = 0;
};

/// All rows, in the arithmetic of the workload, out and lse alone. One thread.
void textbook_attention(const Workload& workload, Tensors& tensors);

}  // namespace heed::perf
