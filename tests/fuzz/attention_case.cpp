#include "tests/fuzz/attention_case.hpp"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/check.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {
namespace {

/// More rows and keys than this are not worth the oracle's time, even where a size is 0.
constexpr std::int64_t kMostOfASize = 1 << 12;
constexpr std::int64_t kMostWork = 1 << 15;

/// As wide as an entry of the block table.
constexpr std::uint32_t kFourBytes = HEED_DTYPE_F32;

}  // namespace

AttentionCase::AttentionCase(const heed_attention_desc& desc, bool own)
    : desc_(desc), extents_(desc), own_(own), problem_(Sizes{0, 0, 1, 1}) {
  problem_.desc = desc;
}

AttentionCase::Extents::Extents(const heed_attention_desc& d)
    : Extents(d, AttentionShapes(d), {d.batch, d.query_heads, d.query_length, d.key_length}) {}

AttentionCase::Extents::Extents(const heed_attention_desc& d, const AttentionShapes& shapes,
                                const Axes& pairs)
    : query(shapes.query, d.query, HEED_DTYPE_F32, d.packed_queries > 0),
      key(shapes.key, d.key, HEED_DTYPE_F32, d.packed_keys > 0),
      value(shapes.value, d.value, HEED_DTYPE_F32, d.packed_keys > 0),
      out(shapes.out, d.out, HEED_DTYPE_F32, d.packed_queries > 0),
      mask(pairs, d.mask, kByte),
      bias(pairs, d.bias, real_dtype(d)),
      lse({shapes.query[0], shapes.query[1], shapes.query[2], 1}, d.lse, real_dtype(d), false),
      weights({pairs[0], pairs[1], weight_rows_of(d), pairs[3]}, d.weights, real_dtype(d), false),
      column_sums({pairs[0], pairs[1], pairs[3], 1}, d.column_sums, real_dtype(d), false),
      block_table({1, 1, d.batch, block_table_width_of(d)},
                  {kFourBytes, HEED_STRIDES_EXPLICIT, 0, 0, block_table_stride_of(d), 1}, 0, false),
      key_scales(scales_of(shapes.key), d.key_scales, HEED_DTYPE_F32, d.packed_keys > 0),
      value_scales(scales_of(shapes.value), d.value_scales, HEED_DTYPE_F32, d.packed_keys > 0) {}

bool AttentionCase::small() {
  const Extents& e = extents_;
  std::vector<Extent> read = {e.mask, e.bias, e.block_table};
  std::vector<Extent> written = {e.lse};
  std::vector<Extent> stored = {};
  if (own_) read.push_back(e.query);
  if (own_) stored = {e.key, e.value};
  if (desc_.key.dtype == HEED_DTYPE_I8) read.push_back(e.key_scales);
  if (desc_.value.dtype == HEED_DTYPE_I8) read.push_back(e.value_scales);
  if (own_) written.push_back(e.out);
  if (desc_.weights_point != HEED_WEIGHTS_NONE) written.push_back(e.weights);
  if (desc_.sum_columns != 0) written.push_back(e.column_sums);
  bool all_small = true;
  for (const Extent& extent : read) all_small = check_extent(extent) && all_small;
  for (const Extent& extent : stored) all_small = check_stored(extent) && all_small;
  for (const Extent& extent : written) all_small = check_extent(extent) && all_small;
  Wide128 work = desc_.features + value_features_of(desc_);
  for (const std::int64_t size :
       {desc_.batch, desc_.query_heads, desc_.query_length, desc_.key_length}) {
    all_small = all_small && size <= kMostOfASize;
    work *= std::max<std::int64_t>(size, 1);
  }
  for (const std::int64_t size :
       {desc_.features, value_features_of(desc_), desc_.packed_queries, desc_.packed_keys})
    all_small = all_small && size <= kMostOfASize;
  if (!all_small || work > kMostWork) return false;
  for (const Extent& extent : written)
    demand(extent.apart(), "an output whose elements overlap is accepted");
  return true;
}

void AttentionCase::make(Draw& draw) {
  const auto misalign = static_cast<std::size_t>(draw.integer(0, 3));
  if (own_) {
    problem_.query = extents_.query.tensor(misalign);
    problem_.key = extents_.key.tensor(misalign);
    problem_.value = extents_.value.tensor(misalign);
    problem_.out = extents_.out.tensor(misalign);
    problem_.key_scales = make_scales(desc_.key.dtype, extents_.key_scales);
    problem_.value_scales = make_scales(desc_.value.dtype, extents_.value_scales);
    problem_.fill(draw.bits(), draw.pick<float>({1, 0.1F, 3, 0}));
    if (draw.one_in(8)) draw.plant({&problem_.query, &problem_.key, &problem_.value});
    for (std::optional<Tensor>* const scales : {&problem_.key_scales, &problem_.value_scales})
      if (*scales && draw.one_in(16)) draw.plant({&**scales});
  }
  if (desc_.packed_queries > 0)
    problem_.cu_seqlens_q = draw_offsets(draw, desc_.packed_queries, desc_.query_length);
  if (desc_.packed_keys > 0)
    problem_.cu_seqlens_k = draw_offsets(draw, desc_.packed_keys, desc_.key_length);
  make_lengths(draw);
  make_block_table(draw);
  make_scores(draw);
  make_outputs(draw);
}

std::optional<Tensor> AttentionCase::make_scales(std::uint32_t of, const Extent& extent) {
  if (of == HEED_DTYPE_I8) return extent.tensor(1);
  if (of == HEED_DTYPE_F8_E4M3) return Tensor({1, 1, 1, 1}, {0, 0, 0, 0}, 1);
  return std::nullopt;
}

