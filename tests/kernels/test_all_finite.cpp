// all_finite: whether none of the numbers is infinite or NaN.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("one infinity or NaN is found wherever it is", "[all_finite]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const std::size_t vectors : {0U, 1U, 2U, 3U, 4U, 5U, 8U, 11U}) {
      const std::size_t count = vectors * kernels.panels.lanes;
      BasicBuffer<TestType> numbers(count);
      numbers.fill([i = 0]() mutable { return ++i % 2 == 0 ? kMax<TestType> : -kMax<TestType>; });
      CHECK(kernels.numbers.all_finite(numbers.data(), count));
      for (std::size_t at = 0; at < count; ++at) {
        const TestType before = numbers[at];
        for (const TestType special : {kInf<TestType>, -kInf<TestType>, not_a_number<TestType>()}) {
          INFO(count << " numbers, " << special << " at " << at);
          numbers[at] = special;
          CHECK(!kernels.numbers.all_finite(numbers.data(), count));
        }
        numbers[at] = before;
      }
      CHECK(numbers.intact());
    }
  });
}
