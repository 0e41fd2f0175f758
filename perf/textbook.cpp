#include "perf/textbook.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed::perf {
namespace {

template <class Real>
std::vector<Real> read_rows(const Tensor& tensor, const HeadRows& rows, std::int64_t count,
                            std::int64_t width) {
  std::vector<Real> all(static_cast<std::size_t>(count * width));
  for (std::int64_t i = 0; i < count; ++i) tensor.read(rows[i], width, all.data() + i * width);
  return all;
}

}  // namespace

template <class Real>
Textbook<Real>::Textbook(const Workload& workload, const Tensors& tensors)
    : workload_(workload),
      tensors_(tensors),
      scale_(1 / std::sqrt(static_cast<Real>(workload.desc.features))),
      query_(static_cast<std::size_t>(workload.desc.features)),
      scores_(static_cast<std::size_t>(workload.desc.key_length)),
      weights_(static_cast<std::size_t>(workload.desc.key_length)),
      out_(static_cast<std::size_t>(workload.desc.value_features)) {}

template <class Real>
void Textbook<Real>::enter(std::int64_t batch, std::int64_t head) {
  const heed_attention_desc& d = workload_.desc;
  batch_ = batch;
  head_ = head;
  sequence_ = sequence_of(workload_, batch);
  query_rows_ = query_rows(workload_, batch, head, d.features);
  key_ = read_rows<Real>(tensors_.key, key_rows(workload_, batch, head, d.features), sequence_.keys,
                         d.features);
  value_ = read_rows<Real>(tensors_.value, key_rows(workload_, batch, head, d.value_features),
                           sequence_.keys, d.value_features);
}

/// Within the row's key range.
template <class Real>
bool Textbook<Real>::attends(std::int64_t row, std::int64_t key) const {
  if (!workload_.mask) return true;
  return tensors_.mask[score_index(workload_.desc.mask, batch_, head_, row, key)] != 0;
}

template <class Real>
Real Textbook<Real>::score(std::int64_t row, std::int64_t key) const {
  const heed_attention_desc& d = workload_.desc;
  const Real* const k = key_.data() + key * d.features;
  Real s = 0;
  for (std::int64_t x = 0; x < d.features; ++x) s += query_[static_cast<std::size_t>(x)] * k[x];
  s *= scale_;
  const auto softcap = static_cast<Real>(d.softcap);
  if (softcap > 0) s = softcap * std::tanh(s / softcap);
  if (workload_.alibi) {
    const auto distance = static_cast<Real>(std::abs(row + sequence_.offset - key));
    s -= static_cast<Real>(tensors_.slopes[head_]) * distance;
  }
  if (workload_.bias) {
    const std::size_t index = score_index(d.bias, batch_, head_, row, key);
    s += static_cast<Real>(tensors_.bias[static_cast<std::int64_t>(index)]);
  }
  if (workload_.score_function) s += static_cast<Real>(kNearness) * static_cast<Real>(key - row);
  return s;
}

/// From the scores of these keys to their weights and lse_.
template <class Real>
void Textbook<Real>::softmax(const KeyRange& keys) {
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  const Real sink = workload_.sinks ? static_cast<Real>(tensors_.sinks[head_]) : -infinity;
  const Real* const scores = scores_.data();
  const Real* const largest = std::max_element(scores + keys.begin, scores + keys.end);
  const Real top = keys.begin == keys.end ? sink : std::max(sink, *largest);
  lse_ = -infinity;
  if (top == -infinity) return;  // no key at all
  if (workload_.desc.hard != 0) {
    weights_[static_cast<std::size_t>(largest - scores)] = 1;
    return;
  }
  Real* const weights = weights_.data();
  Real sum = std::exp(sink - top);
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    sum += weights[j] = std::exp(scores[j] - top);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) weights[j] /= sum;
  lse_ = top + std::log(sum);
}

template <class Real>
void Textbook<Real>::compute(std::int64_t row) {
  const heed_attention_desc& d = workload_.desc;
  tensors_.query.read(query_rows_[row], d.features, query_.data());
  const KeyRange keys = key_range(workload_, sequence_, row);
  std::fill(scores_.begin(), scores_.end(), -std::numeric_limits<Real>::infinity());
  std::fill(weights_.begin(), weights_.end(), Real(0));
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    if (attends(row, j)) scores_[static_cast<std::size_t>(j)] = score(row, j);
  softmax(keys);
  std::fill(out_.begin(), out_.end(), Real(0));
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const Real weight = weights_[static_cast<std::size_t>(j)];
    const Real* const value = value_.data() + j * d.value_features;
    for (std::int64_t x = 0; x < d.value_features; ++x)
      out_[static_cast<std::size_t>(x)] += weight * value[x];
  }
}

template class Textbook<float>;
template class Textbook<double>;

namespace {

template <class Real>
void attend(const Workload& workload, Tensors& tensors) {
  const heed_attention_desc& d = workload.desc;
  Textbook<Real> textbook(workload, tensors);
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t h = 0; h < d.query_heads; ++h) {
      textbook.enter(b, h);
      const HeadRows out = query_rows(workload, b, h, d.value_features);
      const HeadRows lse = lse_rows(workload, b, h);
      for (std::int64_t i = 0; i < textbook.sequence().queries; ++i) {
        textbook.compute(i);
        for (std::int64_t x = 0; x < d.value_features; ++x)
          tensors.out.set(out[i] + x,
                          static_cast<double>(textbook.out()[static_cast<std::size_t>(x)]));
        if (workload.lse) tensors.lse.set(lse[i], static_cast<double>(textbook.lse()));
      }
    }
}

}  // namespace

void textbook_attention(const Workload& workload, Tensors& tensors) {
  if (arithmetic_of(workload) == HEED_DTYPE_F64)
    attend<double>(workload, tensors);
  else
    attend<float>(workload, tensors);
}

}  // namespace heed::perf
