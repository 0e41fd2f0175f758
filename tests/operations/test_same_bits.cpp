// What may not change a bit of any result. Random problems are changed to others that say the same
// thing in another way: in other places and types, with other outputs, by other calls; and large
// ones shared out among threads.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/operations/operations.hpp"
#include "tests/problem/attention.hpp"

using namespace heed_test;

namespace {

// ---- Changes ----

/// Says the same in another way; false: this problem has nothing to change.
template <class AnyProblem>
struct Change {
  const char* name;
  std::function<bool(AnyProblem&, Random&)> apply;
  /// With HEED_PRECISION_EXACT: 16-bit numbers are multiplied as they are only if all are.
  bool exact = false;
};

/// Runs the problems that seeds from 1 on draw as they are, with drawn tiles, and
/// changed, with none. Every change must find something in one of `rare` of them.
template <class AnyProblem>
void check_changes(std::size_t full, AnyProblem (*draw)(std::uint64_t),
                   const std::vector<Change<AnyProblem>>& changes, std::size_t rare = 20) {
  Contexts contexts;
  std::vector<std::size_t> seen(changes.size());
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    const AnyProblem drawn = draw(seed);
    Random random(seed ^ 0x5a3e);
    Choices choices = draw_choices(random);
    choices.executor = "serial";  // sweeps try the others
    choices.threads = 1;
    for (const bool exact : {false, true}) {
      choices.precision = exact ? HEED_PRECISION_EXACT : HEED_PRECISION_AUTOMATIC;
      Choices plain;
      plain.precision = choices.precision;
      std::vector<Results> want;
      for (std::size_t n = 0; n < changes.size(); ++n) {
        if (changes[n].exact != exact) continue;
        AnyProblem p = drawn;
        if (!changes[n].apply(p, random)) continue;
        ++seen[n];
        INFO("seed " << seed << ": " << line_of(drawn) << "; tiles " << choices.tile_q << " x "
                     << choices.tile_kv);
        AnyProblem before = drawn;
        for (std::size_t i = want.size(); i < isa_names().size(); ++i)
          want.push_back(run(before, contexts.get(isa_names()[i], choices)));
        for (std::size_t i = 0; i < want.size(); ++i) {
          const char* const isa = isa_names()[i];
          if (exact && multiplies_parts(isa)) continue;
          check_same_numbers(std::string(isa) + ", " + changes[n].name, want[i],
                             run(p, contexts.get(isa, plain)));
        }
      }
    }
  }
  for (std::size_t n = 0; n < changes.size(); ++n) {
    INFO(changes[n].name << ": " << seen[n]);
    CHECK((small() || seen[n] >= full / rare));
  }
}

// ---- Where tensors lie ----

Arrangement any_arrangement(Random& random) {
  return static_cast<Arrangement>(random.integer(0, static_cast<int>(Arrangement::kCount) - 1));
}

bool is_narrow(std::uint32_t dtype) { return format_of(dtype).bytes == 2; }

template <class AnyProblem>
bool in_order(AnyProblem& p, Random&) {
  p.each_laid([](Tensor& tensor, const LaidOut& laid) { lay(tensor, laid, {laid.dtype()}); });
  return true;
}

template <class AnyProblem>
bool elsewhere(AnyProblem& p, Random& random) {
  p.each_laid([&](Tensor& tensor, const LaidOut& laid) {
    lay(tensor, laid,
        {laid.dtype(), any_arrangement(random), static_cast<std::size_t>(random.integer(1, 5))});
  });
  return true;
}

/// 16-bit inputs are float32 ones exactly, and outputs are rounded to their types.
template <class AnyProblem>
bool as_float32(AnyProblem& p, Random&) {
  bool any = false;
  p.each_laid([&](Tensor& tensor, const LaidOut& laid) {
    if (!is_narrow(tensor.dtype())) return;
    any = true;
    lay(tensor, laid, {HEED_DTYPE_F32});
  });
  return any;
}

// ---- Attention ----

bool in_no_pages(Problem& p, Random&) {
  if (p.desc.pages == 0) return false;
  p = contiguous(p);
  return true;
}

