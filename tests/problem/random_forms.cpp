#include <algorithm>
#include <cmath>

#include "tests/problem/attention.hpp"
#include "tests/problem/random_problems.hpp"

namespace heed_test {
namespace {

/// Nothing is promised of scores of infinities that are no products.
void forget_infinities(Tensor& tensor) {
  tensor.each([&](const Axes& at) {
    if (std::isinf(tensor.get(at))) tensor.set(at, kNaN);
  });
}

/// Descriptors.
class Described {
 public:
  Described(Draw& draw, const Forms& forms) : draw_(draw), forms_(forms), lengths_(forms.lengths) {}

  heed_attention_desc draw() {
    lengths_ == Lengths::kSmall ? draw_small_sizes() : draw_sizes();
    draw_types();
    draw_rows();
    draw_positions();
    draw_options();
    choose_dropout();
    choose_score();
    draw_layouts();
    if (d_.key_heads == d_.query_heads && draw_.one_in(3)) d_.key_heads = 0;
    if (d_.value_features == d_.features && draw_.one_in(3)) d_.value_features = 0;
    return d_;
  }

 private:
  void draw_sizes() {
    d_.query_length = draw_.integer(0, 40);
    d_.key_length = draw_.one_in(8) ? draw_.integer(41, 200) : draw_.integer(0, 40);
    if (draw_.one_in(12)) d_.query_length = draw_.integer(41, 110);
    if (draw_.one_in(4)) d_.query_length = draw_.integer(1, 3);
    if (draw_.one_in(4)) d_.query_length = d_.key_length;
    d_.features = draw_.one_in(10) ? draw_.integer(25, 90) : draw_.integer(1, 24);
    d_.value_features = draw_.one_in(10) ? draw_.integer(25, 90) : draw_.integer(1, 24);
    if (draw_.one_in(8)) d_.value_features = d_.features;
    d_.batch = draw_.pick<std::int64_t>({1, 1, 2, 3});
    d_.key_heads = draw_.pick<std::int64_t>({1, 1, 2});
    d_.query_heads = d_.key_heads * draw_.pick<std::int64_t>({1, 1, 1, 2, 3, 5});
    const bool large = draw_.one_in(60);  // more than one thread, tile and step of keys
    if (large) d_.query_length = draw_.integer(60, 250);
    if (large) d_.key_length = draw_.integer(100, 400);
    if (lengths_ == Lengths::kSelf) d_.key_length = d_.query_length;
    if (lengths_ == Lengths::kLong) draw_long();
    if (lengths_ == Lengths::kFew) draw_few();
    if (lengths_ == Lengths::kShared) draw_shared();
    if (lengths_ == Lengths::kEdges) draw_edges();
    if (lengths_ == Lengths::kScores) draw_sizes_of_scores();
    if (lengths_ == Lengths::kLarge) draw_large();
    const bool many = large || d_.key_heads > 2 || lengths_ == Lengths::kEdges;
    limit_work(lengths_ == Lengths::kLarge  ? 200000
               : lengths_ == Lengths::kLong ? 100000
               : many                       ? 40000
                                            : 4000);
    if (lengths_ == Lengths::kSelf) d_.key_length = d_.query_length;
    leave_out_queries();
  }

  /// Nobody attends keys, whose gradients are 0 then. It follows from the sizes, so that all else
  /// is drawn as without it.
  void leave_out_queries() {
    if (!forms_.of_block && (d_.features + 2 * d_.value_features) % 41 == 5) d_.query_heads = 0;
  }

  /// Nothing at all among them.
  void draw_small_sizes() {
    d_.batch = draw_.integer(0, 3);
    d_.key_heads = draw_.integer(forms_.of_block ? 1 : 0, 2);
    d_.query_heads = d_.key_heads * draw_.integer(1, 3);
    d_.query_length = draw_.size(0);
    d_.key_length = draw_.one_in(3) ? d_.query_length : draw_.size(0);
    d_.features = draw_.size(1);
    d_.value_features = draw_.size(1);
  }

  /// About as many keys as a chunk of decoding has, or as sums begin again after.
  void draw_long() {
    d_.query_length = draw_.one_in(2) ? 1 : draw_.integer(2, 12);
    d_.key_length = draw_.pick<std::int64_t>({1024, 2048, 4096, 8192}) +
                    draw_.integer(-20, draw_.one_in(2) ? 20 : 1500);
  }

  /// Rows as wide as a vector, or they would be copied; some share their keys.
  void draw_few() {
    d_.query_length = draw_.one_in(3) ? draw_.integer(2, 4) : 1;
    d_.key_length = draw_.integer(20, 300);
    d_.features = draw_.integer(16, 70);
    d_.value_features = draw_.integer(16, 70);
    d_.batch = draw_.pick<std::int64_t>({1, 1, 2});
    d_.query_heads = d_.key_heads * draw_.pick<std::int64_t>({1, 2, 2, 4, 5});
  }

  void draw_shared() {
    d_.key_heads = draw_.pick<std::int64_t>({2, 3, 4, 6, 7, 12});
    d_.query_heads = d_.key_heads * draw_.pick<std::int64_t>({1, 1, 2});
  }

