#include "tests/support/pages.hpp"

#include <algorithm>
#include <utility>

namespace heed_test {
namespace {

using Index = std::int64_t;

constexpr std::int32_t kUnread = INT32_MIN;

/// Puts what remake(tensor) makes in the place of keys, values and the scales of their rows.
template <class Remake>
void remake_keys(Problem& p, Arrangement arrangement, Remake&& remake) {
  const auto put = [&](Tensor& tensor, heed_layout& layout) {
    tensor = remake(tensor);
    layout = layout_of(tensor, arrangement, layout.dtype);
  };
  put(p.key, p.desc.key);
  put(p.value, p.desc.value);
  if (p.desc.key.dtype == HEED_DTYPE_I8) put(*p.key_scales, p.desc.key_scales);
  if (p.desc.value.dtype == HEED_DTYPE_I8) put(*p.value_scales, p.desc.value_scales);
}

/// What descriptor and arguments say of every sequence.
std::vector<Sequence> sequences_of(Problem& p) {
  const heed_attention_args args = p.args();
  std::vector<Sequence> all;
  for (Index b = 0; b < p.desc.batch; ++b) all.push_back(sequence_of(p.desc, args, b));
  return all;
}

/// So many pages in any order.
std::vector<std::int32_t> shuffled(Index pages, Random& random) {
  std::vector<std::int32_t> order;
  for (Index n = 0; n < pages; ++n) {
    order.push_back(static_cast<std::int32_t>(n));
    std::swap(order.back(), order[static_cast<std::size_t>(random.integer(0, n))]);
  }
  return order;
}

}  // namespace

std::vector<std::int32_t> draw_block_table(Problem& p, bool share, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int32_t> order = shuffled(p.desc.pages, random);
  const Index stride = block_table_stride_of(p.desc);
  std::vector<std::int32_t> table;
  std::vector<std::int32_t> taken;
  for (const Sequence& s : sequences_of(p))
    for (Index n = 0; n < stride; ++n) {
      const bool read = n * p.desc.page_rows < s.keys;
      table.push_back(read && !order.empty() ? order.back() : kUnread);
      if (!read) continue;
      if (order.empty() || (share && !taken.empty() && random.integer(0, 2) == 0))
        table.back() = random.pick(taken);
      else
        order.pop_back();
      taken.push_back(table.back());
    }
  const Index behind = stride - block_table_width_of(p.desc);  // the last one, there is nothing
  if (!table.empty()) table.resize(table.size() - static_cast<std::size_t>(behind));
  return table;
}

Problem paged(const Problem& p, Random& random, bool share) {
  Problem q = p;
  heed_attention_desc& d = q.desc;
  d.page_rows = 16 * random.integer(1, random.integer(0, 2) == 0 ? 5 : 1);
  d.pages = 1;
  const Index width = block_table_width_of(d);
  d.pages = width * d.batch + random.integer(1, 3);
  if (random.integer(0, 3) == 0) d.block_table_stride = width + random.integer(1, 5);
  q.block_table = draw_block_table(q, share, random.bits());
  const std::vector<Sequence> sequences = sequences_of(q);
  const auto last = static_cast<Index>(Arrangement::kCount) - 1;
  const auto arrangement =
      static_cast<Arrangement>(random.integer(0, 1) == 0 ? 0 : random.integer(0, last));
  const auto misalign = static_cast<std::size_t>(random.integer(0, 3));
  remake_keys(q, arrangement, [&](const Tensor& from) {
    const Axes& n = from.shape();
    Tensor pool = placed({d.pages, n[1], d.page_rows, n[3]}, arrangement, from.dtype(), misalign);
    pool.fill([] { return kNaN; });
    from.each([&](const Axes& at) {
      const Sequence& s = sequences[static_cast<std::size_t>(at[0])];
      if (at[2] >= s.keys) return;
      const RowPlace to = key_row(s, at[2]);
      pool.set({to.batch, at[1], to.row, at[3]}, from.get(at));
    });
    return pool;
  });
  return q;
}

Problem contiguous(const Problem& p) {
  Problem q = p;
  if (p.desc.pages == 0) return q;
  const std::vector<Sequence> sequences = sequences_of(q);
  remake_keys(q, Arrangement::kDefault, [&](const Tensor& pool) {
    const Axes& n = pool.shape();
    Tensor rows = placed({p.desc.batch, n[1], p.desc.key_length, n[3]}, Arrangement::kDefault,
                         pool.dtype(), 0);
    rows.fill([&](const Axes& at) {
      const Sequence& s = sequences[static_cast<std::size_t>(at[0])];
      if (at[2] >= s.keys) return kNaN;
      const RowPlace from = key_row(s, at[2]);
      return pool.get({from.batch, at[1], from.row, at[3]});
    });
    return rows;
  });
  q.desc.pages = q.desc.page_rows = q.desc.block_table_stride = 0;
  q.block_table.clear();
  return q;
}

}  // namespace heed_test