bool in_pages(Problem& p, Random& random) {
  if (p.desc.pages != 0 || p.desc.packed_keys != 0) return false;
  p = paged(p, random, false);
  return true;
}

bool nothing_but_out(Problem& p, Random&) {
  const bool more = p.lse || p.weights || p.column_sums;
  p.want_nothing_else();
  return more;
}

bool all_outputs(Problem& p, Random& random) {
  if (p.desc.hard == 0 && !p.lse) p.want_lse();
  if (!p.weights) p.want_weights(static_cast<heed_weights_point>(random.integer(1, 4)));
  if (!p.column_sums) p.want_column_sums();
  return true;
}

bool out_and_lse(Problem& p, Random&) {
  const std::uint32_t dtype = p.desc.lse.dtype;
  p.want_nothing_else();
  if (p.desc.hard == 0) p.want_lse(dtype);
  return p.desc.hard == 0;
}

/// Their own types do nothing but round them.
bool wide_outputs(Problem& p, Random&) {
  if (p.lse) p.want_lse(HEED_DTYPE_F64);
  if (p.weights)
    p.want_weights(static_cast<heed_weights_point>(p.desc.weights_point), HEED_DTYPE_F64,
                   Arrangement::kDefault, p.weight_rows);
  if (p.column_sums) p.want_column_sums(HEED_DTYPE_F64);
  return p.lse || p.weights || p.column_sums;
}

/// A mask or bias that repeats, written out for every pair.
bool without_repetition(Problem& p, Random&) {
  const Axes pairs = p.pairs();
  const bool repeats = (p.mask && p.mask->shape() != pairs) || (p.bias && p.bias->shape() != pairs);
  const auto write_out = [](const Tensor& from, Tensor& to) {
    const Axes& n = from.shape();
    to.fill([&](const Axes& at) {
      return from.get({at[0] % n[0], at[1] % n[1], at[2] % n[2], at[3] % n[3]});
    });
  };
  if (p.mask) {
    const Tensor from = *p.mask;
    write_out(from, p.add_mask(pairs));
  }
  if (p.bias) {
    const Tensor from = *p.bias;
    write_out(from, p.add_bias(pairs, p.desc.bias.dtype));
  }
  return repeats;
}

bool other_bytes(Problem& p, Random& random) {
  if (!p.mask) return false;
  p.mask->each([&](const Axes& at) {
    if (p.mask->get(at) != 0) p.mask->set(at, static_cast<double>(random.integer(1, 255)));
  });
  return true;
}

bool mask_of_ones(Problem& p, Random&) {
  if (p.mask) return false;
  p.add_mask(p.pairs());
  return true;
}

/// It makes other kernels compute the scores, unless a softcap does already; of a score of -0 it
/// makes 0.
bool bias_of_zeros(Problem& p, Random&) {
  if (p.bias || p.desc.softcap == 0) return false;
  p.want_nothing_else();
  p.add_bias(p.pairs());
  return true;
}

bool attention_of_float32(Problem& p, Random& random) {
  return !is_scaled(p.key.dtype()) && !is_scaled(p.value.dtype()) && as_float32(p, random);
}

const std::vector<Change<Problem>> kOfAttention = {
    {"tensors in order", in_order<Problem>},
    {"tensors elsewhere", elsewhere<Problem>},
    {"keys in no pages", in_no_pages},
    {"keys in pages", in_pages},
    {"nothing but out", nothing_but_out},
    {"all outputs", all_outputs},
    {"out and lse", out_and_lse},
    {"outputs of float64", wide_outputs},
    {"mask and bias without repetition", without_repetition},
    {"other bytes in the mask", other_bytes},
    {"a mask of ones", mask_of_ones},
    {"a bias of zeros", bias_of_zeros},
};

/// Of few rows 16-bit numbers are summed in another order.
const std::vector<Change<Problem>> kOfTypes = {{"all of float32", attention_of_float32, true}};

// ---- Blocks ----

/// Where they lie: gradients of matrices are summed in an order that the inputs' strides decide.
bool prepared(Block& b, Random&) {
  for (WeightMatrix* const w : b.matrices()) w->prepared = true;
  return true;
}

