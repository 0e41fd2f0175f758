// The same numbers in every layout give the same bits, and nothing but elements is touched.
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

/// Copies the numbers of one problem to another with other layouts.
void copy(const Problem& from, Problem& to) {
  const auto move = [](const Tensor& source, Tensor& target) {
    source.each([&](const Axes& at) { target.at(at) = source.at(at); });
  };
  move(from.query, to.query);
  move(from.key, to.key);
  move(from.value, to.value);
}

Sizes typical() {
  Sizes sizes = {21, 83, 20, 24};
  sizes.batch = 2;
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  return sizes;
}

/// Runs a problem in the layouts, with canaries between its inputs' elements.
void check_same(const Sizes& sizes, const Layouts& layouts) {
  Problem plain(sizes);
  plain.fill(7);
  Problem other(sizes, layouts);
  copy(plain, other);
  for (const char* const isa : isa_names()) {
    INFO(isa << ": query " << name_of(layouts.query) << ", key " << name_of(layouts.key)
             << ", value " << name_of(layouts.value) << ", out " << name_of(layouts.out)
             << ", off by " << layouts.misalign << " floats; " << line_of(plain.desc));
    CHECK(same_bits(other.run(isa), plain.run(isa)));
  }
}

}  // namespace

TEST_CASE("the layout of a tensor does not change the bits", "[layouts]") {
  // Few rows read values in place, many pack them.
  std::size_t index = 0;
  for (const std::int64_t rows : {1, 5, 21, 150}) {
    Sizes sizes = typical();
    sizes.query_length = rows;
    for (int i = 1; i < static_cast<int>(Arrangement::kCount); ++i) {
      const auto arrangement = static_cast<Arrangement>(i);
      for (Arrangement Layouts::*const tensor :
           {&Layouts::query, &Layouts::key, &Layouts::value, &Layouts::out}) {
        Layouts layouts;
        layouts.*tensor = arrangement;
        if (keep(index++)) check_same(sizes, layouts);
      }
      if (!small() || rows == 21)
        check_same(sizes, {arrangement, arrangement, arrangement, arrangement});
    }
  }
}

TEST_CASE("the alignment of the tensors does not change the bits", "[layouts]") {
  for (std::size_t misalign = 1; misalign <= 3; ++misalign) {
    Layouts layouts;
    layouts.misalign = misalign;
    check_same(typical(), layouts);
    check_same({70, 40, 16, 40}, layouts);
    check_same({1, 197, 64, 64}, layouts);
  }
}

TEST_CASE("layouts against the oracle", "[layouts]") {
  Report report("layouts");
  for (int i = 0; i < static_cast<int>(Arrangement::kCount); ++i) {
    const auto arrangement = static_cast<Arrangement>(i);
    INFO(name_of(arrangement));
    Problem problem(typical(), {arrangement, arrangement, arrangement, arrangement});
    problem.fill(static_cast<std::uint64_t>(i));
    check_problem(problem, &report);
  }
}

TEST_CASE("query, key and value packed in one tensor", "[layouts]") {
  constexpr std::int64_t kHeads = 3;
  Sizes sizes = {37, 37, 16, 16};
  sizes.batch = 2;
  sizes.query_heads = sizes.key_heads = kHeads;
  Problem plain(sizes);
  plain.fill(5);
  // [batch, row, (query, key, value), head, feature]
  const Axes shape = {2, 3 * kHeads, 37, 16};
  Tensor packed(shape, strides_of(Arrangement::kRowsOutside, shape));
  packed.each([&](const Axes& at) {
    Axes from = at;
    from[1] = at[1] % kHeads;
    packed.at(at) = (at[1] < kHeads       ? plain.query
                     : at[1] < 2 * kHeads ? plain.key
                                          : plain.value)
                        .at(from);
  });
  for (const char* const isa : isa_names()) {
    INFO(isa);
    const Context context = make_context(isa);
    heed_attention_desc desc = plain.desc;
    desc.query = desc.key = desc.value = packed.layout();
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = &packed.at({0, 0, 0, 0});
    args.key = &packed.at({0, kHeads, 0, 0});
    args.value = &packed.at({0, 2 * kHeads, 0, 0});
    std::vector<float> out(2 * kHeads * 37 * 16);
    args.out = out.data();
    require_ok(heed_attention(context.get(), &desc, &args));
    CHECK(same_bits(out, plain.run(context)));
  }
}

TEST_CASE("a stride of 0 repeats an input along that axis", "[layouts]") {
  Report report("broadcast");
  for (std::size_t axis = 0; axis < 4; ++axis) {
    INFO("axis " << axis);
    Problem problem(typical(), {Arrangement::kContiguous, Arrangement::kContiguous,
                                Arrangement::kContiguous, Arrangement::kDefault});
    for (auto [tensor, layout] : {std::pair{&problem.query, &problem.desc.query},
                                  std::pair{&problem.key, &problem.desc.key},
                                  std::pair{&problem.value, &problem.desc.value}}) {
      Axes strides = strides_of(Arrangement::kContiguous, tensor->shape());
      strides[axis] = 0;
      *tensor = Tensor(tensor->shape(), strides);
      *layout = tensor->layout();
    }
    problem.fill(axis + 1);
    check_problem(problem, &report);
  }
}

TEST_CASE("layouts of one element per axis", "[layouts]") {
  for (int i = 0; i < static_cast<int>(Arrangement::kCount); ++i) {
    const auto arrangement = static_cast<Arrangement>(i);
    check_same({1, 1, 1, 1}, {arrangement, arrangement, arrangement, arrangement});
    check_same({2, 1, 1, 3}, {arrangement, arrangement, arrangement, arrangement});
    check_same({1, 2, 3, 1}, {arrangement, arrangement, arrangement, arrangement});
  }
}
