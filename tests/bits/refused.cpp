// Calls with something wrong in them. What was damaged and is accepted nevertheless is planned, but
// not run where it could reach past the tensors.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "tests/bits/areas.hpp"
#include "tests/bits/damaged.hpp"
#include "tests/problem/draw_graphs.hpp"
#include "tests/problem/random_blocks.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {

std::uint64_t hostile_bits(Random& random) {
  const std::int64_t kind = random.integer(0, 3);
  if (kind == 0) return static_cast<std::uint64_t>(random.integer(-2, 10));
  if (kind == 1) {
    const double x = random.pick<double>({-1, 0.5, -0.0, 5e-324, 1e-310, 1e300, kInfinity,
                                          -kInfinity, std::numeric_limits<double>::quiet_NaN()});
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    return bits;
  }
  const std::uint64_t near = (std::uint64_t{1} << random.integer(0, 63)) +
                             static_cast<std::uint64_t>(random.integer(-2, 2));
  return random.integer(0, 2) == 0 ? ~near + 1 : near;
}

namespace {

/// One call that goes wrong, and where it is told.
struct Case {
  std::uint64_t seed;
  Random random;
  const Context& context;
  Record& record;
  /// What is handed in where nothing is wanted; larger than any tensor here.
  std::vector<std::uint64_t> spare = std::vector<std::uint64_t>(1 << 20);

