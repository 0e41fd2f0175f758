#include "tests/bits/areas.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/problem/draw_graphs.hpp"
#include "tests/problem/merge.hpp"
#include "tests/problem/random_blocks.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {
namespace {

void add(Record& record, const Outputs& outputs) {
  record.add("out", outputs.out);
  record.add("lse", outputs.lse);
  record.add("weights", outputs.weights);
  record.add("column sums", outputs.column_sums);
}

void add(Record& record, const GraphOutputs& outputs) {
  record.add("out", outputs.out);
  record.add("lse", outputs.lse);
  record.add("weights", outputs.weights);
}

void add(Record& record, const Merged& merged) {
  record.add("out", merged.out);
  record.add("lse", merged.lse);
}

/// Runs once per instruction set, with an executor, threads and tiles that follow from the seed.
template <class Run>
void each_isa(std::uint64_t seed, Contexts& contexts, Record& record, const std::string& line,
              Run&& run) {
  Random random(seed ^ 0x5eed);
  Choices choices = draw_choices(random);
  // More than the CPUs are, oneTBB would tell of.
  if (std::strcmp(choices.executor, "openmp") == 0)
    choices.threads = random.pick<std::uint32_t>({1, 2, 3, 4});
  std::ostringstream description;
  description << line << "; " << choices.executor << " " << choices.threads << ", tiles "
              << choices.tile_q << " x " << choices.tile_kv;
  record.describe(description.str());
  for (const char* const isa : isa_names()) {
    record.begin_run(isa);
    try {
      add(record, run(contexts.get(isa, choices)));
    } catch (const std::runtime_error& error) {
      record.add("failed", error.what());
    }
  }
}

void run_forms(Lengths lengths, std::uint64_t seed, Contexts& contexts, Record& record) {
  Problem problem = draw_problem(seed, {lengths});
  each_isa(seed, contexts, record, line_of(problem),
           [&](const Context& context) { return problem.run_all(context); });
}

void run_dense(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_forms(Lengths::kAny, seed, contexts, record);
}

void run_long(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_forms(Lengths::kLong, seed, contexts, record);
}

void run_block(std::uint64_t seed, Contexts& contexts, Record& record) {
  Block block = draw_block(seed);
  each_isa(seed, contexts, record, line_of(block),
           [&](const Context& context) { return block.run_all(context); });
}

void run_graphs(Graphs kind, std::uint64_t seed, Contexts& contexts, Record& record) {
  GraphProblem problem = draw_graph_problem(seed, kind);
  each_isa(seed, contexts, record, line_of(problem),
           [&](const Context& context) { return problem.run(context); });
}

void run_graph(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_graphs(Graphs::kAny, seed, contexts, record);
}

void run_hub(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_graphs(Graphs::kHub, seed, contexts, record);
}

void run_merge(std::uint64_t seed, Contexts& contexts, Record& record) {
  Merge merge = draw_merge(seed);
  const bool with_lse = seed % 4 != 0;
  each_isa(seed, contexts, record, line_of(merge) + (with_lse ? "" : ", no lse"),
           [&](const Context& context) { return merge.run_all(context, with_lse); });
}

}  // namespace

const std::vector<Area>& areas() {
  static const std::vector<Area> all = {
      {"dense", "dense attention with every option", 8000, run_dense},
      {"long", "dense attention of few queries over 4096 keys and more", 400, run_long},
      {"merge", "merges of partial results", 2000, run_merge},
      {"block", "multi-head blocks, every combiner, matrices as they are and prepared", 3000,
       run_block},
      {"graph", "attention over graphs, every input", 4000, run_graph},
      {"hub", "attention over graphs with a node of 8000 edges and more", 100, run_hub},
      {"refused", "calls that are refused: status, message, and outputs left alone", 6000,
       run_refused}};
  return all;
}

}  // namespace heed_test
