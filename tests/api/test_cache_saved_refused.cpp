// Saved sequences that are foreign, truncated or altered, and saves that make no sense.
#include <cstring>
#include <limits>

#include "tests/api/saved.hpp"

using namespace api_test;

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
  const auto refused = [&](const std::string& bytes, const std::string& words,
                           heed_status status = HEED_STATUS_INVALID_ARGUMENT) {
    check_load_refused(cache, status, words, bytes);
  };
  refused(with_number(good, 0, 'H'),
          "the first 8 bytes are 0x0a71657364656548; those of a saved sequence are "
          "0x0a71657364656568",
          HEED_STATUS_CORRUPT);
  refused(with_number(good, 8, 0x04030201U),
          "the byte order of the saved sequence is 0x04030201; it must be 0x01020304",
          HEED_STATUS_CORRUPT);
  for (const std::uint32_t version : {0U, 2U, 0xffffffffU})
    refused(with_number(good, 12, version),
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
      refused(with_number(good, number.at, value),
              std::string(number.field) + " of the saved sequence is " + std::to_string(value) +
                  "; it must be the cache's, " + std::to_string(number.own));
  for (const std::uint32_t dtype : {0U, 1U, 5U, 7U, 0xffffffffU})
    refused(
        with_number(good, 16, dtype),
        "dtype of the saved sequence is " + std::to_string(dtype) + "; it must be the cache's, 6");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused(with_number(good, 64, 0.25),
          "key_scale of the saved sequence is 0.25; it must be the cache's, 0.5");
  refused(with_number(good, 72, nan),
          "value_scale of the saved sequence is ... nan; it must be the cache's, 1");
  refused(with_number(good, 88, -0.0),
          "rotary.base of the saved sequence is -0; it must be the cache's, 0");
  refused(with_number(good, 88, 3.0), "rotary.base of the saved sequence is 3; it must be the");
  for (const std::int64_t length : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 31})
    refused(with_number(good, 56, length),
            "the length of the saved sequence is " + std::to_string(length) +
                "; it must be 0 to 2147483647",
            HEED_STATUS_CORRUPT);
  refused(with_number(good, 56, std::int64_t{129}),
          "the saved sequence of 129 rows takes 9 pages; the cache has 8",
          HEED_STATUS_OUT_OF_MEMORY);
  refused(with_number(good, 56, std::int64_t{4}),
          "bytes is 228; it must be at least 264, or the saved sequence is not whole",
          HEED_STATUS_CORRUPT);
  refused(with_number(good, 56, std::int64_t{2}), "the checksum of the saved sequence is 0x",
          HEED_STATUS_CORRUPT);
}

TEST_CASE("a saved sequence that lacks a byte, or of which a bit is another, is refused",
          "[cache][saved][refused]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_I8}) {
    heed_cache_desc desc = small_cache(dtype);
    desc.key_heads = 1;
    const Cache cache = make_cache(serial(), desc);
    const std::string good = saved(cache, grown(cache, desc, 17));
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
      check_load_refused(cache, HEED_STATUS_CORRUPT,
                         "bytes is " + std::to_string(bytes) + "; it must be at least " +
                             std::to_string(bytes < 120 ? 120 : good.size()) +
                             ", or the saved sequence is not whole",
                         good.substr(0, bytes));
    const std::vector<std::int64_t> before = state(cache);
    std::size_t taken = 0;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
      heed_sequence sequence = 77;
      const heed_status status =
          heed_cache_load(cache.get(), bytes.data(), bytes.size(), &sequence);
      taken += status == HEED_STATUS_OK || sequence != 77 || state(cache) != before ? 1 : 0;
    }
    CHECK(taken == 0);
    CHECK((saved(cache, loaded(cache, good)) == good));
  }
}

TEST_CASE("a sequence without room in the cache is not loaded", "[cache][saved][refused]") {
  heed_cache_desc desc = small_cache();
  const Cache from = make_cache(serial(), desc);
  const std::string bytes = saved(from, grown(from, desc, 40));
  const Cache full = make_cache(serial(), desc);
  (void)grown(full, desc, 90);
  check_load_refused(full, HEED_STATUS_OUT_OF_MEMORY,
                     "40 more rows take 3 pages; of the cache's 8 2 are free", bytes);
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
  check_refusal(heed_cache_save(cache.get(), sequence, memory.data(), good.size() - 1),
                HEED_STATUS_INVALID_ARGUMENT,
                "bytes is 839; it must be at least 840 for this sequence");
  append(cache, sequence, 1, 1, std::vector<float>(12), std::vector<float>(6));
  const char* const words =
      "layer 1 of the sequence has 6 rows; it must have 5, as layer 0, to be saved";
  std::size_t bytes = 77;
  forget_last_error();
  check_refusal(heed_cache_save_bytes(cache.get(), sequence, &bytes), HEED_STATUS_INVALID_ARGUMENT,
                words);
  forget_last_error();
  check_refusal(heed_cache_save(cache.get(), sequence, memory.data(), memory.size()),
                HEED_STATUS_INVALID_ARGUMENT, words);
  forget_last_error();
  check_refusal(heed_cache_save_file(cache.get(), sequence, -1), HEED_STATUS_INVALID_ARGUMENT,
                words);
  CHECK(bytes == 77);
  CHECK(memory == std::string(good.size(), 'x'));
}

TEST_CASE("saving and loading refuse NULL and sequences that are not there",
          "[cache][saved][refused][null]") {
  const heed_cache_desc desc = small_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = grown(cache, desc, 5);
  std::string memory = saved(cache, sequence);
  const std::vector<std::int64_t> before = state(cache);
  heed_sequence made = 77;
  std::size_t bytes = 77;
  const auto refused = [](heed_status status, const char* words) {
    check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, words);
    forget_last_error();
  };
  forget_last_error();
  refused(heed_cache_save_bytes(nullptr, sequence, &bytes), "cache is NULL");
  refused(heed_cache_save_bytes(cache.get(), sequence, nullptr), "bytes is NULL");
  refused(heed_cache_save(nullptr, sequence, memory.data(), memory.size()), "cache is NULL");
  refused(heed_cache_save(cache.get(), sequence, nullptr, memory.size()), "memory is NULL");
  refused(heed_cache_save_file(nullptr, sequence, 0), "cache is NULL");
  refused(heed_cache_load(nullptr, memory.data(), memory.size(), &made), "cache is NULL");
  refused(heed_cache_load(cache.get(), nullptr, memory.size(), &made), "memory is NULL");
  refused(heed_cache_load(cache.get(), memory.data(), memory.size(), nullptr), "sequence is NULL");
  refused(heed_cache_load_file(nullptr, 0, &made), "cache is NULL");
  refused(heed_cache_load_file(cache.get(), 0, nullptr), "sequence is NULL");
  for (const heed_sequence wrong : {heed_sequence{0}, heed_sequence{1}, sequence + 1}) {
    refused(heed_cache_save_bytes(cache.get(), wrong, &bytes), "sequence 0x");
    refused(heed_cache_save(cache.get(), wrong, memory.data(), memory.size()), "sequence 0x");
    refused(heed_cache_save_file(cache.get(), wrong, -1), "sequence 0x");
  }
  CHECK(made == 77);
  CHECK(bytes == 77);
  CHECK(state(cache) == before);
}
