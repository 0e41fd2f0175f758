// Statuses, messages and versions.
#include "tests/api/support.hpp"

using namespace api_test;

TEST_CASE("statuses have pinned values and names", "[errors]") {
  const std::pair<heed_status, std::string> statuses[] = {
      {HEED_STATUS_OK, "HEED_STATUS_OK"},
      {HEED_STATUS_INVALID_ARGUMENT, "HEED_STATUS_INVALID_ARGUMENT"},
      {HEED_STATUS_UNSUPPORTED, "HEED_STATUS_UNSUPPORTED"},
      {HEED_STATUS_OUT_OF_MEMORY, "HEED_STATUS_OUT_OF_MEMORY"},
      {HEED_STATUS_INVALID_ENVIRONMENT, "HEED_STATUS_INVALID_ENVIRONMENT"},
      {HEED_STATUS_INVALID_WORKSPACE, "HEED_STATUS_INVALID_WORKSPACE"},
      {HEED_STATUS_EXECUTOR_FAILED, "HEED_STATUS_EXECUTOR_FAILED"},
      {HEED_STATUS_INTERNAL, "HEED_STATUS_INTERNAL"},
      {HEED_STATUS_BUSY, "HEED_STATUS_BUSY"},
      {HEED_STATUS_IO, "HEED_STATUS_IO"},
      {HEED_STATUS_CORRUPT, "HEED_STATUS_CORRUPT"}};
  int value = 0;
  for (const auto& [status, name] : statuses) {
    CHECK(static_cast<int>(status) == value++);
    CHECK(heed_status_name(status) == name);
  }
  CHECK(heed_status_name(static_cast<heed_status>(value)) == std::string("unknown heed_status"));
}

TEST_CASE("other constants of the interface are pinned", "[errors]") {
  const std::vector<int> in_order[] = {
      {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16,
       HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3},
      {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_OFFSET},
      {HEED_ALIGNMENT_DEFAULT, HEED_ALIGNMENT_TOP_LEFT, HEED_ALIGNMENT_BOTTOM_RIGHT,
       HEED_ALIGNMENT_OFFSET},
      {HEED_WEIGHTS_NONE, HEED_WEIGHTS_SCORES, HEED_WEIGHTS_CAPPED, HEED_WEIGHTS_MASKED,
       HEED_WEIGHTS_PROBABILITIES},
      {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX,
       HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS}};
  for (const std::vector<int>& values : in_order)
    for (std::size_t value = 0; value < values.size(); ++value)
      CHECK(values[value] == static_cast<int>(value));
  CHECK(HEED_WORKSPACE_ALIGNMENT == 64);
}

TEST_CASE("the library and its header are of one version", "[errors]") {
  int major = -1;
  int minor = -1;
  int patch = -1;
  heed_version(&major, nullptr, nullptr);
  heed_version(nullptr, &minor, &patch);
  CHECK(major == HEED_VERSION_MAJOR);
  CHECK(minor == HEED_VERSION_MINOR);
  CHECK(patch == HEED_VERSION_PATCH);
  CHECK(std::string(heed_version_string()) ==
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch));
  heed_version(nullptr, nullptr, nullptr);
}

TEST_CASE("a success leaves the last message alone", "[errors]") {
  forget_last_error();
  const std::string before = heed_last_error();
  REQUIRE_FALSE(before.empty());
  serial();
  CHECK(heed_last_error() == before);
}

TEST_CASE("ISAs are listed from the plainest to the widest", "[lists]") {
  REQUIRE(heed_isa_count() >= 1);
  std::uint32_t lanes = 0;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    CAPTURE(info.name);
    CHECK(info.struct_size == sizeof info);
    CHECK(info.usable <= 1);
    CHECK(info.lanes >= 1);
    CHECK(info.panel >= info.lanes);
    CHECK(info.panel % info.lanes == 0);
    if (i == 0) {
      CHECK(std::string(info.name) == "scalar");
      CHECK(info.usable == 1);
      continue;  // its lanes are not a vector's
    }
    CHECK(info.lanes >= lanes);
    lanes = info.lanes;
  }
}

TEST_CASE("an ISA past the list is refused", "[lists]") {
  for (const std::size_t index : {heed_isa_count(), SIZE_MAX}) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    const heed_isa_info before = info;
    const std::string value = "index is " + std::to_string(index);
    const std::string bound = "less than " + std::to_string(heed_isa_count());
    check_refusal(heed_isa_get(index, &info), HEED_STATUS_INVALID_ARGUMENT,
                  value + "; it must be " + bound);
    CHECK(std::memcmp(&info, &before, sizeof info) == 0);
  }
}

TEST_CASE("executors and products are listed, serial and heed's own first, then NULL", "[lists]") {
  REQUIRE(heed_executor_count() >= 1);
  CHECK(executors()[0] == "serial");
  for (const std::string& name : executors())
    CHECK((name == "serial" || name == "threads" || name == "tbb" || name == "openmp"));
  REQUIRE(heed_product_count() >= 1);
  CHECK(products()[0] == "heed");
  for (const std::size_t behind : {heed_executor_count(), heed_product_count(), SIZE_MAX}) {
    if (behind >= heed_executor_count()) CHECK(heed_executor_name(behind) == nullptr);
    if (behind >= heed_product_count()) CHECK(heed_product_name(behind) == nullptr);
  }
}