  /// Vectors, panels and steps of keys end at these, or one further on; many heads share keys.
  void draw_edges() {
    const auto length = [&] {
      return draw_.pick<std::int64_t>(
          {0, 1, 2, 7, 8, 15, 16, 17, 23, 24, 25, 64, 77, 128, 150, 197, 300});
    };
    const auto features = [&] {
      return draw_.pick<std::int64_t>({1, 3, 8, 16, 20, 40, 64, 72, 80, 96, 112, 128, 160, 256});
    };
    d_.query_length = length();
    d_.key_length = length();
    d_.features = features();
    d_.value_features = features();
    d_.key_heads = draw_.pick<std::int64_t>({1, 1, 2, 6});
    d_.query_heads = d_.key_heads * draw_.pick<std::int64_t>({1, 1, 4, 5, 71});
  }

  /// One long head, or of few keys, or many keys for few rows; many heads; or very many of little.
  void draw_large() {
    const std::int64_t kind = draw_.integer(0, 4);
    d_.query_length = kind == 0   ? draw_.integer(300, 500)
                      : kind == 1 ? draw_.integer(1030, 1300)
                      : kind == 2 ? draw_.integer(1, 5)
                      : kind == 3 ? draw_.integer(60, 150)
                                  : draw_.integer(1, 5);
    d_.key_length = kind == 0   ? draw_.integer(300, 400)
                    : kind == 2 ? draw_.integer(1000, 4300)
                    : kind == 4 ? draw_.integer(1, 12)
                                : draw_.integer(60, 150);
    d_.batch = kind == 4 ? 40 : kind == 3 ? draw_.integer(1, 3) : 1;
    if (kind == 3) d_.query_heads = d_.key_heads * draw_.pick<std::int64_t>({1, 3, 4});
    if (kind == 4) d_.query_heads = d_.key_heads = 16;
  }

  /// The first feature is the score, the second of queries may be NaN.
  void draw_sizes_of_scores() {
    d_.query_length = draw_.pick<std::int64_t>({1, 3, 5, 12, 30});
    d_.key_length = draw_.pick<std::int64_t>({70, 150, 300, 400});
    d_.features = 2;
    d_.batch = 1;
  }

  /// Small enough that thousands of them take a minute.
  void limit_work(std::int64_t most) {
    const auto pairs = [&] { return d_.batch * d_.query_heads * d_.query_length * d_.key_length; };
    if (pairs() > most) d_.batch = 1;
    if (pairs() > most) d_.query_heads = d_.key_heads = 1;
    if (pairs() > most) d_.query_length = 1 + most / d_.key_length;
  }

  void draw_types() {
    const auto narrow = [&] { return draw_.dtype(false, false); };
    const auto stored = [&] {
      return draw_.pick<std::uint32_t>(
          {HEED_DTYPE_I8, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3, HEED_DTYPE_F16});
    };
    // Of few rows mostly what is multiplied in pairs: keys one or two to a register's lane.
    const bool paired = lengths_ == Lengths::kFew && !draw_.one_in(3);
    std::int64_t kind = paired ? draw_.pick<std::int64_t>({2, 12}) : draw_.integer(0, 11);
    if (forms_.of_block && kind >= 2) kind = 6;  // inputs have the types
    if ((forms_.differentiable || lengths_ == Lengths::kScores) && kind >= 10) kind = 4;
    if (kind < 2) types_ = all_of(HEED_DTYPE_F64);
    if (kind == 2) types_ = all_of(HEED_DTYPE_BF16);
    if (kind == 3) types_ = all_of(HEED_DTYPE_F16);
    if (kind == 4 || kind == 5) types_ = {narrow(), narrow(), narrow(), narrow()};
    if (kind == 12) types_ = {narrow(), HEED_DTYPE_I8, HEED_DTYPE_I8, narrow()};
    if (kind == 10 || kind == 11) types_ = {narrow(), stored(), stored(), narrow()};
  }

  void draw_rows() {
    if (draw_.one_in(4)) d_.packed_queries = draw_packed(d_.query_length);
    const bool pages = lengths_ != Lengths::kSelf && !forms_.of_block && !forms_.differentiable &&
                       draw_.one_in(lengths_ == Lengths::kFew ? 2 : 6);
    if (pages)
      draw_pages();
    else if (draw_.one_in(4))
      d_.packed_keys = draw_packed(d_.key_length);
    if (lengths_ == Lengths::kSelf) d_.packed_keys = d_.packed_queries;
  }

  /// Rows for sequences of which one is the longest, or too few for that, or some that are of none.
  std::int64_t draw_packed(std::int64_t longest) {
    if (draw_.one_in(12)) return draw_.integer(1, 20);
    const std::int64_t others = std::max<std::int64_t>(d_.batch - 1, 0) * longest;
    const std::int64_t none = draw_.one_in(4) ? draw_.integer(1, 4) : 0;
    return std::max<std::int64_t>(longest + draw_.integer(0, others) + none, 1);
  }

