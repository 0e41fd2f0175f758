// append/<workload>: new rows of keys and values that a cache converts and stores, in turns with
// memcpy of the same rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/peak.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

namespace {

/// How far what is stored of x may be from it, x a number of a row whose largest is `most`.
double bound_of(std::uint32_t dtype, double x, double most) {
  const double arithmetic = std::ldexp(most, -20);
  if (dtype == HEED_DTYPE_I8) return most / 254 + arithmetic;
  const oracle::Format& format = oracle::format_of(dtype);
  const double rounding = dtype == HEED_DTYPE_F32 ? 0 : format.unit * std::fabs(x);
  return std::max(rounding, std::ldexp(0.5, format.lowest)) + arithmetic;
}

class AppendProblem {
 public:
  AppendProblem(const AppendWorkload& workload, const Context& context)
      : workload_(workload),
        d_(workload_.desc),
        cache_(oracle::make_cache(*context, d_)),
        key_(normal_rows(d_.features, 1)),
        value_(normal_rows(d_.value_features, 2)),
        copies_(static_cast<std::size_t>(d_.pages * d_.page_rows * d_.key_heads *
                                         (d_.features + d_.value_features)) *
                sizeof(float)) {
    oracle::require_ok(heed_cache_sequence_create(cache_.get(), &sequence_));
    append();
    accuracy_ = check_values();
    demand(accuracy_, workload.name);
    // The first to write memory has it made.
    for (std::int64_t rows = 0; rows < d_.pages * d_.page_rows; rows += workload.rows) append();
  }

  const Accuracy& accuracy() const { return accuracy_; }

  void append() {
    if (length_ + workload_.rows > d_.pages * d_.page_rows) {
      oracle::require_ok(heed_cache_truncate(cache_.get(), sequence_, 0));
      length_ = 0;
    }
    heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
    desc.rows = workload_.rows;
    for (; desc.layer < d_.layers; ++desc.layer)
      oracle::require_ok(
          heed_cache_append(cache_.get(), sequence_, &desc, key_.data(), value_.data()));
    length_ += workload_.rows;
  }

  void copy() {
    for (std::int64_t layer = 0; layer < d_.layers; ++layer)
      for (const Tensor* const tensor : {&key_, &value_}) {
        if (copied_ + bytes_of(*tensor) > copies_.bytes()) copied_ = 0;
        std::memcpy(static_cast<char*>(copies_.get()) + copied_, tensor->data(), bytes_of(*tensor));
        copied_ += bytes_of(*tensor);
      }
  }

 private:
  /// [rows and heads, features], as the cache takes them.
  Tensor normal_rows(std::int64_t width, std::uint64_t seed) const {
    oracle::Random random(seed);
    Tensor rows = rows_of(HEED_DTYPE_F32, workload_.rows * d_.key_heads, width);
    rows.fill([&] { return random.normal(); });
    return rows;
  }

  /// Of a sequence that was appended to once: every row attends its own key alone, and has then
  /// what is stored of its value.
  Accuracy check_values() {
    heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
    attention.batch = 1;
    attention.query_heads = d_.key_heads;
    attention.query_length = workload_.rows;
    attention.alignment = HEED_ALIGNMENT_TOP_LEFT;
    attention.window = 1;
    heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
    desc.attention = &attention;
    desc.sequences = &sequence_;
    const Tensor query = normal_rows(d_.features, 3);
    Tensor out = rows_of(HEED_DTYPE_F32, workload_.rows * d_.key_heads, d_.value_features);
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = query.data();
    args.out = out.data();
    oracle::require_ok(heed_cache_attention(cache_.get(), &desc, &args));
    Accuracy accuracy;
    for (std::int64_t h = 0; h < d_.key_heads; ++h)
      for (std::int64_t i = 0; i < workload_.rows; ++i) {
        const auto given = [&](std::int64_t x) {
          return value_.get({0, 0, i * d_.key_heads + h, x});
        };
        double most = 0;
        for (std::int64_t x = 0; x < d_.value_features; ++x)
          most = std::max(most, std::fabs(given(x)));
        for (std::int64_t x = 0; x < d_.value_features; ++x)
          accuracy.compare(out.get({0, 0, h * workload_.rows + i, x}),
                           {given(x), bound_of(d_.dtype, given(x), most)});
      }
    return accuracy;
  }

  const AppendWorkload workload_;
  const heed_cache_desc& d_;
  oracle::Cache cache_;
  heed_sequence sequence_ = 0;
  std::int64_t length_ = 0;
  Tensor key_, value_;
  Workspace copies_;
  std::size_t copied_ = 0;
  Accuracy accuracy_;
};

/// Nothing that the machine can do is held against appending.
struct NoMeter {
  void sample(double /*seconds*/) {}
  double rate() const { return 0; }
};

class AppendRow {
 public:
  AppendRow(const std::string& name, const Options& /*options*/, const Context& context,
            unsigned threads)
      : workload_(parse_append_workload(name)), context_(context), threads_(threads) {}

  Row row() const { return row_of("append", workload_.name, describe(context_).isa, threads_); }

  void measure(benchmark::State& state) {
    const auto problem =
        kept<AppendProblem>(row().name, [&] { return AppendProblem(workload_, context_); });
    const Timing timing = time_between_samples(
        state, threads_ == 1, NoMeter(), [&] { problem->append(); }, {[&] { problem->copy(); }});
    const heed_cache_desc& d = workload_.desc;
    const double rows = static_cast<double>(workload_.rows * d.layers);
    const double bytes =
        rows * product({d.key_heads, pair_bytes(d.dtype, d.features + d.value_features)});
    state.counters["rows/s"] = rows / timing.seconds;
    state.counters["gbps"] = bytes / timing.seconds * 1e-9;
    state.counters["call_us"] = timing.seconds / static_cast<double>(d.layers) * 1e6;
    state.counters["of_copy"] = timing.seconds / timing.beside[0];
    count(problem->accuracy(), state.counters);
    const heed_context_info info = describe(context_);
    state.SetLabel(std::string(info.isa) + " " + info.executor);
  }

 private:
  const AppendWorkload workload_;
  const Context context_;
  const unsigned threads_;
};

}  // namespace

void add_append_rows(const Options& options) {
  add_cases<AppendRow>(options.append_shapes, options);
}

}  // namespace heed::perf
