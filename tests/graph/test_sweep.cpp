// Thousands of random graphs and ways to attend over them, against the oracle.
#include "tests/problem/random_graphs.hpp"
#include "tests/support/graph_attention.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// Adds how close a run came to its bounds, under each option that it had.
void add_to(OptionReport& report, const GraphProblem& p, const GraphRatios& ratios) {
  const auto option = [&](const char* what, bool used) {
    if (used) report.add(std::string("out, ") + what, ratios.out);
  };
  option("float32", p.out->dtype() == HEED_DTYPE_F32);
  option("float64", p.out->dtype() == HEED_DTYPE_F64);
  option("16 bits", format_of(p.out->dtype()).bytes == 2);
  option("projected", p.desc.inputs == HEED_GRAPH_PROJECTED);
  option("shared", p.desc.inputs == HEED_GRAPH_SHARED);
  option("per node", p.desc.inputs == HEED_GRAPH_PER_NODE);
  option("prepared", p.w_query.prepared || p.w_key.prepared || p.w_value.prepared);
  option("edge keys", p.w_edge_key.has_value());
  option("edge values", p.w_edge_value.has_value());
  option("edge bias", p.edge_bias.has_value());
  option("softcap", p.desc.softcap > 0);
  option("temperature", p.desc.temperature != 0);
  option("hard", p.desc.hard != 0);
  option("weighted", p.desc.combine == HEED_COMBINE_WEIGHTED);
  option("mean", p.desc.combine == HEED_COMBINE_MEAN);
  option("max", p.desc.combine == HEED_COMBINE_MAX);
  option("residual", p.desc.residual != 0);
  option("in place", p.in_place);
  option("steps", p.desc.steps > 1);
  if (p.lse) report.add("lse", ratios.lse);
  if (p.weights) report.add("weights", ratios.weights);
}

/// Runs a problem, or says why that failed. (Messages of Catch2 outlive exceptions: none passes.)
std::optional<GraphOutputs> try_run(GraphProblem& problem, const Context& context,
                                    const GraphForm& form) {
  try {
    return problem.run(context, form);
  } catch (const std::runtime_error& error) {
    FAIL_CHECK(error.what());
    return std::nullopt;
  }
}

bool check_bits(const char* what, const std::optional<GraphOutputs>& got,
                const GraphOutputs& want) {
  if (got && same_bits(*got, want)) return true;
  if (got) FAIL_CHECK("other bits with " << what);
  return false;
}

/// One thread, another type of index and no further outputs change no bit; nor does the order of
/// edges that have no tensors.
bool check_again(GraphProblem problem, const Context& context, GraphForm form,
                 const GraphOutputs& before, std::uint64_t seed) {
  form.index_type = form.index_type == HEED_INDEX_I64 ? HEED_INDEX_I32 : HEED_INDEX_I64;
  bool good = check_bits("one thread and another index", try_run(problem, context, form), before);
  if (problem.edge_data || problem.edge_bias) return good;
  problem.weights.reset();
  problem.lse.reset();
  Random random(seed);
  problem.edges = reordered(problem.edges, random_order(problem.edges.sources.size(), random));
  form.rows = seed % 2 == 0;
  if (form.rows) problem.edges = by_destination(problem.edges);
  return check_bits("other edges first, and nothing but out", try_run(problem, context, form),
                    {before.out, {}, {}}) &&
         good;
}

/// With one and the same NaN everywhere.
GraphOutputs canonical(GraphOutputs outputs) {
  for (Numbers* const numbers : {&outputs.out, &outputs.lse, &outputs.weights})
    for (std::size_t i = 0; i < numbers->size(); ++i)
      if (std::isnan((*numbers)[i])) numbers->bits[i] = encode(numbers->dtype, kNaN);
  return outputs;
}

/// Several steps are several calls, each with the last one's out for data.
bool check_steps(GraphProblem problem, const Context& context, const GraphForm& form,
                 const GraphOutputs& before) {
  const Index steps = problem.desc.steps;
  problem.desc.steps = 1;
  problem.in_place = false;
  std::optional<GraphOutputs> last;
  for (Index step = 0; step < steps; ++step) {
    last = try_run(problem, context, form);
    if (!last) return false;
    problem.add_data(problem.desc.width, problem.out->dtype());
    problem.data->each([&](const Axes& at) {
      const Index width = value_features_of(problem.desc);
      problem.data->set(at, problem.out->get({0, at[3] / width, at[2], at[3] % width}));
    });
  }
  // Data written by hand keep no sign of NaN.
  return check_bits("several calls instead of steps", canonical(*last), canonical(before));
}

/// Draws a problem, runs it everywhere, and says whether all was right.
bool check_seed(std::uint64_t seed, Sweep& sweep) {
  Contexts& contexts = sweep.contexts;
  RandomGraphs graphs(seed);
  GraphProblem problem = graphs.draw();
  const GraphForm form = graphs.form();
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  INFO("HEED_TEST_SEED=" << seed << ": " << line_of(problem) << "; " << choices.executor
                         << (form.rows ? ", rows" : ", list"));
  const GraphExpected want = problem.expected();
  sweep.coverage.add(want.out);
  bool good = true;
  for (const char* const isa : isa_names()) {
    const std::optional<GraphOutputs> got = try_run(problem, contexts.get(isa, choices), form);
    if (!got) return false;
    const GraphRatios ratios = check_outputs(problem, isa, *got, want, Unspecified::kAllowed);
    add_to(sweep.options, problem, ratios);
    const Context& serial = contexts.get(isa, {});
    good = good && ratios.worst() <= 1;
    good = check_again(problem, serial, form, *got, seed) && good;
    if (problem.desc.steps > 1) good = check_steps(problem, serial, form, *got) && good;
  }
  return good;
}

}  // namespace

TEST_CASE("random graphs and random attention over them", "[sweep]") {
  sweep_seeds(
      count(6000), [](std::uint64_t seed) { return line_of(RandomGraphs(seed).draw()); },
      check_seed);
}