  void draw_pages() {
    if (lengths_ == Lengths::kSmall && draw_.one_in(2)) d_.key_length = draw_.integer(0, 80);
    d_.page_rows = 16 * draw_.integer(1, draw_.one_in(3) ? 5 : 1);
    d_.pages = 1;
    const std::int64_t width = block_table_width_of(d_);
    const std::int64_t all = width * d_.batch;
    // Too few, so that sequences share them, or some that are nobody's.
    d_.pages = draw_.one_in(3) ? draw_.integer(1, std::max<std::int64_t>(all, 1))
                               : all + draw_.integer(1, 3);
    if (draw_.one_in(4)) d_.block_table_stride = width + draw_.integer(0, 5);
  }

  std::int64_t draw_offset() {
    if (draw_.one_in(16)) return draw_.hostile();
    if (draw_.one_in(10)) return draw_.pick<std::int64_t>({-100000, 100000});
    return draw_.integer(-d_.query_length - 2, d_.key_length + 2);
  }

  void draw_positions() {
    const bool few = lengths_ == Lengths::kFew;
    if (few && draw_.one_in(2))
      d_.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    else if (draw_.one_in(2))
      d_.causal = 1 + draw_.choice(HEED_CAUSAL_OFFSET - 1);
    else
      d_.alignment = draw_.choice(HEED_ALIGNMENT_OFFSET);
    if (d_.causal == HEED_CAUSAL_OFFSET) d_.causal_offset = draw_offset();
    if (d_.alignment == HEED_ALIGNMENT_OFFSET) d_.alignment_offset = draw_offset();
    // Of few rows mostly a window that begins with any key.
    d_.window = few != draw_.one_in(4) ? 1 : 0;
    if (d_.window == 0) return;
    if (!stands(d_)) d_.alignment = 1 + draw_.choice(1);
    const auto side = [&](std::int64_t none) -> std::int64_t {
      if (draw_.one_in(none)) return -1;
      if (draw_.one_in(16)) return std::max<std::int64_t>(draw_.hostile(), -1);
      return draw_.integer(0, draw_.one_in(4) ? 5 : d_.key_length + 2);
    };
    d_.window_left = side(few ? 8 : 3);
    d_.window_right = side(3);
  }

  void draw_options() {
    if (draw_.one_in(3))
      d_.scale = draw_.one_in(8) ? draw_.pick<double>({3, 1, 1e-30}) : draw_.uniform(-1, 1);
    if (draw_.one_in(4)) d_.softcap = draw_.pick<double>({0.5, 2, 5, 30, 1000, 1e4});
    if (!forms_.differentiable && draw_.one_in(10))
      d_.hard = 1;
    else if (draw_.one_in(4))
      d_.temperature = draw_.pick<double>({0.2, 0.7, 1, 3, 1000, kInfinity});
    if (lengths_ == Lengths::kScores) draw_options_of_scores();
    if (forms_.differentiable) return;
    d_.sum_columns = draw_.one_in(3) ? 1 : 0;
    if (draw_.one_in(2)) return;
    d_.weights_point = 1 + draw_.choice(HEED_WEIGHTS_PROBABILITIES - 1);
    if (draw_.one_in(3)) d_.weight_rows = draw_.integer(0, d_.query_length);
  }

  /// It follows from the sizes, so that all else is drawn as without it.
  void choose_dropout() {
    constexpr double kSome[] = {0.1, 0.5, 0.25, 0.9, 1e-9, 0.999};
    if (d_.hard != 0 || (d_.features + d_.key_length) % 6 != 1) return;
    d_.dropout = kSome[d_.query_length % 6];
  }

  /// Likewise.
  void choose_score() {
    constexpr double kSlopes[] = {0.2, 0.01, 0, -0.5};
    const std::int64_t sizes = 2 * d_.features + d_.key_length;
    if (lengths_ == Lengths::kScores) return;
    if (sizes % 7 == 5) d_.score = HEED_SCORE_COSINE;
    if (sizes % 7 != 3) return;
    d_.score = d_.features == 1 ? HEED_SCORE_SUM : HEED_SCORE_ADDITIVE;
    d_.activation = static_cast<std::uint32_t>((d_.value_features + d_.key_length) % 3);
    if (d_.activation == HEED_ACTIVATION_LEAKY_RELU) d_.slope = kSlopes[d_.value_features % 4];
  }

  void draw_options_of_scores() {
    d_.scale = 1;
    if (d_.softcap != 0) d_.softcap = draw_.pick<double>({1e-3, 0.5, 4, 30, 1e4});
    if (d_.temperature != 0) d_.temperature = draw_.pick<double>({0.05, 0.5, 1e6, 1e30, 1e37});
  }

