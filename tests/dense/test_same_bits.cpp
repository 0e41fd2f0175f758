// Problems that say the same thing in two ways have the same bits in every output: random ones of
// every form, each from a seed of its own.
#include <algorithm>
#include <set>

#include "tests/dense/kinds.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/pages.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

// ---- Copies ----

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

Types types_of(const Problem& p) { return sizes_of(p).types; }

// ---- Types ----

bool is_narrow(std::uint32_t dtype) { return dtype == HEED_DTYPE_BF16 || dtype == HEED_DTYPE_F16; }

/// As float32 has them: where a finite log-sum-exp is past its range, the end of what scores have.
Numbers as_log_sums(Numbers numbers, std::uint32_t dtype) {
  if (dtype != HEED_DTYPE_F32) return numbers;
  constexpr double kLowest = -0x1.fffffep127, kHighest = 0x1.fffffcp127;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (std::isfinite(numbers[i]))
      numbers.bits[i] = encode(numbers.dtype, std::clamp(numbers[i], kLowest, kHighest));
  return numbers;
}

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
  const auto check = [&](Problem& p, std::uint64_t seed) {
    check_same(p, run_everywhere(p), others[seed % others.size()]);
    return true;
  };
  check_drawn<RandomForms>(300, 300, check);
  check_drawn<LongForms>(60, 60, check);
}

TEST_CASE("many tiles change the bits of no output", "[same]") {
  // Long enough that every choice of tiles cuts them differently.
  for (const Kind& kind : all_kinds()) {
    if (small() && kind.types.query != 0) break;
    Sizes sizes = {small() ? 60 : 150, 400, 20, 24};
    sizes.query_heads = 2;
    sizes.types = kind.types;
    Problem p = filled(sizes, 61, 1.5F);
    p.desc.softcap = 20;
    p.add_mask({1, 1, 1, 400}).set({0, 0, 0, 200}, 0);
    p.sinks.numbers = {1, -1};
    want_all(p);
    const std::vector<Outputs> want = run_everywhere(p);
    for (const std::uint32_t tile : {1U, 1000U})
      check_same(p, want, IsaContexts({"serial", 1, tile, tile}));
  }
}

TEST_CASE("where tensors lie changes no bit", "[same]") {
  const auto check = [&](Problem& p, std::uint64_t seed) {
    Problem contiguous = remade(p, types_of(p), {});
    check_same(p, contiguous);
    Problem misaligned = remade(p, types_of(p),
                                {Arrangement::kContiguous, Arrangement::kContiguous,
                                 Arrangement::kContiguous, Arrangement::kContiguous, 1 + seed % 3});
    // Where rows are packed, [head, row, feature] is a layout like any other.
    check_same(p, misaligned);
    return true;
  };
  check_drawn<RandomForms>(200, 200, check);
  check_drawn<FewForms>(200, 200, check);
}

