// Sequences as bytes: what they are. That they come back, tests/cache/test_histories.cpp has.
#include <cstring>

#include "tests/api/caches.hpp"

using namespace api_test;

namespace {

/// Little-endian, as the machines that heed runs on.
template <class Number>
void put(std::string& bytes, Number number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

/// Of 17 rows in a cache without rotary embedding.
std::string header(std::uint32_t dtype, std::int64_t layers, std::int64_t key_heads) {
  std::string bytes = "heedseq\n";
  for (const std::uint32_t number : {0x01020304U, 1U, dtype, 0U}) put(bytes, number);
  for (const std::int64_t number :
       {layers, key_heads, std::int64_t{2}, std::int64_t{1}, std::int64_t{17}})
    put(bytes, number);
  for (const double scale : {1.0, 1.0}) put(bytes, scale);
  bytes.resize(112, '\0');
  return bytes;
}

}  // namespace

TEST_CASE("a saved sequence is what api/docs/reference/cache.md says, byte by byte",
          "[cache][saved]") {
  heed_cache_desc desc = small_cache();
  desc.features = 2;
  desc.value_features = 1;
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = new_sequence(cache);
  std::string want = header(HEED_DTYPE_F32, 2, 2);
  for (int layer = 0; layer < 2; ++layer) {
    const auto key = [=](int t, int head, int x) {
      return static_cast<float>(1000 * layer + 10 * t + 4 * head + x);
    };
    std::vector<float> keys, values;
    for (int t = 0; t < 17; ++t)
      for (int head = 0; head < 2; ++head) {
        for (int x = 0; x < 2; ++x) keys.push_back(key(t, head, x));
        values.push_back(-key(t, head, 0));
      }
    append(cache, sequence, layer, 17, keys, values);
    for (int head = 0; head < 2; ++head)
      for (int t = 0; t < 17; ++t)
        for (int x = 0; x < 2; ++x) put(want, key(t, head, x));
    for (int head = 0; head < 2; ++head)
      for (int t = 0; t < 17; ++t) put(want, -key(t, head, 0));
  }
  put(want, std::uint64_t{0x94039feadbd9cbc2});  // by Python's xxhash.xxh64
  CHECK(want.size() == 936);
  CHECK((saved(cache, sequence) == want));
}

TEST_CASE("a saved sequence of 8-bit rows has their scales", "[cache][saved]") {
  heed_cache_desc desc = small_cache(HEED_DTYPE_I8);
  desc.layers = desc.key_heads = 1;
  desc.features = 2;
  desc.value_features = 1;
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = new_sequence(cache);
  std::vector<float> keys, values;
  std::string want = header(HEED_DTYPE_I8, 1, 1);
  for (int t = 0; t < 17; ++t) want += "\x7f\xc0";
  for (int t = 0; t < 17; ++t) {
    const float scale = 0.5F * static_cast<float>(t + 1);
    keys.insert(keys.end(), {127 * scale, -64 * scale});
    values.push_back(-127 * 4 * scale);
    put(want, scale);
  }
  append(cache, sequence, 0, 17, keys, values);
  want += std::string(17, '\x81');
  for (int t = 0; t < 17; ++t) put(want, 2.0F * static_cast<float>(t + 1));
  put(want, std::uint64_t{0xe4bebd36f6aae04f});
  CHECK((saved(cache, sequence) == want));
}

TEST_CASE("keys are saved as they were turned, for caches that turn alike", "[cache][saved]") {
  const std::vector<float> cosines = numbers(2 * 40, 1), sines = numbers(2 * 40, 2);
  std::vector<float> others = sines;
  others.back() += 1;
  const auto turning = [](const heed_rotary& rotary) {
    heed_cache_desc desc = small_cache();
    desc.rotary = rotary;
    return desc;
  };
  const heed_rotary none = HEED_ROTARY_INIT;
  const heed_rotary halves = {HEED_ROTARY_HALVES, 0, 4, 0, nullptr, nullptr, 0, 0};
  heed_rotary interleaved = halves, table = halves;
  interleaved.pairs = HEED_ROTARY_INTERLEAVED;
  table.cosines = cosines.data();
  table.sines = sines.data();
  table.table_rows = 40;
  heed_rotary shorter = table, other = table;
  shorter.table_rows = 39;
  other.sines = others.data();
  const struct {
    const heed_rotary& saved;
    const heed_rotary& cache;
    const char* words;  ///< nullptr: it is taken
  } rows[] = {
      {none, none, nullptr},
      {halves, halves, nullptr},
      {table, table, nullptr},
      {none, halves, "rotary.pairs of the saved sequence is 0; it must be the cache's, 1"},
      {halves, none, "rotary.pairs of the saved sequence is 1; it must be the cache's, 0"},
      {halves, interleaved, "rotary.pairs of the saved sequence is 1; it must be the cache's, 2"},
      {table, shorter, "rotary.table_rows of the saved sequence is 40; it must be the cache's, 39"},
      {table, other, "the checksum of the saved sequence's rotary tables is 0x ... ; it must be "},
  };
  for (const auto& row : rows) {
    CAPTURE(&row - rows);
    const heed_cache_desc desc = turning(row.saved);
    const Cache from = make_cache(serial(), desc);
    const std::string bytes = saved(from, grown(from, desc, 20));
    const Cache to = make_cache(serial(), turning(row.cache));
    if (row.words == nullptr)
      CHECK((saved(to, loaded(to, bytes)) == bytes));
    else
      check_load_refused(to, HEED_STATUS_INVALID_ARGUMENT, row.words, bytes);
  }
}