  void draw_layouts() {
    d_.mask = draw_.score_layout(pairs_of(d_), HEED_DTYPE_DEFAULT);
    d_.bias = draw_.score_layout(pairs_of(d_), draw_.dtype());
    LaidOutAttention laid(d_);
    const auto lse =
        draw_.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
    laid.lse.draw(draw_, lse);
    laid.weights.draw(draw_, draw_.dtype());
    laid.column_sums.draw(draw_, draw_.dtype());
    d_.query.dtype = types_.query;
    if (forms_.of_block) return;
    laid.query.draw(draw_, types_.query);
    laid.key.draw(draw_, types_.key);
    laid.value.draw(draw_, types_.value);
    laid.out.draw(draw_, types_.out);
    if (types_.key == HEED_DTYPE_I8) laid.key_scales.draw(draw_, draw_.choice(HEED_DTYPE_F32));
    if (types_.value == HEED_DTYPE_I8) laid.value_scales.draw(draw_, draw_.choice(HEED_DTYPE_F32));
  }

  Draw& draw_;
  const Forms forms_;
  const Lengths lengths_;
  Types types_{};
  heed_attention_desc d_ = HEED_ATTENTION_DESC_INIT;
};

/// What a run gets.
class Arrays {
 public:
  Arrays(Draw& draw, const Forms& forms, Problem& p)
      : draw_(draw), forms_(forms), p_(p), laid_(p.desc) {}

  void draw() {
    draw_numbers();
    if (forms_.lengths == Lengths::kScores) draw_odd_scores();
    draw_sequences();
    if (p_.desc.pages > 0) p_.block_table = draw_block_table(p_, draw_.one_in(3), draw_.bits());
    if (draw_.one_in(2)) forget_unread();
    choose_score_weights();
    choose_lengths();
    draw_scores();
    if (draw_.one_in(3)) draw_mask();
    if (p_.desc.hard == 0 && draw_.one_in(4)) draw_sinks();
    draw_outputs();
    if (draw_.one_in(6)) plant_specials();
    if (p_.desc.dropout != 0) p_.dropout_seed = draw_.bits(), p_.dropout_offset = draw_.bits();
    choose_dropout_origin();
  }

 private:
  Tensor& add(std::optional<Tensor>& tensor, const LaidOut& laid) {
    return tensor.emplace(laid.tensor(draw_.index(4)));
  }

  void draw_numbers() {
    // Up to amplitude 3, where one key takes nearly all the weight.
    const double amplitude = draw_.uniform(0.1, draw_.one_in(4) ? 3 : 1.2);
    p_.fill(draw_.bits(), draw_.one_in(24) ? 0 : static_cast<float>(amplitude));
    if (draw_.one_in(20) && p_.desc.key_length > 0) repeat_keys();
  }

  /// Scores that climb, are alike, lie far out or have no end: rows of queries take them as they
  /// are, turned round, five times or not at all, and some rows are NaN. Values are of any size.
  void draw_odd_scores() {
    const std::vector<double> scores = draw_all_scores(static_cast<std::size_t>(p_.key.shape()[2]));
    p_.key.fill(
        [&](const Axes& at) { return at[3] == 0 ? scores[static_cast<std::size_t>(at[2])] : 0; });
    const bool alike = draw_.one_in(2);
    const bool nan = draw_.one_in(6);
    Random random = draw_.numbers();
    p_.query.fill([&](const Axes& at) {
      if (at[3] == 0) return alike ? 1 : random.pick<double>({1, 1, 5, -1, 0});
      return nan && random.integer(0, 2) > 0 ? kNaN : 0.0;
    });
    const auto size = draw_.pick<double>({1, 1, 1, 1, 1e33, 1e30, 1e-20, 1e-38, 1e-42});
    p_.value.each([&](const Axes& at) { p_.value.set(at, size * p_.value.get(at)); });
  }

  std::vector<double> draw_all_scores(std::size_t keys) {
    const std::int64_t kind = draw_.integer(0, 5);
    const auto reach = draw_.pick<double>({1, 1, 1e-6, 50, 6e4, -1e4});
    const auto step = draw_.pick<double>({0.02, 0.08, 0.5, 5, 200, -0.08, -5, -200});
    const auto same = draw_.pick<double>({0, 1, -1, 1e3, -1e3, 3e4, -3e4, -kInfinity});
    std::vector<double> scores(keys);
    for (std::size_t j = 0; j < keys; ++j) {
      const double mild = reach * (0.25 * static_cast<double>(j * 7 % 11) - 1);
      const double climbing =
          step * (static_cast<double>(j / 40 * 40) + static_cast<double>(j % 3) / 4);
      scores[j] = kind == 0 ? climbing : kind == 1 ? same : mild;
    }
    for (std::int64_t n = kind < 2 ? 0 : draw_.integer(1, 3); n > 0; --n) {
      const auto score =
          draw_.pick<double>({kInfinity, -kInfinity, kNaN, 3e38, -3e38, 1e6, 65504, 50});
      const std::size_t first = draw_.index(keys);
      const std::size_t end = draw_.one_in(3) ? keys : std::min(keys, first + draw_.index(4));
      std::fill(scores.begin() + static_cast<std::ptrdiff_t>(first),
                scores.begin() + static_cast<std::ptrdiff_t>(end), score);
    }
    return scores;
  }

  /// Equal keys, and with them equal scores, at several places.
  void repeat_keys() {
    const std::int64_t period = draw_.integer(1, 3);
    p_.key.each([&](const Axes& at) {
      if (at[2] >= period) p_.key.set(at, p_.key.get({at[0], at[1], at[2] % period, at[3]}));
    });
  }

