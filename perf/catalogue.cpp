#include "perf/catalogue.hpp"

#include <cstdio>
#include <exception>
#include <map>

namespace heed::perf {
namespace {

struct Catalogue {
  std::map<std::string, Row> rows;
  std::string current;  ///< the row that the progress line names
  std::size_t started = 0;
  std::size_t total = 0;
  bool progress = false;
  bool failed = false;
};

Catalogue& catalogue() {
  static Catalogue instance;
  return instance;
}

/// A row's body is called several times; the first call is its beginning.
void begin_row(const std::string& name) {
  Catalogue& c = catalogue();
  if (!c.progress || c.current == name) return;
  c.current = name;
  ++c.started;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", c.started, c.total, name.c_str());
  std::fflush(stderr);
}

/// Registers it; Google Benchmark's handle to say more.
benchmark::internal::Benchmark* added(const Row& row, std::function<void(benchmark::State&)> body) {
  catalogue().rows[row.name] = row;
  const auto guarded = [name = row.name, body = std::move(body)](benchmark::State& state) {
    begin_row(name);
    try {
      body(state);
    } catch (const std::exception& problem) {
      fail_row(state, problem.what());
    }
  };
  return benchmark::RegisterBenchmark(row.name.c_str(), guarded);
}

}  // namespace

Row row_of(const std::string& kind, const std::string& subject, const std::string& isa,
           unsigned threads, const std::string& tiles) {
  const std::string name = kind + "/" + subject + "/threads:" + std::to_string(threads);
  return {name + "/isa:" + isa, subject, isa, threads, tiles};
}

void add_row(const Row& row, benchmark::TimeUnit unit,
             std::function<void(benchmark::State&)> body) {
  added(row, std::move(body))->UseRealTime()->Unit(unit);
}

void add_timed_row(const Row& row, std::function<void(benchmark::State&)> body) {
  added(row, std::move(body))->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}

const Row* find_row(const std::string& name) {
  const auto found = catalogue().rows.find(name);
  return found == catalogue().rows.end() ? nullptr : &found->second;
}

void fail_row(benchmark::State& state, const std::string& message) {
  catalogue().failed = true;
  state.SkipWithError(message.c_str());
}

bool any_row_failed() { return catalogue().failed; }

void show_progress(std::size_t total) {
  catalogue().progress = true;
  catalogue().total = total;
}

void clear_progress() {
  if (!catalogue().progress) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace heed::perf
