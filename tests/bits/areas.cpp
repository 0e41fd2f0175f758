#include "tests/bits/areas.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/problem/random_problems.hpp"
#include "tests/problem/results.hpp"

namespace heed_test {
namespace {

/// Runs what draw(seed) draws once per instruction set, with an executor, threads and tiles that
/// follow from the seed.
template <auto draw>
void run_drawn(std::uint64_t seed, Contexts& contexts, Record& record) {
  auto problem = draw(seed);
  Random random(seed ^ 0x5eed);
  Choices choices = draw_choices(random);
  // More than the CPUs are, oneTBB would tell of.
  if (std::strcmp(choices.executor, "openmp") == 0)
    choices.threads = random.pick<std::uint32_t>({1, 2, 3, 4});
  std::ostringstream description;
  // Executors are not told: the other build may have others, whose bits are the same.
  description << line_of(problem) << "; tiles " << choices.tile_q << " x " << choices.tile_kv;
  record.describe(description.str());
  for (const char* const isa : isa_names()) {
    record.begin_run(isa);
    try {
      for (const Result& result : run(problem, contexts.get(isa, choices)))
        record.add(result.name.c_str(), result.numbers);
    } catch (const std::runtime_error& error) {
      record.add("failed", error.what());
    }
  }
}

}  // namespace

const std::vector<Area>& areas() {
  static const std::vector<Area> all = {
      {"dense", "dense attention with every option", 8000, run_drawn<drawn<Lengths::kAny>>},
      {"long", "dense attention of few queries over 4096 keys and more", 400,
       run_drawn<drawn<Lengths::kLong>>},
      {"merge", "merges of partial results", 2000, run_drawn<draw_merge>},
      {"block", "multi-head blocks, every combiner, matrices as they are and prepared", 3000,
       run_drawn<draw_block>},
      {"graph", "attention over graphs, every input", 4000,
       run_drawn<drawn<Graphs::kAny, Scores::kProducts>>},
      {"hub", "attention over graphs with a node of 8000 edges and more", 100,
       run_drawn<drawn<Graphs::kHub, Scores::kProducts>>},
      {"scores", "attention over graphs, every score", 2000, run_drawn<drawn<Graphs::kAny>>},
      {"refused", "calls that are refused: status, message, and outputs left alone", 6000,
       run_refused}};
  return all;
}

}  // namespace heed_test