  void draw_sequences() {
    const heed_attention_desc& d = p_.desc;
    if (d.packed_queries > 0) p_.cu_seqlens_q = draw_offsets(d.packed_queries, d.query_length);
    if (d.packed_keys > 0) p_.cu_seqlens_k = draw_offsets(d.packed_keys, d.key_length);
    const bool alike = d.packed_queries == d.packed_keys && d.query_length == d.key_length;
    if (alike && !draw_.one_in(4)) p_.cu_seqlens_k = p_.cu_seqlens_q;
    if (d.batch > 0 && !p_.cu_seqlens_q.empty() && d.features % 5 == 3) leave_rows_to_keys();
    if (draw_.one_in(4)) draw_lengths();
    draw_first_keys();
  }

  /// The first and the last of packed query rows become nobody's; of keys that lie alike they stay.
  void leave_rows_to_keys() {
    std::vector<std::int32_t>& offsets = p_.cu_seqlens_q;
    if (offsets.front() < offsets[1]) ++offsets.front();
    if (offsets.back() > offsets[offsets.size() - 2]) --offsets.back();
  }

  /// Sequences of at most `longest` rows, one of them as long as that if there is room, some of
  /// them empty, some rows belonging to none.
  std::vector<std::int32_t> draw_offsets(std::int64_t rows, std::int64_t longest) {
    const std::int64_t batch = p_.desc.batch;
    std::int64_t at = draw_.one_in(8) ? draw_.integer(0, std::min<std::int64_t>(rows, 3)) : 0;
    std::vector<std::int32_t> offsets = {static_cast<std::int32_t>(at)};
    const std::int64_t full = batch > 0 ? draw_.integer(0, batch - 1) : 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t left = rows - at;
      const std::int64_t room = b < full ? std::max<std::int64_t>(left - longest, 0) : left;
      const std::int64_t most = std::min(longest, room);
      const bool all = b == full || (b + 1 == batch && !draw_.one_in(8));
      at += all ? most : draw_.one_in(4) ? 0 : draw_.integer(0, most);
      offsets.push_back(static_cast<std::int32_t>(at));
    }
    return offsets;
  }

  void draw_lengths() {
    for (std::size_t b = 0; b < static_cast<std::size_t>(p_.desc.batch); ++b) {
      const std::int64_t longest = p_.cu_seqlens_k.empty()
                                       ? p_.desc.key_length
                                       : p_.cu_seqlens_k[b + 1] - p_.cu_seqlens_k[b];
      const std::int64_t length = draw_.one_in(5) ? 0 : draw_.integer(0, longest);
      p_.key_lengths.push_back(static_cast<std::int32_t>(draw_.one_in(4) ? longest : length));
    }
  }

  /// Some keys of padding, or nothing else. They follow from the sizes, so that problems without
  /// them are drawn as they were before there were any.
  void draw_first_keys() {
    const heed_attention_desc& d = p_.desc;
    std::uint64_t salt = 0xf125;
    for (const std::int64_t size : {d.batch, d.query_heads, d.query_length, d.key_length,
                                    d.features, d.value_features, d.packed_keys})
      salt = salt * 1000003 + static_cast<std::uint64_t>(size);
    Random random(salt);
    if (random.integer(0, 5) != 0) return;
    const heed_attention_args args = p_.args();
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const std::int64_t keys = sequence_of(d, args, b).keys;
      const bool few = random.integer(0, 1) == 0;
      p_.first_keys.push_back(static_cast<std::int32_t>(
          random.integer(0, few ? std::min<std::int64_t>(keys, 9) : keys)));
    }
  }

  /// Rows of keys and values that are no sequence's, and past a length, become NaN; unless they are
  /// others' too, because a stride repeats them.
  void forget_unread() {
    const Axes& n = p_.key.shape();
    std::vector<bool> read(static_cast<std::size_t>(n[0] * n[2]), false);
    const auto place = [&](std::int64_t batch, std::int64_t row) {
      return static_cast<std::size_t>(batch * n[2] + row);
    };
    const heed_attention_args args = p_.args();
    for (std::int64_t b = 0; b < p_.desc.batch; ++b) {
      const Sequence s = sequence_of(p_.desc, args, b);
      for (std::int64_t t = 0; t < s.keys; ++t) {
        const RowPlace at = key_row(s, t);
        read[place(p_.desc.packed_keys > 0 ? 0 : at.batch, at.row)] = true;
      }
    }
    const auto repeats = [&](const Tensor& tensor) {
      return (n[0] > 1 && tensor.strides()[0] == 0) || (n[2] > 1 && tensor.strides()[2] == 0);
    };
    for (Tensor Problem::*const tensor : {&Problem::key, &Problem::value}) {
      const auto& scales = tensor == &Problem::key ? p_.key_scales : p_.value_scales;
      const bool by_scale = (p_.*tensor).dtype() == HEED_DTYPE_I8;
      if (!repeats(by_scale ? *scales : p_.*tensor))
        p_.spoil(
            tensor, [&](const Axes& at) { return !read[place(at[0], at[2])]; }, kNaN);
    }
  }

