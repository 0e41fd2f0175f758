// Sequences of a batch, packed or shortened, have the bits that each has alone; keys and values in
// pages those that they have one after the other.
#include "tests/problem/attention.hpp"
#include "tests/problem/random_problems.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

namespace {

/// A choice of types for the four tensors.
struct Kind {
  const char* name;
  Types types;
};

std::vector<Kind> all_kinds() {
  std::vector<Kind> all = {
      {"f32", {}},
      {"f64", all_of(HEED_DTYPE_F64)},
      {"bf16", all_of(HEED_DTYPE_BF16)},
      {"f16", all_of(HEED_DTYPE_F16)},
      {"mixed", {HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F32, HEED_DTYPE_F16}},
      {"i8", {HEED_DTYPE_F32, HEED_DTYPE_I8, HEED_DTYPE_I8, HEED_DTYPE_F32}},
      {"f8 and i8", {HEED_DTYPE_BF16, HEED_DTYPE_F8_E4M3, HEED_DTYPE_I8, HEED_DTYPE_F32}},
      {"i8 and f8", {HEED_DTYPE_F16, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3, HEED_DTYPE_BF16}}};
  if (small()) all.erase(all.begin() + 2, all.begin() + 4);
  return all;
}

/// The rows and keys of sequence b.
Sequence sequence(Problem& p, Index b) { return sequence_of(p.desc, p.args(), b); }

/// The part of a mask or bias that belongs to sequence b.
template <class Add>
void cut(const std::optional<Tensor>& from, const Sequence& s, Index b, Add&& add) {
  if (!from) return;
  const Axes& n = from->shape();
  Tensor& to = add(Axes{1, n[1], n[2] == 1 ? 1 : s.queries, n[3] == 1 ? 1 : s.keys});
  to.fill([&](const Axes& at) { return from->get({n[0] == 1 ? 0 : b, at[1], at[2], at[3]}); });
}

void cut_rows(const Tensor& from, Index batch, Index first, Tensor& to) {
  to.fill([&](const Axes& at) { return from.get({batch, at[1], first + at[2], at[3]}); });
}

void cut_scales(const Problem& p, std::uint32_t of, const Tensor& from, Index b, Index first,
                Tensor& to) {
  if (of != HEED_DTYPE_I8) return to.assign(from);
  cut_rows(from, p.desc.packed_keys > 0 ? 0 : b, first, to);
}

/// What sequence b asks of other outputs, as far as it has the rows.
void ask_alone(const Problem& p, const Sequence& s, Problem& alone) {
  if (p.lse) alone.want_lse(p.desc.lse.dtype);
  if (p.column_sums) alone.want_column_sums(p.desc.column_sums.dtype);
  std::vector<std::int64_t> rows;
  for (const std::int64_t row : p.weight_rows)
    if (row < s.queries) rows.push_back(row);
  if (p.weights && (p.weight_rows.empty() || !rows.empty()))
    alone.want_weights(static_cast<heed_weights_point>(p.desc.weights_point), p.desc.weights.dtype,
                       Arrangement::kDefault, rows);
}

/// Sequence b as a problem of its own, exactly as long as it is.
Problem alone(Problem& p, Index b) {
  const Sequence s = sequence(p, b);
  Sizes sizes = sizes_of(p);
  sizes.batch = 1;
  sizes.query_length = s.queries;
  sizes.key_length = s.keys;
  sizes.queries = sizes.keys = {};
  Problem q(sizes);
  cut_rows(p.query, p.desc.packed_queries > 0 ? 0 : b, s.first_query, q.query);
  cut_rows(p.key, p.desc.packed_keys > 0 ? 0 : b, s.first_key, q.key);
  cut_rows(p.value, p.desc.packed_keys > 0 ? 0 : b, s.first_key, q.value);
  if (p.key_scales) cut_scales(p, p.desc.key.dtype, *p.key_scales, b, s.first_key, *q.key_scales);
  if (p.value_scales)
    cut_scales(p, p.desc.value.dtype, *p.value_scales, b, s.first_key, *q.value_scales);
  q.score_as(p);
  // Of equal lengths in the descriptor no sequence says which end it is aligned at.
  if (q.desc.causal == HEED_CAUSAL_NONE && q.desc.alignment == HEED_ALIGNMENT_DEFAULT)
    q.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
  q.sinks = p.sinks;
  for (const IndexList& list : kIndexLists)
    if (list.says_attended && !(p.*list.indices).empty())
      q.*list.indices = {(p.*list.indices)[static_cast<std::size_t>(b)]};
  cut(p.mask, s, b, [&](const Axes& shape) -> Tensor& { return q.add_mask(shape); });
  cut(p.bias, s, b,
      [&](const Axes& shape) -> Tensor& { return q.add_bias(shape, p.desc.bias.dtype); });
  ask_alone(p, s, q);
  return q;
}

/// Whether every element of `part` is the element of `whole` that lies `first` rows on in batch b.
bool is_part(const Tensor& part, const Tensor& whole, Index b, Index first) {
  bool same = true;
  part.each([&](const Axes& at) {
    same = same && same_number(part.get(at), whole.get({b, at[1], first + at[2], at[3]}));
  });
  return same;
}

/// Results of sequence b of p alone, and what else is asked for, are parts of all.
void check_parts(const Problem& q, Problem& p, Index b, const Tensor& part, const Tensor& whole) {
  const Index first = sequence(p, b).first_query;
  const Index batch = p.desc.packed_queries > 0 ? 0 : b;
  CHECK(is_part(part, whole, batch, first));
  if (q.lse) CHECK(is_part(*q.lse, *p.lse, batch, first));
  if (q.weights) CHECK(is_part(*q.weights, *p.weights, b, 0));
  if (q.column_sums) CHECK(is_part(*q.column_sums, *p.column_sums, b, 0));
}

/// Every sequence of p alone has the bits that it has in the batch.
void check_sequences(Problem& p) {
  Problem rows = contiguous(p);
  for (const char* const isa : isa_names()) {
    p.run_all(isa);
    for (Index b = 0; b < p.desc.batch; ++b) {
      Problem q = alone(rows, b);
      INFO(isa << ", sequence " << b << ": " << line_of(q));
      q.run_all(isa);
      check_parts(q, p, b, q.out, p.out);
    }
  }
}

/// So has a block, of which each has rows of inputs of its own.
void check_blocks(Block& block) {
  Problem& p = block.attention;
  const Tensor& keys = block.input_key ? *block.input_key : block.input_query;
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    block.run_all(plain_contexts()[n]);
    for (Index b = 0; b < p.desc.batch; ++b) {
      const Sequence s = sequence(p, b);
      heed_multihead_desc desc = block.own_desc;
      for (auto* const rows : {&desc.input_query, &desc.input_key, &desc.out})
        *rows = {rows->dtype, 0, 0, 0, 0, 0};
      desc.input_key.dtype = keys.dtype();
      desc.width_out = has_w_out(desc.combine) ? block.out_width() : 0;
      const Problem inner = alone(p, b);
      desc.attention = &inner.desc;
      Block q(inner, desc, false);
      cut_rows(block.input_query, p.desc.packed_queries > 0 ? 0 : b, s.first_query, q.input_query);
      cut_rows(keys, p.desc.packed_keys > 0 ? 0 : b, s.first_key, *q.input_key);
      for (std::size_t i = 0; i < q.matrices().size(); ++i)
        *q.matrices()[i] = WeightMatrix(*block.matrices()[i]);
      q.head_weights = block.head_weights;
      INFO(IsaContexts::name(n) << ", sequence " << b << ": " << line_of(q));
      q.run_all(plain_contexts()[n]);
      check_parts(q.attention, p, b, q.out, block.out);
    }
  }
}

