// Sequences as bytes: what they are, that they come back, and what is refused.
#include <cstring>
#include <limits>

#include "tests/api/counting_allocator.hpp"
#include "tests/api/saved.hpp"

using namespace api_test;

namespace {

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_I8,
                                     HEED_DTYPE_F8_E4M3};

/// Little-endian, as the machines that heed runs on.
template <class Number>
void put(std::string& bytes, Number number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

template <class Number>
std::string with_number(std::string bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
  return bytes;
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

TEST_CASE("a saved sequence is what api/README.md says, byte by byte", "[cache][saved]") {
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

TEST_CASE("a sequence comes back in a cache of other pages", "[cache][saved]") {
  for (const std::uint32_t dtype : kDtypes)
    for (const std::int64_t rows : {0, 1, 15, 16, 17, 47, 48, 100})
      for (const std::int64_t page_rows : {16, 48, 64}) {
        CAPTURE(dtype, rows, page_rows);
        heed_cache_desc desc = small_cache(dtype);
        if (dtype == HEED_DTYPE_F8_E4M3) desc.key_scale = 0.25, desc.value_scale = 3;
        const Cache from = make_cache(serial(), desc);
        const heed_sequence sequence = grown(from, desc, rows);
        const std::string bytes = saved(from, sequence);
        desc.page_rows = page_rows;
        const Cache to = make_cache(serial(), desc);
        const heed_sequence other = grown(to, desc, 5);  // so that pages differ
        const heed_sequence again = loaded(to, bytes);
        for (std::int64_t layer = 0; layer < desc.layers; ++layer) {
          std::int64_t length = -1;
          done(heed_cache_length(to.get(), again, layer, &length));
          CHECK(length == rows);
        }
        CHECK(heed_test::describe(to).pages_used == 1 + (rows + page_rows - 1) / page_rows);
        CHECK((saved(to, again) == bytes));
        CHECK(same_bits(attended(to, desc, again), attended(from, desc, sequence)));
        // It lives on like any other.
        heed_sequence fork = 0;
        done(heed_cache_fork(to.get(), again, &fork));
        done(heed_cache_truncate(to.get(), again, rows / 2));
        CHECK((saved(to, fork) == bytes));
        for (const heed_sequence each : {again, fork, other}) done(heed_cache_free(to.get(), each));
        CHECK(state(to) == std::vector<std::int64_t>{0, 0, 0});
      }
}

TEST_CASE("a fork is saved whole, and what lies behind a saved sequence does not matter",
          "[cache][saved]") {
  const heed_cache_desc desc = small_cache();
  const Cache cache = make_cache(serial(), desc);
  const heed_sequence sequence = grown(cache, desc, 20);
  heed_sequence fork = 0;
  done(heed_cache_fork(cache.get(), sequence, &fork));
  const std::string bytes = saved(cache, sequence);
  CHECK((saved(cache, fork) == bytes));
  append(cache, fork, 0, 1, std::vector<float>(12, 1), std::vector<float>(6, 1));
  append(cache, fork, 1, 1, std::vector<float>(12, 2), std::vector<float>(6, 2));
  CHECK(saved(cache, fork).size() == bytes.size() + 2 * 2 * (6 + 3) * sizeof(float));
  CHECK((saved(cache, sequence) == bytes));
  CHECK((saved(cache, loaded(cache, bytes + "and more")) == bytes));
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
  heed_rotary interleaved = halves, wide = halves, based = halves, table = halves;
  interleaved.pairs = HEED_ROTARY_INTERLEAVED;
  wide.features = 6;
  based.base = 500000;
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
      {wide, halves, "rotary.features of the saved sequence is 6; it must be the cache's, 4"},
      {halves, based, "rotary.base of the saved sequence is 10000; it must be the cache's, 500000"},
      {halves, table, "rotary.table_rows of the saved sequence is 0; it must be the cache's, 40"},
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
          "0x0a71657364656568");
  refused(with_number(good, 8, 0x04030201U),
          "the byte order of the saved sequence is 0x04030201; it must be 0x01020304");
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
  refused(with_number(good, 88, 3.0), "rotary.base of the saved sequence is 3; it must be the");
  for (const std::int64_t length : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 31})
    refused(with_number(good, 56, length), "the length of the saved sequence is " +
                                               std::to_string(length) +
                                               "; it must be 0 to 2147483647");
  refused(with_number(good, 56, std::int64_t{129}),
          "the saved sequence of 129 rows takes 9 pages; the cache has 8",
          HEED_STATUS_OUT_OF_MEMORY);
  refused(with_number(good, 56, std::int64_t{4}),
          "bytes is 228; it must be at least 264, or the saved sequence is not whole");
  refused(with_number(good, 56, std::int64_t{2}), "the checksum of the saved sequence is 0x");
}

TEST_CASE("a saved sequence that lacks a byte, or of which a bit is another, is refused",
          "[cache][saved][refused]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_I8}) {
    heed_cache_desc desc = small_cache(dtype);
    desc.key_heads = 1;
    const Cache cache = make_cache(serial(), desc);
    const std::string good = saved(cache, grown(cache, desc, 17));
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
      check_load_refused(cache, HEED_STATUS_INVALID_ARGUMENT,
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

TEST_CASE("memory that saving and loading cannot have is told", "[cache][saved][allocator]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(&allocator);
  const heed_cache_desc desc = small_cache();
  const Cache cache = make_cache(make_context(&options), desc);
  const heed_sequence sequence = grown(cache, desc, 20);
  std::string bytes = saved(cache, sequence);
  std::string untouched(bytes.size(), 'x');
  const std::vector<std::int64_t> before = state(cache);
  const auto each_refused = [&](const auto& call) {
    memory.restart();
    CHECK(call() == HEED_STATUS_OK);
    const std::size_t requests = memory.requests();
    CHECK(requests > 0);
    for (std::size_t refuse = 0; refuse < requests; ++refuse) {
      memory.restart(refuse);
      forget_last_error();
      check_refusal(call(), HEED_STATUS_OUT_OF_MEMORY, "the allocator returned NULL");
    }
    memory.restart();
  };
  each_refused([&] {
    const heed_status status =
        heed_cache_save(cache.get(), sequence, untouched.data(), untouched.size());
    CHECK(untouched == (status == HEED_STATUS_OK ? bytes : std::string(bytes.size(), 'x')));
    untouched.assign(bytes.size(), 'x');
    return status;
  });
  each_refused([&] {
    heed_sequence made = 0;
    const heed_status status = heed_cache_load(cache.get(), bytes.data(), bytes.size(), &made);
    if (status == HEED_STATUS_OK) done(heed_cache_free(cache.get(), made));
    CHECK(state(cache) == before);
    return status;
  });
  CHECK(memory.sound());
}
