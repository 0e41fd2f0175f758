// Problems that say the same thing in two ways have the same bits in every output: random ones of
// every form, each from a seed of its own.
#include <set>

#include "tests/dense/kinds.hpp"
#include "tests/dense/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

// ---- Copies ----

/// The descriptor may leave key_heads and value_features at their defaults: the tensors know.
Sizes sizes_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  Sizes sizes = {d.query_length, d.key_length,     d.features, p.value.shape()[3], d.batch,
                 d.query_heads,  p.key.shape()[1], d.causal,   d.causal_offset,    d.scale};
  sizes.types = {d.query.dtype, d.key.dtype, d.value.dtype, d.out.dtype};
  if (d.packed_queries > 0) sizes.queries = {p.cu_seqlens_q, p.query.shape()[2]};
  if (d.packed_keys > 0) sizes.keys = {p.cu_seqlens_k, p.key.shape()[2]};
  return sizes;
}

void copy(const std::optional<Tensor>& from, std::optional<Tensor>& to) {
  if (from) to.emplace(*from);
}

void copy_numbers(const Tensor& from, Tensor& to) {
  from.each([&](const Axes& at) { to.set(at, from.get(at)); });
}

/// The same problem with its four tensors in other types and other places.
Problem remade(const Problem& p, const Types& types, const Layouts& layouts) {
  Sizes sizes = sizes_of(p);
  sizes.types = types;
  Problem q(sizes, layouts);
  heed_attention_desc desc = p.desc;
  desc.query = q.desc.query;
  desc.key = q.desc.key;
  desc.value = q.desc.value;
  desc.out = q.desc.out;
  q.desc = desc;
  copy_numbers(p.query, q.query);
  copy_numbers(p.key, q.key);
  copy_numbers(p.value, q.value);
  copy(p.mask, q.mask);
  copy(p.bias, q.bias);
  copy(p.lse, q.lse);
  copy(p.weights, q.weights);
  copy(p.column_sums, q.column_sums);
  q.key_lengths = p.key_lengths;
  q.slopes = p.slopes;
  q.sinks = p.sinks;
  q.function = p.function;
  q.weight_rows = p.weight_rows;
  return q;
}

Types types_of(const Problem& p) { return sizes_of(p).types; }

// ---- One sequence ----

/// The rows and keys of sequence b.
Sequence sequence(Problem& p, Index b) { return sequence_of(p.desc, p.args(), b); }

Index clipped(Index i, Index size) { return size == 1 ? 0 : i; }

/// The part of a mask or bias that belongs to sequence b.
template <class Add>
void cut(const std::optional<Tensor>& from, const Sequence& s, Index b, Add&& add) {
  if (!from) return;
  const Axes& n = from->shape();
  Tensor& to = add(Axes{1, n[1], n[2] == 1 ? 1 : s.queries, n[3] == 1 ? 1 : s.keys});
  to.each([&](const Axes& at) { to.set(at, from->get({clipped(b, n[0]), at[1], at[2], at[3]})); });
}

