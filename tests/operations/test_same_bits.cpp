// What may not change a bit of any result. Random problems are changed to others that say the same
// thing in another way: in other places and types, with other outputs, by other calls.
#include <algorithm>
#include <set>

#include "tests/multihead/copies.hpp"
#include "tests/operations/operations.hpp"
#include "tests/support/pages.hpp"

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

// ---- Attention ----

Types types_of(const Problem& p) { return sizes_of(p).types; }

/// The same problem with its four tensors in other types and other places, none of them in pages.
Problem remade(const Problem& p, const Types& types, const Layouts& layouts) {
  Sizes sizes = sizes_of(p);
  sizes.types = types;
  Problem made(sizes, layouts);
  Problem q = contiguous(p);
  for (auto [tensor, layout] : {std::pair{&Problem::query, &heed_attention_desc::query},
                                {&Problem::key, &heed_attention_desc::key},
                                {&Problem::value, &heed_attention_desc::value},
                                {&Problem::out, &heed_attention_desc::out}}) {
    (made.*tensor).assign(q.*tensor);
    q.*tensor = std::move(made.*tensor);
    q.desc.*layout = made.desc.*layout;
  }
  for (auto [scales, layout] : {std::pair{&Problem::key_scales, &heed_attention_desc::key_scales},
                                {&Problem::value_scales, &heed_attention_desc::value_scales}}) {
    if (!(q.*scales)) continue;
    (made.*scales)->assign(*(q.*scales));
    q.*scales = std::move(made.*scales);
    q.desc.*layout = made.desc.*layout;
  }
  return q;
}

Arrangement any_arrangement(Random& random) {
  return static_cast<Arrangement>(random.integer(0, static_cast<int>(Arrangement::kCount) - 1));
}

/// Where packed rows lie [head, row, feature], that is a layout like any other.
Layouts any_layouts(Random& random) {
  return {any_arrangement(random), any_arrangement(random), any_arrangement(random),
          any_arrangement(random), static_cast<std::size_t>(random.integer(1, 3))};
}

bool in_order(Problem& p, Random&) {
  p = remade(p, types_of(p), {});
  return true;
}

