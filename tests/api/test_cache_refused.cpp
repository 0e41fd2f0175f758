// Refusals of caches that are not of every field of a kind, and saved sequences that are foreign,
// truncated or altered: what is refused changes nothing.
#include <cstring>

#include "tests/api/caches.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void refused(heed_status status, const std::string& words,
             heed_status as = HEED_STATUS_INVALID_ARGUMENT) {
  check_refusal(status, as, words);
  forget_last_error();
}

}  // namespace

TEST_CASE("a cache has sizes that make sense", "[refused][cache]") {
  check_refused("cache", R"(
    desc.layers | desc.value_features | desc.sequences = -1 | least | -2^40 | 2^40+1 | most
      => must be 0 to 2^40
    desc.key_heads | desc.features | desc.pages = -1 | 0 | least | 2^40+1 | most
      => must be 1 to 2^40
    desc.dtype = 7 | 99 | 4294967295 => must be a heed_dtype, 0 to 6
    desc.rotary.pairs = 3 | 99 | 4294967295 => must be a heed_rotary_pairs, 0 to 2
    desc.dtype = f64 => must be another than HEED_DTYPE_F64 (2): the arithmetic is float32
    desc.page_rows = -16 | 15 => must be 16 to 2^40
    desc.page_rows = 17 => must be a multiple of 16
    desc.pages = 2^31 => must be at most 2147483647
    desc.sequences = 1048577 => must be at most 1048576
    desc.sequences = 1048576 => ok
    desc.pages = 2^20, desc.features = 2^40
      => desc.layers is 2, desc.key_heads is 2, desc.features is 1099511627776, desc.value_features
      is 6, desc.page_rows is 16, desc.pages is 1048576, desc.sequences is 3; the cache overflows an
      address
    desc.layers desc.key_heads = 2^40
      => desc.layers is 1099511627776 ... overflows an address
    desc.sequences = 2^20, desc.layers = 2^40
      => desc.layers is 1099511627776 ... overflows an address
    desc.key_scale = 0.5 => with desc.dtype 1; it must be 0 unless dtype is HEED_DTYPE_F8_E4M3 (6)
    desc.value_scale = nan => with desc.dtype 1; it must be 0 unless dtype is HEED_DTYPE_F8_E4M3 (6)
    desc.rotary.features = 2 => must be 0 with HEED_ROTARY_NONE
    with desc.dtype = e4m3:
    desc.key_scale = -0.5 | 1e-39 => must be 1.17549e-38 to 3.40282e+38, or 0 for the default 1
    desc.value_scale = 1e39 | nan | inf
      => must be 1.17549e-38 to 3.40282e+38, or 0 for the default 1
    with turn:
    desc.rotary.features = 6 => must be even, 0 to 4
    desc.features = 3 => desc.rotary.features is 0, for all 3 of a row; that must be even
  )");
}

TEST_CASE("rows to append, and where they stand", "[refused][cache]") {
  check_refused("append", R"(
    desc.rows = -1 | least | -2^40 | 2^40+1 | most => must be 0 to 2^40
    desc.layer = -1 | 2 => must be 0 to 1, for the cache's layers
    desc.position_offset = 1 => must be 0 without rotary embedding
    desc.positions = given => must be NULL: the cache has no rotary embedding
    desc.key.dtype | desc.value.dtype = f64 | 5 | 6 | 7 | 4294967295
      => must be 0, HEED_DTYPE_F32 (1), HEED_DTYPE_BF16 (3) or HEED_DTYPE_F16 (4)
    with desc.key.dtype = f16:
    key = +1 => must be a multiple of 2
    value = +2 => must be a multiple of 4
    with desc.key.reserved desc.value.reserved = explicit, desc.layer = 0:
    desc.rows = 2147483628
      => ; with the 20 that the sequence has, it must be at most 2147483647
    desc.rows = 2147483627 => (out of memory)
      2147483627 more rows take 134217726 pages; 0 of the cache's 3 are free
    with turn:
    desc.position_offset = -1 | 2^40-1 | most
      => ; rows that lie at 0 to 2 must stand at 0 to 2^40
    with positions:
    desc.position_offset = 1 => must be 0 with desc.positions
    desc.positions[2] = -1 => must be 0 to 2^40
    with tables:
    desc.position_offset = 23 => ; rows that lie at 0 to 2 must stand at 0 to 24
    desc.position_offset = 22 => ok
    with tables, positions:
    desc.positions[0] = 25 => must be 0 to 24, which the tables have
  )");
}

