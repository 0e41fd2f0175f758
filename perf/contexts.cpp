#include "perf/contexts.hpp"

#include <stdexcept>

namespace heed::perf {

void check(heed_status status) {
  if (status != HEED_STATUS_OK) throw std::runtime_error(heed_last_error());
}

Context make_context(const Options& options, const std::string& isa, unsigned threads) {
  heed_context_options wanted = HEED_CONTEXT_OPTIONS_INIT;
  wanted.threads = threads;
  wanted.isa = isa.empty() ? nullptr : isa.c_str();
  wanted.executor_name = options.executor.empty() ? nullptr : options.executor.c_str();
  wanted.tile_q = options.tile_q;
  wanted.tile_kv = options.tile_kv;
  wanted.product = options.product.empty() ? nullptr : options.product.c_str();
  return made(heed_context_create, heed_context_destroy, &wanted);
}

heed_context_info describe(const Context& context) {
  return described(heed_context_describe, context.get(), HEED_CONTEXT_INFO_INIT);
}

unsigned automatic_threads() { return describe(make_context({}, {}, 0)).threads; }

}  // namespace heed::perf