/// So have the gradients of its query, key and value.
void check_gradients(BackwardProblem& p) {
  const heed_attention_desc& d = p.forward.desc;
  p.want_nothing();
  for (const GradientOf of : {kGradQuery, kGradKey, kGradValue}) p.want(of);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    p.attend(plain_contexts()[n]);
    p.run(plain_contexts()[n]);
    for (Index b = 0; b < d.batch; ++b) {
      const Sequence s = sequence(p.forward, b);
      const Index of_query = d.packed_queries > 0 ? 0 : b;
      const Index of_key = d.packed_keys > 0 ? 0 : b;
      BackwardProblem q(alone(p.forward, b), 1, {p.grad_out.dtype()});
      INFO(IsaContexts::name(n) << ", sequence " << b << ": " << line_of(q));
      cut_rows(p.grad_out, of_query, s.first_query, q.grad_out);
      if (p.grad_lse) q.give_grad_lse(1, {p.grad_lse->dtype()});
      if (p.grad_lse) cut_rows(*p.grad_lse, of_query, s.first_query, *q.grad_lse);
      for (const GradientOf of : {kGradQuery, kGradKey, kGradValue}) q.want(of);
      q.attend(plain_contexts()[n]);
      q.run(plain_contexts()[n]);
      const auto is_part_of = [&](GradientOf of, Index batch, Index first) {
        return is_part(*q.gradients[of], *p.gradients[of], batch, first);
      };
      CHECK(is_part_of(kGradQuery, of_query, s.first_query));
      CHECK(is_part_of(kGradKey, of_key, s.first_key));
      CHECK(is_part_of(kGradValue, of_key, s.first_key));
    }
  }
}

}  // namespace