  void choose_score_weights() {
    const heed_attention_desc& d = p_.desc;
    const bool of_heads = d.score == HEED_SCORE_COSINE && d.query_length % 3 != 0;
    if (d.score != HEED_SCORE_ADDITIVE && !of_heads) return;
    Random random(static_cast<std::uint64_t>(d.features + 100 * d.key_length));
    for (std::int64_t n = 0; n < d.query_heads * (of_heads ? 1 : d.features); ++n)
      p_.score_weights.numbers.push_back(random.integer(0, 9) == 0 ? 0 : random.normal());
  }

  /// By the sizes too: rows over whose norms scores are, so long that their squares overflow.
  void choose_lengths() {
    for (Tensor* const rows : {&p_.query, &p_.key}) {
      const bool are_long = (p_.desc.features + (rows == &p_.key ? 1 : 0)) % 2 == 0;
      if (p_.desc.score != HEED_SCORE_COSINE || rows->dtype() != HEED_DTYPE_F64) return;
      if (!are_long || rows->repeats()) continue;
      rows->each([&](const Axes& at) { rows->set(at, rows->get(at) * 0x1p600); });
    }
  }

  /// Likewise: where in a larger problem this one begins.
  void choose_dropout_origin() {
    const std::int64_t sizes = p_.desc.features + 100 * p_.desc.query_length;
    if (p_.desc.dropout == 0 || sizes % 2 == 0) return;
    Random random(static_cast<std::uint64_t>(sizes));
    for (int axis = 0; axis < 4; ++axis)
      p_.dropout_origin.push_back(random.integer(0, std::int64_t{1} << random.integer(0, 40)));
  }

  void draw_scores() {
    if (stands(p_.desc) && draw_.one_in(4))
      for (std::int64_t h = 0; h < p_.desc.query_heads; ++h)
        p_.slopes.numbers.push_back(
            draw_.pick<double>({0.5, 0.25, 1, 0.0625, -0.25, 0, 0.3, 0x1p123}));
    if (draw_.one_in(3)) draw_bias();
    if (p_.bias && draw_.one_in(3))
      draw_.move_rows(*p_.bias, 2);
    else if (draw_.one_in(6))
      p_.function =
          draw_.pick<ScoreFunction (*)()>({score_function<Shift>, score_function<Halve>,
                                           score_function<Ceiling>, score_function<Hide>})();
    // Gradients inside a block may overflow where nobody sees it.
    if (forms_.differentiable && !forms_.of_block && p_.function.call != nullptr && draw_.one_in(2))
      p_.function = score_function<Bend>();
  }

  void draw_bias() {
    const double amplitude = draw_.uniform(0.1, 3);
    const std::int64_t masked = draw_.one_in(3) ? draw_.pick<std::int64_t>({1, 10, 60}) : 0;
    // What excludes keys, or is taken for it.
    const auto lowest = draw_.pick<double>({-kInfinity, -kInfinity, -1e4, -0x1.fffffep127});
    Random random = draw_.numbers();
    add(p_.bias, laid_.bias).fill([&] {
      return random.integer(0, 99) < masked ? lowest : random.normal() * amplitude;
    });
  }

  void draw_mask() {
    Tensor& mask = add(p_.mask, laid_.mask);
    const std::int64_t kind = draw_.integer(0, 9);
    if (kind < 5) return fill_randomly(mask);
    if (kind < 8) return fill_blocks(mask);
    mask.fill([&] { return kind == 8 ? 0 : 1; });
  }

  void fill_randomly(Tensor& mask) {
    const auto percent = draw_.pick<std::int64_t>({2, 20, 50, 90, 99});
    Random random = draw_.numbers();
    const std::vector<double> attended = {1, 1, 2, 128, 255};
    mask.fill([&] { return random.integer(0, 99) < percent ? random.pick(attended) : 0; });
  }

  /// Whole blocks of rows and keys at once: tiles of which nothing or everything is attended.
  void fill_blocks(Tensor& mask) {
    const auto rows = draw_.pick<std::int64_t>({1, 4, 16, 200});
    const auto keys = draw_.pick<std::int64_t>({8, 32, 64, 128});
    const std::uint64_t salt = draw_.bits();
    mask.fill([&](const Axes& at) {
      Random block(salt + static_cast<std::uint64_t>(
                              ((at[0] * 7 + at[1]) * 301 + at[2] / rows) * 301 + at[3] / keys));
      return block.bits() % 2 == 0 ? 255 : 0;
    });
  }

  void draw_sinks() {
    Random random = draw_.numbers();
    for (std::int64_t h = 0; h < p_.desc.query_heads; ++h)
      p_.sinks.numbers.push_back(draw_.one_in(8)
                                     ? draw_.pick<double>({-kInfinity, kInfinity, -300, 80,
                                                           -0x1.fffffep127, 0x1.fffffep127, -1e30})
                                     : random.normal<double>() * 3);
  }

