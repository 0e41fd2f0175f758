#include "tests/bits/areas.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/problem/random_blocks.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/problem/random_graphs.hpp"
#include "tests/support/merge.hpp"

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
  Problem problem = RandomForms(seed, lengths).draw();
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
  Block block = RandomBlocks(seed).draw();
  each_isa(seed, contexts, record, line_of(block),
           [&](const Context& context) { return block.run_all(context); });
}

void run_graphs(Graphs kind, std::uint64_t seed, Contexts& contexts, Record& record) {
  RandomGraphs graphs(seed, kind);
  GraphProblem problem = graphs.draw();
  const GraphForm form = graphs.form();
  each_isa(seed, contexts, record, line_of(problem) + (form.rows ? ", rows" : ", list"),
           [&](const Context& context) { return problem.run(context, form); });
}

void run_graph(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_graphs(Graphs::kAny, seed, contexts, record);
}

void run_hub(std::uint64_t seed, Contexts& contexts, Record& record) {
  run_graphs(Graphs::kHub, seed, contexts, record);
}

// ---- Merges ----

class RandomMerges {
 public:
  explicit RandomMerges(std::uint64_t seed) : random_(seed) {}

  Merge draw() {
    Axes shape = {random_.integer(1, 3), random_.integer(1, 3), random_.integer(1, 20),
                  random_.integer(1, 40)};
    if (one_in(20)) shape[static_cast<std::size_t>(random_.integer(0, 3))] = 0;
    if (one_in(20)) shape[3] = random_.integer(200, 600);
    if (one_in(40)) shape[2] = random_.integer(300, 700);
    const auto parts = static_cast<std::size_t>(one_in(20) ? 40 : random_.integer(1, 7));
    Merge merge(shape, parts, {type(), lse_type(), type(), lse_type()},
                {arrangement(), arrangement(), arrangement(), arrangement(),
                 static_cast<std::size_t>(random_.integer(0, 3))});
    merge.fill(random_.bits(), random_.pick<double>({0, 3, 300, 1e5}));
    for (std::int64_t n = one_in(2) ? random_.integer(1, 5) : 0; n > 0; --n) plant(merge);
    return merge;
  }

 private:
  bool one_in(std::int64_t n) { return random_.integer(0, n - 1) == 0; }
  std::uint32_t type() { return static_cast<std::uint32_t>(random_.integer(0, HEED_DTYPE_F16)); }
  std::uint32_t lse_type() {
    return static_cast<std::uint32_t>(random_.integer(0, HEED_DTYPE_F64));
  }
  Arrangement arrangement() {
    return static_cast<Arrangement>(
        random_.integer(0, static_cast<std::int64_t>(Arrangement::kCount) - 1));
  }
  /// Parts that are empty, infinite or NaN.
  void plant(Merge& merge) {
    auto& tensors = one_in(4) ? merge.outs : merge.lses;
    Tensor& tensor = tensors[static_cast<std::size_t>(random_.bits() % tensors.size())];
    Axes at{};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (tensor.shape()[axis] == 0) return;
      at[axis] = random_.integer(0, tensor.shape()[axis] - 1);
    }
    tensor.set(at, random_.pick<double>({-kInfinity, -kInfinity, kInfinity, kNaN}));
  }

  Random random_;
};

void run_merge(std::uint64_t seed, Contexts& contexts, Record& record) {
  Merge merge = RandomMerges(seed).draw();
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