  bool one_in(std::int64_t n) { return random.integer(0, n - 1) == 0; }
  void begin(const char* call, const std::string& line) {
    record.describe(std::string(call) + ": " + line);
  }
  void wrote(const char* name, const Tensor& tensor) { record.add(name, tensor.numbers()); }
  void wrote(const char* name, const std::optional<Tensor>& tensor) {
    if (tensor) wrote(name, *tensor);
  }
};

/// An entry of an array that runs read and check.
template <class T>
void spoil(Case& c, std::vector<T>& numbers) {
  if (numbers.empty() || !c.one_in(2)) return;
  numbers[static_cast<std::size_t>(c.random.bits() % numbers.size())] = static_cast<T>(
      c.one_in(2) ? static_cast<std::int64_t>(hostile_bits(c.random)) : c.random.integer(-1, 20));
}

void spoil_arrays(Case& c, Problem& p) {
  spoil(c, p.cu_seqlens_q);
  spoil(c, p.cu_seqlens_k);
  spoil(c, p.block_table);
  spoil(c, p.key_lengths);
  spoil(c, p.weight_rows);
}

/// A workspace that is too small, missing or misaligned, or in order.
struct Space {
  Space(Case& c, std::size_t needed) : memory(needed), bytes(needed), pointer(memory.get()) {
    const std::int64_t kind = needed == 0 ? 9 : c.random.integer(0, 9);
    if (kind == 0) bytes -= static_cast<std::size_t>(c.random.integer(1, 64));
    if (kind == 1) pointer = nullptr;
    if (kind == 2) pointer = static_cast<unsigned char*>(pointer) + c.random.integer(1, 63);
  }
  Workspace memory;
  std::size_t bytes;
  void* pointer;
};

constexpr std::initializer_list<std::size_t> kAttentionKept = {
    offsetof(heed_attention_args, mask), offsetof(heed_attention_args, score_function),
    offsetof(heed_attention_args, score_user)};

// ---- Dense attention ----

void plan_dense(Case& c) {
  const Problem p = RandomForms(c.seed).draw();
  Damaged<heed_attention_desc> desc(p.desc);
  desc.overwrite(c.random);
  c.begin("attention_plan_create", line_of(p) + desc.line());
  heed_attention_plan* plan = nullptr;
  c.record.add("plan", heed_attention_plan_create(c.context.get(), desc.get(), &plan));
  Plan(plan).reset();
}

void run_dense(Case& c) {
  Problem p = RandomForms(c.seed).draw();
  const Plan plan = make_plan(c.context, p.desc);
  spoil_arrays(c, p);
  Damaged<heed_attention_args> args(p.args());
  if (c.one_in(8))
    args.resize(c.random);
  else
    args.spoil_pointer(c.random, kAttentionKept, c.spare.data());
  const Space space(c, describe(plan).workspace_bytes);
  c.begin("attention_plan_run", line_of(p) + args.line());
  c.record.add("run", heed_attention_plan_run(plan.get(), args.get(), space.pointer, space.bytes));
  c.wrote("out", p.out);
  c.wrote("lse", p.lse);
  c.wrote("weights", p.weights);
  c.wrote("column sums", p.column_sums);
}

// ---- Merges and matrices ----

void merge(Case& c) {
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = 2, desc.heads = 3, desc.rows = 4, desc.features = 5;
  Damaged<heed_merge_desc> given(desc);
  if (!c.one_in(4)) given.overwrite(c.random);
  // What is accepted has no part: that is refused too, unless there is nothing to read.
  const void* const parts[] = {nullptr, nullptr};
  c.begin("merge", given.line());
  const std::size_t count = c.one_in(4) ? 0 : 2;
  c.record.add("merge",
               heed_merge(c.context.get(), given.get(), count, c.one_in(8) ? nullptr : parts, parts,
                          c.one_in(2) ? c.spare.data() : nullptr, nullptr));
}

void prepare(Case& c) {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = 5, desc.out = 7;
  Damaged<heed_weights_desc> given(desc);
  given.overwrite(c.random);
  c.begin("weights_create", given.line());
  heed_weights* weights = nullptr;
  c.record.add("weights", heed_weights_create(c.context.get(), given.get(), nullptr,
                                              c.one_in(2) ? c.spare.data() : nullptr, &weights));
  Weights(weights).reset();
}

// ---- Blocks ----

void plan_block(Case& c) {
  Block block = RandomBlocks(c.seed).draw();
  const heed_multihead_desc whole = block.desc();
  Damaged<heed_attention_desc> inner(*whole.attention);
  Damaged<heed_multihead_desc> outer(whole);
  const bool inside = c.one_in(2);
  if (inside)
    inner.overwrite(c.random);
  else
    outer.overwrite(c.random, offsetof(heed_multihead_desc, width_query));
  heed_multihead_desc desc = *outer.get();
  if (inside) desc.attention = inner.get();
  c.begin("multihead_plan_create", line_of(block) + inner.line() + outer.line());
  heed_multihead_plan* plan = nullptr;
  c.record.add("plan",
               heed_multihead_plan_create(c.context.get(), inside ? &desc : outer.get(), &plan));
  MultiheadPlan(plan).reset();
}

void run_block(Case& c) {
  Block block = RandomBlocks(c.seed).draw();
  const std::array<Weights, 4> prepared = {
      block.w_query.prepare(c.context), block.w_key.prepare(c.context),
      block.w_value.prepare(c.context), block.w_out ? block.w_out->prepare(c.context) : nullptr};
  const MultiheadPlan plan = make_plan(c.context, block.desc());
  spoil_arrays(c, block.attention);
  heed_multihead_args whole = block.args();
  whole.p_query = prepared[0].get();
  whole.p_key = prepared[1].get();
  whole.p_value = prepared[2].get();
  whole.p_out = prepared[3].get();
  Damaged<heed_attention_args> inner(*whole.attention);
  if (c.one_in(2)) inner.spoil_pointer(c.random, kAttentionKept, c.spare.data());
  whole.attention = inner.get();
  Damaged<heed_multihead_args> outer(whole);
  outer.spoil_pointer(
      c.random,
      {offsetof(heed_multihead_args, attention), offsetof(heed_multihead_args, p_query),
       offsetof(heed_multihead_args, p_key), offsetof(heed_multihead_args, p_value),
       offsetof(heed_multihead_args, p_out)},
      c.spare.data());
  const Space space(c, describe(plan).workspace_bytes);
  c.begin("multihead_plan_run", line_of(block) + inner.line() + outer.line());
  c.record.add("run", heed_multihead_plan_run(plan.get(), outer.get(), space.pointer, space.bytes));
  c.wrote("out", block.out);
  c.wrote("lse", block.attention.lse);
  c.wrote("weights", block.attention.weights);
  c.wrote("column sums", block.attention.column_sums);
}

// ---- Graphs ----

void make_graph(Case& c) {
  const GraphProblem p = draw_graph_problem(c.seed);
  GraphArrays arrays(p.edges, p.form);
  spoil(c, arrays.sources);
  spoil(c, arrays.ends);
  const heed_graph_desc desc = arrays.desc();
  Damaged<heed_graph_desc> given(desc);
  // Sizes and types that the arrays have not are damaged such that they must be refused.
  const std::int64_t kind = c.random.integer(0, 4);
  heed_graph_desc& fields = const_cast<heed_graph_desc&>(*given.get());
  if (kind == 0) fields.nodes = c.one_in(2) ? -c.random.integer(1, 9) : (std::int64_t{1} << 31);
  if (kind == 1) fields.edges = c.one_in(2) ? -c.random.integer(1, 9) : (std::int64_t{1} << 41);
  if (kind == 2) fields.index_type = 3 + static_cast<std::uint32_t>(c.random.integer(0, 90));
  if (kind == 3) fields.duplicates = static_cast<std::uint32_t>(c.random.integer(0, 5));
  if (c.one_in(4)) given.spoil_pointer(c.random, {8, 16, 48}, c.spare.data());
  std::ostringstream line;
  line << line_of(p) << ", damage " << kind << given.line();
  c.begin("graph_create", line.str());
  heed_graph* graph = nullptr;
  c.record.add("graph", heed_graph_create(c.context.get(), given.get(), &graph));
  Graph(graph).reset();
}

void plan_graph(Case& c) {
  const GraphProblem p = draw_graph_problem(c.seed);
  const Graph graph = heed_test::make_graph(c.context, p.edges, p.form);
  Damaged<heed_graph_attention_desc> desc(p.desc);
  desc.overwrite(c.random);
  c.begin("graph_attention_plan_create", line_of(p) + desc.line());
  heed_graph_attention_plan* plan = nullptr;
  c.record.add("plan",
               heed_graph_attention_plan_create(c.context.get(), graph.get(), desc.get(), &plan));
  GraphPlan(plan).reset();
}

void run_graph(Case& c) {
  GraphProblem p = draw_graph_problem(c.seed);
  const Graph graph = heed_test::make_graph(c.context, p.edges, p.form);
  const GraphPlan plan = make_plan(c.context, graph, p.desc);
  Damaged<heed_graph_attention_args> args(p.args());
  args.spoil_pointer(
      c.random,
      {offsetof(heed_graph_attention_args, p_query), offsetof(heed_graph_attention_args, p_key),
       offsetof(heed_graph_attention_args, p_value)},
      c.spare.data());
  const Space space(c, describe(plan).workspace_bytes);
  c.begin("graph_attention_plan_run", line_of(p) + args.line());
  c.record.add("run",
               heed_graph_attention_plan_run(plan.get(), args.get(), space.pointer, space.bytes));
  c.wrote("out", p.out);
  c.wrote("lse", p.lse);
  c.wrote("weights", p.weights);
}

// ---- Contexts ----

void make_context(Case& c) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = c.random.pick<const char*>({"scalar", "avx9", "", "AVX2"});
  options.executor_name = c.random.pick<const char*>({"serial", "tbb", "pthreads", ""});
  options.product = c.random.pick<const char*>({nullptr, "heed", "blas"});
  options.threads = c.random.pick<std::uint32_t>({0, 1, 1024, 1025, 0x80000000U});
  options.tile_q = c.random.pick<std::uint32_t>({0, 1, 65536, 65537});
  options.tile_kv = c.random.pick<std::uint32_t>({0, 1, 65536, 65537});
  options.check = c.random.pick<std::uint32_t>({0, HEED_CHECK_OFF, 3});
  options.precision = c.random.pick<std::uint32_t>({0, HEED_PRECISION_MEDIUM, 5});
  const char* const variable = c.random.pick<const char*>(
      {"HEED_ISA", "HEED_PARALLEL", "HEED_THREADS", "HEED_PRODUCT", "HEED_TILE_Q", "HEED_TILE_KV",
       "HEED_VERBOSE", "HEED_CHECK", "HEED_PRECISION"});
  const char* const value =
      c.random.pick<const char*>({"0", "1", "-1", "1x", "", "99999999999999999999", "avx9"});
  const bool environment = c.one_in(2);
  if (environment) options = HEED_CONTEXT_OPTIONS_INIT;
  c.begin("context_create", environment ? std::string(variable) + "=" + value : "options");
  if (environment) setenv(variable, value, 1);
  heed_context* context = nullptr;
  c.record.add("context", heed_context_create(&options, &context));
  if (environment) unsetenv(variable);
  Context(context).reset();
}

}  // namespace

void run_refused(std::uint64_t seed, Contexts& contexts, Record& record) {
  constexpr void (*kCases[])(Case&) = {plan_dense, run_dense, plan_block, run_block, make_graph,
                                       plan_graph, run_graph, merge,      prepare,   make_context};
  Case c{seed, Random(seed ^ 0xdead), contexts.get(isa_names().back(), {}), record};
  record.begin_run("call");
  try {
    kCases[seed % std::size(kCases)](c);
  } catch (const std::runtime_error& error) {
    record.add("failed", error.what());
  }
}

}  // namespace heed_test
