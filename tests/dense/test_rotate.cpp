// heed_rotate: rotary embedding, against the oracle and by what it is for.
#include "tests/dense/kinds.hpp"
#include "tests/dense/rotation.hpp"
#include "tests/oracle/rounding.hpp"

using namespace heed_test;

namespace {

constexpr std::uint32_t kPairs[] = {HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED};

void check_rotation(Rotation& r, Report* report = nullptr,
                    Unspecified unspecified = Unspecified::kForbidden) {
  const std::vector<Element> want = r.wanted();
  on_every_isa(r, [&](const Numbers& got, std::size_t n) {
    const double ratio = check_elements("to", r.to.shape(), got, want, unspecified);
    if (report != nullptr) report->add(n, ratio);
  });
}

constexpr std::uint32_t kNarrow[] = {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16,
                                     HEED_DTYPE_F16};

}  // namespace

TEST_CASE("rows of every size are turned by their positions", "[rotate]") {
  Report report("rotate");
  std::size_t index = 0;
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
      for (const Axes& shape : std::vector<Axes>{{1, 1, 1, 2},
                                                 {2, 3, 5, 6},
                                                 {1, 2, 3, 14},
                                                 {3, 1, 4, 64},
                                                 {1, 4, 33, 128},
                                                 {1, 1, 2, 1022}})
        for (const Index position : {Index{0}, Index{1}, Index{999}}) {
          if (!keep_of_few(index++)) continue;
          Rotation r(shape, pairs, {dtype, dtype});
          r.desc.position = position;
          check_rotation(r, &report);
        }
}

TEST_CASE("only the first features turn", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
      for (const Index turned : {2, 4, 6, 18, 20})
        for (const Index features : {20, 21}) {
          Rotation r({2, 2, 3, features}, pairs, {dtype, dtype});
          r.desc.rotary.features = turned;
          r.desc.position = 5;
          for (Index x = turned; x < features; ++x) r.from.set({0, 0, 0, x}, kNaN);
          check_rotation(r);
        }
}

TEST_CASE("rotation from any types to any types", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t from : kNarrow)
      for (const std::uint32_t to : kNarrow) {
        Rotation r({2, 3, 4, 18}, pairs, {from, to});
        r.desc.rotary.features = 12;
        r.desc.position = 77;
        check_rotation(r);
      }
}

TEST_CASE("rows that are turned lie anywhere", "[rotate]") {
  const auto count_of = static_cast<int>(Arrangement::kCount);
  std::size_t index = 0;
  for (int from = 0; from < count_of; ++from)
    for (int to = 0; to < count_of; ++to)
      for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
        Rotation r({2, 3, 4, 20}, kPairs[index % 2], {dtype, dtype},
                   {static_cast<Arrangement>(from), static_cast<Arrangement>(to), index % 4});
        if (index++ % 3 == 0) r.desc.rotary.features = 10;
        r.desc.position = 3;
        check_rotation(r);
      }
}

TEST_CASE("an input of a rotation may repeat along an axis", "[rotate]") {
  Rotation r({3, 2, 4, 8}, HEED_ROTARY_HALVES);
  r.from = Tensor({3, 2, 4, 8}, {0, 8, 0, 1});
  r.desc.from = r.from.layout();
  Random random(3);
  r.from.fill([&] { return random.normal(); });
  check_rotation(r);
}

TEST_CASE("bases from below 1 to far above", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const double base : {0.0, 1e-256, 0.5, 1.0, 2.0, 1e4, 5e5, 1e6, 1e308}) {
      Rotation r({1, 2, 6, 16}, pairs, {HEED_DTYPE_F64, HEED_DTYPE_F64});
      r.desc.rotary.base = base;
      check_rotation(r, nullptr, base < 1 ? Unspecified::kAllowed : Unspecified::kForbidden);
    }
}

TEST_CASE("far positions turn by angles of float64", "[rotate]") {
  Report report("rotate far");
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
      for (const Index position : {Index{1000000}, Index{1} << 31, (Index{1} << 40) - 5}) {
        Rotation r({1, 2, 6, 64}, pairs, {dtype, dtype});
        r.desc.position = position;
        check_rotation(r, &report);
      }
  // At a million, what the angle is off by is nothing to a float32.
  Rotation r({1, 1, 1, 128}, HEED_ROTARY_HALVES);
  r.desc.position = 1000000;
  r.from.fill([] { return 1; });
  for (const Element& element : r.wanted()) CHECK(element.bound < 8 * kUnit);
}

