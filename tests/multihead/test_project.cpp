// heed_project: rows times a prepared matrix, against the oracle and by what it is for.
#include <stdexcept>

#include "tests/dense/kinds.hpp"
#include "tests/oracle/project.hpp"
#include "tests/problem/draw.hpp"
#include "tests/problem/weight_matrix.hpp"
#include "tests/support/contexts.hpp"

using namespace heed_test;

namespace {

struct ProjectSizes {
  Index batch, rows, in, out;
  Index matrices = 1;
};

struct ProjectChoice {
  std::uint32_t real = HEED_DTYPE_F32;
  std::uint32_t x = HEED_DTYPE_DEFAULT;
  std::uint32_t y = HEED_DTYPE_DEFAULT;
  Arrangement x_lies = Arrangement::kDefault;
  Arrangement y_lies = Arrangement::kDefault;
  std::size_t misalign = 0;
  MatrixChoice w = {};
};

ProjectChoice all_of_type(std::uint32_t dtype) {
  ProjectChoice choice;
  choice.real = dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  choice.x = choice.y = choice.w.dtype = choice.w.bias_dtype = dtype;
  return choice;
}

/// Rows, a matrix that is prepared, and where the products go.
struct Projection {
  Projection(const ProjectSizes& sizes_, const ProjectChoice& choice)
      : sizes(sizes_),
        real(choice.real),
        x(placed({sizes.batch, 1, sizes.rows, sizes.matrices * sizes.in}, choice.x_lies,
                 dtype_of(choice.x, real), choice.misalign)),
        w(sizes.matrices, sizes.in, sizes.out, prepared(choice.w), real),
        y(placed({sizes.batch, 1, sizes.rows, sizes.out}, choice.y_lies, dtype_of(choice.y, real),
                 choice.misalign)) {
    desc.batch = sizes.batch;
    desc.rows = sizes.rows;
    desc.x = layout_of(x, choice.x_lies, choice.x);
    desc.y = layout_of(y, choice.y_lies, choice.y);
    desc.x.stride_head = desc.y.stride_head = 0;
    Random random(static_cast<std::uint64_t>(sizes.in * 1000 + sizes.out));
    w.fill(random, 1);
    x.fill([&] { return random.normal<double>(); });
  }

  static MatrixChoice prepared(MatrixChoice choice) {
    choice.prepared = true;
    return choice;
  }

  std::vector<Element> wanted(const Multiplied& as = {}) const {
    return expect_project({x.source(), sizes.batch, sizes.rows, w.given(), sizes.matrices, sizes.in,
                           real, y.dtype(), as});
  }
  std::vector<Element> wanted_on(const char* isa) const {
    const std::uint32_t matrix = w.given().matrix.dtype;
    if (multiplies_parts(isa)) return wanted(in_parts(x.dtype(), matrix));
    return wanted(multiplies_pairs(isa) ? in_pairs(x.dtype(), matrix) : Multiplied{});
  }

  Numbers run_all(const Context& context) {
    const Weights weights = w.prepare(context);
    y.clear();
    require_ok(heed_project(context.get(), &desc, weights.get(), x.data(), y.data()));
    if (!y.padding_intact()) throw std::runtime_error("a projection wrote outside of y");
    return y.numbers();
  }

  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  ProjectSizes sizes;
  std::uint32_t real;
  Tensor x;
  WeightMatrix w;
  Tensor y;
};

std::string line_of(const Projection& p) {
  const ProjectSizes& s = p.sizes;
  return std::to_string(s.batch) + "x" + std::to_string(s.rows) + " from " +
         std::to_string(s.matrices) + "x" + std::to_string(s.in) + " to " + std::to_string(s.out) +
         ", " + name_of_dtype(p.x.dtype()) + " to " + name_of_dtype(p.y.dtype());
}

void check_projection(Projection& p) {
  on_every_isa(p, [&](const Numbers& got, std::size_t n) {
    check_elements("y", p.y.shape(), got, p.wanted_on(isa_names()[n]));
  });
}

constexpr std::uint32_t kTypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                    HEED_DTYPE_F16};

/// Projections of every form: each choice is drawn on its own.
class RandomProjections : Draw {
 public:
  explicit RandomProjections(std::uint64_t seed) : Draw(seed) {}

  Projection draw() {
    ProjectSizes sizes = {integer(1, 3), integer(1, 30), integer(1, 40), integer(1, 40),
                          one_in(4) ? integer(2, 4) : 1};
    if (one_in(6)) sizes.rows = integer(31, 200);
    if (one_in(6)) sizes.in = integer(120, 200);
    if (one_in(6)) sizes.out = integer(120, 200);
    if (one_in(20)) (one_in(2) ? sizes.batch : sizes.rows) = 0;
    Projection p(sizes, draw_choice());
    if (one_in(10)) repeat_axis(p);
    if (one_in(5)) plant(p.x);
    if (one_in(8)) plant(p.w.tensor);
    return p;
  }

