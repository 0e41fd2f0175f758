#include "tests/fuzz/attention.hpp"

#include <algorithm>

namespace heed_test {
namespace {

/// More rows and keys than this are not worth the oracle's time, even where a size is 0.
constexpr std::int64_t kMostOfASize = 1 << 12;
constexpr std::int64_t kMostWork = 1 << 15;

template <class T>
bool spoil(Draw& draw, std::vector<T>& numbers) {
  if (numbers.empty() || !draw.one_in(16)) return false;
  numbers[draw.index(numbers.size())] =
      static_cast<T>(draw.one_in(2) ? draw.hostile() : draw.integer(-1, 20));
  return true;
}

}  // namespace

bool small(const std::vector<LaidOut>& all) {
  bool all_small = true;
  for (const LaidOut& laid : all)
    all_small =
        (laid.is_stored() ? check_stored(laid.extent()) : check_extent(laid.extent())) && all_small;
  for (const LaidOut& laid : all)
    if (all_small && laid.written())
      demand(laid.extent().apart(), "an output whose elements overlap is accepted");
  return all_small;
}

bool may_be_small(const std::vector<LaidOut>& all) {
  return std::all_of(all.begin(), all.end(), [](const LaidOut& laid) {
    const Extent extent = laid.extent();
    return extent.possible() && extent.addressable() && extent.small();
  });
}

bool little_work(const heed_attention_desc& d) {
  // As wide as an entry of the block table.
  const heed_layout table = {
      HEED_DTYPE_F32, HEED_STRIDES_EXPLICIT, 0, 0, block_table_stride_of(d), 1};
  bool all_small = check_extent(Extent({1, 1, d.batch, block_table_width_of(d)}, table, 0, false));
  const std::int64_t features = d.features + value_features_of(d);
  Wide128 work = features;
  for (const std::int64_t size : {d.batch, d.query_heads, d.query_length, d.key_length}) {
    all_small = all_small && size <= kMostOfASize;
    work *= std::max<std::int64_t>(size, 1);
  }
  for (const std::int64_t size : {d.features, value_features_of(d)})
    all_small = all_small && size <= kMostOfASize;
  for (const std::int64_t rows : {d.packed_queries, d.packed_keys})
    all_small =
        all_small && rows <= kMostOfASize && Wide128{rows} * d.query_heads * features <= kMostWork;
  return all_small && work <= kMostWork;
}

std::optional<Block> small_block(Draw& draw, heed_multihead_desc d, heed_attention_desc a) {
  a.query = a.key = a.value = a.out = HEED_LAYOUT_INIT;  // which types say what the arithmetic is
  a.query.dtype = a.key.dtype = a.value.dtype = a.out.dtype = real_dtype(d);
  d.attention = &a;
  const LaidOutBlock laid(d);
  bool worth = small(LaidOutAttention(a).all(true));
  worth = small(laid.all()) && worth && little_work(a);
  for (const LaidOutMatrix& matrix : laid.matrices) worth = worth && matrix.out <= kMostOfASize;
  if (!worth) return std::nullopt;
  const bool fits = laid.input_query.shape() == laid.input_key.shape() &&
                    (a.packed_queries > 0) == (a.packed_keys > 0);
  return Block(Problem::of(a), d, fits && draw.one_in(3), draw.index(4));
}

bool spoil(Draw& draw, Problem& p) {
  bool spoilt = false;
  for (const IndexList& list : kIndexLists) spoilt = spoil(draw, p.*list.indices) || spoilt;
  if (!p.block_table.empty() && draw.one_in(16)) {
    p.block_table[draw.index(p.block_table.size())] =
        static_cast<std::int32_t>(p.desc.pages);  // the first that is none
    spoilt = true;
  }
  for (RealArray* const array : {&p.slopes, &p.sinks})
    if (!array->numbers.empty() && draw.one_in(16)) {
      array->numbers[0] = draw.real();
      spoilt = true;
    }
  return spoil(draw, p.weight_rows) || spoilt;
}

void check_untouched(const std::optional<Tensor>& tensor) {
  if (tensor) check_untouched(*tensor);
}

void check_further(const Problem& p, const heed_attention_args& args, const Expected& want) {
  if (p.tiles) demand(!p.tiles->wrong, "a score tile makes no sense");
  check_wanted("lse", p.lse, args.lse, want.lse);
  check_wanted("weights", p.weights, args.weights, want.weights);
  check_wanted("column sums", p.column_sums, args.column_sums, want.column_sums);
}

void check_further_untouched(const Problem& p) {
  for (const std::optional<Tensor>* const tensor : {&p.lse, &p.weights, &p.column_sums})
    check_untouched(*tensor);
}

}  // namespace heed_test