TEST_CASE("positions of rows are in any order", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const Index below : {Index{2}, Index{100000}, Index{1} << 40}) {
      Rotation r({3, 2, 7, 32}, pairs);
      r.draw_positions(below);
      check_rotation(r);
      r.positions.assign(r.positions.size(), 41);  // the same for all
      check_rotation(r);
      r.positions[0] = Index{1} << 40;  // the last one
      check_rotation(r);
    }
}

TEST_CASE("tables may hold any turns", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
      for (const Index gap : {0, 1, 6}) {
        Rotation r({2, 2, 5, 14}, pairs, {dtype, dtype});
        if (gap == 1) r.desc.rotary.features = 6;
        r.give_tables(8, gap);
        r.desc.position = 3;  // up to the last row
        check_rotation(r);
        r.desc.position = 0;
        r.draw_positions(8);
        r.positions.back() = 7;
        check_rotation(r);
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

TEST_CASE("what is not finite stays in its pair", "[rotate]") {
  for (const std::uint32_t pairs : kPairs)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16}) {
      Rotation r({1, 1, 5, 8}, pairs, {dtype, dtype});
      r.from.set({0, 0, 0, 2}, kInfinity);  // times the sine of 0
      r.from.set({0, 0, 1, 1}, kNaN);
      r.from.set({0, 0, 2, 3}, kInfinity);
      r.from.set({0, 0, 3, 0}, -kInfinity);
      r.from.set({0, 0, 4, 4}, 6e4);
      r.from.set({0, 0, 4, 5}, 6e4);  // interleaved overflows a float16
      check_rotation(r);
    }
}

TEST_CASE("rows turned in place are those turned elsewhere", "[rotate]") {
  const auto count_of = static_cast<int>(Arrangement::kCount);
  std::size_t index = 0;
  for (int place = 0; place < count_of; ++place)
    for (const std::uint32_t dtype :
         {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      const auto arrangement = static_cast<Arrangement>(place);
      Rotation r({2, 3, 5, 22}, kPairs[index % 2], {dtype, dtype}, {arrangement, arrangement});
      if (index++ % 3 == 0) r.desc.rotary.features = 16;
      r.desc.position = 12;
      const Tensor original = r.from;
      for (const char* const isa : isa_names()) {
        INFO(isa << ": " << line_of(r));
        const Context context = make_context(isa);
        const Numbers elsewhere = r.run_all(context);
        require_ok(r.call(context, r.from.data()));
        check_same("in place", r.from.numbers(), elsewhere);
        CHECK(r.from.padding_intact());
        r.from.assign(original);
      }
    }
}

TEST_CASE("threads and the rows around a row do not change its bits", "[rotate][threads]") {
  for (const Axes& shape : std::vector<Axes>{{3, 2, 700, 64}, {1, 40, 3, 4096}, {1, 1, 1, 2}}) {
    if (small() && shape[2] > 3) continue;
    for (const bool given : {false, true}) {
      Rotation r(shape, HEED_ROTARY_HALVES);
      r.desc.position = given ? 0 : 31;
      if (given) r.draw_positions(500);
      on_every_isa(r, [&](const Numbers& alone, std::size_t n) {
        for (std::size_t i = 0; i < heed_executor_count(); ++i)
          for (const std::uint32_t threads : {1U, 3U}) {
            const char* const executor = heed_executor_name(i);
            check_same(executor, r.run_all(make_context(IsaContexts::name(n), {executor, threads})),
                       alone);
          }
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

TEST_CASE("rotations of nothing", "[rotate]") {
  for (const Axes& shape : std::vector<Axes>{{0, 2, 3, 4}, {2, 0, 3, 4}, {2, 2, 0, 4}}) {
    Rotation r(shape, HEED_ROTARY_HALVES);
    check_rotation(r);
    const Context context = make_context(isa_names().front());
    require_ok(heed_rotate(context.get(), &r.desc, nullptr, nullptr, nullptr));
  }
}
