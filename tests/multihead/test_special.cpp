// Rows that attend nothing, empty problems, infinities and NaN, and ties of hard attention.
#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

Block block_of(std::uint32_t combine, Index queries, Index keys,
               std::uint32_t dtype = HEED_DTYPE_F32) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.width_query = choice.width_key = 10;
  choice.width_out = 7;
  Block block = plain_block(queries, keys, 4, 6, choice, 2, 2, 5);
  block.fill(31 + combine);
  return block;
}

/// What a row of zeros in every head becomes: the bias of W_out, rounded to the type of out.
std::uint64_t bits_of_nothing(const Block& block, Index o) {
  const double bias = block.w_out ? block.w_out->bias->get({0, 0, 0, o}) : 0;
  return encode(block.out.dtype(), bias);
}

bool is_nothing(const Block& block, Index b, Index i) {
  bool same = true;
  for (Index o = 0; o < block.out_width(); ++o) {
    const double got = block.out.get({b, 0, i, o});
    same = same && encode(block.out.dtype(), got == 0 ? 0 : got) == bits_of_nothing(block, o);
  }
  return same;
}

}  // namespace

TEST_CASE("rows that attend nothing are b_out, or 0", "[special]") {
  // 24 rows fill panels, 9 do not; a key that is NaN is one that they do not attend either.
  const IsaContexts contexts;
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
      for (const Index rows : {9, 24})
        for (const bool nan : {false, true}) {
          Block block = block_of(combine, rows, 12, dtype);
          Tensor& mask = block.attention.add_mask({1, 1, rows, 12});
          mask.each([&](const Axes& at) { mask.set(at, at[2] % 3 == 1 ? 0 : 1); });
          if (nan) block.input_key->set({0, 0, 5, 3}, kNaN);
          block.attention.want_lse();
          check_block(block, contexts);
          for (std::size_t n = 0; n < contexts.size(); ++n) {
            INFO(IsaContexts::name(n) << ", " << name_of_combine(combine));
            block.run_all(contexts[n]);
            for (Index b = 0; b < 2; ++b)
              for (Index i = 1; i < rows; i += 3) {
                CHECK(is_nothing(block, b, i));
                CHECK(block.attention.lse->get({b, 3, i, 0}) == -kInfinity);
              }
          }
        }
}

TEST_CASE("without keys every row is b_out, or 0", "[special]") {
  const IsaContexts contexts;
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine, 5, 0);
    check_block(block, contexts);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      block.run_all(contexts[n]);
      for (Index i = 0; i < 5; ++i) CHECK(is_nothing(block, 1, i));
    }
  }
}

TEST_CASE("without queries nothing happens", "[special]") {
  const IsaContexts contexts;
  for (const std::uint32_t combine : kCombiners) {
    Block no_rows = block_of(combine, 0, 6);
    no_rows.attention.want_column_sums();
    check_block(no_rows, contexts);
    Block no_items = plain_block(4, 6, 2, 3, no_rows.choice, 0);
    no_items.fill(1);
    check_block(no_items, contexts);
  }
}

TEST_CASE("what is not finite in a masked key does not reach a row", "[special]") {
  // The whole key and value of that row become NaN.
  const IsaContexts contexts;
  for (const std::uint32_t combine : kCombiners)
    for (const double x : {kNaN, kInfinity}) {
      // A weight that may vanish, times infinity: no head says what that is, their sums are NaN.
      if (combine == HEED_COMBINE_HEADS && x == kInfinity) continue;
      Block block = block_of(combine, 30, 40);
      Tensor& mask = block.attention.add_mask({1, 1, 30, 40});
      mask.each([&](const Axes& at) { mask.set(at, at[3] == 13 && at[2] % 2 == 0 ? 0 : 1); });
      const Expected clean = block.expected();
      block.input_key->set({1, 0, 13, 4}, x);
      check_block(block, contexts);
      const Expected want = block.expected();
      const std::size_t row = static_cast<std::size_t>(block.out_width());
      CHECK(clean.out[30 * row].value == want.out[30 * row].value);  // row 0 of item 1
      CHECK(std::isnan(want.out[31 * row].value));
    }
}

TEST_CASE("keys past a length may hold anything", "[special]") {
  const IsaContexts contexts;
  Block block = block_of(HEED_COMBINE_CONCAT, 8, 20);
  block.attention.key_lengths = {20, 11};
  std::vector<Outputs> clean;
  for (std::size_t n = 0; n < contexts.size(); ++n) clean.push_back(block.run_all(contexts[n]));
  for (Index j = 11; j < 20; ++j)
    for (Index f = 0; f < 10; ++f)
      block.input_key->set({1, 0, j, f}, f % 2 == 0 ? kNaN : kInfinity);
  for (std::size_t n = 0; n < contexts.size(); ++n)
    check_same(IsaContexts::name(n), block.run_all(contexts[n]), clean[n]);
}

TEST_CASE("a NaN in a row of the input makes that row NaN and no other", "[special]") {
  const IsaContexts contexts;
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine, 32, 9);
    block.input_query.set({0, 0, 17, 9}, kNaN);
    check_block(block, contexts);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const Numbers out = block.run_all(contexts[n]).out;
      const auto row = static_cast<std::size_t>(block.out_width());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        wrong += std::isnan(out[i]) == (i / row == 17) ? 0 : 1;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the largest of heads of which one is NaN is NaN", "[special]") {
  const IsaContexts contexts;
  for (const Index h : {0, 1, 2, 3}) {
    Block block = block_of(HEED_COMBINE_MAX, 26, 9);
    block.w_query.set(0, 3, h * 6 + 2, kNaN);  // that head's queries
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const Numbers out = block.run_all(contexts[n]).out;
      std::size_t numbers = 0;
      for (std::size_t i = 0; i < out.size(); ++i) numbers += std::isnan(out[i]) ? 0 : 1;
      CHECK(numbers == 0);
    }
  }
}

TEST_CASE("hard attention takes the first of equal rows", "[special]") {
  // Equal rows of the input have equal keys, wherever they lie; their values tell them apart only
  // through a feature that W_key does not see.
  const IsaContexts contexts;
  BlockChoice choice;
  choice.combine = HEED_COMBINE_MEAN;
  choice.width_query = 8;
  choice.width_key = 9;
  Block block = plain_block(20, 90, 1, 8, choice, 1, 1, 1);
  block.attention.desc.hard = 1;
  block.fill(41);
  for (Index j = 3; j < 90; ++j)
    for (Index f = 0; f < 8; ++f)
      block.input_key->set({0, 0, j, f}, block.input_key->get({0, 0, j % 3, f}));
  block.w_key.each([&](Index m, Index i, Index o) {
    if (i == 8) block.w_key.set(m, i, o, 0);
  });
  block.w_value.each(
      [&](Index m, Index i, Index o) { block.w_value.set(m, i, o, i == 8 ? 1 : 0); });
  block.w_value.bias->fill([] { return 0; });
  for (Index j = 0; j < 90; ++j) block.input_key->set({0, 0, j, 8}, static_cast<double>(j));
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    INFO(IsaContexts::name(n));
    const Numbers out = block.run_all(contexts[n]).out;
    bool first = true;
    for (std::size_t i = 0; i < out.size(); ++i) first = first && out[i] < 3;
    CHECK(first);
  }
}