std::vector<std::int32_t> AttentionCase::draw_offsets(Draw& draw, std::int64_t rows,
                                                      std::int64_t longest) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(desc_.batch) + 1);
  std::int64_t at = draw.one_in(8) ? draw.integer(0, rows) : 0;
  for (std::int32_t& offset : offsets) {
    offset = static_cast<std::int32_t>(at);
    at += draw.integer(0, std::min(longest, rows - at));
  }
  spoil(draw, offsets);
  return offsets;
}

void AttentionCase::make_lengths(Draw& draw) {
  if (!draw.one_in(4)) return;
  for (std::size_t b = 0; b < static_cast<std::size_t>(desc_.batch); ++b) {
    const auto& offsets = problem_.cu_seqlens_k;
    const std::int64_t longest =
        offsets.empty() ? desc_.key_length : std::int64_t{offsets[b + 1]} - offsets[b];
    problem_.key_lengths.push_back(
        static_cast<std::int32_t>(draw.integer(0, std::max<std::int64_t>(longest, 0))));
  }
  spoil(draw, problem_.key_lengths);
}

/// Pages that sequences share at random. Entries past a length are out of range; after the last
/// one of the last sequence there is none.
void AttentionCase::make_block_table(Draw& draw) {
  const std::int64_t width = block_table_width_of(desc_);
  if (width == 0) return;
  const std::int64_t stride = block_table_stride_of(desc_);
  Random random(draw.bits());
  std::vector<std::int32_t>& table = problem_.block_table;
  for (std::size_t b = 0; b < static_cast<std::size_t>(desc_.batch); ++b) {
    table.resize(b * static_cast<std::size_t>(stride), -1);
    const std::int64_t keys =
        problem_.key_lengths.empty() ? desc_.key_length : problem_.key_lengths[b];
    for (std::int64_t n = 0; n < width; ++n)
      table.push_back(static_cast<std::int32_t>(n * desc_.page_rows < keys
                                                    ? random.integer(0, desc_.pages - 1)
                                                    : desc_.pages + random.integer(0, 1)));
  }
  spoil(draw, table);
  if (table.empty() || !draw.one_in(16)) return;
  table[static_cast<std::size_t>(draw.bits() % table.size())] =
      static_cast<std::int32_t>(desc_.pages);  // the first that is none
  valid_ = false;
}

void AttentionCase::make_scores(Draw& draw) {
  Random random(draw.bits());
  if (draw.one_in(3)) {
    problem_.mask = extents_.mask.tensor(0);
    problem_.mask->fill([&] { return random.integer(0, 2); });
  }
  if (draw.one_in(3)) {
    problem_.bias = extents_.bias.tensor(1);
    problem_.bias->fill([&] { return random.integer(0, 9) == 0 ? -kInfinity : random.normal(); });
    if (draw.one_in(8)) draw.plant({&*problem_.bias});
  }
  const auto heads = static_cast<std::size_t>(desc_.query_heads);
  if (stands(desc_) && draw.one_in(4)) {
    problem_.slopes.numbers.resize(heads);
    for (double& slope : problem_.slopes.numbers) slope = draw.pick<double>({0.5, -0.25, 0, 1});
  }
  if (desc_.hard == 0 && draw.one_in(4)) {
    problem_.sinks.numbers.resize(heads);
    for (double& sink : problem_.sinks.numbers)
      sink = draw.pick<double>({0, 1, -kInfinity, kInfinity, 80});
  }
  for (RealArray* const numbers : {&problem_.slopes, &problem_.sinks})
    if (!numbers->numbers.empty() && draw.one_in(16)) {
      numbers->numbers[0] = draw.real();
      valid_ = false;
    }
  if (draw.one_in(6))
    problem_.function =
        draw.pick<ScoreFunction (*)()>({score_function<Shift>, score_function<Halve>,
                                        score_function<Ceiling>, score_function<Hide>})();
}

void AttentionCase::make_outputs(Draw& draw) {
  if (desc_.hard == 0 && draw.one_in(2)) problem_.lse = extents_.lse.tensor(0);
  if (desc_.weights_point != HEED_WEIGHTS_NONE) problem_.weights = extents_.weights.tensor(1);
  if (desc_.sum_columns != 0) problem_.column_sums = extents_.column_sums.tensor(0);
  for (std::int64_t i = 0; i < desc_.weight_rows; ++i)
    problem_.weight_rows.push_back(i + desc_.query_length - desc_.weight_rows);
  spoil(draw, problem_.weight_rows);
}

std::vector<Tensor*> AttentionCase::outputs() {
  std::vector<Tensor*> all;
  if (own_) all.push_back(&problem_.out);
  for (auto* const tensor : {&problem_.lse, &problem_.weights, &problem_.column_sums})
    if (*tensor) all.push_back(&**tensor);
  return all;
}

void AttentionCase::check_untouched() {
  for (const Tensor* const tensor : outputs()) heed_test::check_untouched(*tensor);
}

ScoreModel AttentionCase::model_of(const heed_attention_args& args) const {
  return args.score_function != nullptr ? problem_.function.model : ScoreModel();
}

void AttentionCase::check_outputs(const heed_attention_args& args) {
  const Expected want = expect(desc_, args, model_of(args));
  check_equal("out", problem_.out, chosen(problem_.out.numbers(), want));
  check_further(args, want);
}

void AttentionCase::check_further(const heed_attention_args& args, const Expected& want) {
  if (problem_.tiles) demand(!problem_.tiles->wrong, "a score tile makes no sense");
  check_wanted("lse", problem_.lse, args.lse, want.lse);
  check_wanted("weights", problem_.weights, args.weights, want.weights);
  check_wanted("column sums", problem_.column_sums, args.column_sums, want.column_sums);
}

}  // namespace heed_test
