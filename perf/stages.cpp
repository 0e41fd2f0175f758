// stage/<stage>: one kernel of the table alone, on a full panel and data that fits the L1 cache;
// peak/<isa>: the peak that everything is held against.
#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/context/isa.hpp"
#include "engine/dense/panel.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/peak.hpp"
#include "tests/support/buffer.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed::perf {
namespace {

using heed_test::Buffer;

constexpr std::size_t kFeatures[] = {64, 128};

/// A panel and the largest step of keys with which everything a stage touches stays within
/// three quarters of the L1 cache.
struct Panel {
  Panel(const KernelTable<float>& table, std::size_t l1_bytes, std::size_t feature_count)
      : kernels(table),
        pitch(table.panels.lanes * table.panels.max_vectors),
        features(feature_count),
        keys(fitting_keys(l1_bytes)),
        columns(features * pitch),  // the query panel, or what values are added to
        rows(keys * features),      // keys or packed values
        scores((keys + PanelGeometry::row_padding) * pitch),
        accumulators(features * pitch),
        row_max(pitch),
        sum(pitch) {
    heed_test::Random random(1);
    const float scale = 1.0F / std::sqrt(static_cast<float>(features));
    columns.fill([&] { return random.normal() * scale; });
    for (Buffer* const numbers : {&rows, &scores, &accumulators})
      numbers->fill([&] { return random.normal(); });
    row_max.fill([] { return 4.0F; });
    sum.fill([] { return 0.0F; });
  }

  std::size_t fitting_keys(std::size_t l1_bytes) const {
    const std::size_t room = l1_bytes / 4 * 3 / sizeof(float);
    const std::size_t taken = features * pitch;
    const std::size_t fit = room > taken ? (room - taken) / (features + pitch) : 0;
    return std::clamp<std::size_t>(fit / PanelGeometry::row_padding * PanelGeometry::row_padding,
                                   PanelGeometry::row_padding, kernels.panels.key_block);
  }

  void run_scores() {
    kernels.panels.scores(kernels.panels.max_vectors, key(), all_keys(keys), columns.data(),
                          features, scores.data());
  }

  /// In place, so that weights become scores again: their range, and the time, stay the same.
  void run_softmax() {
    kernels.panels.softmax(kernels.panels.max_vectors, scores.data(), all_keys(keys), 0, state(),
                           features);
  }

  void run_weights() {
    kernels.panels.qk_softmax(kernels.panels.max_vectors, key(), keys, columns.data(), features,
                              scores.data(), 0, state(), features);
  }

  void run_exp2() { kernels.numbers.exp2(scores.data(), rows.data(), exponentials()); }

  void run_values() {
    const ValueView<float> value = {rows.data(), PanelGeometry::value_block, 1,
                                    static_cast<std::ptrdiff_t>(keys * PanelGeometry::value_block)};
    kernels.panels.accumulate(kernels.panels.max_vectors, value, all_keys(keys), PanelGeometry::run,
                              scores.data(), {nullptr, nullptr, columns.data(), false}, features);
  }

  RowsView<float> key() const { return {rows.data(), static_cast<std::ptrdiff_t>(features)}; }
  RowState<float> state() { return {row_max.data(), sum.data(), accumulators.data(), false}; }

  std::size_t exponentials() const { return std::min(keys * pitch, keys * features); }

  double product_flops() const { return 2.0 * static_cast<double>(keys * pitch * features); }

