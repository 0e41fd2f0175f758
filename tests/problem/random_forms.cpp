#include "tests/problem/random_forms.hpp"

#include "tests/problem/drawing.hpp"
#include "tests/support/pages.hpp"

namespace heed_test {
namespace {

class Forms : Drawing {
 public:
  Forms(std::uint64_t seed, Lengths lengths) : Drawing(seed), lengths_(lengths) {}

  Problem draw() {
    draw_sizes();
    Problem problem(sizes_, draw_layouts());
    draw_numbers(problem);
    draw_positions(problem);
    if (pages_) problem = paged(problem, random_, one_in(3));
    draw_scores(problem);
    draw_masks(problem);
    draw_softmax(problem);
    draw_defaults(problem);
    draw_outputs(problem);
    settle_alignment(problem);
    if (one_in(6)) plant_specials(problem);
    return problem;
  }

 private:
  void draw_sizes() {
    sizes_ = {random_.integer(0, 40), random_.integer(0, 40), random_.integer(1, 24),
              random_.integer(1, 24)};
    if (one_in(8)) sizes_.key_length = random_.integer(41, 200);
    if (one_in(12)) sizes_.query_length = random_.integer(41, 110);
    if (one_in(4)) sizes_.query_length = random_.integer(1, 3);
    if (one_in(4)) sizes_.query_length = sizes_.key_length;
    if (one_in(10)) sizes_.features = random_.integer(25, 90);
    if (one_in(10)) sizes_.value_features = random_.integer(25, 90);
    if (one_in(8)) sizes_.value_features = sizes_.features;
    sizes_.batch = pick<std::int64_t>({1, 1, 2, 3});
    sizes_.key_heads = pick<std::int64_t>({1, 1, 2});
    sizes_.query_heads = sizes_.key_heads * pick<std::int64_t>({1, 1, 1, 2, 3, 5});
    const bool large = one_in(60);  // more than one thread, tile and step of keys
    if (large) sizes_.query_length = random_.integer(60, 250);
    if (large) sizes_.key_length = random_.integer(100, 400);
    if (lengths_ == Lengths::kSelf) sizes_.key_length = sizes_.query_length;
    if (lengths_ == Lengths::kLong) draw_long();
    if (lengths_ == Lengths::kFew) draw_few();
    if (lengths_ == Lengths::kShared) draw_shared();
    limit_work(lengths_ == Lengths::kLong ? 100000 : large || sizes_.key_heads > 2 ? 40000 : 4000);
    if (lengths_ == Lengths::kSelf) sizes_.key_length = sizes_.query_length;
    draw_types();
    if (one_in(3)) sizes_.scale = uniform(-1, 1);
    if (one_in(4)) sizes_.queries = draw_packing(sizes_.query_length);
    pages_ = lengths_ != Lengths::kSelf && one_in(lengths_ == Lengths::kFew ? 2 : 6);
    if (!pages_ && one_in(4)) sizes_.keys = draw_packing(sizes_.key_length);
    if (lengths_ == Lengths::kSelf) sizes_.keys = sizes_.queries;
  }

  /// About as many keys as a chunk of decoding has, or as sums begin again after.
  void draw_long() {
    sizes_.query_length = one_in(2) ? 1 : random_.integer(2, 12);
    sizes_.key_length =
        pick<std::int64_t>({1024, 2048, 4096, 8192}) + random_.integer(-20, one_in(2) ? 20 : 1500);
  }

  /// Rows as wide as a vector, or they would be copied; some share their keys.
  void draw_few() {
    sizes_.query_length = one_in(3) ? random_.integer(2, 4) : 1;
    sizes_.key_length = random_.integer(20, 300);
    sizes_.features = random_.integer(16, 70);
    sizes_.value_features = random_.integer(16, 70);
    sizes_.batch = pick<std::int64_t>({1, 1, 2});
    sizes_.query_heads = sizes_.key_heads * pick<std::int64_t>({1, 2, 2, 4, 5});
  }

  void draw_shared() {
    sizes_.key_heads = pick<std::int64_t>({2, 3, 4, 6, 7, 12});
    sizes_.query_heads = sizes_.key_heads * pick<std::int64_t>({1, 1, 2});
  }

