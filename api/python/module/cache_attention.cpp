// Cache.attention.
#include <algorithm>

#include "api/python/module/cache.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/numbers.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {
namespace {

/// The sequences of a call, held for its time.
struct Readers {
  std::vector<nb::object> held;
  std::vector<heed_sequence> names;

  void add(const std::string& name, nb::handle from, nb::handle cache) {
    if (!nb::isinstance<Sequence>(from))
      refuse_type("%s must be a heed.Sequence, not %s", name.c_str(), type_text(from).c_str());
    const Sequence& sequence = *nb::inst_ptr<Sequence>(from);
    if (!sequence.holder().is(cache)) refuse("%s is of another cache", name.c_str());
    if (!sequence.alive()) refuse("%s was freed", name.c_str());
    held.push_back(nb::borrow(from));
    names.push_back(sequence.name());
  }

  Readers(nb::handle from, nb::handle cache) {
    if (nb::isinstance<Sequence>(from)) {
      add("sequences", from, cache);
      return;
    }
    if (PySequence_Check(from.ptr()) == 0 || nb::isinstance<nb::str>(from))
      refuse_type("sequences must be a heed.Sequence, or a list of them, not %s",
                  type_text(from).c_str());
    for (nb::handle one : nb::list(nb::borrow(from)))
      add("sequences[" + std::to_string(names.size()) + "]", one, cache);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(names.size()); }

  std::int64_t longest(const Cache& cache, std::int64_t layer) const {
    std::int64_t most = 0;
    for (const heed_sequence name : names) {
      std::int64_t length = 0;
      check(heed_cache_length(cache.get(), name, layer, &length));
      most = std::max(most, length);
    }
    return most;
  }
};

/// The cache knows what keys are.
Options own_options(const nb::dict& given) {
  Options options = read_options("Cache.attention", given);
  for (const auto& [name, option] :
       {std::pair{"key_lengths", options.key_lengths},
        std::pair{"cu_seqlens_k", options.cu_seqlens_k},
        std::pair{"block_table", options.block_table}, std::pair{"key_scales", options.key_scales},
        std::pair{"value_scales", options.value_scales}})
    if (option.is_valid()) refuse_type("%s is given; the cache knows its keys and values", name);
  return options;
}

void set_keys(Call& call, const Cache& cache, std::int64_t longest, nb::handle max_seqlen_k) {
  heed_attention_desc& desc = call.desc;
  desc.key_heads = cache.desc().key_heads;
  desc.value_features = cache.value_features();
  desc.key_length = longest;
  if (max_seqlen_k.is_valid()) {
    desc.key_length = integer("max_seqlen_k", max_seqlen_k);
    if (desc.key_length < longest)
      refuse("max_seqlen_k is %lld; the longest of sequences has %lld rows",
             static_cast<long long>(desc.key_length), static_cast<long long>(longest));
  }
  if (desc.features != cache.desc().features)
    refuse("query is %s; it must have %lld features, as the cache's keys",
           text(call.query.form).c_str(), static_cast<long long>(cache.desc().features));
  if (desc.query_heads % desc.key_heads != 0)
    refuse(
        "query has %lld heads and the cache %lld; each must serve the same number of query heads",
        static_cast<long long>(desc.query_heads), static_cast<long long>(desc.key_heads));
}

}  // namespace

nb::object cache_attention(const nb::pointer_and_handle<Cache>& self, nb::handle sequences,
                           nb::handle query, nb::handle layer, nb::handle positions,
                           nb::handle position_offset, nb::handle out, const nb::dict& given) {
  const Cache& cache = *self.p;
  Options options = own_options(given);
  const nb::handle max_seqlen_k = std::exchange(options.max_seqlen_k, nb::handle());
  const Readers readers(sequences, self.h);
  Call call;
  set_batch(call, "sequences", readers.count());
  read_lengths(call, options);
  read_query(call, query, options);
  if (call.float64)
    refuse(
        "query is float64; it must be float32, float16 or bfloat16, as caches hold float32 at "
        "most");
  call.axes = call.packed_queries() ? 3 : readers.count() == 1 ? call.query.form.axes : 4;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.layer = cache.layer(layer);
  set_keys(call, cache, readers.longest(cache, desc.layer), max_seqlen_k);
  read_scores(call, options);
  const Outputs outputs = make_outputs(call, options, out.is_none() ? nb::handle() : out);
  const Vector<std::int64_t> places = cache.read_places(
      positions, position_offset, call.packed_queries() ? 1 : call.desc.batch, call.rows);
  const double flops = flops_of(call.desc);
  call.desc.key_heads = call.desc.features = call.desc.value_features = 0;
  desc.attention = &call.desc;
  desc.sequences = readers.names.data();
  desc.positions = places.data;
  desc.position_offset = integer("position_offset", position_offset);
  check(without_gil(flops, call.score_function,
                    [&] { return heed_cache_attention(cache.get(), &desc, &call.args); }));
  call.score_function.raise();
  return outputs.result(call.kind, call.out_given, query);
}

}  // namespace heed::python