  const KernelTable<float>& kernels;
  std::size_t pitch;
  std::size_t features;
  std::size_t keys;
  Buffer columns;
  Buffer rows;
  Buffer scores;
  Buffer accumulators;  // rescaled when a row_max moves, which happens in the first call alone
  Buffer row_max;
  Buffer sum;
};

struct Stage {
  const char* name;
  void (Panel::*run)();
  bool product;  ///< counts flops and depends on the features, else exponentials and does not
};

constexpr Stage kStages[] = {
    {"scores", &Panel::run_scores, true}, {"softmax", &Panel::run_softmax, false},
    {"exp2", &Panel::run_exp2, false},    {"weights", &Panel::run_weights, true},
    {"values", &Panel::run_values, true},
};

void measure_stage(benchmark::State& state, const Stage& stage, const KernelTable<float>& kernels,
                   std::size_t l1_bytes, std::size_t features) {
  Panel panel(kernels, l1_bytes, features);
  const Timing timing = time_between_peaks(state, peak_kernel_of(kernels.isa), 1, [&] {
    (panel.*stage.run)();
    benchmark::ClobberMemory();
  });
  if (stage.product) {
    count_rate(state.counters, panel.product_flops(), timing.seconds, timing.peak);
  } else {
    const std::size_t count =
        stage.run == &Panel::run_exp2 ? panel.exponentials() : panel.keys * panel.pitch;
    state.counters["gexps"] = static_cast<double>(count) / timing.seconds * 1e-9;
  }
  state.SetLabel(std::string(kernels.isa) + " " + std::to_string(panel.pitch) + " rows x " +
                 std::to_string(panel.keys) + " keys");
}

/// The tables of the chosen instruction sets, or of all usable ones.
std::vector<const KernelTable<float>*> tables(const Options& options) {
  std::vector<const KernelTable<float>*> chosen;
  std::vector<std::string> names = options.isas;
  if (names.empty()) names.assign(heed_test::isa_names().begin(), heed_test::isa_names().end());
  for (const std::string& name : names) {
    make_context({}, name, 1);  // throws, with the choices, where the name is none of them
    for (std::size_t i = 0; i < isa_count(); ++i)
      if (name == isa_at(i).kernels.f32.isa) chosen.push_back(&isa_at(i).kernels.f32);
  }
  return chosen;
}

void add_stage_row(const Stage& stage, const KernelTable<float>& kernels, std::size_t l1_bytes,
                   std::size_t features) {
  const std::string isa = kernels.isa;
  const std::string size = stage.product ? "D:" + std::to_string(features) : "";
  const std::string name = std::string("stage/") + stage.name + (stage.product ? "/" : "") + size;
  add_row({name + "/threads:1/isa:" + isa, stage.name + (" " + size), isa, 1, "-"},
          benchmark::kMicrosecond, [=, &stage, &kernels](benchmark::State& state) {
            measure_stage(state, stage, kernels, l1_bytes, features);
          });
}

void measure_peak_row(benchmark::State& state, const PeakKernel& kernel, unsigned threads,
                      bool pairs) {
  constexpr double kSeconds = 0.02;
  PeakMeter peak(kernel, threads, pairs);
  for (auto _ : state) peak.sample(kSeconds);
  state.counters["gflops"] = peak.rate() * 1e-9;
}

void add_peak_row(const std::string& isa, unsigned threads, bool pairs) {
  const PeakKernel& kernel = peak_kernel_of(isa);
  const std::string of = pairs ? "/pairs" : "";
  add_row({"peak/" + isa + of + "/threads:" + std::to_string(threads),
           pairs ? "peak of pairs" : "FMA peak", isa, threads, "-"},
          benchmark::kMillisecond, [&kernel, threads, pairs](benchmark::State& state) {
            measure_peak_row(state, kernel, threads, pairs);
          });
}

}  // namespace

void add_stage_rows(const Options& options) {
  const std::size_t l1_bytes = describe(make_context({}, {}, 1)).l1_bytes;
  for (const KernelTable<float>* kernels : tables(options))
    for (const Stage& stage : kStages)
      for (const std::size_t features : kFeatures)
        if (stage.product || features == kFeatures[0])
          add_stage_row(stage, *kernels, l1_bytes, features);
}

void add_peak_rows(const Options& options) {
  for (const KernelTable<float>* kernels : tables(options))
    for (const unsigned threads : options.threads) {
      add_peak_row(kernels->isa, threads, false);
      if (kernels->pairs != nullptr) add_peak_row(kernels->isa, threads, true);
    }
}

}  // namespace heed::perf