bool two_inputs(Block& b, Random&) {
  if (b.input_key) return false;
  LaidOut laid = b.laid_out().input_key;
  laid.arrange(Arrangement::kPadded, b.own_desc.input_query.dtype);
  b.input_key.emplace(laid.tensor(0));
  b.input_key->assign(b.input_query);
  return true;
}

bool out_of_float32(Block& b, Random&) {
  if (!is_narrow(b.out.dtype())) return false;
  lay(b.out, b.laid_out().out, {HEED_DTYPE_F32});
  return true;
}

bool block_of_float32(Block& b, Random& random) {
  for (WeightMatrix* const w : b.matrices()) {
    if (!w->bias || is_float64(b.own_desc)) continue;
    const Tensor before = *w->bias;
    w->add_bias(HEED_DTYPE_F32, 0);
    w->bias->assign(before);
    b.own_desc.bias_dtype = HEED_DTYPE_F32;
  }
  return as_float32(b, random);
}

bool matrix_per_head(Block& b, Random&) {
  if (b.combine() != HEED_COMBINE_CONCAT) return false;
  const WeightMatrix whole = *b.w_out;
  b.own_desc.combine = HEED_COMBINE_TENSOR;
  b.own_desc.w_out = HEED_MATRIX_LAYOUT_INIT;
  b.own_desc.w_out.dtype = whole.layout().dtype;
  WeightMatrix& each = b.w_out.emplace(b.matrix(3));
  each.tensor.fill([&](const Axes& at) { return whole.get(0, at[0] * each.in() + at[2], at[3]); });
  each.prepared = whole.prepared;
  if (!whole.bias) return true;
  each.add_bias(whole.bias->dtype(), 0);
  each.bias->assign(*whole.bias);
  return true;
}

bool kept(Block& b, Random&) {
  b.own_desc.keep = 1;
  return true;
}

const std::vector<Change<Block>> kOfBlocks = {
    {"tensors in order", in_order<Block>},
    {"tensors elsewhere", elsewhere<Block>},
    {"prepared matrices", prepared},
    {"the input twice", two_inputs},
    {"a matrix per head for one of all", matrix_per_head},
    {"nothing but out",
     [](Block& b, Random& random) { return nothing_but_out(b.attention, random); }},
    {"all outputs", [](Block& b, Random& random) { return all_outputs(b.attention, random); }},
    {"out of float32", out_of_float32},
    {"all of float32", block_of_float32, true},
};

const std::vector<Change<Block>> kOfDifferentiableBlocks = {{"kept", kept}};

/// Large: every product is cut into tasks. Heads share keys: rows of one alone fill a panel less
/// than those of all.
Block block_of(std::uint32_t combine, std::uint32_t dtype, Index length) {
  heed_multihead_desc desc = block_desc(dtype, 150);
  desc.combine = combine;
  desc.width_out = 140;
  if (small()) length = 40;
  Block block = plain_block(length, 0, 6, 32, desc, 2, 3, 30);
  block.fill(51, 0.7);
  return block;
}

Block draw_grouped(std::uint64_t seed) {
  Block block = block_of(HEED_COMBINE_CONCAT, seed % 2 == 0 ? HEED_DTYPE_F64 : HEED_DTYPE_F32, 170);
  if (seed > 2) block.attention.desc.causal = HEED_CAUSAL_TOP_LEFT;
  return block;
}

/// Few rows over many keys, as attention by itself would decode.
Block draw_few_rows(std::uint64_t seed) {
  const heed_multihead_desc desc = block_desc(HEED_DTYPE_F32, 24);
  Block block = plain_block(seed == 1 ? 4 : 8, 9000, 2, 64, desc);
  block.fill(52, 0.7);
  return block;
}

// ---- Graphs ----

bool other_index(GraphProblem& p, Random&) {
  p.form.index_type = p.form.index_type == HEED_INDEX_I64 ? HEED_INDEX_I32 : HEED_INDEX_I64;
  return true;
}