  /// Small enough that thousands of them take a minute.
  void limit_work(std::int64_t most) {
    const auto pairs = [&] {
      return sizes_.batch * sizes_.query_heads * sizes_.query_length * sizes_.key_length;
    };
    if (pairs() > most) sizes_.batch = 1;
    if (pairs() > most) sizes_.query_heads = sizes_.key_heads = 1;
    if (pairs() > most) sizes_.query_length = 1 + most / sizes_.key_length;
  }

  void draw_types() {
    const auto narrow = [&] {
      return pick<std::uint32_t>({HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
    };
    const auto stored = [&] {
      return pick<std::uint32_t>(
          {HEED_DTYPE_I8, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3, HEED_DTYPE_F16});
    };
    // Of few rows mostly what is multiplied in pairs: keys one or two to a register's lane.
    const bool paired = lengths_ == Lengths::kFew && !one_in(3);
    const std::int64_t kind = paired ? pick<std::int64_t>({2, 12}) : random_.integer(0, 11);
    if (kind < 2) sizes_.types = all_of(HEED_DTYPE_F64);
    if (kind == 2) sizes_.types = all_of(HEED_DTYPE_BF16);
    if (kind == 3) sizes_.types = all_of(HEED_DTYPE_F16);
    if (kind == 4 || kind == 5) sizes_.types = {narrow(), narrow(), narrow(), narrow()};
    if (kind == 12) sizes_.types = {narrow(), HEED_DTYPE_I8, HEED_DTYPE_I8, narrow()};
    if (kind == 10 || kind == 11) sizes_.types = {narrow(), stored(), stored(), narrow()};
  }

  /// Sequences of at most `longest` rows, some of them empty, some rows belonging to none.
  Packing draw_packing(std::int64_t longest) {
    Packing packing;
    packing.offsets.push_back(static_cast<std::int32_t>(one_in(8) ? random_.integer(0, 3) : 0));
    const std::int64_t full = random_.integer(0, sizes_.batch - 1);
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      std::int64_t rows = b == full ? longest : random_.integer(0, longest);
      if (b != full && one_in(4)) rows = 0;
      packing.offsets.push_back(packing.offsets.back() + static_cast<std::int32_t>(rows));
    }
    if (one_in(8)) packing.rows = packing.offsets.back() + random_.integer(1, 3);
    return packing;
  }

  Layouts draw_layouts() {
    return {draw_arrangement(), draw_arrangement(), draw_arrangement(), draw_arrangement(),
            static_cast<std::size_t>(random_.integer(0, 3))};
  }

  void draw_numbers(Problem& p) {
    if (one_in(12)) repeat_axis(p.query, p.desc.query);
    if (one_in(12)) repeat_axis(p.key, p.desc.key);
    if (one_in(12)) repeat_axis(p.value, p.desc.value);
    // Up to amplitude 3, where one key takes nearly all the weight.
    p.fill(random_.bits(), static_cast<float>(uniform(0.1, one_in(4) ? 3 : 1.2)));
    if (one_in(20) && p.desc.key_length > 0) repeat_keys(p);
  }

  /// A stride of 0: the same numbers all along an axis.
  void repeat_axis(Tensor& tensor, heed_layout& layout) {
    Axes strides = strides_of(Arrangement::kContiguous, tensor.shape());
    strides[static_cast<std::size_t>(random_.integer(0, 3))] = 0;
    if (strides == Axes{}) return;  // that would mean the default
    const std::uint32_t dtype = layout.dtype;
    tensor = Tensor(tensor.shape(), strides, 0, tensor.dtype());
    layout = tensor.layout();
    layout.dtype = dtype;
  }

  /// Equal keys, and with them equal scores, at several places.
  void repeat_keys(Problem& p) {
    const std::int64_t period = random_.integer(1, 3);
    p.key.each([&](const Axes& at) {
      if (at[2] >= period) p.key.set(at, p.key.get({at[0], at[1], at[2] % period, at[3]}));
    });
  }

  void draw_positions(Problem& p) {
    if (one_in(4)) draw_lengths(p);
    draw_offset(p);
    // Of few rows mostly one that begins with any key.
    const bool few = lengths_ == Lengths::kFew;
    p.desc.window = few != one_in(4) ? 1 : 0;
    if (p.desc.window == 0) return;
    p.desc.window_left = one_in(few ? 8 : 3) ? -1 : random_.integer(0, p.desc.key_length + 2);
    p.desc.window_right = one_in(3) ? -1 : random_.integer(0, p.desc.key_length + 2);
    if (!few && one_in(4)) p.desc.window_left = random_.integer(0, 5);
  }

  void draw_lengths(Problem& p) {
    for (std::size_t b = 0; b < static_cast<std::size_t>(p.desc.batch); ++b) {
      const std::int64_t longest =
          p.cu_seqlens_k.empty() ? p.desc.key_length : p.cu_seqlens_k[b + 1] - p.cu_seqlens_k[b];
      const std::int64_t length = one_in(5) ? 0 : random_.integer(0, longest);
      p.key_lengths.push_back(static_cast<std::int32_t>(one_in(4) ? longest : length));
    }
  }

  void draw_offset(Problem& p) {
    const std::int64_t offset =
        one_in(10) ? pick<std::int64_t>({-100000, 100000})
                   : random_.integer(-p.desc.query_length - 2, p.desc.key_length + 2);
    if (lengths_ == Lengths::kFew && one_in(2)) {
      p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
      return;
    }
    if (one_in(2)) {
      p.desc.causal = static_cast<std::uint32_t>(random_.integer(1, 3));
      if (p.desc.causal == HEED_CAUSAL_OFFSET) p.desc.causal_offset = offset;
      return;
    }
    p.desc.alignment = static_cast<std::uint32_t>(random_.integer(0, 3));
    if (p.desc.alignment == HEED_ALIGNMENT_OFFSET) p.desc.alignment_offset = offset;
  }

  /// Windows and ALiBi over different lengths need an alignment.
  void settle_alignment(Problem& p) {
    const bool given = p.desc.causal != HEED_CAUSAL_NONE || p.desc.alignment != 0;
    const bool measured = p.desc.window != 0 || !p.slopes.numbers.empty();
    if (!given && measured && p.desc.query_length != p.desc.key_length)
      p.desc.alignment = static_cast<std::uint32_t>(random_.integer(1, 2));
  }

  void draw_scores(Problem& p) {
    if (one_in(4)) p.desc.softcap = pick<double>({0.5, 2, 5, 30, 1000});
    if (one_in(4))
      for (std::int64_t h = 0; h < p.desc.query_heads; ++h)
        p.slopes.numbers.push_back(pick<double>({0.5, 0.25, 1, 0.0625, -0.25, 0, 0.3, 0x1p123}));
    if (one_in(3)) draw_bias(p);
    if (p.bias && one_in(3))
      move_rows(*p.bias, 2);
    else if (one_in(6))
      p.function = pick<ScoreFunction>({score_function<Shift>(), score_function<Halve>(),
                                        score_function<Ceiling>(), score_function<Hide>()});
  }

  /// Every axis the problem's or repeated.
  Axes draw_shape(const Problem& p) {
    Axes shape = p.pairs();
    for (std::int64_t& size : shape)
      if (one_in(3)) size = 1;
    return shape;
  }

  std::uint32_t draw_dtype() { return static_cast<std::uint32_t>(random_.integer(0, 4)); }

  void draw_bias(Problem& p) {
    Tensor& bias = p.add_bias(draw_shape(p), draw_dtype(), draw_arrangement());
    const double amplitude = uniform(0.1, 3);
    const std::int64_t masked = one_in(3) ? pick<std::int64_t>({1, 10, 60}) : 0;  // percent
    // What excludes keys, or is taken for it.
    const auto lowest = pick<double>({-kInfinity, -kInfinity, -1e4, -0x1.fffffep127});
    bias.fill(
        [&] { return random_.integer(0, 99) < masked ? lowest : random_.normal() * amplitude; });
  }

  void draw_masks(Problem& p) {
    if (!one_in(3)) return;
    Tensor& mask = p.add_mask(draw_shape(p), draw_arrangement());
    const std::int64_t kind = random_.integer(0, 9);
    if (kind < 5) return fill_randomly(mask);
    if (kind < 8) return fill_blocks(mask);
    if (kind == 8) mask.fill([] { return 0; });
  }

  double draw_true() { return static_cast<double>(pick<int>({1, 1, 2, 128, 255})); }

  void fill_randomly(Tensor& mask) {
    const auto percent = pick<std::int64_t>({2, 20, 50, 90, 99});
    mask.fill([&] { return random_.integer(0, 99) < percent ? draw_true() : 0; });
  }

  /// Whole blocks of rows and keys at once: tiles of which nothing or everything is attended.
  void fill_blocks(Tensor& mask) {
    const auto rows = pick<std::int64_t>({1, 4, 16, 200});
    const auto keys = pick<std::int64_t>({8, 32, 64, 128});
    const std::uint64_t salt = random_.bits();
    mask.each([&](const Axes& at) {
      Random block(salt + static_cast<std::uint64_t>(
                              ((at[0] * 7 + at[1]) * 301 + at[2] / rows) * 301 + at[3] / keys));
      mask.set(at, block.bits() % 2 == 0 ? 255 : 0);
    });
  }

  void draw_softmax(Problem& p) {
    if (one_in(10)) {
      p.desc.hard = 1;
      return;
    }
    if (one_in(4)) p.desc.temperature = pick<double>({0.2, 0.7, 1, 3, 1000, kInfinity});
    if (!one_in(4)) return;
    for (std::int64_t h = 0; h < p.desc.query_heads; ++h) {
      const bool usual = !one_in(8);
      p.sinks.numbers.push_back(usual ? static_cast<double>(random_.normal()) * 3
                                      : pick<double>({-kInfinity, kInfinity, -300, 80,
                                                      -0x1.fffffep127, 0x1.fffffep127, -1e30}));
    }
  }

  /// Sizes that say "the same" by being 0.
  void draw_defaults(Problem& p) {
    heed_attention_desc& d = p.desc;
    if (d.key_heads == d.query_heads && one_in(3)) d.key_heads = 0;
    if (d.value_features == d.features && one_in(3)) d.value_features = 0;
    for (heed_score_layout* const layout : {&d.mask, &d.bias}) {
      if (layout->batch == d.batch && one_in(6)) layout->batch = 0;
      if (layout->heads == d.query_heads && one_in(6)) layout->heads = 0;
      if (layout->rows == d.query_length && one_in(6)) layout->rows = 0;
      if (layout->keys == d.key_length && one_in(6)) layout->keys = 0;
    }
  }

  void draw_outputs(Problem& p) {
    if (p.desc.hard == 0 && one_in(2))
      p.want_lse(pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}),
                 draw_arrangement());
    if (one_in(2)) {
      std::vector<std::int64_t> rows;
      if (one_in(3))
        for (std::int64_t i = 0; i < p.desc.query_length; ++i)
          if (one_in(3)) rows.push_back(i);
      p.want_weights(static_cast<heed_weights_point>(random_.integer(1, 4)), draw_dtype(),
                     draw_arrangement(), rows);
    }
    if (one_in(3)) p.want_column_sums(draw_dtype(), draw_arrangement());
  }

