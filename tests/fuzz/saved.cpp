// Saved sequences: heed_cache_load and heed_cache_load_file, of bytes that heed_cache_save wrote
// and of others. What is accepted must be saved again as it was.
#include <fcntl.h>
#include <unistd.h>

#include "engine/runtime/bytes.hpp"
#include "tests/fuzz/check.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kHeader = 112;

heed_cache_desc draw_desc(Draw& draw) {
  heed_cache_desc d = HEED_CACHE_DESC_INIT;
  d.dtype = draw.pick<std::uint32_t>(
      {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3});
  d.layers = draw.integer(1, 3);
  d.key_heads = draw.integer(1, 3);
  d.features = draw.integer(1, 9);
  d.value_features = draw.integer(1, 9);
  d.page_rows = 16 * draw.integer(1, 2);
  d.pages = draw.integer(1, 8);
  d.sequences = 3;
  if (d.dtype == HEED_DTYPE_F8_E4M3 && draw.one_in(2)) d.key_scale = 0.5;
  if (d.features == 1 || !draw.one_in(3)) return d;
  d.rotary.pairs = draw.pick<std::uint32_t>({HEED_ROTARY_HALVES, HEED_ROTARY_INTERLEAVED});
  d.rotary.features = 2;
  return d;
}

class SavedCase {
 public:
  explicit SavedCase(Draw& draw) : desc_(draw_desc(draw)), cache_(made(desc_)) {
    heed_sequence sequence = 0;
    require_ok(heed_cache_sequence_create(cache_.get(), &sequence));
    const std::int64_t rows = draw.integer(0, desc_.page_rows * desc_.pages / 2);
    Random random(draw.bits());
    const auto numbers = [&](std::int64_t features) {
      std::vector<float> all(static_cast<std::size_t>(rows * desc_.key_heads * features));
      for (float& number : all) number = random.normal();
      return all;
    };
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.rows = rows;
    for (append.layer = 0; append.layer < desc_.layers; ++append.layer)
      require_ok(heed_cache_append(cache_.get(), sequence, &append, numbers(desc_.features).data(),
                                   numbers(desc_.value_features).data()));
    bytes_ = saved(cache_, sequence);
    // As much room as there was.
    if (draw.one_in(2)) require_ok(heed_cache_free(cache_.get(), sequence));
  }

  void load(Draw& draw, bool damaged) {
    std::string bytes = bytes_;
    if (damaged) damage(draw, bytes);
    const std::vector<char> memory(bytes.begin(), bytes.end());  // nothing lies behind it
    const bool from_memory = check(bytes, damaged, [&](heed_sequence* made) {
      const void* const any = memory.empty() ? bytes.data() : memory.data();
      return heed_cache_load(cache_.get(), any, memory.size(), made);
    });
    static MemoryFile file;
    file.write(bytes);
    const int descriptor = open(file.path(), O_RDONLY);
    demand(descriptor >= 0, "a file in memory cannot be opened");
    const bool from_file = check(bytes, damaged, [&](heed_sequence* made) {
      return heed_cache_load_file(cache_.get(), descriptor, made);
    });
    close(descriptor);
    demand(from_memory == from_file, "memory and a file with the same bytes differ");
  }

 private:
  static Cache made(const heed_cache_desc& desc) { return make_cache(fuzz_context(), desc); }

  /// Any bytes, or a number of the header, or its length; half of them with the checksum that they
  /// should have.
  static void damage(Draw& draw, std::string& bytes) {
    const std::uint32_t kind = draw.choice(3);
    if (kind < 2) heed_test::damage(draw, bytes, kHeader + 8);
    if (kind >= 2 && bytes.size() >= kHeader) {
      const std::int64_t number = kind == 2 ? draw.hostile() : draw.integer(0, 300);
      const std::size_t field = kind == 2 ? 8 * draw.index(kHeader / 8) : 56;
      std::memcpy(&bytes[field], &number, sizeof number);
    }
    if (!draw.one_in(2) || bytes.size() < kHeader + 8) return;
    heed::Checksum sum;
    sum.add(bytes.data(), bytes.size() - 8);
    const std::uint64_t value = sum.value();
    std::memcpy(&bytes[bytes.size() - 8], &value, sizeof value);
  }

  /// Whether it is loaded.
  template <class Load>
  bool check(const std::string& bytes, bool damaged, const Load& load) const {
    const heed_cache_info before = describe(cache_);
    heed_sequence sequence = 77;
    const heed_status status = load(&sequence);
    const bool loaded = status == HEED_STATUS_OK;
    if (loaded) {
      const std::string again = saved(cache_, sequence);
      demand(bytes.compare(0, again.size(), again) == 0, "what is loaded is not what was saved");
      attend(sequence);
      require_ok(heed_cache_free(cache_.get(), sequence));
    } else {
      if (!damaged) check_accepted(status);
      check_refused(status, {"of the saved sequence", "the saved sequence", "the first 8 bytes",
                             "more rows take"});
      demand(sequence == 77, "a refused load named a sequence");
    }
    const heed_cache_info after = describe(cache_);
    demand(before.pages_used == after.pages_used && before.sequences == after.sequences,
           "a load has left something behind");
    return loaded;
  }

  /// Whatever the numbers are, they can be attended.
  void attend(heed_sequence sequence) const {
    heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
    attention.batch = attention.query_length = 1;
    attention.query_heads = desc_.key_heads;
    heed_cache_attention_desc call = HEED_CACHE_ATTENTION_DESC_INIT;
    call.attention = &attention;
    call.sequences = &sequence;
    call.layer = desc_.layers - 1;
    if (desc_.rotary.pairs != HEED_ROTARY_NONE) call.position_offset = 1;  // of no rows
    const std::vector<float> query(static_cast<std::size_t>(desc_.key_heads * desc_.features), 1);
    std::vector<float> out(static_cast<std::size_t>(desc_.key_heads * desc_.value_features));
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = query.data();
    args.out = out.data();
    check_accepted(heed_cache_attention(cache_.get(), &call, &args));
  }

  const heed_cache_desc desc_;
  const Cache cache_;
  std::string bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  SavedCase saved(first);
  each_variant(first, [&](Draw& draw, bool damaged) { saved.load(draw, damaged); });
  return 0;
}