/// What dropout counts the edges by.
std::vector<Index> numbers_of_edges(const GraphProblem& p) {
  if (!p.dropout_edges.empty()) return p.dropout_edges;
  std::vector<Index> places(p.edges.sources.size());
  std::iota(places.begin(), places.end(), Index{0});
  return places;
}

/// Edges by destination, as rows, or by source, where sources stand in any order; equal ones keep
/// theirs. What an edge has of its own, an input or the number that dropout goes by, moves with it.
void reorder(GraphProblem& p, Random& random) {
  const std::vector<std::size_t> places =
      random_order(static_cast<std::size_t>(sources_of(p.edges)), random);
  p.form.rows = random.integer(0, 1) == 0;
  const auto place = [&](std::size_t e) {
    return p.form.rows ? static_cast<std::size_t>(p.edges.destinations[e])
                       : places[static_cast<std::size_t>(p.edges.sources[e])];
  };
  std::vector<std::size_t> order(p.edges.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  for (std::optional<Tensor>* const own : {&p.edge_data, &p.edge_bias})
    if (*own)
      (*own)->fill([&, before = **own](const Axes& at) {
        const auto e = static_cast<Index>(order[static_cast<std::size_t>(at[2])]);
        return before.get({at[0], at[1], e, at[3]});
      });
  if (p.desc.dropout != 0) {
    const std::vector<Index> before = numbers_of_edges(p);
    p.dropout_edges.clear();
    for (const std::size_t e : order) p.dropout_edges.push_back(before[e]);
  }
  p.edges = reordered(p.edges, order);
}

bool other_edges_first(GraphProblem& p, Random& random) {
  if (p.weights) return false;
  reorder(p, random);
  return true;
}

bool nothing_but_out_of_nodes(GraphProblem& p, Random&) {
  const bool more = p.lse || p.weights;
  p.lse.reset();
  p.weights.reset();
  return more;
}

bool not_in_place(GraphProblem& p, Random&) {
  const bool was = p.in_place;
  p.in_place = false;
  return was;
}

const std::vector<Change<GraphProblem>> kOfGraphs = {
    {"another type of index", other_index},
    {"other edges first", other_edges_first},
    {"nothing but out", nothing_but_out_of_nodes},
    {"not in place", not_in_place},
};

// ---- Gradients ----

/// All that are asked for, elsewhere; what they are added to would lie where it did.
template <class AnyProblem>
bool gradients_elsewhere(AnyProblem& p, Random& random) {
  if (p.desc().accumulate != 0) return false;
  bool any = false;
  for (const auto of : p.all()) {
    if (!p.gradients[of]) continue;
    any = true;
    p.want(of, {p.gradients[of]->dtype(), any_arrangement(random), 1});
  }
  return any;
}

/// Only one of those that are asked for.
template <class AnyProblem>
bool one_gradient(AnyProblem& p, Random& random) {
  std::vector<std::size_t> all;
  for (const auto of : p.all())
    if (p.gradients[of]) all.push_back(of);
  if (all.size() < 2) return false;
  const std::size_t kept = random.pick(all);
  for (const auto of : p.all())
    if (of != kept) p.gradients[of].reset();
  return true;
}

/// 16-bit gradients are those of float32, rounded once.
template <class AnyProblem>
bool gradients_of_float32(AnyProblem& p, Random&) {
  if (p.desc().accumulate != 0) return false;
  bool any = false;
  for (const auto of : p.all()) {
    if (!p.gradients[of] || !is_narrow(p.gradients[of]->dtype())) continue;
    any = true;
    p.want(of, {HEED_DTYPE_F32});
  }
  return any;
}

template <bool (*change)(Problem&, Random&)>
bool of_forward(BackwardProblem& p, Random& random) {
  return change(p.forward, random);
}

const std::vector<Change<BackwardProblem>> kOfGradients = {
    {"tensors elsewhere", of_forward<elsewhere>},
    {"gradients elsewhere", gradients_elsewhere<BackwardProblem>},
    {"gradients of float32", gradients_of_float32<BackwardProblem>},
    {"one gradient", one_gradient<BackwardProblem>},
};

template <bool (*change)(Block&, Random&)>
bool of_block(BlockBackward& p, Random& random) {
  return change(p.block, random);
}

const std::vector<Change<BlockBackward>> kOfBlockGradients = {
    {"kept", of_block<kept>},
    {"prepared matrices", of_block<prepared>},
    {"one gradient", one_gradient<BlockBackward>},
};

bool other_edges_of_gradients_first(GraphBackwardProblem& p, Random& random) {
  if (p.gradients[kGraphEdgeData] || p.gradients[kGraphEdgeBias]) return false;
  reorder(p.forward, random);
  return true;
}

GraphBackwardProblem draw_gradients_of_hub(std::uint64_t seed) {
  return draw_graph_backward(seed, Graphs::kHub);
}

const std::vector<Change<GraphBackwardProblem>> kOfGraphGradients = {
    {"gradients elsewhere", gradients_elsewhere<GraphBackwardProblem>},
    {"gradients of float32", gradients_of_float32<GraphBackwardProblem>},
    {"other edges first", other_edges_of_gradients_first},
    {"one gradient", one_gradient<GraphBackwardProblem>},
};

}  // namespace

