// heed_rotate: rotary embedding, against the oracle and by what it is for.
#include <cmath>
#include <stdexcept>

#include "tests/oracle/rounding.hpp"
#include "tests/problem/laid_out.hpp"
#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

// ---- The oracle: pairs of features times a rotation ----

using Exact = long double;

constexpr Exact kRounding = kUnitOf<double>;

/// The cosine and sine that a pair is turned by, and how far off heed's may be.
struct Turn {
  Exact cosine, sine;
  Exact error;  ///< of either
};

/// heed's angle p * pow(base, e) has an exponent e off by u |e|, which is a factor of
/// 1 + u |e ln base|, a power off by one last digit, 2 u, and a product. Cosine and sine are no
/// steeper than 1 and again off by one last digit, 2 u at most, before they are rounded to Real.
Turn turn_of(const heed_rotary& rotary, Index turned, Index pair, Index position, Exact unit) {
  if (rotary.table_rows > 0) {
    const Index stride = rotary.table_stride == 0 ? turned / 2 : rotary.table_stride;
    return {rotary.cosines[position * stride + pair], rotary.sines[position * stride + pair], 0};
  }
  const Exact base = rotary.base == 0 ? 10000 : rotary.base;
  const Exact exponent = -2 * static_cast<Exact>(pair) / static_cast<Exact>(turned);
  const Exact angle = static_cast<Exact>(position) * std::pow(base, exponent);
  if (angle == 0) return {1, 0, 0};
  const Exact off =
      std::fabs(angle) * std::expm1(kRounding * (std::fabs(exponent * std::log(base)) + 4));
  return {std::cos(angle), std::sin(angle), off + 2 * kRounding + unit};
}

