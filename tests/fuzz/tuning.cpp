// Tuning files: of those made for one problem it is known which line covers it; damaged ones are
// read or refused.
#include "tests/fuzz/check.hpp"

using namespace heed_test;

namespace {

/// The problem that plans are made for, as conditions name it.
constexpr struct {
  const char* name;
  const char *is, *is_not;  ///< is: nullptr where it is a number
  std::int64_t number;
} kProblem[] = {{"key", "bf16", "f32", 0},       {"value", "f32", "bf16", 0},
                {"causal", "yes", "no", 0},      {"features", nullptr, nullptr, 16},
                {"rows", nullptr, nullptr, 60},  {"value_features", nullptr, nullptr, 24},
                {"keys", nullptr, nullptr, 50},  {"heads", nullptr, nullptr, 6},
                {"threads", nullptr, nullptr, 1}};

heed_attention_desc problem() {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 3;
  desc.query_heads = 4;
  desc.key_heads = 2;
  desc.query_length = 30;
  desc.key_length = 50;
  desc.features = 16;
  desc.value_features = 24;
  desc.key.dtype = HEED_DTYPE_BF16;
  desc.causal = HEED_CAUSAL_TOP_LEFT;
  return desc;
}

/// A range that holds the number, or does not.
std::string draw_range(Draw& draw, std::int64_t number, bool holds) {
  if (!holds) {
    if (number > 1 && draw.one_in(2)) return "1-" + std::to_string(draw.integer(1, number - 1));
    return std::to_string(draw.integer(number + 1, std::int64_t{1} << 40));
  }
  if (draw.one_in(3)) return std::to_string(number);
  return std::to_string(draw.integer(1, number)) + "-" +
         std::to_string(draw.integer(number, std::int64_t{1} << 40));
}

/// Conditions that are true of the problem, all but one if they shall not cover it.
std::string draw_conditions(Draw& draw, bool covers) {
  const std::uint32_t wrong = draw.choice(std::size(kProblem) - 1);
  std::string line;
  for (std::uint32_t i = 0; i < std::size(kProblem); ++i) {
    const bool holds = covers || i != wrong;
    const auto& trait = kProblem[i];
    if (holds && !draw.one_in(3)) continue;
    line += std::string(trait.name) + "=";
    line += trait.is == nullptr ? draw_range(draw, trait.number, holds)
            : holds             ? trait.is
                                : trait.is_not;
    line += draw.pick<const char*>({" ", "  ", "\t"});
  }
  return line;
}

struct Made {
  std::string text = "heed-tuning 1\n";
  unsigned lines = 1;
  unsigned covers = 0;  ///< the first line that covers the problem
};

void add(Made& made, const std::string& line) {
  made.text += line + "\n";
  ++made.lines;
}

Made draw_file(Draw& draw, const std::string& cpu) {
  Made made;
  bool here = true;
  add(made, "cpu=" + cpu + " isa=scalar");
  for (std::int64_t n = draw.integer(0, 8); n > 0; --n) {
    const std::uint32_t kind = draw.choice(5);
    if (kind == 4) add(made, draw.pick<const char*>({"", "# tile_q=0", "  ", "\t#"}));
    if (kind == 5) {
      here = draw.one_in(2);
      add(made, here ? "cpu=" + cpu + " isa=scalar" : "cpu=" + cpu + "0 isa=scalar # another");
    }
    if (kind >= 4) continue;
    const bool covers = draw.one_in(2);
    add(made, draw_conditions(draw, covers) +
                  draw.pick<const char*>(
                      {"tile_q=8", "tile_kv=65536", "tile_kv=1 tile_q=100", "tile_q=7\r"}));
    if (here && covers && made.covers == 0) made.covers = made.lines;
  }
  return made;
}

void load(Draw& draw, MemoryFile& file, Made made, bool damaged) {
  if (damaged) damage(draw, made.text, made.text.size(), {"\n", " ", "=", "-", "#", "tile_q=1 "});
  file.write(made.text);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = "scalar";
  options.executor_name = "serial";
  options.tuning_file = file.path();
  heed_context* context = nullptr;
  const heed_status status = heed_context_create(&options, &context);
  const Context owned(context);
  if (status != HEED_STATUS_OK) {
    demand(damaged, heed_last_error());
    demand(status == HEED_STATUS_INVALID_ARGUMENT || status == HEED_STATUS_CORRUPT ||
               status == HEED_STATUS_UNSUPPORTED,
           "a file is refused as something else");
    demand(context == nullptr, "a refused file made a context");
    check_message(heed_last_error(), "options.tuning_file is \"");
    return;
  }
  const heed_attention_info info = describe(make_plan(owned, problem()));
  if (!damaged) demand(info.tuning_line == made.covers, "another line gives tiles");
  std::size_t lines = 1;
  for (const char c : made.text) lines += c == '\n' ? 1 : 0;
  demand(info.tuning_line <= lines, "a line that is not there gives tiles");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  static const std::string cpu = [] {
    heed_context_info info = HEED_CONTEXT_INFO_INIT;
    require_ok(heed_context_describe(fuzz_context().get(), &info));
    return std::string(info.cpu);
  }();
  Draw first(data, size);
  const Made made = draw_file(first, cpu);
  each_variant(first, [&](Draw& draw, bool damaged) { load(draw, file, made, damaged); });
  return 0;
}