TEST_CASE("the same attention said in other ways", "[same]") {
  check_changes(400, draw_form, kOfAttention);
  check_changes(400, draw_form, kOfTypes);
  check_changes(brief() ? 4000 : 200, drawn<Lengths::kFew>, kOfAttention);
  check_changes(60, drawn<Lengths::kLong>, kOfAttention);
}

TEST_CASE("the same block said in other ways", "[same]") {
  check_changes(300, draw_block, kOfBlocks);
  check_changes(4, draw_grouped, kOfBlocks);
  check_changes(2, draw_few_rows, kOfBlocks);
  check_changes(100, draw_differentiable_block, kOfDifferentiableBlocks);
}

TEST_CASE("the same attention over a graph said in other ways", "[same]") {
  check_changes(1000, draw_graph, kOfGraphs);
  check_changes(48, drawn<Graphs::kHub>, kOfGraphs);
}

TEST_CASE("the same gradients said in other ways", "[same][backward]") {
  check_changes(150, draw_any_gradients, kOfGradients);
  check_changes(100, draw_block_gradients, kOfBlockGradients);
  check_changes(200, draw_graph_gradients, kOfGraphGradients);
  check_changes(16, draw_gradients_of_hub, kOfGraphGradients);
}

TEST_CASE("rows of weights that are picked are rows of them all", "[same]") {
  Choices choices;
  choices.precision = HEED_PRECISION_EXACT;  // bfloat16 is not multiplied for those that are picked
  const IsaContexts exact(choices);
  for (std::uint64_t seed = 1; seed <= count(200); ++seed) {
    Problem p = draw_form(seed);
    if (p.desc.query_length < 2) continue;
    INFO("seed " << seed << ": " << line_of(p));
    const std::set<Index> picked = {0, p.desc.query_length / 2, p.desc.query_length - 1};
    const std::vector<Index> rows(picked.begin(), picked.end());
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    for (std::size_t n = 0; n < exact.size(); ++n) {
      INFO(IsaContexts::name(n));
      if (multiplies_parts(IsaContexts::name(n))) continue;  // all, but not those that are picked
      p.want_weights(point, p.desc.weights.dtype);
      p.run_all(exact[n]);
      const Tensor all = *p.weights;
      p.want_weights(point, p.desc.weights.dtype, Arrangement::kTransposed, rows);
      p.run_all(exact[n]);
      bool same = true;
      p.weights->each([&](const Axes& at) {
        const Index row = rows[static_cast<std::size_t>(at[2])];
        same = same && same_number(p.weights->get(at), all.get({at[0], at[1], row, at[3]}));
      });
      CHECK(same);
    }
  }
}

