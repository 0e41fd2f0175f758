// The tables themselves: complete, and of sizes that the engine can rely on.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("every kernel is there", "[table]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    CHECK(kernels.pack_query != nullptr);
    CHECK(kernels.scores != nullptr);
    CHECK(kernels.softcap != nullptr);
    CHECK(kernels.alibi != nullptr);
    CHECK(kernels.add_rows != nullptr);
    CHECK(kernels.mask != nullptr);
    CHECK(kernels.softmax != nullptr);
    CHECK(kernels.exponentials != nullptr);
    CHECK(kernels.hardest != nullptr);
    CHECK(kernels.weights != nullptr);
    CHECK(kernels.pack_values != nullptr);
    CHECK(kernels.accumulate != nullptr);
    CHECK(kernels.all_finite != nullptr);
    CHECK(kernels.finish != nullptr);
    CHECK(kernels.edge_scores != nullptr);
    CHECK(kernels.edge_values != nullptr);
    CHECK(kernels.exp2 != nullptr);
    CHECK(kernels.read != nullptr);
    CHECK(kernels.write != nullptr);
  });
}

TEMPLATE_TEST_CASE("a full panel fits, and a key step is whole groups", "[table]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    CHECK(kernels.lanes >= 1);
    CHECK(kernels.lanes * sizeof(TestType) <= heed::kAlignment);
    CHECK(kernels.max_vectors == 3);  // what the sweeps of these tests go up to
    CHECK(kernels.max_vectors == heed::kMaxVectors);
    CHECK(kernels.lanes * kernels.max_vectors <= heed::kMaxPanel);
    CHECK(kernels.key_step > 0);
    CHECK(kernels.key_step % heed::kRowPadding == 0);
  });
}

TEST_CASE("both tables of an instruction set bear its name", "[table]") {
  for (const heed::Kernels* const kernels : usable_kernels())
    CHECK(std::string(kernels->f32.isa) == kernels->f64.isa);
}

TEMPLATE_TEST_CASE("no reference is the lowest finite number", "[table]", float, double) {
  CHECK(same_bits(heed::kNoReference<TestType>, -kMax<TestType>));
}