TEST_CASE("blocks of sequences of a batch are what each is alone", "[same]") {
  check_drawn(400, 100, draw_block, [](Block& block, std::uint64_t) {
    block.attention.keep_all_weights();
    block.attention.function = {};  // it may ask for the item
    if (block.attention.desc.batch < 2) return false;
    check_blocks(block);
    return true;
  });
}

TEST_CASE("gradients of sequences of a batch are what each has alone", "[same][backward]") {
  check_drawn(
      300, 100, [](std::uint64_t seed) { return draw_backward(seed); },
      [](BackwardProblem& p, std::uint64_t) {
        p.forward.keep_all_weights();
        p.forward.function = {};  // it may ask for the item
        if (p.forward.desc.batch < 2) return false;
        check_gradients(p);
        return true;
      });
}

TEST_CASE("sequences of a batch are what each is alone", "[same]") {
  std::size_t packed = 0;
  std::size_t shortened = 0;
  check_drawn(400, 150, drawn<Lengths::kAny>, [&](Problem& p, std::uint64_t) {
    p.keep_all_weights();  // what dropout takes depends on a sequence's place in the batch
    const bool is_packed = p.desc.packed_queries > 0 || p.desc.packed_keys > 0;
    packed += is_packed ? 1 : 0;
    shortened += p.key_lengths.empty() ? 0 : 1;
    if (!is_packed && p.key_lengths.empty() && p.desc.batch == 1) return false;
    if (p.desc.batch > 1 && p.function.call != nullptr) p.function = {};  // it may ask for the item
    check_sequences(p);
    return true;
  });
  CHECK((small() || (packed >= 100 && shortened >= 60)));
}

TEST_CASE("sequences that are decoded, beside others that are not, are what each is alone",
          "[same]") {
  std::size_t index = 0;
  for (const Kind& kind : all_kinds())
    for (const std::uint32_t causal : {HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT}) {
      if (!keep(index++)) continue;
      Sizes sizes = {40, 2100, 20, 24, 5, 2, 1, causal};
      sizes.types = kind.types;
      sizes.queries.offsets = {0, 1, 41, 42, 42, 44};
      sizes.keys.offsets = {0, 1500, 1577, 3677, 3687, 4712};
      Problem p = filled(sizes, 63);
      p.sinks.numbers = {1, -1};
      want_all(p);
      const heed_attention_info info =
          describe(make_plan(make_context(isa_names().back()), p.desc));
      CHECK(std::string(info.strategy) == "mixed");
      check_sequences(p);
    }
}

TEST_CASE("a vector of rows over long sequences, which are decoded, and over shorter ones",
          "[same]") {
  // 1 KiB of keys and values each: sequences of 4096 keys and more are long. 16 rows are a whole
  // vector on the widest instruction set, 2 on the narrowest.
  for (const std::int64_t rows : {2, 4, 8, 16}) {
    if (small() && !any_lanes([=](std::int64_t lanes) { return lanes == rows; })) continue;
    Problem p = filled({rows, 4100, 128, 128, 3, 1, 1, HEED_CAUSAL_BOTTOM_RIGHT}, 64);
    p.key_lengths = {4100, 4095, 4096};
    if (!small()) check_problem(p);
    check_sequences(p);
  }
}

