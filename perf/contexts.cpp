#include "perf/contexts.hpp"

namespace heed::perf {

Context make_context(const Options& options, const std::string& isa, unsigned threads) {
  heed_context_options wanted = HEED_CONTEXT_OPTIONS_INIT;
  wanted.threads = threads;
  wanted.isa = isa.empty() ? nullptr : isa.c_str();
  wanted.executor_name = options.executor.empty() ? nullptr : options.executor.c_str();
  wanted.tile_q = options.tile_q;
  wanted.tile_kv = options.tile_kv;
  wanted.product = options.product.empty() ? nullptr : options.product.c_str();
  return std::make_shared<const oracle::Context>(oracle::create<heed_context>(&wanted));
}

heed_context_info describe(const Context& context) { return oracle::describe(*context); }

unsigned automatic_threads() { return describe(make_context({}, {}, 0)).threads; }

}  // namespace heed::perf
