// The tables themselves: complete, and of sizes that the engine can rely on.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("every kernel is there", "[table]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    CHECK(kernels.panels.pack_query != nullptr);
    CHECK(kernels.panels.scores != nullptr);
    CHECK(kernels.panels.softcap != nullptr);
    CHECK(kernels.panels.alibi != nullptr);
    CHECK(kernels.panels.add_rows != nullptr);
    CHECK(kernels.panels.mask != nullptr);
    CHECK(kernels.panels.softmax != nullptr);
    CHECK(kernels.panels.exponentials != nullptr);
    CHECK(kernels.panels.argmax != nullptr);
    CHECK(kernels.panels.qk_softmax != nullptr);
    CHECK(kernels.panels.pack_values != nullptr);
    CHECK(kernels.panels.accumulate != nullptr);
    CHECK(kernels.numbers.all_finite != nullptr);
    CHECK(kernels.panels.finish != nullptr);
    CHECK(kernels.rows.edge_scores != nullptr);
    CHECK(kernels.rows.edge_values != nullptr);
    CHECK(kernels.numbers.exp2 != nullptr);
    CHECK(kernels.numbers.read != nullptr);
    CHECK(kernels.numbers.write != nullptr);
  });
}

TEMPLATE_TEST_CASE("a full panel fits, and a key step is whole groups", "[table]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    CHECK(kernels.panels.lanes >= 1);
    CHECK(kernels.panels.lanes * sizeof(TestType) <= heed::kAlignment);
    CHECK(kernels.panels.max_vectors == 3);  // what the sweeps of these tests go up to
    CHECK(kernels.panels.max_vectors == heed::kMaxVectors);
    CHECK(kernels.panels.lanes * kernels.panels.max_vectors <= heed::kMaxPanel);
    CHECK(kernels.panels.key_block > 0);
    CHECK(kernels.panels.key_block % heed::PanelGeometry::row_padding == 0);
  });
}

TEST_CASE("both tables of an instruction set bear its name", "[table]") {
  for (const heed::Kernels* const kernels : usable_kernels())
    CHECK(std::string(kernels->f32.isa) == kernels->f64.isa);
}

TEMPLATE_TEST_CASE("no row_max is the lowest finite number", "[table]", float, double) {
  CHECK(same_bits(heed::kNoRowMax<TestType>, -kMax<TestType>));
}
