#include "perf/decode/reading.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace heed::perf {
namespace {

/// What a thread claims at once: its four places are then on pages of their own.
constexpr std::size_t kSpanBytes = std::size_t{1} << 18;

/// Smaller workloads are read several times between two looks at the clock.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

/// Adds stretches, those that lie one after the other as one, in pieces of kSpanBytes at most.
template <class Span>
void cut(const std::vector<Span>& stretches, std::vector<Span>& spans) {
  for (std::size_t i = 0; i < stretches.size();) {
    Span rest = stretches[i];
    for (++i; i < stretches.size() && rest.data + rest.bytes == stretches[i].data; ++i)
      rest.bytes += stretches[i].bytes;
    while (rest.bytes != 0) {
      const std::size_t bytes = std::min(rest.bytes, kSpanBytes);
      spans.push_back({rest.data, bytes});
      rest.data += bytes;
      rest.bytes -= bytes;
    }
  }
}

}  // namespace

ReadMeter::ReadMeter(const PeakKernel& kernel, unsigned threads, const Workload& workload,
                     std::shared_ptr<const Layers> tensors)
    : kernel_(kernel), threads_(threads), tensors_(std::move(tensors)) {
  for (const oracle::Problem& layer : *tensors_) {
    std::vector<Span> stretches;
    for (std::int64_t b = 0; b < workload.desc.batch; ++b)
      add_sequence(workload, layer, b, stretches);
    if (workload.desc.pages != 0) {
      cut(stretches, by_table_);
      std::sort(stretches.begin(), stretches.end(),
                [](const Span& a, const Span& b) { return a.data < b.data; });
    }
    cut(stretches, spans_);
  }
  for (const Span& span : spans_) bytes_ += span.bytes;
  const std::vector<Span> once = spans_;
  for (std::size_t all = bytes_; all < kLeastBytes; all += bytes_)
    spans_.insert(spans_.end(), once.begin(), once.end());
}

/// Rows of one head, or of all in one, lie one after the other, as far as a page goes. Those of a
/// page come together.
void ReadMeter::add_sequence(const Workload& workload, const oracle::Problem& layer,
                             std::int64_t batch, std::vector<Span>& stretches) {
  const heed_attention_desc& d = workload.desc;
  const oracle::Sequence sequence = sequence_of(workload, batch);
  const KeyRange keys = attended_keys(workload, sequence);
  std::vector<const Tensor*> stored = {&layer.key, &layer.value};
  if (d.key.dtype == HEED_DTYPE_I8)
    stored.insert(stored.end(), {&*layer.key_scales, &*layer.value_scales});
  const bool one_head = d.packed_keys != 0 || workload.nhd;
  const std::int64_t heads = one_head ? 1 : d.key_heads;
  for (std::int64_t t = keys.begin, count = 0; t < keys.end; t += count) {
    const oracle::RowPlace at = oracle::key_row(sequence, t);
    const std::int64_t end = d.pages != 0 ? t - at.row + d.page_rows : keys.end;
    count = std::min(end, keys.end) - t;
    const auto add = [&](const Tensor& tensor, std::int64_t h) {
      const oracle::Source rows = source_of(tensor);
      const std::int64_t width = oracle::format_of(rows.dtype).bytes;
      const std::int64_t before =
          at.batch * rows.strides.batch + h * rows.strides.head + at.row * rows.strides.row;
      stretches.push_back({static_cast<const char*>(rows.data) + before * width,
                           static_cast<std::size_t>(count * rows.strides.row * width)});
    };
    if (d.pages != 0) {
      for (const Tensor* const tensor : stored)
        for (std::int64_t h = 0; h < heads; ++h) add(*tensor, h);
    } else {
      for (std::int64_t h = 0; h < heads; ++h)
        for (const Tensor* const tensor : stored) add(*tensor, h);
    }
  }
}

void ReadMeter::sample(double seconds) {
  sample(spans_, ReadOrder::kPlain, seconds, plain_);
  sample(spans_, ReadOrder::kSpread, seconds, spread_);
  if (!by_table_.empty()) sample(by_table_, ReadOrder::kPlain, seconds, table_);
}

/// Threads claim spans in order, as those of attention claim tasks. Whoever comes to the first one
/// again when time is up ends it for all.
void ReadMeter::sample(const std::vector<Span>& spans, ReadOrder order, double seconds,
                       MeanRate& mean) {
  const auto count = static_cast<std::int64_t>(spans.size());
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> end{std::numeric_limits<std::int64_t>::max()};
  const double rate = sum_of_threads(threads_, [&] {
    Clock::time_point start = Clock::now();
    while (seconds_since(start) < kWarmUpSeconds) continue;
    start = Clock::now();
    Stopwatch watch(threads_ == 1);
    watch.start();
    double bytes = 0;
    for (std::int64_t i; (i = next.fetch_add(1)) < end.load();) {
      if (i != 0 && i % count == 0 && seconds_since(start) >= seconds) end.store(i);
      if (i >= end.load()) break;
      const Span& span = spans[static_cast<std::size_t>(i % count)];
      benchmark::DoNotOptimize(kernel_.read(span.data, span.bytes, order));
      bytes += static_cast<double>(span.bytes);
    }
    return bytes / watch.seconds();
  });
  mean.add(rate, seconds);
}

}  // namespace heed::perf
