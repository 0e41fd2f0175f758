// The tables themselves: complete, and of sizes that the engine can rely on.
#include "tests/kernels/support.hpp"

#if defined(HEED_CHECKS_CONTRACTS)
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

using namespace heed_test;

TEMPLATE_TEST_CASE("every kernel is in every table; a full panel fits, and a key block is padded",
                   "[table]", float, double) {
  CHECK(same_bits(heed::kNoRowMax<TestType>, -kMax<TestType>));
  for_each_table<TestType>([](const Table<TestType>& kernels) {
#define HEED_PANEL_KERNEL(result, name, parameters) CHECK(kernels.panels.name != nullptr);
#define HEED_PACK_KERNEL(result, name, parameters) CHECK(kernels.panels.name != nullptr);
#define HEED_ROW_KERNEL(result, name, parameters) CHECK(kernels.rows.name != nullptr);
#define HEED_NUMBER_KERNEL(result, name, parameters) CHECK(kernels.numbers.name != nullptr);
#include "engine/kernels/list.hpp"
    CHECK(kernels.panels.lanes >= 1);
    CHECK(kernels.panels.lanes * sizeof(TestType) <= heed::kAlignment);
    CHECK(kernels.panels.max_vectors == 3);  // what the sweeps of these tests go up to
    CHECK(kernels.panels.max_vectors == heed::kMaxVectors);
    CHECK(kernels.panels.lanes * kernels.panels.max_vectors <= heed::kMaxPanel);
    CHECK(kernels.panels.key_block > 0);
    CHECK(kernels.panels.key_block % heed::PanelGeometry::row_padding == 0);
  });
}

TEST_CASE("products of pairs are complete, and have pairs", "[table]") {
  for (const heed::Kernels* const kernels : usable_kernels()) {
    CHECK(std::string(kernels->f32.isa) == kernels->f64.isa);
    CHECK((kernels->f64.pairs == nullptr && kernels->f64.row_pairs == nullptr));
    CHECK(kernels->f32.panels.depth == 1);
    const heed::ProductKernels<float>* const pairs = kernels->f32.pairs;
    const heed::RowProducts<float>* const row_pairs = kernels->f32.row_pairs;
    const std::string isa = kernels->f32.isa;
    CHECK((pairs != nullptr) == (isa == "avx512bf16" || isa == "amx" || isa == "neonbf16"));
    CHECK((row_pairs != nullptr) == (pairs != nullptr && isa != "neonbf16"));
    if (pairs == nullptr) continue;
    CHECK(pairs->depth == (isa == "amx" ? 32 : 2));
    CHECK(pairs->key_block % pairs->depth == 0);
    CHECK(pairs->key_block % kernels->f32.panels.key_block == 0);
    CHECK((pairs->begin == nullptr) == (pairs->end == nullptr));
    CHECK((pairs->begin != nullptr) == (isa == "amx"));
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) CHECK(pairs->name != nullptr);
#define HEED_PACK_KERNEL(result, name, parameters) CHECK(pairs->name != nullptr);
#define HEED_ROW_KERNEL(result, name, parameters)
#define HEED_ROW_PRODUCT(result, name, parameters) \
  CHECK((row_pairs == nullptr || row_pairs->name != nullptr));
#include "engine/kernels/list.hpp"
  }
}

TEST_CASE("products of parts are those of amx", "[table]") {
  for (const heed::Kernels* const kernels : usable_kernels()) {
    const heed::KernelTable<float>& table = kernels->f32;
    const heed::PartKernels<float>& parts = table.by_parts;
    CHECK((kernels->f64.by_parts.two == nullptr && kernels->f64.by_parts.exact_one == nullptr));
    CHECK(table.panels.parts == 1);
    CHECK((parts.two != nullptr) == (std::string(table.isa) == "amx"));
    CHECK((parts.exact_one != nullptr) == (parts.two != nullptr));
    if (parts.two == nullptr) continue;
    CHECK((table.pairs->parts == 1 && table.pairs->split_rows == nullptr));
    CHECK((parts.two->parts == 2 && parts.exact_one->parts == 1));
    for (const heed::ProductKernels<float>* const products : {parts.two, parts.exact_one}) {
      CHECK(products->depth == table.pairs->depth);
      CHECK(products->key_block % table.panels.key_block == 0);
      CHECK((products->begin == table.pairs->begin && products->end == table.pairs->end));
      CHECK((products->split_rows != nullptr) == (products->parts > 1));
#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL(result, name, parameters) CHECK(products->name != nullptr);
#define HEED_PACK_KERNEL(result, name, parameters) CHECK(products->name != nullptr);
#include "engine/kernels/list.hpp"
    }
  }
}

TEST_CASE("pairs are chosen where they are faster, and nowhere else", "[table]") {
  const auto fast = [](const char* name) {
    heed::CpuName cpu = {};
    std::strncpy(cpu.text, name, sizeof cpu.text - 1);
    return heed::has_fast_pairs(cpu);
  };
  CHECK(fast("AuthenticAMD-25-17-1"));  // Zen 4
  CHECK(fast("AuthenticAMD-25-97-2"));
  CHECK(fast("AuthenticAMD-26-2-1"));          // Zen 5
  CHECK_FALSE(fast("AuthenticAMD-23-49-0"));   // Zen 2, which has none
  CHECK_FALSE(fast("GenuineIntel-6-143-8"));   // Sapphire Rapids
  CHECK_FALSE(fast("GenuineIntel-6-85-11"));   // Cooper Lake
  CHECK_FALSE(fast("GenuineIntel-25-143-8"));  // nobody's
  CHECK_FALSE(fast("HygonGenuine-24-1-1"));
  CHECK_FALSE(fast("AuthenticAMD-"));
  CHECK_FALSE(fast("AuthenticAMD"));
  CHECK_FALSE(fast("unknown"));
  CHECK_FALSE(fast(""));
}

#if defined(HEED_CHECKS_CONTRACTS)
TEST_CASE("a kernel whose caller breaks its contract says so and ends", "[table]") {
  for (const heed::Kernels* const kernels : usable_kernels()) {
    INFO(kernels->f32.isa);
    const pid_t child = fork();
    if (child == 0) {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDERR_FILENO);
      std::signal(SIGABRT, SIG_DFL);
      const float numbers[2] = {};
      kernels->f32.numbers.all_finite(numbers, 1);  // no whole vector
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  }
}
#endif
