// One cache on many threads: different sequences in each other's way never, the same one with a
// refusal.
#include <thread>

#include "tests/api/caches.hpp"
#include "tests/api/forms.hpp"

using namespace api_test;

namespace {

/// Of one number, whatever their width.
constexpr heed_layout kRepeated = {0, HEED_STRIDES_EXPLICIT, 0, 0, 0, 0};

heed_status append_rows(heed_cache* cache, heed_sequence sequence, std::int64_t rows,
                        const void* numbers, const heed_layout& layout = HEED_LAYOUT_INIT) {
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.rows = rows;
  desc.key = desc.value = layout;
  return heed_cache_append(cache, sequence, &desc, numbers, numbers);
}

}  // namespace

TEST_CASE("threads append to, fork, attend and free sequences of one cache",
          "[concurrency][threads][cache]") {
  // A prompt that all share, and answers that differ: each thread knows what its own attend.
  const auto run = [](heed_cache* cache, heed_sequence prompt, int t) {
    std::vector<float> rows(200), query(200), out(200), want(200);
    for (std::size_t i = 0; i < 200; ++i) {
      rows[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(t) * 13) % 11) - 5;
      query[i] = static_cast<float>(i % 5);
    }
    heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
    attention.batch = 2;
    attention.query_heads = 2;
    attention.query_length = 1;
    const auto attend = [&](heed_sequence sequence, std::vector<float>& to) {
      const heed_sequence sequences[] = {sequence, prompt};
      heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
      desc.attention = &attention;
      desc.sequences = sequences;
      heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
      args.query = query.data();
      args.out = to.data();
      return heed_cache_attention(cache, &desc, &args) == HEED_STATUS_OK;
    };
    for (int repeat = 0; repeat < 20; ++repeat) {
      heed_sequence own = 0;
      if (heed_cache_fork(cache, prompt, &own) != HEED_STATUS_OK) return false;
      for (int i = 0; i < 3; ++i)
        if (append_rows(cache, own, 9, rows.data()) != HEED_STATUS_OK) return false;
      if (!attend(own, repeat == 0 ? want : out)) return false;
      if (repeat > 0 && out != want) return false;
      if (heed_cache_truncate(cache, own, 17) != HEED_STATUS_OK) return false;
      if (heed_cache_free(cache, own) != HEED_STATUS_OK) return false;
    }
    return true;
  };
  const Environment quiet;
  for (const std::string& name : executors()) {
    heed_cache_desc desc = two_layers();
    desc.layers = 1;
    desc.pages = std::int64_t{5} * kThreads;
    desc.sequences = std::int64_t{2} * kThreads;
    const Cache cache = make_cache(make_context(nullptr, {name.c_str(), 2}), desc);
    heed_sequence prompt = 0;
    REQUIRE(heed_cache_sequence_create(cache.get(), &prompt) == HEED_STATUS_OK);
    const std::vector<float> zeros(400);
    REQUIRE(append_rows(cache.get(), prompt, 20, zeros.data()) == HEED_STATUS_OK);
    CHECK(on_all_threads([&](int t) { return run(cache.get(), prompt, t); }));
    REQUIRE(heed_cache_free(cache.get(), prompt) == HEED_STATUS_OK);
    CHECK(heed_test::describe(cache).pages_used == 0);
  }
}

TEST_CASE("a sequence that a call uses is changed by no other", "[concurrency][threads][cache]") {
  const FilledCache form(serial(), two_layers());
  heed_cache* const cache = form.get();
  // Whoever is refused says so; those that are not append one row after the other.
  std::atomic<int> appended{0};
  CHECK(on_all_threads([&](int) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const heed_status status = append_rows(cache, form.sequences[1], 1, form.zeros());
      if (status == HEED_STATUS_OK) ++appended;
      if (status == HEED_STATUS_OK || status == HEED_STATUS_OUT_OF_MEMORY) continue;
      if (std::string(heed_last_error()).find("is being changed by another call") ==
          std::string::npos)
        return false;
    }
    return true;
  }));
  std::int64_t length = 0;
  REQUIRE(heed_cache_length(cache, form.sequences[1], 0, &length) == HEED_STATUS_OK);
  CHECK(length == 5 + appended);
}