TEST_CASE("attention over a cache, what that knows itself, and where queries stand",
          "[refused][cache]") {
  check_refused("cache attention", R"(
    desc.attention->batch | desc.attention->key_length = -1 | least | -2^40 | 2^40+1 | most
      => must be 0 to 2^40
    desc.layer = 2 => must be 0 to 1, for the cache's layers
    desc.sequences = NULL => desc.sequences is NULL; desc.attention->batch is 2
    desc.attention->key_length = 19 => must be 0 or at least 20, the rows of desc.sequences[0]
    desc.attention->key_length = 20 | 1000 => ok
    desc.attention->query.dtype | desc.attention->out.dtype = f64
      => must be another than HEED_DTYPE_F64 (2): the cache's keys are float32 at most
    desc.attention: desc.query_heads = 3 => must be a multiple of desc.key_heads, 2
    desc.attention: desc.query.dtype = 9 => must be a heed_dtype, 0 to 4
    desc.position_offset = 1 => must be 0 without rotary embedding
    desc.positions = given => must be NULL: the cache has no rotary embedding
    desc.attention->key_heads | desc.attention->features | desc.attention->value_features
      | desc.attention->packed_keys | desc.attention->pages | desc.attention->page_rows
      | desc.attention->block_table_stride = 2 => must be 0: the cache knows it
    desc.attention->key.stride_row | desc.attention->value.stride_row
      | desc.attention->key_scales.stride_row | desc.attention->value_scales.stride_row = 1
      => desc.attention-> ... is set; it must be 0: the cache knows it
    args.key | args.value | args.key_lengths | args.cu_seqlens_k | args.block_table
      | args.key_scales | args.value_scales = given => must be NULL: it is the cache's
    pack_queries => ok
    desc.attention->batch = 0, desc.sequences args.query args.out args.lse = NULL
      => ok, nothing to do
    with turn:
    desc.position_offset = -3 => ; rows that lie at 2 to 4 must stand at 0 to 2^40
    desc.position_offset = 2^40-18
      => ; rows that lie at 17 to 19 must stand at 0 to 2^40
    with positions:
    desc.positions = +4 => must be a multiple of 8
    desc.position_offset = 1 => must be 0 with desc.positions
    desc.positions[5] = 2^40+1 => must be 0 to 2^40
    with positions, pack_queries:
    desc.positions[1] = -1 => must be 0 to 2^40
    args.cu_seqlens_q[1] = 7 => must be 1 to 6
    desc.positions[0] = -1, desc.positions[5] = -1 => ok
  )");
}

TEST_CASE("sequences that are none of the cache's are refused", "[refused][cache]") {
  const Context context = serial();
  const heed_cache_desc desc = two_layers();
  FilledCache form(context, desc);
  const FilledCache other(context, desc);
  heed_sequence freed = 0;
  REQUIRE(heed_cache_sequence_create(form.get(), &freed) == HEED_STATUS_OK);
  REQUIRE(heed_cache_free(form.get(), freed) == HEED_STATUS_OK);
  heed_sequence again = 0;
  REQUIRE(heed_cache_sequence_create(form.get(), &again) == HEED_STATUS_OK);
  CHECK(again != freed);
  CHECK(again % (1 << 20) == freed % (1 << 20));  // in its place
  form.before = form.state();
  heed_cache* const cache = form.get();
  for (const heed_sequence wrong : {heed_sequence{0}, freed, other.sequences[0], heed_sequence{1},
                                    form.sequences[0] + 7, UINT64_MAX}) {
    const std::string words =
        name_of(wrong) + " is none of this cache's: it was freed, or belongs to another";
    forget_last_error();
    refused(heed_cache_free(cache, wrong), words);
    refused(heed_cache_truncate(cache, wrong, 0), words);
    heed_sequence fork = 77;
    refused(heed_cache_fork(cache, wrong, &fork), words);
    CHECK(fork == 77);
    std::int64_t length = 77;
    refused(heed_cache_length(cache, wrong, 0, &length), words);
    CHECK(length == 77);
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    for (append.rows = 0; append.rows < 2; ++append.rows) {
      const float* const given = append.rows > 0 ? form.zeros() : nullptr;
      refused(heed_cache_append(cache, wrong, &append, given, given), words);
    }
    std::size_t bytes = 77;
    refused(heed_cache_save_bytes(cache, wrong, &bytes), words);
    char memory[4096];
    refused(heed_cache_save(cache, wrong, memory, sizeof memory), words);
    refused(heed_cache_save_file(cache, wrong, -1), words);
    CHECK(bytes == 77);
    Form attention("cache attention");
    const heed_sequence listed[] = {form.sequences[1], wrong};
    auto& call = attention.at<heed_cache_attention_desc>("desc");
    call.sequences = listed;
    refused(heed_cache_attention(cache, &call, &attention.at<heed_attention_args>("args")),
            "desc.sequences[1]: " + words);
    CHECK(attention.untouched());
  }
  CHECK(form.state() == form.before);
  // Nor has the one that was listed before it stayed in use.
  CHECK(heed_cache_truncate(cache, form.sequences[1], 4) == HEED_STATUS_OK);
}