  void draw_outputs() {
    const heed_attention_desc& d = p_.desc;
    if (d.hard == 0 && (forms_.differentiable || draw_.one_in(2))) add(p_.lse, laid_.lse);
    if (d.sum_columns != 0) add(p_.column_sums, laid_.column_sums);
    if (d.weights_point == HEED_WEIGHTS_NONE) return;
    add(p_.weights, laid_.weights);
    Random random = draw_.numbers();
    std::int64_t more = d.weight_rows;
    for (std::int64_t i = 0; more > 0; ++i) {
      if (random.integer(1, d.query_length - i) > more) continue;
      p_.weight_rows.push_back(i);
      --more;
    }
  }

  void plant_specials() {
    for (std::int64_t n = draw_.integer(1, 4); n > 0; --n) {
      const std::int64_t kind = draw_.integer(0, p_.bias ? 7 : 6);
      if (kind >= 1 && kind < 7) plant_stored(kind < 4 ? &Problem::key : &Problem::value);
      if (kind < 1 || kind == 7) draw_.plant(kind < 1 ? p_.query : *p_.bias);
    }
    if (p_.desc.score == HEED_SCORE_DOT || p_.desc.score == HEED_SCORE_COSINE) return;
    for (Tensor Problem::*const tensor : {&Problem::query, &Problem::key})
      forget_infinities(p_.*tensor);
  }

  void plant_stored(Tensor Problem::*tensor) {
    if (!is_scaled((p_.*tensor).dtype())) return draw_.plant(p_.*tensor);
    const std::int64_t place = draw_.integer(0, 1000);
    std::int64_t n = 0;
    p_.spoil(
        tensor, [&](const Axes&) { return n++ == place; }, kNaN);
  }

  Draw& draw_;
  const Forms forms_;
  Problem& p_;
  LaidOutAttention laid_;
};

}  // namespace

heed_attention_desc draw_attention(Draw& draw, const Forms& forms) {
  return Described(draw, forms).draw();
}

void draw_arrays(Draw& draw, const Forms& forms, Problem& problem) {
  Arrays(draw, forms, problem).draw();
}

Problem draw_problem(Draw& draw, const Forms& forms) {
  const heed_attention_desc desc = draw_attention(draw, forms);
  Problem problem = Problem::of(desc, draw.index(4));
  draw_arrays(draw, forms, problem);
  return problem;
}

heed_attention_backward_desc draw_backward(Draw& draw, const heed_attention_desc& attention) {
  heed_attention_backward_desc d = HEED_ATTENTION_BACKWARD_DESC_INIT;
  d.attention = &attention;
  d.accumulate = draw.one_in(4) ? 1 : 0;
  draw_layouts(draw, laid_out(d), [&](std::size_t of) {
    return of == kGradBias ? draw.dtype() : draw.dtype(is_float64(attention), true);
  });
  return d;
}

Problem draw_problem(std::uint64_t seed, const Forms& forms) {
  Draw draw(seed);
  return draw_problem(draw, forms);
}

BackwardProblem draw_backward(std::uint64_t seed, Lengths lengths) {
  Draw draw(seed ^ 0xbac4);
  Problem forward = draw_problem(draw, {lengths, true});
  const heed_attention_backward_desc desc = draw_backward(draw, forward.desc);
  BackwardProblem p(std::move(forward), desc);
  p.draw_tensors(draw);
  return p;
}

std::vector<const char*> options_of(const Problem& p) {
  std::vector<const char*> all;
  const auto option = [&](const char* name, bool used) {
    if (used) all.push_back(name);
  };
  option("float32", p.out.dtype() == HEED_DTYPE_F32);
  option("float64", p.out.dtype() == HEED_DTYPE_F64);
  option("16 bits", format_of(p.out.dtype()).bytes == 2);
  option("mask", p.mask.has_value());
  option("bias", p.bias.has_value());
  option("slopes", !p.slopes.numbers.empty());
  option("softcap", p.desc.softcap > 0);
  option("score function", p.function.call != nullptr);
  option("score", p.desc.score != HEED_SCORE_DOT);
  option("temperature", p.desc.temperature != 0);
  option("hard", p.desc.hard != 0);
  option("sinks", !p.sinks.numbers.empty());
  option("dropout", p.desc.dropout > 0);
  option("window", p.desc.window != 0);
  option("key lengths", !p.key_lengths.empty());
  option("first keys", !p.first_keys.empty());
  option("packed queries", p.desc.packed_queries > 0);
  option("packed keys", p.desc.packed_keys > 0);
  option("pages", p.desc.pages > 0);
  return all;
}

// ---- Blocks ----