  void plant_specials(Problem& p) {
    const std::int64_t count = random_.integer(1, 4);
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t kind = random_.integer(0, p.bias ? 7 : 6);
      if (kind >= 1 && kind < 7) plant_stored(p, kind < 4 ? &Problem::key : &Problem::value);
      if (kind < 1 || kind == 7) plant(kind < 1 ? p.query : *p.bias);
    }
  }

  void plant_stored(Problem& p, Tensor Problem::*tensor) {
    if (!is_scaled((p.*tensor).dtype())) return plant(p.*tensor);
    const std::int64_t place = random_.integer(0, 1000);
    std::int64_t n = 0;
    p.spoil(
        tensor, [&](const Axes&) { return n++ == place; }, kNaN);
  }

  Lengths lengths_;
  Sizes sizes_{};
  bool pages_ = false;  ///< keys lie in pages
};

}  // namespace

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
  option("temperature", p.desc.temperature != 0);
  option("hard", p.desc.hard != 0);
  option("sinks", !p.sinks.numbers.empty());
  option("window", p.desc.window != 0);
  option("key lengths", !p.key_lengths.empty());
  option("packed queries", p.desc.packed_queries > 0);
  option("packed keys", p.desc.packed_keys > 0);
  option("pages", p.desc.pages > 0);
  return all;
}

Problem RandomForms::draw() const { return Forms(seed_, lengths_).draw(); }

}  // namespace heed_test