 private:
  ProjectChoice draw_choice() {
    ProjectChoice choice = all_of_type(pick<std::uint32_t>(
        {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16}));
    if (choice.real == HEED_DTYPE_F32 && one_in(2))
      for (std::uint32_t* const dtype :
           {&choice.x, &choice.y, &choice.w.dtype, &choice.w.bias_dtype})
        *dtype = pick<std::uint32_t>(
            {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
    choice.x_lies = arrangement();
    choice.y_lies = arrangement();
    choice.misalign = index(4);
    choice.w.arrangement = arrangement();
    choice.w.bias = !one_in(3);
    return choice;
  }

  void repeat_axis(Projection& p) {
    Axes strides = strides_of(Arrangement::kContiguous, p.x.shape());
    strides[pick<std::size_t>({0, 2, 3})] = 0;
    if (strides == Axes{}) return;  // that would mean the default
    p.x = Tensor(p.x.shape(), strides, 0, p.x.dtype());
    p.desc.x = p.x.layout();
    p.desc.x.stride_head = 0;
    fill_normally(p.x, bits());
  }
};

}  // namespace

TEST_CASE("random projections: every size, type and layout, by every product", "[project]") {
  Report report("project");
  Contexts contexts;
  for (std::uint64_t seed = 1; seed <= count(400); ++seed) {
    Projection p = RandomProjections(seed).draw();
    INFO("seed " << seed << ": " << line_of(p));
    Random random(seed ^ 0x5eed);
    Choices choices = draw_choices(random);
    on_every_isa(p, [&](const Numbers& got, std::size_t n) {
      const char* const isa = IsaContexts::name(n);
      report.add(n, check_elements("y", p.y.shape(), got, p.wanted_on(isa), Unspecified::kAllowed));
      check_same("other threads", p.run_all(contexts.get(isa, choices)), got);
    });
    for (std::size_t i = 1; i < heed_product_count(); ++i) {
      choices.product = heed_product_name(i);
      const Numbers got = p.run_all(contexts.get(isa_names().back(), choices));
      check_elements(choices.product, p.y.shape(), got, p.wanted(), Unspecified::kAllowed);
    }
  }
}

TEST_CASE("tasks of many tiles of weights, both ways", "[project]") {
  if (small()) return;
  for (const std::uint32_t dtype : kTypes) {
    ProjectChoice choice = all_of_type(dtype);
    choice.w.bias = true;
    Projection p({1, 29, 300, 700}, choice);
    check_projection(p);
  }
}

TEST_CASE("what is not finite stays in its row or its column", "[project]") {
  for (const std::uint32_t dtype : kTypes) {
    Projection p({2, 9, 6, 10}, all_of_type(dtype));
    p.x.set({0, 0, 3, 2}, kNaN);
    p.x.set({1, 0, 0, 1}, kInfinity);
    p.x.set({1, 0, 4, 1}, -kInfinity);
    p.w.set(0, 5, 7, kInfinity);
    p.w.set(0, 0, 8, kNaN);
    check_projection(p);
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      p.run_all(plain_contexts()[n]);
      p.y.each([&](const Axes& at) {
        const bool row = at[0] == 0 ? at[2] == 3 : at[2] == 0 || at[2] == 4;
        const bool column = at[3] == 7 || at[3] == 8;
        CHECK(std::isfinite(p.y.get(at)) == !(row || column));
      });
    }
  }
}

TEST_CASE("an infinity is not lost where it meets a subnormal number", "[project][precision]") {
  // 2^-129 counts as 0 to pairs, and 0 times infinity is NaN: float32 says infinity.
  Projection p({1, 40, 150, 70}, all_of_type(HEED_DTYPE_BF16));
  p.x.set({0, 0, 33, 140}, kInfinity);
  p.w.each([&](Index m, Index i, Index o) {
    if (i == 140) p.w.set(m, i, o, 0x1p-129);
  });
  check_projection(p);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    p.run_all(plain_contexts()[n]);
    p.y.each([&](const Axes& at) {
      CHECK((at[2] == 33 ? p.y.get(at) == kInfinity : std::isfinite(p.y.get(at))));
    });
  }
}

TEST_CASE("the rows around a row change no bit of its projection", "[project][same]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
    Projection p({2, small() ? 70 : 300, 150, 140}, all_of_type(dtype));
    Projection one({1, 1, 150, 140}, all_of_type(dtype));
    one.x.fill([&](const Axes& at) { return p.x.get({1, 0, 33, at[3]}); });
    for (const char* const isa : isa_names()) {
      INFO(isa << ", " << name_of_dtype(dtype));
      const Numbers want = p.run_all(make_context(isa));
      const Numbers alone = one.run_all(make_context(isa));
      const auto first = static_cast<std::size_t>((p.sizes.rows + 33) * 140);
      bool same = true;
      for (std::size_t o = 0; o < 140; ++o) same = same && same_element(alone, o, want, first + o);
      CHECK(same);
    }
  }
}