void cut_rows(const Tensor& from, Index batch, Index first, Tensor& to) {
  to.each([&](const Axes& at) { to.set(at, from.get({batch, at[1], first + at[2], at[3]})); });
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
  q.score_as(p);
  // Of equal lengths in the descriptor no sequence says which end it is aligned at.
  if (q.desc.causal == HEED_CAUSAL_NONE && q.desc.alignment == HEED_ALIGNMENT_DEFAULT)
    q.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
  q.sinks = p.sinks;
  cut(p.mask, s, b, [&](const Axes& shape) -> Tensor& { return q.add_mask(shape); });
  cut(p.bias, s, b,
      [&](const Axes& shape) -> Tensor& { return q.add_bias(shape, p.desc.bias.dtype); });
  ask_alone(p, s, q);
  return q;
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

/// Whether every element of `part` is the element of `whole` that lies `first` rows on in batch b.
bool is_part(const Tensor& part, const Tensor& whole, Index b, Index first) {
  bool same = true;
  part.each([&](const Axes& at) {
    same = same && same_number(part.get(at), whole.get({b, at[1], first + at[2], at[3]}));
  });
  return same;
}

/// Both have just run.
void check_part(const Problem& q, const Problem& p, const Sequence& s, Index b) {
  const Index q_batch = p.desc.packed_queries > 0 ? 0 : b;
  CHECK(is_part(q.out, p.out, q_batch, s.first_query));
  if (q.lse) CHECK(is_part(*q.lse, *p.lse, q_batch, s.first_query));
  if (q.weights) CHECK(is_part(*q.weights, *p.weights, b, 0));
  if (q.column_sums) CHECK(is_part(*q.column_sums, *p.column_sums, b, 0));
}

// ---- Types ----

bool is_narrow(std::uint32_t dtype) { return dtype == HEED_DTYPE_BF16 || dtype == HEED_DTYPE_F16; }

/// Whether `narrow` is `wide` rounded to its own type.
bool check_rounded(const std::string& what, const Numbers& narrow, const Numbers& wide) {
  bool same = narrow.size() == wide.size();
  for (std::size_t i = 0; same && i < narrow.size(); ++i) {
    const bool written = narrow.written(i) == wide.written(i);
    const bool rounded = encode(narrow.dtype, wide[i]) == narrow.bits[i];
    same = written &&
           (rounded || !narrow.written(i) || (std::isnan(narrow[i]) && std::isnan(wide[i])));
    if (!same)
      FAIL_CHECK(what << ": element " << i << " is " << narrow[i] << ", not " << wide[i]
                      << " rounded");
  }
  return same;
}

}  // namespace

TEST_CASE("threads, executors and tiles change the bits of no output", "[same][threads]") {
  std::vector<IsaContexts> others;
  for (const auto& [tile_q, tile_kv] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 1}, {1000, 1}, {1, 1000}, {50, 200}})
    for (std::size_t i = 0; i < heed_executor_count(); ++i)
      others.emplace_back(Choices{heed_executor_name(i), i == 0 ? 1U : 3U, tile_q, tile_kv});
  const IsaContexts plain;
  check_drawn<RandomForms>(300, 300, [&](Problem& p, std::uint64_t seed) {
    const IsaContexts& other = others[seed % others.size()];
    for (std::size_t n = 0; n < plain.size(); ++n)
      check_same(IsaContexts::name(n), p.run_all(plain[n]), p.run_all(other[n]));
    return true;
  });
}

TEST_CASE("many tiles change the bits of no output", "[same]") {
  // Long enough that every choice of tiles cuts them differently.
  const IsaContexts plain;
  const IsaContexts small_tiles(Choices{"serial", 1, 1, 1});
  const IsaContexts large_tiles(Choices{"serial", 1, 1000, 1000});
  for (const Kind& kind : kinds()) {
    if (small() && kind.types.query != 0) break;
    Sizes sizes = {small() ? 60 : 150, 400, 20, 24};
    sizes.query_heads = 2;
    sizes.types = kind.types;
    Problem p(sizes);
    p.fill(61, 1.5F);
    p.desc.softcap = 20;
    p.add_mask({1, 1, 1, 400}).set({0, 0, 0, 200}, 0);
    p.sinks.numbers = {1, -1};
    p.want_lse();
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    p.want_column_sums();
    for (std::size_t n = 0; n < plain.size(); ++n) {
      const Outputs want = p.run_all(plain[n]);
      check_same(std::string(kind.name) + ", small tiles", p.run_all(small_tiles[n]), want);
      check_same(std::string(kind.name) + ", large tiles", p.run_all(large_tiles[n]), want);
    }
  }
}

TEST_CASE("where tensors lie changes no bit", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(200, 200, [&](Problem& p, std::uint64_t seed) {
    Problem contiguous = remade(p, types_of(p), {});
    check_same(p, contiguous, contexts);
    Problem misaligned = remade(p, types_of(p),
                                {Arrangement::kContiguous, Arrangement::kContiguous,
                                 Arrangement::kContiguous, Arrangement::kContiguous, 1 + seed % 3});
    // Where rows are packed, [head, row, feature] is a layout like any other.
    check_same(p, misaligned, contexts);
    return true;
  });
}