TEST_CASE("other outputs change the bits of none", "[same]") {
  check_drawn<RandomForms>(150, 100, [&](Problem& p, std::uint64_t seed) {
    p.want_nothing_else();
    const std::vector<Outputs> alone = run_everywhere(p);
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    const bool soft = p.desc.hard == 0;
    if (soft) p.want_lse();
    const std::vector<Outputs> with_lse = run_everywhere(p);
    p.want_nothing_else();
    p.want_weights(point);
    const std::vector<Outputs> with_weights = run_everywhere(p);
    p.want_nothing_else();
    p.want_column_sums();
    const std::vector<Outputs> with_sums = run_everywhere(p);
    p.want_weights(point);
    if (soft) p.want_lse();
    const std::vector<Outputs> with_all = run_everywhere(p);
    for (std::size_t n = 0; n < alone.size(); ++n) {
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

TEST_CASE("a mask or bias that repeats is the one written out", "[same]") {
  check_drawn<RandomForms>(400, 100, [&](Problem& p, std::uint64_t) {
    const bool repeats =
        (p.mask && p.mask->shape() != p.pairs()) || (p.bias && p.bias->shape() != p.pairs());
    if (!repeats) return false;
    Problem q = remade(p, types_of(p), {});
    const auto write_out = [&](const Tensor& from, Tensor& to) {
      const Axes& n = from.shape();
      to.fill([&](const Axes& at) {
        return from.get({at[0] % n[0], at[1] % n[1], at[2] % n[2], at[3] % n[3]});
      });
    };
    if (p.mask) write_out(*p.mask, q.add_mask(q.pairs()));
    if (p.bias) write_out(*p.bias, q.add_bias(q.pairs(), p.desc.bias.dtype));
    check_same(p, q);
    return true;
  });
}

TEST_CASE("any byte but 0 in a mask means attend", "[same]") {
  Problem p = filled({20, 300, 8, 8}, 63);
  Tensor& mask = p.add_mask(p.pairs());
  mask.fill([](const Axes& at) { return (at[2] + at[3]) % 3 != 0; });
  const std::vector<Outputs> ones = run_everywhere(p);
  mask.fill(
      [&](const Axes& at) { return mask.get(at) == 0 ? 0 : 1 + (at[2] * 300 + at[3]) % 255; });
  CHECK(check_same(p, ones));
}

TEST_CASE("a mask of ones, a bias of zeros are none", "[same]") {
  // A bias of zeros makes other kernels compute the scores: here they do already.
  for (const Kind& kind : all_kinds()) {
    if (small() && kind.types.query != 0) break;
    Sizes sizes = {30, 300, 20, 24};
    sizes.types = kind.types;
    Problem p = filled(sizes, 64);
    p.want_lse();
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    Problem masked = remade(p, kind.types, {});
    masked.add_mask(masked.pairs());
    check_same(p, masked);
    p.desc.softcap = masked.desc.softcap = 5;
    masked.mask.reset();
    masked.add_bias(masked.pairs());
    check_same(p, masked);
  }
}

TEST_CASE("rows of weights that are picked are rows of them all", "[same]") {
  Choices choices;
  choices.precision = HEED_PRECISION_EXACT;  // bfloat16 is not multiplied for those that are picked
  const IsaContexts exact(choices);
  check_drawn<RandomForms>(200, 150, [&](Problem& p, std::uint64_t seed) {
    if (p.desc.query_length < 2) return false;
    const std::set<std::int64_t> picked = {0, p.desc.query_length / 2, p.desc.query_length - 1};
    const std::vector<std::int64_t> rows(picked.begin(), picked.end());
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
    return true;
  });
}

TEST_CASE("16-bit tensors are float32 ones: inputs exactly, out rounded", "[same]") {
  Choices choices;
  choices.precision = HEED_PRECISION_EXACT;
  const IsaContexts exact(choices);
  check_drawn<RandomForms>(400, 100, [&](Problem& p, std::uint64_t) {
    const Types types = types_of(p);
    if (is_scaled(types.key) || is_scaled(types.value)) return false;
    if (!is_narrow(types.query) && !is_narrow(types.key) && !is_narrow(types.value) &&
        !is_narrow(types.out))
      return false;
    Problem wide = remade(p, {}, {});
    const std::vector<Outputs> want = run_everywhere(wide, exact);
    for (std::size_t n = 0; n < exact.size(); ++n) {
      INFO(IsaContexts::name(n) << ": " << line_of(p));
      if (multiplies_parts(IsaContexts::name(n))) continue;  // of 16 bits alone
      const Outputs narrow = p.run_all(exact[n]);
      check_rounded("out", narrow.out, want[n].out);
      check_same("lse", narrow.lse, want[n].lse);
      check_same("weights", narrow.weights, want[n].weights);
      check_same("column sums", narrow.column_sums, want[n].column_sums);
    }
    return true;
  });
}

TEST_CASE("the type of an output does nothing but round it", "[same]") {
  check_drawn<RandomForms>(200, 150, [&](Problem& p, std::uint64_t seed) {
    const auto point = static_cast<heed_weights_point>(1 + seed % 4);
    const bool soft = p.desc.hard == 0;
    if (soft) p.want_lse(HEED_DTYPE_F64);
    p.want_weights(point);
    p.want_column_sums();
    const std::vector<Outputs> wide = run_everywhere(p);
    for (const std::uint32_t dtype :
         {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      if (soft) p.want_lse(is_narrow(dtype) ? std::uint32_t{HEED_DTYPE_F32} : dtype);
      p.want_weights(point, dtype);
      p.want_column_sums(dtype);
      INFO(name_of_dtype(dtype));
      on_every_isa(p, [&](const Outputs& got, std::size_t n) {
        check_rounded("lse", got.lse, as_log_sums(wide[n].lse, got.lse.dtype));
        check_rounded("weights", got.weights, wide[n].weights);
        check_rounded("column sums", got.column_sums, wide[n].column_sums);
      });
    }
    return soft;
  });
}
