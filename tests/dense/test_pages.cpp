// Keys and values in pages have the bits that they have one after the other.
#include "tests/dense/kinds.hpp"
#include "tests/support/pages.hpp"

using namespace heed_test;

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