namespace {

/// The three matrices side by side in one W_qkv: [in, q k v], or [q k v, in].
void pack_qkv(Draw& draw, const std::vector<LaidOutMatrix>& matrices, heed_multihead_desc& d) {
  const bool transposed = draw.one_in(2);
  Index columns = 0;
  Index rows = 0;
  for (std::size_t i = 0; i < 3; ++i) columns += matrices[i].out;
  for (std::size_t i = 0; i < 3; ++i) rows = std::max(rows, matrices[i].in);
  for (heed_matrix_layout* const w : {&d.w_query, &d.w_key, &d.w_value}) {
    w->dtype = d.w_query.dtype;
    w->reserved = HEED_STRIDES_DEFAULT;
    w->stride_in = transposed ? 1 : columns;
    w->stride_out = transposed ? rows : 1;
  }
}

void plant_specials(Draw& draw, Block& block) {
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) {
    const std::int64_t kind = draw.integer(0, 9);
    Tensor& input = block.input_key ? *block.input_key : block.input_query;
    if (kind < 7)
      draw.plant(kind < 5 ? input : block.input_query);
    else
      draw.plant(kind == 7   ? block.w_value.tensor
                 : kind == 8 ? block.w_key.tensor
                             : (block.w_out ? *block.w_out : block.w_query).tensor);
  }
}

Block drawn_block(Draw& draw, const Forms& forms) {
  const Problem attention = draw_problem(draw, forms);
  const heed_multihead_desc desc = draw_block_desc(draw, attention.desc, forms.lengths);
  const bool self = forms.lengths == Lengths::kSelf && !draw.one_in(5);
  Block block(attention, desc, self, draw.index(4));
  draw_arrays(draw, block);
  return block;
}

Forms forms_of(Draw& draw, bool differentiable) {
  return {draw.one_in(2) ? Lengths::kSelf : Lengths::kAny, differentiable, true};
}

}  // namespace

heed_multihead_desc draw_block_desc(Draw& draw, const heed_attention_desc& a, Lengths lengths) {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  d.attention = &a;
  const bool float64 = is_float64(a);
  const bool small = lengths == Lengths::kSmall;
  d.combine = draw.pick<std::uint32_t>({HEED_COMBINE_CONCAT, HEED_COMBINE_CONCAT,
                                        HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX,
                                        HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS});
  // Blocks of inputs and outputs in products end at multiples of 16, and at some hundreds.
  d.width_query = small ? draw.size(1) : draw.integer(1, 24);
  if (draw.one_in(small ? 16 : 8)) d.width_query = draw.integer(25, 150);
  if (!small && draw.one_in(60)) d.width_query = draw.integer(200, 600);
  d.width_key = small ? draw.size(1) : draw.integer(1, 40);
  if (lengths == Lengths::kSelf || draw.one_in(4)) d.width_key = draw.one_in(2) ? 0 : d.width_query;
  if (has_w_out(d.combine) && !draw.one_in(3))
    d.width_out = small ? draw.size(1) : draw.integer(1, draw.one_in(8) ? 90 : 24);
  d.input_query.dtype = draw.dtype(float64, false);
  LaidOutBlock laid(d);
  laid.input_query.draw(draw, d.input_query.dtype);
  laid.input_key.draw(draw, draw.dtype(float64, true));
  laid.out.draw(draw, draw.dtype(float64, true));
  for (LaidOutMatrix& w : laid.matrices) w.laid.draw(draw, draw.dtype(float64, true));
  if (draw.one_in(4)) pack_qkv(draw, laid.matrices, d);
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

void draw_arrays(Draw& draw, Block& block) {
  fill_normally(block.input_query, draw.bits());
  if (block.input_key) fill_normally(*block.input_key, draw.bits());
  const double amplitude = draw.uniform(0.1, draw.one_in(4) ? 3 : 1.2);
  const std::vector<WeightMatrix*> matrices = block.matrices();
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const bool prepared = draw.one_in(3);
    // Those that are not prepared share a type of biases.
    const std::uint32_t type =
        prepared ? draw.dtype(block.real == HEED_DTYPE_F64, true) : block.own_desc.bias_dtype;
    matrices[i]->prepared = prepared;
    matrices[i]->draw(draw, type, i == 3 ? 1 : amplitude);
  }
  Random random = draw.numbers();
  block.fill_head_weights(random);
  if (draw.one_in(8)) plant_specials(draw, block);
}

heed_multihead_backward_desc draw_backward(Draw& draw, const heed_multihead_desc& block) {
  heed_multihead_backward_desc d = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  d.block = &block;
  d.accumulate = draw.one_in(4) ? 1 : 0;
  draw_layouts(draw, laid_out(d), [&](std::size_t of) {
    return of == kBlockBias ? draw.dtype() : draw.dtype(is_float64(block), true);
  });
  return d;
}

Block draw_block(std::uint64_t seed) {
  Draw draw(seed ^ 0xb10c);
  return drawn_block(draw, forms_of(draw, false));
}

Block draw_differentiable_block(std::uint64_t seed) {
  Draw draw(seed ^ 0xb10c);
  return drawn_block(draw, forms_of(draw, true));
}

BlockBackward draw_block_backward(std::uint64_t seed) {
  Draw draw(seed ^ 0xbac4b10c);
  Block block = drawn_block(draw, forms_of(draw, true));
  const heed_multihead_desc of_block = block.desc();
  const heed_multihead_backward_desc desc = draw_backward(draw, of_block);
  BlockBackward p(std::move(block), desc);
  p.draw_tensors(draw);
  return p;
}

}  // namespace heed_test
