// The tables themselves: complete, and of sizes that the engine can rely on.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("every kernel of the list is in every table", "[table]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
#define HEED_PANEL_KERNEL(result, name, parameters) CHECK(kernels.panels.name != nullptr);
#define HEED_PACK_KERNEL(result, name, parameters) CHECK(kernels.panels.name != nullptr);
#define HEED_ROW_KERNEL(result, name, parameters) CHECK(kernels.rows.name != nullptr);
#define HEED_NUMBER_KERNEL(result, name, parameters) CHECK(kernels.numbers.name != nullptr);
#include "engine/kernels/list.hpp"
  });
}

TEST_CASE("families may take other elements than they compute in", "[table]") {
  using Half = std::uint16_t;  // as bfloat16 lies in memory
  using Panels = heed::PanelKernels<Half, float>;
  STATIC_REQUIRE(
      std::is_same_v<decltype(Panels::scores),
                     void (*)(std::size_t, const heed::MatrixView<Half>&, const heed::KeyRanges&,
                              const Half*, std::size_t, float*)>);
  STATIC_REQUIRE(
      std::is_same_v<decltype(Panels::accumulate),
                     void (*)(std::size_t, const heed::ValueView<Half>&, const heed::KeyRanges&,
                              std::size_t, const Half*, float*, std::size_t, bool)>);
  using Rows = heed::RowKernels<Half, float>;
  STATIC_REQUIRE(Rows::feature_padding * sizeof(Half) == 16);
  STATIC_REQUIRE(std::is_same_v<decltype(Rows::edge_scores),
                                void (*)(const heed::EdgeRows<Half>&, std::size_t, const float*,
                                         std::size_t, std::size_t, bool, float*, std::size_t)>);
}

TEMPLATE_TEST_CASE("a full panel fits, and a key block is padded", "[table]", float, double) {
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

TEMPLATE_TEST_CASE("kNoRowMax is the lowest finite number", "[table]", float, double) {
  CHECK(same_bits(heed::kNoRowMax<TestType>, -kMax<TestType>));
}
