// heed_rotate: rotary embedding, against the oracle and by what it is for.
#include "tests/dense/kinds.hpp"
#include "tests/dense/rotation.hpp"
#include "tests/oracle/rounding.hpp"
#include "tests/problem/draw.hpp"
#include "tests/support/contexts.hpp"

using namespace heed_test;

namespace {

constexpr std::uint32_t kPairs[] = {HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED};

/// Rotations of every form: each choice is drawn on its own.
class RandomRotations : Draw {
 public:
  explicit RandomRotations(std::uint64_t seed) : Draw(seed) {}

  Rotation draw() {
    const Index turned = one_in(12) ? integer(60, 520) : integer(1, 40);
    Axes shape = {integer(1, 3), integer(1, 4), integer(1, 9), 2 * turned};
    if (one_in(8)) shape[2] = integer(10, 80);
    if (one_in(20)) shape[index(3)] = 0;
    const bool some = one_in(3);  // the first features alone
    if (some) shape[3] += integer(0, 9);
    Rotation r(shape, pick<std::uint32_t>({HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED}),
               draw_types(), draw_places());
    if (some) r.desc.rotary.features = 2 * turned;
    if (one_in(12)) repeat_axis(r);
    draw_turns(r);
    if (one_in(5)) plant(r.from);
    return r;
  }

 private:
  RotationTypes draw_types() {
    if (one_in(4)) return {HEED_DTYPE_F64, HEED_DTYPE_F64};
    const std::vector<std::uint32_t> narrow = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16,
                                               HEED_DTYPE_F16};
    return {pick(narrow), pick(narrow)};
  }

  /// Where both lie alike, rows are turned in place, too.
  RotationPlaces draw_places() {
    const Arrangement from = arrangement();
    return {from, one_in(2) ? from : arrangement(), index(4)};
  }

  void repeat_axis(Rotation& r) {
    Axes strides = strides_of(Arrangement::kContiguous, r.from.shape());
    strides[index(3)] = 0;
    if (strides == Axes{}) return;  // that would mean the default
    const std::uint32_t dtype = r.desc.from.dtype;
    r.from = Tensor(r.from.shape(), strides, 0, r.from.dtype());
    r.desc.from = r.from.layout();
    r.desc.from.dtype = dtype;
    fill_normally(r.from, bits());
  }

  /// Angles by base and position, or tables of anything.
  void draw_turns(Rotation& r) {
    const bool tables = one_in(4);
    if (tables) r.give_tables(90, one_in(2) ? 0 : integer(1, 6));
    if (!tables && one_in(3))
      r.desc.rotary.base = pick<double>({0.5, 1, 2, 5e5, 1e6, 1e308, 1e-256});
    const Index last = tables ? 90 : Index{1} << 40;
    if (one_in(3))
      r.draw_positions(tables ? 90 : pick<Index>({2, 100000, last}));
    else
      r.desc.position = tables ? integer(0, 90 - r.desc.rows)
                               : pick<Index>({0, 1, 5, 999, 1000000, Index{1} << 31, last - 80});
  }
};

bool lies_alike(const Rotation& r) {
  return r.from.strides() == r.to.strides() && r.from.dtype() == r.to.dtype() &&
         std::find(r.from.strides().begin(), r.from.strides().end(), 0) == r.from.strides().end();
}

}  // namespace

TEST_CASE("random rotations: every size, type, layout, base, position and table", "[rotate]") {
  Report report("rotate");
  Contexts contexts;
  for (std::uint64_t seed = 1; seed <= count(800); ++seed) {
    Rotation r = RandomRotations(seed).draw();
    INFO("seed " << seed << ": " << line_of(r));
    Random random(seed ^ 0x5eed);
    const Choices choices = draw_choices(random);
    const std::vector<Element> want = r.wanted();
    on_every_isa(r, [&](const Numbers& got, std::size_t n) {
      report.add(n, check_elements("to", r.to.shape(), got, want, Unspecified::kAllowed));
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

TEST_CASE("far positions turn by angles of float64", "[rotate]") {
  // At a million, what the angle is off by is nothing to a float32.
  Rotation r({1, 1, 1, 128}, HEED_ROTARY_HALVES);
  r.desc.position = 1000000;
  r.from.fill([] { return 1; });
  for (const Element& element : r.wanted()) CHECK(element.bound < 8 * kUnit);
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

TEST_CASE("position 0 turns nothing", "[rotate]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
    Rotation r({2, 3, 4, 10}, HEED_ROTARY_INTERLEAVED, {dtype, dtype});
    r.positions.assign(8, 0);
    on_every_isa(r, [&](const Numbers& got) { check_same("to", got, r.from.numbers()); });
  }
}

TEST_CASE("scores of turned rows depend on the difference of their positions", "[rotate]") {
  constexpr Index kFeatures = 32;
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
      for (const char* const isa : isa_names()) {
        CAPTURE(pairs, dtype, isa);
        const Context context = make_context(isa);
        /// <q, k> of rows at these positions, and how far off it may be.
        const auto score = [&](Index query, Index key) {
          Rotation q({1, 1, 1, kFeatures}, pairs, {dtype, dtype});
          Rotation k({1, 1, 1, kFeatures}, pairs, {dtype, dtype});
          q.desc.position = query;
          k.desc.position = key;
          k.from.fill([](const Axes& at) { return 1.0 / static_cast<double>(3 + at[3]); });
          const Numbers turned_q = q.run_all(context);
          const Numbers turned_k = k.run_all(context);
          const std::vector<Element> of_q = q.wanted();
          const std::vector<Element> of_k = k.wanted();
          std::pair<long double, long double> sum = {0, 0x1p-55L};
          for (std::size_t x = 0; x < of_q.size(); ++x) {
            sum.first += static_cast<long double>(turned_q[x]) * turned_k[x];
            sum.second += (std::fabs(turned_q[x]) + of_q[x].bound) * of_k[x].bound +
                          std::fabs(turned_k[x]) * of_q[x].bound;
          }
          return sum;
        };
        const auto near = score(9, 4);
        for (const Index shift : {1, 60, 5000, 1000000}) {
          const auto far = score(9 + shift, 4 + shift);
          CHECK(std::fabs(far.first - near.first) <= far.second + near.second);
          const auto other = score(9 + shift, 5 + shift);
          CHECK(std::fabs(other.first - near.first) > 1e3 * (other.second + near.second));
        }
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