TEST_CASE("edges into other nodes change no bit of a node", "[same]") {
  const auto stays = [](Index node) { return node % 3 == 1; };
  for (std::uint64_t seed = 1; seed <= count(400); ++seed) {
    GraphProblem all = seed % 10 == 0 ? drawn<Graphs::kHub>(seed) : draw_graph(seed);
    if (all.desc.steps > 1 || all.edge_data || all.edge_bias) continue;
    GraphProblem some = all;
    const std::vector<Index> numbers = numbers_of_edges(all);
    some.edges.sources = some.edges.destinations = {};
    some.dropout_edges.clear();
    for (std::size_t e = 0; e < all.edges.sources.size(); ++e) {
      if (!stays(all.edges.destinations[e])) continue;
      some.edges.add(all.edges.sources[e], all.edges.destinations[e]);
      // Dropout goes by the numbers that edges have in the larger graph.
      if (all.desc.dropout != 0) some.dropout_edges.push_back(numbers[e]);
    }
    some.weights.reset();
    INFO("seed " << seed << ": " << line_of(all));
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      all.run(plain_contexts()[n]);
      some.run(plain_contexts()[n]);
      bool same = true;
      for (const std::size_t of : {std::size_t{kGraphOut}, std::size_t{kGraphLse}})
        if (some.at(of))
          some.at(of)->each([&](const Axes& at) {
            same =
                same && (!stays(at[2]) || same_number(some.at(of)->get(at), all.at(of)->get(at)));
          });
      INFO(IsaContexts::name(n));
      CHECK(same);
    }
  }
}

TEST_CASE("several steps over a graph are several calls, each with the last one's out for data",
          "[same]") {
  for (std::uint64_t seed = 1; seed <= count(1000); ++seed) {
    GraphProblem p = draw_graph(seed);
    const Index steps = p.desc.steps;
    if (steps < 2) continue;
    INFO("seed " << seed << ": " << line_of(p));
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      const Results want = run(p, plain_contexts()[n]);
      GraphProblem q = p;
      q.desc.steps = 1;
      q.in_place = false;
      Results last;
      for (Index step = 0; step < steps; ++step) {
        last = run(q, plain_contexts()[n]);
        if (q.desc.dropout != 0) ++q.dropout_offset;
        q.desc.data = {q.out->dtype(), 0, 0, 0, 0, 0};
        q.add({kGraphData});
        const Index width = value_features_of(q.desc);
        q.data->fill([&](const Axes& at) {
          return q.out->get({0, at[3] / width, at[2], at[3] % width});
        });
      }
      check_same_numbers(IsaContexts::name(n), last, want);
    }
  }
}

// ---- Problems that are large enough to be shared out (sweeps try small ones) ----

TEST_CASE("threads, executors and tiles change no bit of attention", "[same][threads]") {
  for (std::uint64_t seed = 1; seed <= count(40); ++seed) {
    check_shared(drawn<Lengths::kLarge>(seed));
    check_shared(drawn<Lengths::kEdges>(seed));
    check_shared(drawn<Lengths::kLong>(seed));
  }
  for (std::uint64_t seed = 1; seed <= count(6); ++seed) check_shared(drawn<Graphs::kHub>(seed));
}

TEST_CASE("threads, executors and tiles change no bit of a block", "[same][threads]") {
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
      if (dtype != HEED_DTYPE_F32 && (small() || combine != HEED_COMBINE_CONCAT)) continue;
      Block block = block_of(combine, dtype, 170);
      block.attention.want_lse();
      check_shared(block);
    }
}

TEST_CASE("threads, executors and tiles change no bit of a gradient", "[backward][same][threads]") {
  for (std::uint64_t seed = 1; seed <= count(40); ++seed)
    for (const Lengths lengths : {Lengths::kLarge, Lengths::kLong, Lengths::kShared})
      check_shared(draw_gradients(seed, lengths));
  for (std::uint64_t seed = 1; seed <= count(6); ++seed)
    check_shared(draw_graph_backward(seed, Graphs::kHub));
  for (const bool keep : {false, true}) {
    const auto combine = keep ? HEED_COMBINE_WEIGHTED : HEED_COMBINE_CONCAT;
    BlockBackward p = all_gradients_of(block_of(combine, HEED_DTYPE_DEFAULT, 90));
    p.block.own_desc.keep = keep ? 1 : 0;
    check_shared(p);
  }
}