/// a * x + b * y as heed computes it, with x and y off by `error`.
Element sum_of(Exact a, Exact x, Exact b, Exact y, const Turn& turn, std::uint32_t dtype) {
  const bool wide = dtype == HEED_DTYPE_F64;
  if (std::isnan(a) || std::isnan(b)) return {kNaN, 0};
  // The sign of what an infinity is multiplied with must be known.
  if (std::isinf(a) || std::isinf(b)) {
    if (turn.error > 0 && std::min(std::fabs(x), std::fabs(y)) <= turn.error) return kUnspecified;
    return {static_cast<double>(a * x + b * y), 0};
  }
  const Exact size = std::fabs(a) + std::fabs(b);
  const Exact product =
      std::fabs(a) * (std::fabs(x) + turn.error) + std::fabs(b) * (std::fabs(y) + turn.error);
  const Exact gamma = wide ? gamma_of<double>(2) : gamma_of(2);
  const Exact lost = 3 * (wide ? kUnderflowOf<double> : kUnderflow) * (1 + size);
  return stored(a * x + b * y, size * turn.error + gamma * product + lost, dtype,
                wide ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
}

/// The result and its bounds, in the order [batch, head, row, feature]. positions is [batch, row]
/// or nullptr.
std::vector<Element> expect_rotate(const heed_rotate_desc& desc, const Source& from,
                                   const std::int64_t* positions) {
  std::vector<Element> want;
  const heed_rotary& rotary = desc.rotary;
  const std::uint32_t dtype = dtype_of(desc.to.dtype, HEED_DTYPE_F32);
  const Exact unit = dtype == HEED_DTYPE_F64 ? 0 : static_cast<Exact>(kUnit);
  const Index turned = rotary.features == 0 ? desc.features : rotary.features;
  const bool halves = rotary.pairs == HEED_ROTARY_HALVES;
  if (desc.heads == 0 || desc.rows == 0) return want;
  for (Index b = 0; b < desc.batch; ++b)
    for (Index h = 0; h < desc.heads; ++h)
      for (Index i = 0; i < desc.rows; ++i) {
        const Index position =
            positions == nullptr ? desc.position + i : positions[b * desc.rows + i];
        for (Index x = 0; x < desc.features; ++x) {
          const auto number = [&](Index feature) {
            return static_cast<Exact>(from.at(b, h, i, feature));
          };
          if (x >= turned) {
            want.push_back(
                stored(number(x), Exact{0}, dtype, dtype_of(desc.from.dtype, HEED_DTYPE_F32)));
            continue;
          }
          const Index pair = halves ? x % (turned / 2) : x / 2;
          const bool first = halves ? x < turned / 2 : x % 2 == 0;
          const Exact a = number(halves ? pair : 2 * pair);
          const Exact c = number(halves ? pair + turned / 2 : 2 * pair + 1);
          const Turn turn = turn_of(rotary, turned, pair, position, unit);
          want.push_back(first ? sum_of(a, turn.cosine, -c, turn.sine, turn, dtype)
                               : sum_of(a, turn.sine, c, turn.cosine, turn, dtype));
        }
      }
  return want;
}

// ---- Rotations ----

constexpr std::uint32_t kPairs[] = {HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED};

heed_rotate_desc described(const Axes& shape, std::uint32_t pairs, std::uint32_t dtype) {
  heed_rotate_desc d = HEED_ROTATE_DESC_INIT;
  d.batch = shape[0];
  d.heads = shape[1];
  d.rows = shape[2];
  d.features = shape[3];
  d.from.dtype = d.to.dtype = dtype;
  d.rotary.pairs = pairs;
  return d;
}

struct LaidOutRotation {
  explicit LaidOutRotation(heed_rotate_desc& d)
      : from(d.from, {d.batch, d.heads, d.rows, d.features}, HEED_DTYPE_F32, Use::kRead),
        to(d.to, from.shape(), HEED_DTYPE_F32, Use::kWritten) {}
  LaidOut from, to;
};

/// Rows to turn and where they go.
struct Rotation {
  Rotation(const Axes& shape, std::uint32_t pairs, std::uint32_t dtype = HEED_DTYPE_DEFAULT)
      : Rotation(0, described(shape, pairs, dtype)) {}
  Rotation(std::size_t misalign, const heed_rotate_desc& described)
      : desc(described),
        from(LaidOutRotation(desc).from.tensor(misalign)),
        to(LaidOutRotation(desc).to.tensor(misalign)) {
    fill_normally(from, static_cast<std::uint64_t>(desc.features) + desc.rotary.pairs);
  }

  /// Tables of any numbers, not only of cosines and sines.
  void give_tables(Index rows, Index gap) {
    const Index angles = (desc.rotary.features == 0 ? desc.features : desc.rotary.features) / 2;
    const Index stride = angles + gap;
    Random random(7);
    for (std::vector<float>* const table : {&cosines, &sines}) {
      table->resize(static_cast<std::size_t>((rows - 1) * stride + angles));
      for (float& number : *table) number = random.normal();
    }
    desc.rotary.cosines = cosines.data();
    desc.rotary.sines = sines.data();
    desc.rotary.table_rows = rows;
    desc.rotary.table_stride = gap == 0 ? 0 : stride;
  }

  void draw_positions(Index below) {
    Random random(9);
    positions.resize(static_cast<std::size_t>(desc.batch * desc.rows));
    for (Index& position : positions) position = random.integer(0, below - 1);
  }

  const Index* positions_or_null() const { return positions.empty() ? nullptr : positions.data(); }

  std::vector<Element> wanted() const {
    return expect_rotate(desc, from.source(), positions_or_null());
  }

  heed_status call(const Context& context, void* target) {
    return heed_rotate(context.get(), &desc, from.data(), positions_or_null(), target);
  }

  Numbers run_all(const Context& context) {
    to.clear();
    require_ok(call(context, to.data()));
    if (!to.padding_intact()) throw std::runtime_error("a rotation wrote outside its output");
    return to.numbers();
  }

  heed_rotate_desc desc;
  Tensor from, to;
  std::vector<float> cosines, sines;
  std::vector<Index> positions;
};

std::string line_of(const Rotation& r) {
  const heed_rotate_desc& d = r.desc;
  return std::to_string(d.batch) + "x" + std::to_string(d.heads) + "x" + std::to_string(d.rows) +
         "x" + std::to_string(d.features) + " " + name_of_dtype(d.from.dtype) + " to " +
         name_of_dtype(d.to.dtype) + ", R " + std::to_string(d.rotary.features) + ", pairs " +
         std::to_string(d.rotary.pairs) + ", position " + std::to_string(d.position);
}

/// A valid descriptor but for angles: each choice is drawn on its own.
heed_rotate_desc draw_rotate_desc(Draw& draw) {
  const Index turned = draw.one_in(12) ? draw.integer(60, 520) : draw.integer(1, 40);
  Axes shape = {draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 9), 2 * turned};
  if (draw.one_in(8)) shape[2] = draw.integer(10, 80);
  if (draw.one_in(20)) shape[draw.index(3)] = 0;
  const bool some = draw.one_in(3);  // the first features alone
  if (some) shape[3] += draw.integer(0, 9);
  heed_rotate_desc d = described(shape, kPairs[draw.index(2)], HEED_DTYPE_DEFAULT);
  if (some) d.rotary.features = 2 * turned;
  const bool float64 = draw.one_in(4);
  LaidOutRotation laid(d);
  laid.from.draw(draw, draw.dtype(float64, false));
  laid.to.draw(draw, draw.dtype(float64, false));
  if (!laid.from.tensor(0).repeats() && draw.one_in(2)) d.to = d.from;  // and in place, too
  return d;
}

