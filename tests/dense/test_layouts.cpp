// The same numbers in every layout give the same bits, and nothing but elements is touched.
#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

const Sizes kTypical = {21, 83, 20, 24, 2, 4, 2};

/// All four tensors in the same arrangement.
Layouts all_in(Arrangement arrangement) {
  return {arrangement, arrangement, arrangement, arrangement};
}

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = [] {
    std::vector<Arrangement> list(static_cast<std::size_t>(Arrangement::kCount));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<Arrangement>(i);
    return list;
  }();
  return all;
}

/// Runs a problem in the layouts, with canaries between its inputs' elements.
void check_layouts(const Sizes& sizes, const Layouts& layouts) {
  Problem plain = filled(sizes, 7);
  Problem other(sizes, layouts);
  other.query.assign(plain.query);
  other.key.assign(plain.key);
  other.value.assign(plain.value);
  INFO("query " << name_of(layouts.query) << ", key " << name_of(layouts.key) << ", value "
                << name_of(layouts.value) << ", out " << name_of(layouts.out) << ", off by "
                << layouts.misalign << " floats");
  CHECK(check_same(other, plain));
}

}  // namespace

TEST_CASE("the layout of a tensor does not change the bits", "[layouts]") {
  // Few rows read values in place, many pack them.
  std::size_t index = 0;
  for (const std::int64_t rows : {1, 5, 21, 150}) {
    Sizes sizes = kTypical;
    sizes.query_length = rows;
    for (const Arrangement arrangement : arrangements()) {
      if (arrangement == Arrangement::kDefault) continue;
      for (Arrangement Layouts::*const tensor :
           {&Layouts::query, &Layouts::key, &Layouts::value, &Layouts::out}) {
        Layouts layouts;
        layouts.*tensor = arrangement;
        if (keep(index++)) check_layouts(sizes, layouts);
      }
      if (!small() || rows == 21) check_layouts(sizes, all_in(arrangement));
    }
  }
}

TEST_CASE("the alignment of the tensors does not change the bits", "[layouts]") {
  for (std::size_t misalign = 1; misalign <= 3; ++misalign) {
    Layouts layouts;
    layouts.misalign = misalign;
    for (const Sizes& sizes : {kTypical, Sizes{70, 40, 16, 40}, Sizes{1, 197, 64, 64}})
      check_layouts(sizes, layouts);
  }
}

TEST_CASE("layouts against the oracle", "[layouts]") {
  Report report("layouts");
  for (const Arrangement arrangement : arrangements()) {
    INFO(name_of(arrangement));
    Problem problem(kTypical, all_in(arrangement));
    problem.fill(static_cast<std::uint64_t>(arrangement));
    check_problem(problem, &report);
  }
}

TEST_CASE("query, key and value packed in one tensor", "[layouts]") {
  constexpr std::int64_t kHeads = 3;
  Problem plain = filled({37, 37, 16, 16, 2, kHeads, kHeads}, 5);
  // [batch, row, (query, key, value), head, feature]
  const Axes shape = {2, 3 * kHeads, 37, 16};
  Tensor packed(shape, strides_of(Arrangement::kRowsOutside, shape));
  packed.fill([&](const Axes& at) {
    const Tensor* const parts[] = {&plain.query, &plain.key, &plain.value};
    return parts[at[1] / kHeads]->get({at[0], at[1] % kHeads, at[2], at[3]});
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
    Tensor out = plain.out;
    args.out = out.data();
    require_ok(heed_attention(context.get(), &desc, &args));
    CHECK(same_bits(out.numbers(), plain.run_all(context).out));
  }
}

TEST_CASE("a stride of 0 repeats an input along that axis", "[layouts]") {
  Report report("broadcast");
  for (std::size_t axis = 0; axis < 4; ++axis) {
    INFO("axis " << axis);
    Problem problem(kTypical, {Arrangement::kContiguous, Arrangement::kContiguous,
                               Arrangement::kContiguous, Arrangement::kDefault});
    for (auto [tensor, layout] : {std::pair{&problem.query, &problem.desc.query},
                                  std::pair{&problem.key, &problem.desc.key},
                                  std::pair{&problem.value, &problem.desc.value}}) {
      Axes strides = tensor->strides();
      strides[axis] = 0;
      *tensor = Tensor(tensor->shape(), strides);
      *layout = tensor->layout();
    }
    problem.fill(axis + 1);
    check_problem(problem, &report);
  }
}

TEST_CASE("layouts of one element per axis", "[layouts]") {
  for (const Arrangement arrangement : arrangements())
    for (const Sizes& sizes : {Sizes{1, 1, 1, 1}, Sizes{2, 1, 1, 3}, Sizes{1, 2, 3, 1}})
      check_layouts(sizes, all_in(arrangement));
}
