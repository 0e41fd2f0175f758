// A cache, rows to append to one and attention over one, to be made wrong in one way.
#pragma once

#include "tests/api/bytes.hpp"
#include "tests/api/fields.hpp"

namespace api_test {

using heed_test::Cache;
using heed_test::make_cache;

/// Two layers of two heads, keys of 4 features and values of 6, in three pages of 16 rows.
struct CacheForm {
  CacheForm() {
    desc.layers = 2;
    desc.key_heads = 2;
    desc.features = 4;
    desc.value_features = 6;
    desc.page_rows = 16;
    desc.pages = 3;
    desc.sequences = 3;
  }
  CacheForm(const CacheForm&) = delete;
  CacheForm& operator=(const CacheForm&) = delete;

  void turn() { desc.rotary.pairs = HEED_ROTARY_HALVES; }
  /// Positions 0 to 24.
  void give_tables() {
    turn();
    desc.rotary.cosines = tables;
    desc.rotary.sines = tables;
    desc.rotary.table_rows = 25;
  }

  bool outputs_untouched() const { return !changed; }

  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  float tables[50] = {};
  bool changed = false;  ///< something was made
};

inline Fields fields_of(CacheForm& form) {
  Fields fields;
  heed_cache_desc& d = form.desc;
  return fields.in("desc.")("dtype", d.dtype)("layers", d.layers)("key_heads", d.key_heads)(
      "features", d.features)("value_features", d.value_features)("page_rows", d.page_rows)(
      "pages", d.pages)("sequences", d.sequences)("key_scale", d.key_scale)(
      "value_scale", d.value_scale)("rotary", d.rotary);
}

template <class Check>
void hand_in(CacheForm& form, bool, const Check& check) {
  forget_last_error();
  std::size_t bytes = 77;
  const heed_status told = heed_cache_bytes(&form.desc, &bytes);
  check(told);
  CHECK((bytes == 77) == (told != HEED_STATUS_OK));
  forget_last_error();
  Object made;
  const Context context = serial();
  check(make_object(made, heed_cache_destroy, [&](heed_cache** cache) {
    return heed_cache_create(context.get(), &form.desc, cache);
  }));
  form.changed = made != nullptr;
}

/// A cache with two sequences: of 20 rows and none, and of 5 rows in each layer.
struct FilledCache : CacheForm {
  /// Made after the descriptor is settled.
  void make() { make(context); }
  void make(const Context& in) {
    cache = make_cache(in, desc);
    for (heed_sequence& sequence : sequences)
      REQUIRE(heed_cache_sequence_create(cache.get(), &sequence) == HEED_STATUS_OK);
    fill(sequences[0], 0, 20);
    fill(sequences[1], 0, 5);
    fill(sequences[1], 1, 5);
    before = state();
  }
  void fill(heed_sequence sequence, std::int64_t layer, std::int64_t rows) {
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.layer = layer;
    append.rows = rows;
    REQUIRE(heed_cache_append(cache.get(), sequence, &append, numbers.at(), numbers.at()) ==
            HEED_STATUS_OK);
  }

  /// Pages used and shared, sequences, and the length of every layer.
  std::vector<std::int64_t> state() const {
    const heed_cache_info info = heed_test::describe(cache);
    std::vector<std::int64_t> all = {info.pages_used, info.pages_shared, info.sequences};
    for (const heed_sequence sequence : sequences)
      for (const std::int64_t layer : {0, 1}) {
        std::int64_t length = -1;
        (void)heed_cache_length(cache.get(), sequence, layer, &length);
        all.push_back(length);
      }
    return all;
  }

  const Context context = serial();
  Cache cache;
  heed_sequence sequences[2] = {};
  std::vector<std::int64_t> before;
  Bytes numbers;
};

/// Three rows to append to layer 1 of the first sequence.
struct AppendForm : FilledCache {
  AppendForm() {
    append.layer = 1;
    append.rows = 3;
  }
  void give_positions() {
    turn();
    append.positions = positions;
  }

  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  std::int64_t positions[3] = {0, 7, 7};
  const void* key = numbers.at();
  const void* value = numbers.at();
};

inline Fields fields_of(AppendForm& form) {
  Fields fields;
  heed_cache_append_desc& d = form.append;
  fields.in("desc.")("layer", d.layer)("rows", d.rows)("key", d.key)("value", d.value)(
      "position_offset", d.position_offset)("positions", d.positions)("reserved", d.reserved);
  return fields.in("")("key", form.key)("value", form.value);
}

template <class Check>
void hand_in(AppendForm& form, bool, const Check& check) {
  form.make();
  forget_last_error();
  check(heed_cache_append(form.cache.get(), form.sequences[0], &form.append, form.key, form.value));
  form.changed = form.state() != form.before;
}

/// Three queries of four heads for each of both sequences, of layer 0.
struct CacheAttentionForm : FilledCache {
  CacheAttentionForm() {
    attention.batch = 2;
    attention.query_heads = 4;
    attention.query_length = 3;
    attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    call.attention = &attention;
    call.sequences = sequences;
    args.query = query.at();
    args.out = out.at();
    args.lse = lse.at();
  }
  void give_positions() {
    turn();
    call.positions = positions;
  }
  void pack() {
    attention.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  bool outputs_untouched() const { return out.all_are(kPattern) && lse.all_are(kPattern); }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_cache_attention_desc call = HEED_CACHE_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  std::int64_t positions[6] = {0, 7, 7, 2, 3, 4};
  std::int32_t cu_seqlens_q[3] = {1, 3, 5};
  Bytes query, out{kPattern}, lse{kPattern};
};

inline Fields fields_of(CacheAttentionForm& form) {
  Fields fields;
  heed_cache_attention_desc& d = form.call;
  heed_attention_desc& a = form.attention;
  heed_attention_args& g = form.args;
  fields.in("desc.")("attention", d.attention)("sequences", d.sequences)("layer", d.layer)(
      "position_offset", d.position_offset)("positions", d.positions)("reserved", d.reserved);
  fields.in("desc.attention->")("batch", a.batch)("key_heads", a.key_heads)(
      "key_length", a.key_length)("features", a.features)("value_features", a.value_features)(
      "packed_keys", a.packed_keys)("pages", a.pages)("page_rows", a.page_rows)(
      "block_table_stride", a.block_table_stride)("query.dtype", a.query.dtype)("out.dtype",
                                                                                a.out.dtype);
  fields.in("desc.attention: desc.")("query_heads", a.query_heads)("query", a.query)("out", a.out)(
      "lse", a.lse);
  return fields.in("args.")("query", g.query)("key", g.key)("value", g.value)(
      "key_lengths", g.key_lengths)("cu_seqlens_k", g.cu_seqlens_k)("block_table", g.block_table)(
      "key_scales", g.key_scales)("value_scales", g.value_scales)("out", g.out)("lse", g.lse);
}

template <class Check>
void hand_in(CacheAttentionForm& form, bool, const Check& check) {
  form.make();
  forget_last_error();
  check(heed_cache_attention(form.cache.get(), &form.call, &form.args));
  CHECK(form.state() == form.before);
}

}  // namespace api_test
