// Refusals of caches that are not of every field of a kind: what is refused changes nothing.
#include "tests/api/cache_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

/// As messages name a sequence.
std::string name_of(heed_sequence sequence) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "sequence 0x%llx",
                      static_cast<unsigned long long>(sequence));
  return text;
}

void turn(AppendForm& form) { form.turn(); }
void turn_queries(CacheAttentionForm& form) { form.turn(); }
void give_positions(AppendForm& form) { form.give_positions(); }
void give_query_positions(CacheAttentionForm& form) { form.give_positions(); }

}  // namespace

TEST_CASE("a cache has sizes that make sense", "[refused][cache]") {
  check_refused<CacheForm>(
      {{"desc.dtype", HEED_DTYPE_F64, "must be another than HEED_DTYPE_F64 (2)"},
       {"desc.dtype", 7, "must be a heed_dtype, 0 to 6"},
       {"desc.dtype", 0xffffffffU, "must be a heed_dtype, 0 to 6"},
       {"desc.layers", -1, "must be 0 to 1099511627776"},
       {"desc.layers", kMost + 1, "must be 0 to 1099511627776"},
       {"desc.key_heads", 0, "must be 1 to 1099511627776"},
       {"desc.features", 0, "must be 1 to 1099511627776"},
       {"desc.value_features", -1, "must be 0 to 1099511627776"},
       {"desc.page_rows", -16, "must be 16 to 1099511627776"},
       {"desc.page_rows", 15, "must be 16 to 1099511627776"},
       {"desc.page_rows", 17, "must be a multiple of 16"},
       {"desc.pages", 0, "must be 1 to 1099511627776"},
       {"desc.pages", INT64_MIN, "must be 1 to 1099511627776"},
       {"desc.pages", std::int64_t{1} << 31, "must be at most 2147483647"},
       {"desc.sequences", -1, "must be 0 to 1099511627776"},
       {"desc.sequences", (1 << 20) + 1, "must be at most 1048576"},
       {[](CacheForm& form) {
          form.desc.features = kMost;
          form.desc.pages = 1 << 20;
        },
        "desc.layers is 2, desc.key_heads is 2, desc.features is 1099511627776, "
        "desc.value_features is 6, desc.page_rows is 16, desc.pages is 1048576, desc.sequences is "
        "3; the cache overflows an address"},
       {[](CacheForm& form) { form.desc.layers = form.desc.key_heads = kMost; },
        "desc.layers is 1099511627776 ... overflows an address"},
       {[](CacheForm& form) {
          form.desc.layers = kMost;
          form.desc.sequences = 1 << 20;
        },
        "desc.layers is 1099511627776 ... overflows an address"},
       {"desc.key_scale", 0.5, "must be 0 unless dtype is HEED_DTYPE_F8_E4M3 (6)"},
       {"desc.value_scale", kNan, "must be 0 unless dtype is HEED_DTYPE_F8_E4M3 (6)"},
       {"desc.rotary.pairs", 3, "must be a heed_rotary_pairs, 0 to 2"},
       {"desc.rotary.features", 2, "must be 0 with HEED_ROTARY_NONE"}});
  check_accepted<CacheForm>(with("desc.sequences", 1 << 20));
  const char* const scales = "must be 1.17549e-38 to 3.40282e+38, or 0 for the default 1";
  check_refused<CacheForm>(with("desc.dtype", HEED_DTYPE_F8_E4M3),
                           {{"desc.key_scale", -0.5, scales},
                            {"desc.key_scale", 1e-39, scales},
                            {"desc.value_scale", 1e39, scales},
                            {"desc.value_scale", kNan, scales},
                            {"desc.value_scale", kInfinity, scales}});
  check_refused<CacheForm>([](CacheForm& form) { form.turn(); },
                           {{"desc.rotary.features", 6, "must be even, 0 to 4"},
                            {with("desc.features", 3),
                             "desc.rotary.features is 0, for all 3 of a row; that must be even"}});
}