TEST_CASE("a truncation keeps rows that all layers have", "[refused][cache]") {
  const FilledCache form(serial(), two_layers());
  heed_cache* const cache = form.get();
  forget_last_error();
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{-1}, INT64_MIN, INT64_MAX})
    refused(heed_cache_truncate(cache, form.sequences[0], length),
            "length is " + std::to_string(length) + "; it must be 0 to 0, the rows of layer 1");
  refused(heed_cache_truncate(cache, form.sequences[1], 6),
          "length is 6; it must be 0 to 5, the rows of layer 0");
  std::int64_t length = 77;
  refused(heed_cache_length(cache, form.sequences[1], 2, &length), "layer is 2; it must be 0 to 1");
  CHECK(length == 77);
  CHECK(form.state() == form.before);
}

TEST_CASE("a full cache says how many pages are wanted and free, and stays as it is",
          "[refused][cache]") {
  FilledCache form(serial(), two_layers());  // in two pages and one
  heed_cache* const cache = form.get();
  heed_sequence fork = 77;
  REQUIRE(heed_cache_truncate(cache, form.sequences[0], 0) == HEED_STATUS_OK);
  REQUIRE(heed_cache_fork(cache, form.sequences[1], &fork) == HEED_STATUS_OK);
  form.before = form.state();
  const auto none_for = [&](heed_sequence sequence, std::int64_t rows, const char* words) {
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.rows = rows;
    refused(heed_cache_append(cache, sequence, &append, form.zeros(), form.zeros()), words,
            HEED_STATUS_OUT_OF_MEMORY);
  };
  const char* const full = "the cache has 3 sequences, as many as its desc.sequences allows";
  forget_last_error();
  none_for(form.sequences[0], 33, "33 more rows take 3 pages; 2 of the cache's 3 are free");
  none_for(fork, 28, "28 more rows take 3 pages; 2 of the cache's 3 are free");  // with a copy
  heed_sequence third = 77;
  refused(heed_cache_fork(cache, fork, &third), full, HEED_STATUS_OUT_OF_MEMORY);
  refused(heed_cache_sequence_create(cache, &third), full, HEED_STATUS_OUT_OF_MEMORY);
  CHECK(third == 77);
  CHECK(form.state() == form.before);
}

// ---- Saved sequences ----

namespace {

template <class Number>
std::string with_number(std::string bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
  return bytes;
}

}  // namespace

