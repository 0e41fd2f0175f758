// Keys and values in pages have the bits that they have one after the other.
#include <algorithm>

#include "tests/dense/kinds.hpp"
#include "tests/dense/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

/// Entries that nobody may read.
constexpr std::int32_t kUnread = INT32_MIN;

/// Pages in a random order, a few of them nobody's; entries past a sequence's length are unread.
std::vector<std::int32_t> draw_table(Problem& p, Index page_rows, Index pages, Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<std::size_t>(random.integer(0, static_cast<Index>(i)))]);
  const Index width = (p.desc.key_length + page_rows - 1) / page_rows;
  std::vector<std::int32_t> table;
  for (Index b = 0; b < p.desc.batch; ++b) {
    const Index keys =
        p.key_lengths.empty() ? p.desc.key_length : p.key_lengths[static_cast<std::size_t>(b)];
    for (Index n = 0; n < width; ++n) {
      table.push_back(n * page_rows < keys ? order.back() : kUnread);
      if (n * page_rows < keys) order.pop_back();
    }
  }
  return table;
}

/// Rows of a tensor [batch, heads, rows, features] in a pool; NaN where no sequence has rows.
Tensor pool_of(const Tensor& from, const std::vector<std::int32_t>& table, Index page_rows,
               Index pages, Arrangement arrangement) {
  const Axes& n = from.shape();
  Tensor pool = placed({pages, n[1], page_rows, n[3]}, arrangement, from.dtype(), 0);
  pool.fill([](const Axes&) { return kNaN; });
  const Index width = n[0] == 0 ? 0 : static_cast<Index>(table.size()) / n[0];
  from.each([&](const Axes& at) {
    const std::int32_t page = table[static_cast<std::size_t>(at[0] * width + at[2] / page_rows)];
    if (page != kUnread) pool.set({page, at[1], at[2] % page_rows, at[3]}, from.get(at));
  });
  return pool;
}

/// The same problem with its keys in pages.
Problem paged(const Problem& p, std::uint64_t seed) {
  Random random(seed);
  Problem q = p;
  const Index page_rows = 16 * random.integer(1, random.integer(0, 2) == 0 ? 5 : 1);
  const Index used = (p.desc.key_length + page_rows - 1) / page_rows * p.desc.batch;
  const Index pages = used + random.integer(1, 3);
  q.block_table = draw_table(q, page_rows, pages, random);
  const auto arrangement =
      random.integer(0, 1) == 0 ? Arrangement::kDefault : Arrangement::kRowsOutside;
  const auto put = [&](Tensor& tensor, heed_layout& layout) {
    const std::uint32_t dtype = layout.dtype;
    tensor = pool_of(tensor, q.block_table, page_rows, pages, arrangement);
    layout = layout_of(tensor, arrangement, dtype);
  };
  put(q.key, q.desc.key);
  put(q.value, q.desc.value);
  if (q.desc.key.dtype == HEED_DTYPE_I8) put(*q.key_scales, q.desc.key_scales);
  if (q.desc.value.dtype == HEED_DTYPE_I8) put(*q.value_scales, q.desc.value_scales);
  q.desc.pages = pages;
  q.desc.page_rows = page_rows;
  return q;
}

/// Whether there was something to see.
bool check_paged(Problem& p, std::uint64_t seed) {
  if (p.desc.packed_keys > 0 || p.desc.key_length == 0 || p.desc.batch == 0) return false;
  Problem q = paged(p, seed);
  check_same(q, p);
  return true;
}

}  // namespace

TEST_CASE("keys in pages have the bits of keys one after the other", "[pages][same]") {
  check_drawn<RandomForms>(300, 150, check_paged);
  check_drawn<LongForms>(60, 20, check_paged);
}

TEST_CASE("sequences may share pages, and a stride may part their entries", "[pages]") {
  for (const Index rows : {1, 40}) {
    Problem p = filled({rows, 70, 20, 24, 3, 4, 2}, 71);
    p.key_lengths = {70, 33, 48};
    // Sequence 1 and 2 begin as sequence 0 does.
    for (Tensor Problem::*const tensor : {&Problem::key, &Problem::value})
      (p.*tensor).fill([&](Axes at) {
        if (at[2] < 32) at[0] = 0;
        return 0.01 * static_cast<double>((at[0] * 71 + at[1] * 37 + at[2] * 13 + at[3] * 7) % 211);
      });
    Problem q = paged(p, 72);
    const auto width = static_cast<std::size_t>(q.block_table.size()) / 3;
    if (q.desc.page_rows <= 32)
      for (const std::size_t b : {1U, 2U})
        for (std::size_t n = 0; n < 32 / static_cast<std::size_t>(q.desc.page_rows); ++n)
          q.block_table[b * width + n] = q.block_table[n];
    std::vector<std::int32_t> apart;
    for (std::size_t n = 0; n < q.block_table.size(); ++n) {
      apart.push_back(q.block_table[n]);
      if ((n + 1) % width == 0) apart.insert(apart.end(), 5, kUnread);
    }
    q.block_table = apart;
    q.desc.block_table_stride = static_cast<Index>(width) + 5;
    CHECK(check_same(q, p));
  }
}