TEST_CASE("other outputs change the bits of none", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(150, 100, [&](Problem& p, std::uint64_t seed) {
    p.want_nothing_else();
    const std::vector<Outputs> alone = run_everywhere(p, contexts);
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    const bool soft = p.desc.hard == 0;
    if (soft) p.want_lse();
    const std::vector<Outputs> with_lse = run_everywhere(p, contexts);
    p.want_nothing_else();
    p.want_weights(point);
    const std::vector<Outputs> with_weights = run_everywhere(p, contexts);
    p.want_nothing_else();
    p.want_column_sums();
    const std::vector<Outputs> with_sums = run_everywhere(p, contexts);
    p.want_weights(point);
    if (soft) p.want_lse();
    const std::vector<Outputs> with_all = run_everywhere(p, contexts);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n));
      check_same("out with lse", with_lse[n].out, alone[n].out);
      check_same("out with weights", with_weights[n].out, alone[n].out);
      check_same("out with column sums", with_sums[n].out, alone[n].out);
      check_same("out with all", with_all[n].out, alone[n].out);
      check_same("lse with all", with_all[n].lse, with_lse[n].lse);
      check_same("weights with all", with_all[n].weights, with_weights[n].weights);
      check_same("column sums with all", with_all[n].column_sums, with_sums[n].column_sums);
    }
    return soft;
  });
}

TEST_CASE("sequences of a batch are what each is alone", "[same]") {
  const IsaContexts contexts;
  std::size_t packed = 0;
  std::size_t shortened = 0;
  check_drawn<RandomForms>(400, 150, [&](Problem& p, std::uint64_t) {
    packed += p.desc.packed_queries > 0 || p.desc.packed_keys > 0 ? 1 : 0;
    shortened += p.key_lengths.empty() ? 0 : 1;
    if (p.desc.packed_queries == 0 && p.desc.packed_keys == 0 && p.key_lengths.empty() &&
        p.desc.batch == 1)
      return false;
    if (p.desc.batch > 1 && p.function.call != nullptr) p.function = {};  // it may ask for the item
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      p.run_all(contexts[n]);
      for (Index b = 0; b < p.desc.batch; ++b) {
        Problem q = alone(p, b);
        INFO(IsaContexts::name(n) << ", sequence " << b << ": " << line_of(q));
        q.run_all(contexts[n]);
        check_part(q, p, sequence(p, b), b);
      }
    }
    return true;
  });
  CHECK((small() || (packed >= 100 && shortened >= 60)));
}

TEST_CASE("keys past a length might as well not be there", "[same]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const std::uint32_t causal : {HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT}) {
      if (!keep(index++)) continue;
      Sizes sizes = {small() ? 20 : 60, 300, 20, 24};
      sizes.batch = 4;
      sizes.query_heads = 2;
      sizes.causal = causal;
      sizes.types = kind.types;
      Problem p(sizes);
      p.fill(62);
      p.key_lengths = {127, 300, 129, 5};
      p.want_lse();
      p.want_weights(HEED_WEIGHTS_PROBABILITIES);
      p.want_column_sums();
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        p.run_all(contexts[n]);
        for (Index b = 0; b < 4; ++b) {
          Problem q = alone(p, b);
          INFO(IsaContexts::name(n) << ", length " << q.desc.key_length);
          q.run_all(contexts[n]);
          check_part(q, p, sequence(p, b), b);
        }
      }
    }
}

TEST_CASE("a mask or bias that repeats is the one written out", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(400, 100, [&](Problem& p, std::uint64_t) {
    const bool repeats =
        (p.mask && p.mask->shape() != p.pairs()) || (p.bias && p.bias->shape() != p.pairs());
    if (!repeats) return false;
    Problem q = remade(p, types_of(p), {});
    const auto write_out = [&](const Tensor& from, Tensor& to) {
      const Axes& n = from.shape();
      to.each([&](const Axes& at) {
        to.set(at, from.get({clipped(at[0], n[0]), clipped(at[1], n[1]), clipped(at[2], n[2]),
                             clipped(at[3], n[3])}));
      });
    };
    if (p.mask) write_out(*p.mask, q.add_mask(q.pairs()));
    if (p.bias) write_out(*p.bias, q.add_bias(q.pairs(), p.desc.bias.dtype));
    check_same(p, q, contexts);
    return true;
  });
}