/// Angles by base and position, or tables of anything.
void draw_turns(Draw& draw, Rotation& r) {
  const bool tables = draw.one_in(4);
  if (tables) r.give_tables(90, draw.one_in(2) ? 0 : draw.integer(1, 6));
  if (!tables && draw.one_in(3))
    r.desc.rotary.base = draw.pick<double>({0.5, 1, 2, 5e5, 1e6, 1e308, 1e-256});
  const Index last = tables ? 90 : Index{1} << 40;
  if (draw.one_in(3))
    r.draw_positions(tables ? 90 : draw.pick<Index>({2, 100000, last}));
  else
    r.desc.position = tables ? draw.integer(0, 90 - r.desc.rows)
                             : draw.pick<Index>({0, 1, 5, 999, 1000000, Index{1} << 31, last - 80});
}

Rotation draw_rotation(std::uint64_t seed) {
  Draw draw(seed);
  const heed_rotate_desc desc = draw_rotate_desc(draw);
  Rotation r(draw.index(4), desc);
  fill_normally(r.from, draw.bits());
  draw_turns(draw, r);
  if (draw.one_in(5)) draw.plant(r.from);
  return r;
}

bool lies_alike(const Rotation& r) {
  return r.from.strides() == r.to.strides() && r.from.dtype() == r.to.dtype();
}

}  // namespace

TEST_CASE("random rotations: every size, type, layout, base, position and table", "[rotate]") {
  Contexts contexts;
  for (std::uint64_t seed = 1; seed <= count(800); ++seed) {
    Rotation r = draw_rotation(seed);
    INFO("seed " << seed << ": " << line_of(r));
    Random random(seed ^ 0x5eed);
    const Choices choices = draw_choices(random);
    const std::vector<Element> want = r.wanted();
    on_every_isa(r, [&](const Numbers& got, std::size_t n) {
      check_elements("to", got, want, Unspecified::kAllowed);
      const char* const isa = IsaContexts::name(n);
      check_same("other threads", r.run_all(contexts.get(isa, choices)), got);
      if (!lies_alike(r)) return;
      const Tensor original = r.from;
      require_ok(r.call(plain_contexts()[n], r.from.data()));
      check_same("in place", r.from.numbers(), got);
      CHECK(r.from.padding_intact());
      r.from.assign(original);
    });
  }
}

TEST_CASE("a quarter turn moves features exactly", "[rotate]") {
  for (const std::uint32_t pairs : kPairs) {
    Rotation r({1, 1, 1, 7}, pairs);
    r.desc.rotary.features = 6;
    r.give_tables(1, 0);
    r.cosines.assign(3, 0.0F);
    r.sines.assign(3, 1.0F);
    r.from.fill([](const Axes& at) { return at[3] + 1; });  // 1 2 3 4 5 6 7
    const double halves[] = {-4, -5, -6, 1, 2, 3, 7};
    const double interleaved[] = {-2, 1, -4, 3, -6, 5, 7};
    on_every_isa(r, [&](const Numbers& got) {
      for (std::size_t x = 0; x < 7; ++x)
        CHECK(got[x] == (pairs == HEED_ROTARY_HALVES ? halves : interleaved)[x]);
    });
  }
}

TEST_CASE("the rows around a row do not change its bits", "[rotate]") {
  for (const Axes& shape : std::vector<Axes>{{3, 2, 70, 64}, {1, 4, 3, 4096}}) {
    for (const bool given : {false, true}) {
      Rotation r(shape, HEED_ROTARY_HALVES);
      r.desc.position = given ? 0 : 31;
      if (given) r.draw_positions(500);
      on_every_isa(r, [&](const Numbers& alone, std::size_t n) {
        const Index last = shape[2] - 1;  // its last row by itself
        heed_rotate_desc one = r.desc;
        one.batch = one.heads = one.rows = 1;
        one.position = given ? r.positions[static_cast<std::size_t>(last)] : 31 + last;
        std::vector<float> row(static_cast<std::size_t>(shape[3]));
        require_ok(heed_rotate(plain_contexts()[n].get(), &one, &r.from.at({0, 0, last, 0}),
                               nullptr, row.data()));
        for (Index x = 0; x < shape[3]; ++x) {
          const auto i = static_cast<std::size_t>(x);
          CHECK(same_number(static_cast<double>(row[i]),
                            alone[static_cast<std::size_t>(last * shape[3] + x)]));
        }
      });
    }
  }
}