namespace {

heed_status attend(const FilledCache& cache, Form& form) {
  auto& call = form.at<heed_cache_attention_desc>("desc");
  call.sequences = cache.sequences;
  return heed_cache_attention(cache.get(), &call, &form.at<heed_attention_args>("args"));
}

/// What is said of calls that may not look at a sequence, or change it.
struct Tries {
  const FilledCache* form = nullptr;
  std::vector<std::string> looks = {}, changes = {};
  heed_status attention = HEED_STATUS_INTERNAL;

  void all() {
    if (!changes.empty()) return;
    heed_cache* const cache = form->get();
    const heed_sequence sequence = form->sequences[1];
    const auto note = [](std::vector<std::string>& said, heed_status status) {
      said.emplace_back(status == HEED_STATUS_BUSY ? heed_last_error() : heed_status_name(status));
    };
    std::int64_t length = 0;
    heed_sequence fork = 0;
    note(looks, heed_cache_length(cache, sequence, 0, &length));
    note(looks, heed_cache_fork(cache, sequence, &fork));
    note(changes, append_rows(cache, sequence, 1, form->zeros(), kRepeated));
    note(changes, heed_cache_truncate(cache, sequence, 0));
    note(changes, heed_cache_free(cache, sequence));
  }
};

/// Of rows so wide that an executor shares them, appended to the second sequence.
struct WideCache : FilledCache {
  explicit WideCache(const heed_executor& executor)
      : FilledCache(context_with(executor), wide(), false) {}
  static heed_cache_desc wide() {
    heed_cache_desc desc = two_layers();
    desc.features = desc.value_features = 4096;
    desc.layers = 1;
    return desc;
  }
  heed_status append() const {
    forget_last_error();
    return append_rows(get(), sequences[1], 40, zeros(), kRepeated);
  }
};

}  // namespace

TEST_CASE("a sequence that is read is not changed, but read and forked", "[concurrency][cache]") {
  const FilledCache filled(serial(), two_layers());
  Tries tries = {&filled};
  Form form("cache attention");
  auto& args = form.at<heed_attention_args>("args");
  args.score_function = [](void* user, const heed_score_tile*) {
    auto& t = *static_cast<Tries*>(user);
    t.all();
    Form again("cache attention");
    t.attention = attend(*t.form, again);
  };
  args.score_user = &tries;
  REQUIRE(attend(filled, form) == HEED_STATUS_OK);
  CHECK(tries.changes == std::vector<std::string>(
                             3, name_of(filled.sequences[1]) + " is being used by another call"));
  CHECK(tries.looks == std::vector<std::string>(2, "HEED_STATUS_OK"));
  CHECK(tries.attention == HEED_STATUS_OK);
  CHECK(heed_cache_free(filled.get(), filled.sequences[1]) == HEED_STATUS_OK);  // it is over
}

TEST_CASE("a sequence that is being changed is not even looked at", "[concurrency][cache]") {
  Tries tries;
  const auto in_the_middle = [](void* user, std::uint32_t count, void (*body)(void*, std::uint32_t),
                                void* argument) {
    static_cast<Tries*>(user)->all();
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  const WideCache form(executor_of(4, in_the_middle, &tries));
  tries.form = &form;
  REQUIRE(form.append() == HEED_STATUS_OK);
  const std::string words = name_of(form.sequences[1]) + " is being changed by another call";
  CHECK(tries.looks == std::vector<std::string>(2, words));
  CHECK(tries.changes == std::vector<std::string>(3, words));
}

TEST_CASE("an executor that converts nothing is found out, and nothing has changed", "[cache]") {
  const auto nothing = [](void*, std::uint32_t, void (*)(void*, std::uint32_t), void*) {};
  const WideCache form(executor_of(4, nothing));
  check_refusal(form.append(), HEED_STATUS_EXECUTOR_FAILED,
                "the executor \"caller\" ran 0 of 40 tasks");
  CHECK(form.state() == form.before);
  CHECK(heed_cache_free(form.get(), form.sequences[1]) == HEED_STATUS_OK);
}
