#include "tests/support/contexts.hpp"

#include <cmath>
#include <cstring>
#include <sstream>

namespace heed_test {

const Context& Contexts::get(const char* isa, const Choices& choices) {
  std::ostringstream key;
  key << isa << choices.executor << choices.threads << "," << choices.precision << ","
      << choices.tile_q << "," << choices.tile_kv
      << (choices.product == nullptr ? "" : choices.product);
  Context& context = all_[key.str()];
  if (!context) context = make_context(isa, choices);
  return context;
}

Choices draw_choices(Random& random) {
  Choices choices;
  choices.executor =
      heed_executor_name(static_cast<std::size_t>(random.bits() % heed_executor_count()));
  choices.threads = std::strcmp(choices.executor, "serial") == 0 ? 1 : 2;
  choices.tile_q = random.pick<std::uint32_t>({0, 1, 50, 1000});
  choices.tile_kv = random.pick<std::uint32_t>({0, 1, 100, 1000});
  return choices;
}

void Coverage::add(const std::vector<Element>& want) {
  elements += want.size();
  for (const Element& e : want) unspecified += std::isinf(e.bound) ? 1 : 0;
}

bool same_bits(const Outputs& a, const Outputs& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.weights, b.weights) &&
         same_bits(a.column_sums, b.column_sums);
}

}  // namespace heed_test
