// A cache, rows to append to one and attention over one, to be made wrong in one way.
#pragma once

#include "tests/api/forms.hpp"

namespace api_test {

using heed_test::Cache;
using heed_test::make_cache;

struct CacheForm;
struct AppendForm;
struct CacheAttentionForm;
std::vector<Tensor> tensors_of(CacheForm& form);
std::vector<Tensor> tensors_of(AppendForm& form);
std::vector<Tensor> tensors_of(CacheAttentionForm& form);

/// Two layers of two heads, keys of 4 features and values of 6, in three pages of 16 rows.
struct CacheForm : AnyForm<CacheForm, heed_cache_desc> {
  CacheForm() {
    desc.layers = 2;
    desc.key_heads = 2;
    desc.features = 4;
    desc.value_features = 6;
    desc.page_rows = 16;
    desc.pages = 3;
    desc.sequences = 3;
  }

  void turn() { desc.rotary.pairs = HEED_ROTARY_HALVES; }
  /// Positions 0 to 24.
  void give_tables() {
    turn();
    desc.rotary.cosines = tables;
    desc.rotary.sines = tables;
    desc.rotary.table_rows = 25;
  }

  bool outputs_untouched() const { return !changed; }
  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 dtype/4 layers key_heads features value_features page_rows pages "
                 "sequences key_scale/f value_scale/f rotary/R",
                 given_desc)};
  }

  float tables[50] = {};
  bool changed = false;  ///< something was made
};

/// What the cache takes, and the cache; both are refused alike.
inline heed_status one_call(const Context& context, CacheForm& form) {
  std::size_t bytes = 77;
  forget_last_error();
  const heed_status told = heed_cache_bytes(form.given_desc, &bytes);
  const std::string said = heed_last_error();
  forget_last_error();
  Object made;
  const heed_status status = make_object(made, heed_cache_destroy, [&](heed_cache** cache) {
    return heed_cache_create(context.get(), form.given_desc, cache);
  });
  form.changed = made != nullptr;
  const bool alike =
      told == status && said == heed_last_error() && (bytes == 77) == (status != HEED_STATUS_OK);
  return alike ? status : HEED_STATUS_INTERNAL;
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
    give_all_but(*this, {});
  }
  void give_positions() {
    turn();
    append.positions = positions;
  }
  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 reserved/4 layer rows key/L value/L position_offset positions/p",
                 given_append)};
  }
  void add_to(Fields& fields) { fields("key", key)("value", value); }

  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  const heed_cache_append_desc* given_append = &append;
  std::int64_t positions[3] = {0, 7, 7};
  Bytes key_rows, value_rows;
  const void* key = nullptr;
  const void* value = nullptr;
};

inline heed_status one_call(const Context& context, AppendForm& form) {
  form.make(context);
  forget_last_error();
  const heed_status status = heed_cache_append(form.cache.get(), form.sequences[0],
                                               form.given_append, form.key, form.value);
  form.changed = form.state() != form.before;
  return status;
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
    give_all_but(*this, {});
  }
  void give_positions() {
    turn();
    call.positions = positions;
  }
  void pack() {
    attention.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  bool outputs_untouched() const { return untouched_outputs(*this); }
  std::vector<Slot> slots() {
    return {
        slot("desc", "desc.",
             "struct_size/4 reserved/4 attention/p sequences/p layer position_offset positions/p",
             given_call),
        slot("args", "args.", kAttentionArgs, given_args),
        slot("desc.attention", "desc.attention: desc.", kAttentionDesc, call.attention)};
  }
  /// What the cache checks itself, it names otherwise.
  void add_to(Fields& fields) {
    fields.in("desc.attention->").all_of(kAttentionDesc, &attention, false);
  }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_cache_attention_desc call = HEED_CACHE_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  const heed_cache_attention_desc* given_call = &call;
  const heed_attention_args* given_args = &args;
  std::int64_t positions[6] = {0, 7, 7, 2, 3, 4};
  std::int32_t cu_seqlens_q[3] = {1, 3, 5};
  Bytes query, out, lse;
};

inline heed_status one_call(const Context& context, CacheAttentionForm& form) {
  form.make(context);
  forget_last_error();
  const heed_status status =
      heed_cache_attention(form.cache.get(), form.given_call, form.given_args);
  CHECK(form.state() == form.before);
  return status;
}

}  // namespace api_test
