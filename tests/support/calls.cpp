#include "tests/support/calls.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

namespace heed_test {

void require_ok(heed_status status) {
  if (status != HEED_STATUS_OK)
    throw std::runtime_error(std::string(heed_status_name(status)) + ": " + heed_last_error());
}

std::string saved(const Cache& cache, heed_sequence sequence) {
  std::size_t bytes = 0;
  require_ok(heed_cache_save_bytes(cache.get(), sequence, &bytes));
  std::vector<char> memory(bytes);  // nothing lies behind it
  require_ok(heed_cache_save(cache.get(), sequence, memory.data(), bytes));
  return {memory.begin(), memory.end()};
}

const std::vector<const char*>& isa_names() {
  static const std::vector<const char*> all =
      [] {  // asking a virtual machine for its CPU takes long
        std::vector<const char*> names;
        for (std::size_t i = 0; i < heed_isa_count(); ++i) {
          heed_isa_info info = HEED_ISA_INFO_INIT;
          require_ok(heed_isa_get(i, &info));
          if (info.usable != 0 && wanted(info.name)) names.push_back(info.name);
        }
        return names;
      }();
  return all;
}

Context make_context(const char* isa, const Choices& choices) {
  auto options = sized<heed_context_options>();
  options.isa = isa;
  options.executor_name = choices.executor;
  options.threads = choices.threads;
  options.tile_q = choices.tile_q;
  options.tile_kv = choices.tile_kv;
  options.product = choices.product != nullptr ? choices.product : heed_product_name(0);
  options.precision = choices.precision;
  return create<heed_context>(&options);
}

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