TEST_CASE("any byte but 0 in a mask means attend", "[same]") {
  const IsaContexts contexts;
  Problem p({20, 300, 8, 8});
  p.fill(63);
  Tensor& mask = p.add_mask(p.pairs());
  mask.each([&](const Axes& at) { mask.set(at, (at[2] + at[3]) % 3 == 0 ? 0 : 1); });
  const std::vector<Outputs> ones = run_everywhere(p, contexts);
  mask.each([&](const Axes& at) {
    if (mask.get(at) != 0) mask.set(at, static_cast<double>(1 + (at[2] * 300 + at[3]) % 255));
  });
  for (std::size_t n = 0; n < contexts.size(); ++n)
    check_same(IsaContexts::name(n), p.run_all(contexts[n]), ones[n]);
}

TEST_CASE("a mask of ones, a bias of zeros are none", "[same]") {
  // A bias of zeros makes other kernels compute the scores: here they do already.
  const IsaContexts contexts;
  for (const Kind& kind : kinds()) {
    if (small() && kind.types.query != 0) break;
    Sizes sizes = {30, 300, 20, 24};
    sizes.types = kind.types;
    Problem p(sizes);
    p.fill(64);
    p.want_lse();
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    Problem masked = remade(p, kind.types, {});
    masked.add_mask(masked.pairs());
    check_same(p, masked, contexts);
    p.desc.softcap = masked.desc.softcap = 5;
    masked.mask.reset();
    masked.add_bias(masked.pairs());
    check_same(p, masked, contexts);
  }
}

TEST_CASE("rows of weights that are picked are rows of them all", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(200, 150, [&](Problem& p, std::uint64_t seed) {
    if (p.desc.query_length < 2) return false;
    const std::set<std::int64_t> picked = {0, p.desc.query_length / 2, p.desc.query_length - 1};
    const std::vector<std::int64_t> rows(picked.begin(), picked.end());
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n));
      p.want_weights(point, p.desc.weights.dtype);
      p.run_all(contexts[n]);
      const Tensor all = *p.weights;
      p.want_weights(point, p.desc.weights.dtype, Arrangement::kTransposed, rows);
      p.run_all(contexts[n]);
      bool same = true;
      p.weights->each([&](const Axes& at) {
        const Index row = rows[static_cast<std::size_t>(at[2])];
        same = same && same_number(p.weights->get(at), all.get({at[0], at[1], row, at[3]}));
      });
      CHECK(same);
    }
    return true;
  });
}

TEST_CASE("16-bit tensors are float32 ones: inputs exactly, out rounded", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(400, 100, [&](Problem& p, std::uint64_t) {
    const Types types = types_of(p);
    if (!is_narrow(types.query) && !is_narrow(types.key) && !is_narrow(types.value) &&
        !is_narrow(types.out))
      return false;
    Problem wide = remade(p, {}, {});
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n));
      const Outputs narrow = p.run_all(contexts[n]);
      const Outputs want = wide.run_all(contexts[n]);
      check_rounded("out", narrow.out, want.out);
      check_same("lse", narrow.lse, want.lse);
      check_same("weights", narrow.weights, want.weights);
      check_same("column sums", narrow.column_sums, want.column_sums);
    }
    return true;
  });
}

TEST_CASE("the type of an output does nothing but round it", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomForms>(200, 150, [&](Problem& p, std::uint64_t seed) {
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    const bool soft = p.desc.hard == 0;
    if (soft) p.want_lse(HEED_DTYPE_F64);
    p.want_weights(point);
    p.want_column_sums();
    const std::vector<Outputs> wide = run_everywhere(p, contexts);
    for (const std::uint32_t dtype :
         {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      if (soft) p.want_lse(is_narrow(dtype) ? std::uint32_t{HEED_DTYPE_F32} : dtype);
      p.want_weights(point, dtype);
      p.want_column_sums(dtype);
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        INFO(IsaContexts::name(n) << ", " << name_of_dtype(dtype));
        const Outputs got = p.run_all(contexts[n]);
        check_rounded("lse", got.lse, wide[n].lse);
        check_rounded("weights", got.weights, wide[n].weights);
        check_rounded("column sums", got.column_sums, wide[n].column_sums);
      }
    }
    return soft;
  });
}