TEST_CASE("what no sequence like the cache's was saved as is refused", "[cache][saved][refused]") {
  heed_cache_desc desc = small_cache(HEED_DTYPE_F8_E4M3);
  desc.key_scale = 0.5;
  const Cache cache = make_cache(serial(), desc);
  const std::string good = saved(cache, grown(cache, desc, 3));
  const auto not_loaded = [&](const std::string& bytes, const std::string& words,
                              heed_status status = HEED_STATUS_INVALID_ARGUMENT) {
    check_load_refused(cache, status, words, bytes);
  };
  not_loaded(with_number(good, 0, 'H'),
             "the first 8 bytes are 0x0a71657364656548; those of a saved sequence are "
             "0x0a71657364656568",
             HEED_STATUS_CORRUPT);
  not_loaded(with_number(good, 8, 0x04030201U),
             "the byte order of the saved sequence is 0x04030201; it must be 0x01020304",
             HEED_STATUS_CORRUPT);
  for (const std::uint32_t version : {0U, 2U, 0xffffffffU})
    not_loaded(with_number(good, 12, version),
               "the version of the saved sequence is " + std::to_string(version) +
                   "; this library reads 1",
               HEED_STATUS_UNSUPPORTED);
  const struct {
    std::size_t at;
    const char* field;
    std::int64_t own;
  } numbers[] = {{24, "layers", 2},          {32, "key_heads", 2},
                 {40, "features", 6},        {48, "value_features", 3},
                 {80, "rotary.features", 0}, {96, "rotary.table_rows", 0}};
  for (const auto& number : numbers)
    for (const std::int64_t value : {number.own + 1, std::int64_t{-1}, INT64_MAX, INT64_MIN})
      not_loaded(with_number(good, number.at, value),
                 std::string(number.field) + " of the saved sequence is " + std::to_string(value) +
                     "; it must be the cache's, " + std::to_string(number.own));
  for (const std::uint32_t dtype : {0U, 1U, 5U, 7U, 0xffffffffU})
    not_loaded(
        with_number(good, 16, dtype),
        "dtype of the saved sequence is " + std::to_string(dtype) + "; it must be the cache's, 6");
  not_loaded(with_number(good, 64, 0.25),
             "key_scale of the saved sequence is 0.25; it must be the cache's, 0.5");
  not_loaded(with_number(good, 72, std::numeric_limits<double>::quiet_NaN()),
             "value_scale of the saved sequence is ... nan; it must be the cache's, 1");
  not_loaded(with_number(good, 88, -0.0),
             "rotary.base of the saved sequence is -0; it must be the cache's, 0");
  not_loaded(with_number(good, 88, 3.0), "rotary.base of the saved sequence is 3; it must be the");
  for (const std::int64_t length : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 31})
    not_loaded(with_number(good, 56, length),
               "the length of the saved sequence is " + std::to_string(length) +
                   "; it must be 0 to 2147483647",
               HEED_STATUS_CORRUPT);
  not_loaded(with_number(good, 56, std::int64_t{129}),
             "the saved sequence of 129 rows takes 9 pages; the cache has 8",
             HEED_STATUS_OUT_OF_MEMORY);
  not_loaded(with_number(good, 56, std::int64_t{4}),
             "bytes is 228; it must be at least 264, or the saved sequence is not whole",
             HEED_STATUS_CORRUPT);
  not_loaded(with_number(good, 56, std::int64_t{2}), "the checksum of the saved sequence is 0x",
             HEED_STATUS_CORRUPT);
}

TEST_CASE("a sequence without room in the cache is not loaded", "[cache][saved][refused]") {
  heed_cache_desc desc = small_cache();
  const Cache from = make_cache(serial(), desc);
  const std::string bytes = saved(from, grown(from, desc, 40));
  const Cache full = make_cache(serial(), desc);
  (void)grown(full, desc, 90);
  check_load_refused(full, HEED_STATUS_OUT_OF_MEMORY,
                     "40 more rows take 3 pages; 2 of the cache's 8 are free", bytes);
  desc.sequences = 1;
  const Cache one = make_cache(serial(), desc);
  (void)new_sequence(one);
  check_load_refused(one, HEED_STATUS_OUT_OF_MEMORY,
                     "the cache has 1 sequences, as many as its desc.sequences allows", bytes);
}

TEST_CASE("saving needs layers of one length, and room", "[cache][saved][refused]") {
  const heed_cache_desc desc = small_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = grown(cache, desc, 5);
  const std::string good = saved(cache, sequence);
  std::string memory(good.size(), 'x');
  forget_last_error();
  refused(heed_cache_save(cache.get(), sequence, memory.data(), good.size() - 1),
          "bytes is 839; it must be at least 840 for this sequence");
  append(cache, sequence, 1, 1, std::vector<float>(12), std::vector<float>(6));
  const char* const words =
      "layer 1 of the sequence has 6 rows; it must have 5, as layer 0, to be saved";
  std::size_t bytes = 77;
  refused(heed_cache_save_bytes(cache.get(), sequence, &bytes), words);
  refused(heed_cache_save(cache.get(), sequence, memory.data(), memory.size()), words);
  refused(heed_cache_save_file(cache.get(), sequence, -1), words);
  CHECK(bytes == 77);
  CHECK(memory == std::string(good.size(), 'x'));
}