TEST_CASE("rows to append", "[refused][cache]") {
  const char* const types =
      "must be 0, HEED_DTYPE_F32 (1), HEED_DTYPE_BF16 (3) or HEED_DTYPE_F16 (4)";
  std::vector<Refusal<AppendForm>> rows = {
      {"desc.layer", -1, "must be 0 to 1, for the cache's layers"},
      {"desc.layer", 2, "must be 0 to 1, for the cache's layers"},
      {"desc.rows", -1, "must be 0 to 1099511627776"},
      {"desc.rows", kMost + 1, "must be 0 to 1099511627776"},
      {"desc.reserved", 1, "must be 0"},
      {"desc.position_offset", 1, "must be 0 without rotary embedding"},
      {"desc.positions", kGiven, "must be NULL: the cache has no rotary embedding"},
      {"desc.key.reserved", 2, "must be 0 or HEED_STRIDES_EXPLICIT (1)"},
      {"key", kNull, "its tensor has elements"},
      {"value", kNull, "its tensor has elements"},
      {"key", moved(2), "must be a multiple of 4"},
      {"value", moved(1), "must be a multiple of 4"},
      {[](AppendForm& form) { form.append.key = {0, 0, 0, 4, INT64_MAX / 4, 1}; },
       "desc.key steps 2 times by a stride of 2305843009213693951 elements; that overflows"}};
  for (const char* const field : {"desc.key.dtype", "desc.value.dtype"})
    for (const std::uint32_t dtype : {2U, 5U, 6U, 7U, 0xffffffffU})
      rows.emplace_back(field, dtype, types);
  check_refused<AppendForm>(rows);
  check_refused<AppendForm>([](AppendForm& form) { form.append.key.dtype = HEED_DTYPE_F16; },
                            {{"key", moved(1), "must be a multiple of 2"},
                             {"value", moved(2), "must be a multiple of 4"}});
}

TEST_CASE("more rows than lengths can count are refused", "[refused][cache]") {
  check_refused<AppendForm>(
      [](AppendForm& form) {
        form.append.key.reserved = form.append.value.reserved = HEED_STRIDES_EXPLICIT;
        form.append.layer = 0;
      },
      {{with("desc.rows", INT32_MAX - 19),
        "desc.rows is 2147483628; with the 20 that the sequence has, it must be at most "
        "2147483647"},
       {with("desc.rows", INT32_MAX - 20),
        "2147483627 more rows take 134217726 pages; of the cache's 3 0 are free",
        HEED_STATUS_OUT_OF_MEMORY}});
}

TEST_CASE("rows to append without elements need no pointers, but a sequence", "[cache]") {
  AppendForm form;
  form.append.rows = 0;
  form.key = form.value = nullptr;
  hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
  CHECK_FALSE(form.changed);
  forget_last_error();
  check_refusal(heed_cache_append(form.cache.get(), 1, &form.append, nullptr, nullptr),
                HEED_STATUS_INVALID_ARGUMENT, "sequence 0x1 is none of this cache's");
}

TEST_CASE("where rows to append stand", "[refused][cache]") {
  check_refused<AppendForm>(
      turn,
      {{"desc.position_offset", -1, "rows that lie at 0 to 2 must stand at 0 to 1099511627776"},
       {"desc.position_offset", kMost - 1, "rows that lie at 0 to 2 must stand at 0 to"},
       {"desc.position_offset", INT64_MAX, "rows that lie at 0 to 2 must stand at 0 to"}});
  check_refused<AppendForm>(give_positions,
                            {{"desc.position_offset", 1, "must be 0 with desc.positions"},
                             {"desc.positions", moved(4), "must be a multiple of 8"},
                             {[](AppendForm& form) { form.positions[2] = -1; },
                              "desc.positions[2] is -1; it must be 0 to 1099511627776"}});
  check_refused<AppendForm>(
      [](AppendForm& form) { form.give_tables(); },
      {{"desc.position_offset", 23, "rows that lie at 0 to 2 must stand at 0 to 24"}});
  check_refused<AppendForm>(
      [](AppendForm& form) { form.give_tables(), form.give_positions(); },
      {{[](AppendForm& form) { form.positions[0] = 25; },
        "desc.positions[0] is 25; it must be 0 to 24, which the tables have"}});
  check_accepted<AppendForm>([](AppendForm& form) {
    form.give_tables();
    form.append.position_offset = 22;
  });
}