TEST_CASE("one row over keys and values from memory, and over those of shorter sequences",
          "[same][large]") {
  // 4 KiB of keys and values each: of 4096 keys and more they are more than caches have room for.
  Problem p = filled({1, 4200, 128, 128, small() ? 2 : 4, 4, 4, HEED_CAUSAL_NONE}, 65);
  p.key_lengths = {4200, 4095, 4097, 23};
  p.key_lengths.resize(static_cast<std::size_t>(p.desc.batch));
  if (!small()) check_problem(p);
  check_sequences(p);
  if (small()) return;
  // The same of two heads that share rows, which are short.
  Problem pairs = filled({1, 8200, 64, 64, 2, 8, 4, HEED_CAUSAL_NONE}, 66);
  pairs.key_lengths = {8200, 4100};
  check_problem(pairs);
  check_sequences(pairs);
}

// ---- Pages ----

TEST_CASE("what decoded sequences share is read once, and no bit tells", "[pages][same]") {
  // Sequences 0 to 8 share two chunks of keys, 9 none, 10 and 11 share one; 4 ends earlier.
  constexpr Index sequences = 12;
  const auto leader = [](Index b, Index key) -> Index {
    if (b <= 8) return key < 2048 ? 0 : b;
    return b == 11 && key < 1024 ? 10 : b;
  };
  // More heads than a task takes side by side.
  const Index heads = brief() ? 2 : 10;
  const Sizes sizes = {1, 2100, small() ? 4 : 20, small() ? 5 : 24, sequences, heads, heads};
  enum class Limit { kNone, kWindow, kMask };
  for (const Limit limit : {Limit::kNone, Limit::kWindow, Limit::kMask}) {
    Problem p = filled(sizes, 73);
    p.key_lengths.assign(sequences, 2100);
    p.key_lengths[4] = 2090;
    for (Tensor Problem::*const tensor : {&Problem::key, &Problem::value})
      (p.*tensor).fill([&](Axes at) {
        at[0] = leader(at[0], at[2]);
        // One that is shared and masked must be kept from each of those who share it.
        if (limit == Limit::kMask && at[2] == 1025 && at[3] == 3) return kNaN;
        return 0.01 * static_cast<double>((at[0] * 71 + at[1] * 37 + at[2] * 13 + at[3] * 7) % 211);
      });
    if (limit == Limit::kMask)
      p.add_mask({1, 1, 1, 2100}).fill([](const Axes& at) { return at[3] == 1025 ? 0 : 1; });
    if (limit == Limit::kWindow) {
      p.desc.window = 1;
      p.desc.window_left = 900;
      p.desc.window_right = -1;
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    }
    Random random(74);
    Problem q = paged(p, random, false);
    const Index width = block_table_stride_of(q.desc);
    for (Index b = 0; b < sequences; ++b)
      for (Index n = 0; (n + 1) * q.desc.page_rows <= 2048; ++n)
        q.block_table[static_cast<std::size_t>(b * width + n)] =
            q.block_table[static_cast<std::size_t>(
                leader(b, (n + 1) * q.desc.page_rows - 1) * width + n)];
    CHECK(check_same(q, p));
  }
}

TEST_CASE("many keys in turns, wherever they lie, have the bits and results that they should",
          "[pages][same]") {
  if (brief()) return;
  // Rows without options over 16 MiB of keys and values are attended in turns. Queries of a key
  // head meet them alone, in groups of kernels, and in more than there are.
  constexpr Index kMany = Index{16} << 20;
  const std::vector<Index> groups = {4, 1, 3, 8, 9};
  std::size_t index = 0;
  for (const Kind& kind : all_kinds()) {
    if (small() && index > 0) break;  // 16 MiB of other types take long
    const Index group = groups[index++ % groups.size()];
    Sizes sizes = {1, 0, 200, 136, 1, 2 * group, 2};
    sizes.types = kind.types;
    const Index key_bytes =
        sizes.key_heads * (sizes.features * format_of(kind.types.key).bytes +
                           sizes.value_features * format_of(kind.types.value).bytes);
    sizes.key_length = kMany / key_bytes + 300;
    INFO(kind.name << " group " << group);
    Problem p = filled(sizes, index, 2);
    // The first key that is attended begins no turn.
    p.desc.window = 1;
    p.desc.window_left = sizes.key_length - 1 - static_cast<Index>(index) % 40;
    p.desc.window_right = -1;
    p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    check_problem(p);
    for (std::uint64_t seed = 0; seed < (small() ? 1 : 3); ++seed) {
      Random random(100 * index + seed);
      Problem q = paged(p, random, false);
      CHECK(check_same(q, p));
    }
  }
}
