// naive/<workload>: what heed saves a program from, attention as the textbook has it, row by row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/peak.hpp"

namespace heed::perf {
namespace {

/// Larger workloads would take longer than all the rest.
constexpr double kMostFlops = 1e9;

/// One head of one sequence at a time, in float or double.
template <class Real>
class Textbook {
 public:
  Textbook(const Workload& workload, oracle::Problem& problem)
      : workload_(workload),
        d_(workload.desc),
        p_(problem),
        queries_(source_of(problem.query)),
        keys_(source_of(problem.key)),
        values_(source_of(problem.value)),
        mask_(oracle::source_of(problem.args().mask, d_.mask, oracle::kByte, d_)),
        bias_(oracle::source_of(problem.args().bias, d_.bias, oracle::real_dtype(d_), d_)),
        scale_(1 / std::sqrt(static_cast<Real>(d_.features))),
        query_(size(d_.features)),
        scores_(size(d_.key_length)),
        weights_(size(d_.key_length)),
        out_(size(d_.value_features)) {}

  /// All rows, out and lse alone.
  void run() {
    for (std::int64_t b = 0; b < d_.batch; ++b)
      for (std::int64_t h = 0; h < d_.query_heads; ++h) {
        enter(b, h);
        for (std::int64_t i = 0; i < sequence_.queries; ++i) {
          compute(i);
          store(i);
        }
      }
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  static void read(const oracle::Source& from, const oracle::RowPlace& at, std::int64_t head,
                   std::int64_t width, Real* to) {
    for (std::int64_t x = 0; x < width; ++x)
      to[x] = static_cast<Real>(from.at(at.batch, head, at.row, x));
  }

  /// Reads the keys and values of the sequence.
  void enter(std::int64_t batch, std::int64_t head) {
    batch_ = batch;
    head_ = head;
    sequence_ = sequence_of(workload_, batch);
    const std::int64_t group = head / (d_.query_heads / d_.key_heads);
    key_.resize(size(sequence_.keys * d_.features));
    value_.resize(size(sequence_.keys * d_.value_features));
    for (std::int64_t j = 0; j < sequence_.keys; ++j) {
      const oracle::RowPlace at = oracle::key_row(sequence_, j);
      read(keys_, at, group, d_.features, key_.data() + j * d_.features);
      read(values_, at, group, d_.value_features, value_.data() + j * d_.value_features);
    }
  }

  Real score(std::int64_t row, std::int64_t key) const {
    const Real* const k = key_.data() + key * d_.features;
    Real s = 0;
    for (std::int64_t x = 0; x < d_.features; ++x) s += query_[size(x)] * k[x];
    s *= scale_;
    const auto softcap = static_cast<Real>(d_.softcap);
    if (softcap > 0) s = softcap * std::tanh(s / softcap);
    if (workload_.alibi) {
      const auto distance = static_cast<Real>(std::abs(row + sequence_.offset - key));
      s -= static_cast<Real>(p_.slopes.numbers[size(head_)]) * distance;
    }
    if (workload_.bias) s += static_cast<Real>(bias_.at(batch_, head_, row, key));
    if (workload_.score_function) s += static_cast<Real>(kNearness) * static_cast<Real>(key - row);
    return s;
  }

  /// From the scores of these keys to their weights and lse_.
  void softmax(const KeyRange& keys) {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const Real sink =
        workload_.sinks ? static_cast<Real>(p_.sinks.numbers[size(head_)]) : -infinity;
    const Real* const scores = scores_.data();
    const Real* const largest = std::max_element(scores + keys.begin, scores + keys.end);
    const Real top = keys.begin == keys.end ? sink : std::max(sink, *largest);
    lse_ = -infinity;
    if (top == -infinity) return;  // no key at all
    if (d_.hard != 0) {
      weights_[size(largest - scores)] = 1;
      return;
    }
    Real* const weights = weights_.data();
    Real sum = std::exp(sink - top);
    for (std::int64_t j = keys.begin; j < keys.end; ++j)
      sum += weights[j] = std::exp(scores[j] - top);
    for (std::int64_t j = keys.begin; j < keys.end; ++j) weights[j] /= sum;
    lse_ = top + std::log(sum);
  }

  void compute(std::int64_t row) {
    read(queries_, {batch_, sequence_.first_query + row}, head_, d_.features, query_.data());
    const KeyRange keys = key_range(workload_, sequence_, row);
    std::fill(scores_.begin(), scores_.end(), -std::numeric_limits<Real>::infinity());
    std::fill(weights_.begin(), weights_.end(), Real(0));
    for (std::int64_t j = keys.begin; j < keys.end; ++j)
      if (!workload_.mask || mask_.at(batch_, head_, row, j) != 0) scores_[size(j)] = score(row, j);
    softmax(keys);
    std::fill(out_.begin(), out_.end(), Real(0));
    for (std::int64_t j = keys.begin; j < keys.end; ++j) {
      const Real weight = weights_[size(j)];
      const Real* const value = value_.data() + j * d_.value_features;
      for (std::int64_t x = 0; x < d_.value_features; ++x) out_[size(x)] += weight * value[x];
    }
  }

  void store(std::int64_t row) {
    const std::int64_t batch = d_.packed_queries != 0 ? 0 : batch_;
    const std::int64_t at = sequence_.first_query + row;
    for (std::int64_t x = 0; x < d_.value_features; ++x)
      p_.out.set({batch, head_, at, x}, static_cast<double>(out_[size(x)]));
    if (p_.lse) p_.lse->set({batch, head_, at, 0}, static_cast<double>(lse_));
  }

  const Workload& workload_;
  const heed_attention_desc& d_;
  oracle::Problem& p_;
  const oracle::Source queries_, keys_, values_, mask_, bias_;
  const Real scale_;
  std::int64_t batch_ = 0, head_ = 0;
  oracle::Sequence sequence_{};
  std::vector<Real> query_, key_, value_, scores_, weights_, out_;
  Real lse_ = 0;
};

void measure(benchmark::State& state, const Workload& workload) {
  const std::shared_ptr<Layers> tensors = tensors_of(workload);
  oracle::Problem& problem = tensors->front();
  const bool float64 = oracle::is_float64(workload.desc);
  const Clock::time_point start = Clock::now();
  for (auto _ : state)
    float64 ? Textbook<double>(workload, problem).run() : Textbook<float>(workload, problem).run();
  const double seconds = seconds_since(start) / static_cast<double>(state.iterations());
  state.counters["gflops"] = useful_flops(workload) / seconds * 1e-9;
  count(check_accuracy(problem), state.counters);
  state.SetLabel("textbook loops, 1 thread");
}

/// The textbook writes neither weights nor their sums, reads no 8-bit numbers, and has one layer.
bool asks_for_more(const Workload& workload) {
  return workload.desc.weights_point != HEED_WEIGHTS_NONE || workload.desc.sum_columns != 0 ||
         workload.layers != 1 || oracle::is_scaled(workload.desc.key.dtype);
}

}  // namespace

void add_naive_rows(const Options& options) {
  for (const std::string& name : options.shapes) {
    const Workload workload = parse_workload(name);
    if (useful_flops(workload) > kMostFlops || asks_for_more(workload)) continue;
    add_row({"naive/" + name + "/threads:1", name, "naive", 1, "-"}, benchmark::kMillisecond,
            [=](benchmark::State& state) { measure(state, workload); });
  }
}

}  // namespace heed::perf