TEST_CASE("attention over a cache: what it knows itself is refused", "[refused][cache]") {
  std::vector<Refusal<CacheAttentionForm>> rows;
  for (const char* const field : {"key_heads", "features", "value_features", "packed_keys", "pages",
                                  "page_rows", "block_table_stride"})
    rows.emplace_back(std::string("desc.attention->") + field, 2, "must be 0: the cache knows it");
  for (heed_layout heed_attention_desc::*const layout :
       {&heed_attention_desc::key, &heed_attention_desc::value, &heed_attention_desc::key_scales,
        &heed_attention_desc::value_scales})
    rows.emplace_back([=](CacheAttentionForm& form) { (form.attention.*layout).stride_row = 1; },
                      "desc.attention-> ... is set; it must be 0: the cache knows it");
  for (const char* const field :
       {"key", "value", "key_lengths", "cu_seqlens_k", "block_table", "key_scales", "value_scales"})
    rows.emplace_back(std::string("args.") + field, kGiven, "must be NULL: it is the cache's");
  check_refused<CacheAttentionForm>(rows);
}

TEST_CASE("attention over a cache", "[refused][cache]") {
  check_refused<CacheAttentionForm>(
      {{"desc.layer", 2, "must be 0 to 1, for the cache's layers"},
       {"desc.reserved", 1, "must be 0"},
       {with("desc.attention", kNull), "desc.attention is NULL"},
       {with("desc.sequences", kNull), "desc.sequences is NULL; desc.attention->batch is 2"},
       {"desc.sequences", moved(4), "must be a multiple of 8"},
       {"desc.attention->batch", -1, "must be 0 to 1099511627776"},
       {"desc.attention->key_length", -1, "must be 0 to 1099511627776"},
       {"desc.attention->key_length", 19,
        "must be 0 or at least 20, the rows of desc.sequences[0]"},
       {"desc.attention->query.dtype", HEED_DTYPE_F64,
        "must be another than HEED_DTYPE_F64 (2): the cache's keys are float32 at most"},
       {"desc.attention->out.dtype", HEED_DTYPE_F64,
        "must be another than HEED_DTYPE_F64 (2): the cache's keys are float32 at most"},
       {"desc.attention: desc.query_heads", 3, "must be a multiple of desc.key_heads, 2"},
       {"desc.attention: desc.query.dtype", 9, "must be a heed_dtype, 0 to 4"},
       {"desc.position_offset", 1, "must be 0 without rotary embedding"},
       {"desc.positions", kGiven, "must be NULL: the cache has no rotary embedding"},
       {"args.query", kNull, "its tensor has elements"},
       {"args.out", moved(2), "must be a multiple of 4"}});
  check_accepted<CacheAttentionForm>(with("desc.attention->key_length", 20));
  check_accepted<CacheAttentionForm>(with("desc.attention->key_length", 1000));
  check_accepted<CacheAttentionForm>([](CacheAttentionForm& form) { form.pack(); });
  CacheAttentionForm none;
  none.attention.batch = 0;
  none.call.sequences = nullptr;
  none.args.query = nullptr, none.args.out = none.args.lse = nullptr;
  hand_in(none, true, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
}

TEST_CASE("where queries over a cache stand", "[refused][cache]") {
  check_refused<CacheAttentionForm>(
      turn_queries,
      {{"desc.position_offset", -3, "rows that lie at 2 to 4 must stand at 0 to 1099511627776"},
       {"desc.position_offset", kMost - 18, "rows that lie at 17 to 19 must stand at 0 to"},
       {"args.query", kNull, "its tensor has elements"},
       {"args.query", moved(2), "must be a multiple of 4"}});
  check_refused<CacheAttentionForm>(
      give_query_positions,
      {{"desc.positions", moved(4), "must be a multiple of 8"},
       {"desc.position_offset", 1, "must be 0 with desc.positions"},
       {[](CacheAttentionForm& form) { form.positions[5] = kMost + 1; },
        "desc.positions[5] is 1099511627777; it must be 0 to 1099511627776"}});
  const auto packed = [](CacheAttentionForm& form) { form.give_positions(), form.pack(); };
  check_refused<CacheAttentionForm>(packed,
                                    {{[](CacheAttentionForm& form) { form.positions[1] = -1; },
                                      "desc.positions[1] is -1; it must be 0 to"},
                                     {[](CacheAttentionForm& form) { form.cu_seqlens_q[1] = 7; },
                                      "args.cu_seqlens_q[1] is 7; it must be 1 to 6"}});
  check_accepted<CacheAttentionForm>([&](CacheAttentionForm& form) {
    packed(form);
    form.positions[0] = form.positions[5] = -1;  // of no sequence's rows
  });
}

TEST_CASE("sequences that are none of the cache's are refused", "[refused][cache]") {
  FilledCache form, other;
  form.make();
  other.make();
  heed_sequence freed = 0;
  REQUIRE(heed_cache_sequence_create(form.cache.get(), &freed) == HEED_STATUS_OK);
  REQUIRE(heed_cache_free(form.cache.get(), freed) == HEED_STATUS_OK);
  heed_sequence again = 0;
  REQUIRE(heed_cache_sequence_create(form.cache.get(), &again) == HEED_STATUS_OK);
  CHECK(again != freed);
  CHECK(again % (1 << 20) == freed % (1 << 20));  // in its place
  form.before = form.state();
  heed_cache* const cache = form.cache.get();
  for (const heed_sequence wrong : {heed_sequence{0}, freed, other.sequences[0], heed_sequence{1},
                                    form.sequences[0] + 7, UINT64_MAX}) {
    const std::string words =
        name_of(wrong) + " is none of this cache's: it was freed, or belongs to another";
    const auto check = [&](heed_status status, const std::string& before = "") {
      check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, before + words);
      forget_last_error();
    };
    forget_last_error();
    check(heed_cache_free(cache, wrong));
    check(heed_cache_truncate(cache, wrong, 0));
    heed_sequence fork = 77;
    check(heed_cache_fork(cache, wrong, &fork));
    CHECK(fork == 77);
    std::int64_t length = 77;
    check(heed_cache_length(cache, wrong, 0, &length));
    CHECK(length == 77);
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.rows = 1;
    check(heed_cache_append(cache, wrong, &append, form.numbers.at(), form.numbers.at()));
    CacheAttentionForm attention;
    const heed_sequence listed[] = {form.sequences[1], wrong};
    attention.call.sequences = listed;
    check(heed_cache_attention(cache, &attention.call, &attention.args), "desc.sequences[1]: ");
    CHECK(attention.outputs_untouched());
  }
  CHECK(form.state() == form.before);
  // Nor has the one that was listed before it stayed in use.
  CHECK(heed_cache_truncate(cache, form.sequences[1], 4) == HEED_STATUS_OK);
}