bool elsewhere(Problem& p, Random& random) {
  p = remade(p, types_of(p), any_layouts(random));
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

bool is_narrow(std::uint32_t dtype) { return format_of(dtype).bytes == 2; }

/// 16-bit inputs are float32 ones exactly, and out is rounded to its type.
bool as_float32(Problem& p, Random&) {
  const Types types = types_of(p);
  if (is_scaled(types.key) || is_scaled(types.value)) return false;
  if (!is_narrow(types.query) && !is_narrow(types.key) && !is_narrow(types.value) &&
      !is_narrow(types.out))
    return false;
  p = remade(p, {}, {});
  return true;
}

const std::vector<Change<Problem>> kOfAttention = {
    {"tensors in order", in_order},
    {"tensors elsewhere", elsewhere},
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
const std::vector<Change<Problem>> kOfTypes = {{"all of float32", as_float32, true}};

// ---- Blocks ----

/// Remakes a block as change(choice) says.
template <class ChangeChoice>
void rechoose(Block& b, ChangeChoice&& change) {
  BlockChoice choice = b.choice;
  change(choice);
  b = remade(b, choice);
}

bool block_in_order(Block& b, Random&) {
  rechoose(b, [](BlockChoice& c) {
    c.query = c.key = c.out = Arrangement::kDefault;
    for (MatrixChoice* const w : matrices_of(c)) w->arrangement = Arrangement::kDefault;
  });
  return true;
}

bool block_elsewhere(Block& b, Random& random) {
  rechoose(b, [&](BlockChoice& c) {
    c.query = any_arrangement(random);
    c.key = any_arrangement(random);
    c.out = any_arrangement(random);
    c.misalign = static_cast<std::size_t>(random.integer(1, 3));
    for (MatrixChoice* const w : matrices_of(c)) {
      w->arrangement = random.integer(0, 1) == 0 ? Arrangement::kTransposed : Arrangement::kPadded;
      w->misalign = static_cast<std::size_t>(random.integer(1, 5));
    }
  });
  return true;
}

/// Where they lie: gradients of matrices are summed in an order that the inputs' strides decide.
bool prepared(Block& b, Random&) {
  for (WeightMatrix* const w : b.matrices()) w->prepared = true;
  return true;
}

bool two_inputs(Block& b, Random&) {
  if (!b.choice.self) return false;
  rechoose(b, [](BlockChoice& c) {
    c.self = false;
    c.key = Arrangement::kPadded;
    c.dtype_key = c.dtype_query;
  });
  return true;
}

bool out_of_float32(Block& b, Random&) {
  if (!is_narrow(b.out.dtype())) return false;
  rechoose(b, [](BlockChoice& c) { c.dtype_out = HEED_DTYPE_F32; });
  return true;
}

bool block_of_float32(Block& b, Random&) {
  if (is_float64(b.attention.desc)) return false;
  rechoose(b, [](BlockChoice& c) {
    c.dtype_query = c.dtype_key = c.bias_dtype = HEED_DTYPE_F32;
    for (MatrixChoice* const w : matrices_of(c)) w->dtype = w->bias_dtype = HEED_DTYPE_F32;
  });
  return true;
}

bool matrix_per_head(Block& b, Random&) {
  if (b.choice.combine != HEED_COMBINE_CONCAT) return false;
  rechoose(b, [](BlockChoice& c) { c.combine = HEED_COMBINE_TENSOR; });
  return true;
}

const std::vector<Change<Block>> kOfBlocks = {
    {"tensors in order", block_in_order},
    {"tensors elsewhere", block_elsewhere},
    {"prepared matrices", prepared},
    {"the input twice", two_inputs},
    {"a matrix per head for one of all", matrix_per_head},
    {"nothing but out",
     [](Block& b, Random& random) { return nothing_but_out(b.attention, random); }},
    {"all outputs", [](Block& b, Random& random) { return all_outputs(b.attention, random); }},
    {"out of float32", out_of_float32},
    {"all inputs of float32", block_of_float32, true},
};

/// Large, of heads that share keys: rows of one alone fill a panel less than those of all.
Block draw_grouped(std::uint64_t seed) {
  BlockChoice choice = choice_of(seed % 2 == 0 ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
  choice.self = true;
  choice.width_query = choice.width_key = 150;
  const Index length = small() ? 60 : 170;
  Block block = plain_block(length, length, 6, 32, choice, 2, 3, 30);
  block.fill(51, 0.7);
  if (seed > 2) block.attention.desc.causal = HEED_CAUSAL_TOP_LEFT;
  return block;
}

// ---- Graphs ----

bool other_index(GraphProblem& p, Random&) {
  p.form.index_type = p.form.index_type == HEED_INDEX_I64 ? HEED_INDEX_I32 : HEED_INDEX_I64;
  return true;
}

/// Edges without tensors, in any order, and as a list or as rows.
bool other_edges_first(GraphProblem& p, Random& random) {
  if (p.edge_data || p.edge_bias || p.weights) return false;
  p.edges = reordered(p.edges, random_order(p.edges.sources.size(), random));
  p.form.rows = random.integer(0, 1) == 0;
  if (p.form.rows) p.edges = by_destination(p.edges);
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

bool inputs_elsewhere(BackwardProblem& p, Random& random) { return elsewhere(p.forward, random); }

const std::vector<Change<BackwardProblem>> kOfGradients = {
    {"tensors elsewhere", inputs_elsewhere},
    {"gradients elsewhere", gradients_elsewhere<BackwardProblem>},
    {"gradients of float32", gradients_of_float32<BackwardProblem>},
    {"one gradient", one_gradient<BackwardProblem>},
};

template <bool (*change)(Block&, Random&)>
bool of_block(BlockBackwardCall& p, Random& random) {
  return change(p.block, random);
}

bool kept(BlockBackwardCall& p, Random&) {
  p.keeps = Keeps::kAll;
  return true;
}

const std::vector<Change<BlockBackwardCall>> kOfBlockGradients = {
    {"kept", kept},
    {"prepared matrices", of_block<prepared>},
    {"one gradient", one_gradient<BlockBackwardCall>},
};

bool other_edges_of_gradients_first(GraphBackwardProblem& p, Random& random) {
  EdgeList& edges = p.forward.edges;
  if (p.forward.edge_data || p.forward.edge_bias) return false;
  edges = reordered(edges, random_order(edges.sources.size(), random));
  p.forward.form.rows = false;
  return true;
}

const std::vector<Change<GraphBackwardProblem>> kOfGraphGradients = {
    {"gradients elsewhere", gradients_elsewhere<GraphBackwardProblem>},
    {"gradients of float32", gradients_of_float32<GraphBackwardProblem>},
    {"other edges first", other_edges_of_gradients_first},
    {"one gradient", one_gradient<GraphBackwardProblem>},
};

// ---- Parts ----

/// Item b of a tensor's batch, in a tensor of one item.
void assign_item(const Tensor& all, Index b, Tensor& item) {
  item.fill([&](const Axes& at) { return all.get({b, at[1], at[2], at[3]}); });
}

/// Whether `item` is item b of `all`.
bool is_item(const Numbers& all, Index b, const Numbers& item) {
  bool same = all.size() % std::max<std::size_t>(item.size(), 1) == 0;
  for (std::size_t i = 0; same && i < item.size(); ++i)
    same = same_element(all, static_cast<std::size_t>(b) * item.size() + i, item, i);
  return same;
}

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
}

TEST_CASE("the same attention over a graph said in other ways", "[same]") {
  check_changes(1000, draw_graph, kOfGraphs);
}

TEST_CASE("the same gradients said in other ways", "[same][backward]") {
  check_changes(150, draw_any_gradients, kOfGradients);
  check_changes(100, draw_block_gradients, kOfBlockGradients);
  check_changes(200, draw_graph_gradients, kOfGraphGradients);
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

// (Of attention alone tests/dense/test_sequences.cpp says so.)
TEST_CASE("an item of a batch is what it is alone in a block", "[same]") {
  std::size_t index = 0;
  for (const std::uint32_t combine : kCombiners)
    for (const Index queries : {1, 11, 16, 24, 26, 48, 53}) {
      if (!keep(index++)) continue;
      BlockChoice choice;
      choice.combine = combine;
      choice.width_query = choice.width_key = 30;
      Block whole = plain_block(queries, 37, 4, 11, choice, 5, 2);
      whole.fill(57);
      for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
        const Numbers all = whole.run_all(plain_contexts()[n]).out;
        for (const Index item : {0, 3, 4}) {
          INFO(IsaContexts::name(n) << ", item " << item << ": " << line_of(whole));
          Block alone = plain_block(queries, 37, 4, 11, choice, 1, 2);
          assign_item(whole.input_query, item, alone.input_query);
          assign_item(*whole.input_key, item, *alone.input_key);
          copy_matrices(whole, alone);
          CHECK(is_item(all, item, alone.run_all(plain_contexts()[n]).out));
        }
      }
    }
}

TEST_CASE("the batch around a sequence changes no bit of its gradients", "[same][backward]") {
  Sizes sizes = {90, 140, 12, 9, 3, 4, 2};
  sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  Problem forward = filled(sizes, 22);
  forward.key_lengths = {140, 7, 96};
  BackwardProblem whole(std::move(forward));
  whole.give_grad_lse(101);
  whole.want_all();
  whole.attend(plain_contexts()[0]);
  sizes.batch = 1;
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const Gradients all = whole.run(plain_contexts()[n]);
    for (Index b = 0; b < 3; ++b) {
      Problem part(sizes);
      part.key_lengths = {whole.forward.key_lengths[static_cast<std::size_t>(b)]};
      for (Tensor Problem::*const tensor :
           {&Problem::query, &Problem::key, &Problem::value, &Problem::out})
        assign_item(whole.forward.*tensor, b, part.*tensor);
      part.want_lse();
      assign_item(*whole.forward.lse, b, *part.lse);
      BackwardProblem alone(std::move(part));
      assign_item(whole.grad_out, b, alone.grad_out);
      alone.give_grad_lse(1);
      assign_item(*whole.grad_lse, b, *alone.grad_lse);
      alone.want_all();
      const Gradients got = alone.run(plain_contexts()[n]);
      for (const GradientOf of : {kGradQuery, kGradKey, kGradValue}) {
        INFO(IsaContexts::name(n) << ", item " << b << ", gradient of " << name_of(of));
        CHECK(is_item(all[of], b, got[of]));
      }
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
