#include "tests/support/contexts.hpp"

#include <cstring>
#include <sstream>

namespace heed_test {

const IsaContexts& plain_contexts() {
  static const IsaContexts all;
  return all;
}

IsaContexts::IsaContexts(const Choices& choices) {
  for (const char* const isa : isa_names()) all_.push_back(make_context(isa, choices));
}

const char* IsaContexts::name(std::size_t i) { return isa_names()[i]; }

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

}  // namespace heed_test