TEST_CASE("a truncation keeps rows that all layers have", "[refused][cache]") {
  FilledCache form;
  form.make();
  heed_cache* const cache = form.cache.get();
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
    forget_last_error();
    check_refusal(
        heed_cache_truncate(cache, form.sequences[0], length), HEED_STATUS_INVALID_ARGUMENT,
        "length is " + std::to_string(length) + "; it must be 0 to 0, the rows of layer 1");
  }
  forget_last_error();
  check_refusal(heed_cache_truncate(cache, form.sequences[1], 6), HEED_STATUS_INVALID_ARGUMENT,
                "length is 6; it must be 0 to 5, the rows of layer 0");
  forget_last_error();
  std::int64_t length = 77;
  check_refusal(heed_cache_length(cache, form.sequences[1], 2, &length),
                HEED_STATUS_INVALID_ARGUMENT, "layer is 2; it must be 0 to 1");
  CHECK(length == 77);
  CHECK(form.state() == form.before);
}

TEST_CASE("a full cache says how many pages are wanted and free, and stays as it is",
          "[refused][cache]") {
  FilledCache form;
  form.make();  // in two pages and one
  heed_cache* const cache = form.cache.get();
  heed_sequence fork = 77;
  REQUIRE(heed_cache_truncate(cache, form.sequences[0], 0) == HEED_STATUS_OK);
  REQUIRE(heed_cache_fork(cache, form.sequences[1], &fork) == HEED_STATUS_OK);
  form.before = form.state();
  const auto refused = [&](heed_sequence sequence, std::int64_t rows, const char* words) {
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.rows = rows;
    forget_last_error();
    check_refusal(heed_cache_append(cache, sequence, &append, form.numbers.at(), form.numbers.at()),
                  HEED_STATUS_OUT_OF_MEMORY, words);
    CHECK(form.state() == form.before);
  };
  refused(form.sequences[0], 33, "33 more rows take 3 pages; of the cache's 3 2 are free");
  refused(fork, 28, "28 more rows take 3 pages; of the cache's 3 2 are free");  // with a copy
  heed_sequence third = 77;
  forget_last_error();
  check_refusal(heed_cache_fork(cache, fork, &third), HEED_STATUS_OUT_OF_MEMORY,
                "the cache has 3 sequences, as many as its desc.sequences allows");
  check_refusal(heed_cache_sequence_create(cache, &third), HEED_STATUS_OUT_OF_MEMORY,
                "the cache has 3 sequences, as many as its desc.sequences allows");
  CHECK(third == 77);
  CHECK(form.state() == form.before);
}
