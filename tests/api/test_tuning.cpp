// Tuning files: what is refused, and which problems get which tiles. That no bit depends on tiles,
// tests/operations/test_threads.cpp has.
#include "tests/api/files.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

/// The line that begins what is for an ISA of this CPU.
std::string section(const char* isa = "scalar") {
  const Context context = serial();
  return "cpu=" + std::string(describe(context).cpu) + " isa=" + isa + "\n";
}

std::string file_of(const std::string& lines) { return "heed-tuning 1\n" + section() + lines; }

heed_context_options options_with(const char* path) {
  heed_context_options options = serial_options();
  options.isa = "scalar";
  options.tuning_file = path;
  return options;
}

/// Refused in the same words whoever names it.
void check_file_refused(const std::string& text, const std::string& words,
                        heed_status status_of_option = HEED_STATUS_CORRUPT) {
  CAPTURE(text);
  const File file(text);
  const std::string said = "is \"" + std::string(file.path()) + "\"; " + words;
  const std::string path = " = \"" + std::string(file.path()) + '"';
  const auto check = [&](const std::string& source, heed_status as) {
    Form form("context", source + path + R"(, options.isa = "scalar")");
    check_refusal(form.call(nullptr), as, source + " " + said);
    CHECK(form.untouched());
  };
  check("options.tuning_file", status_of_option);
  check("HEED_TUNING_FILE", HEED_STATUS_INVALID_ENVIRONMENT);
}

heed_attention_info tiles_of(const heed_context_options& options, const heed_attention_desc& desc) {
  return describe(make_plan(make_context(&options), desc));
}

heed_attention_info tiles_of_gradients(const heed_context_options& options,
                                       const heed_attention_desc& attention) {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &attention;
  return describe(make_plan(make_context(&options), desc));
}

/// 4 query heads over 2 key heads of 3 items: packs of 200 rows, 6 heads.
heed_attention_desc grouped() {
  heed_attention_desc desc = small_desc(100, 1500, 64, 80);
  desc.batch = 3;
  desc.query_heads = 4;
  desc.key_heads = 2;
  return desc;
}

}  // namespace

TEST_CASE("malformed tuning files are refused", "[tuning][refused][files]") {
  const Environment quiet;
  const struct {
    const char *line, *words;
  } lines[] = {
      {"rows=5", "line 3: it has neither tile_q nor tile_kv"},
      {"tile_q", "line 3: it has \"tile_q\"; it must be NAME=VALUE"},
      {"tile_q=", "line 3: it has \"tile_q=\"; it must be NAME=VALUE"},
      {"=5", "line 3: it has \"=5\"; it must be NAME=VALUE"},
      {"tile_q=0", "line 3: tile_q is \"0\"; it must be a whole number from 1 to 65536"},
      {"tile_kv=65537", "line 3: tile_kv is \"65537\"; it must be a whole number from 1 to 65536"},
      {"tile_q=18446744073709551617", "line 3: tile_q is \"18446744073709551617\"; it must be"},
      {"tile_q=+8", "line 3: tile_q is \"+8\"; it must be"},
      {"tile_q=8x", "line 3: tile_q is \"8x\"; it must be"},
      {"tile_q=8 tile_q=9", "line 3: tile_q is given twice"},
      {"rows=8-9 rows=8 tile_q=8", "line 3: rows is given twice"},
      {"causal=no causal=no tile_q=8", "line 3: causal is given twice"},
      {"rows=0 tile_q=8",
       "line 3: rows is \"0\"; it must be a whole number from 1 to 2^40, or two with a - between"},
      {"rows=9-8 tile_q=8", "line 3: rows is \"9-8\"; it must be a whole number"},
      {"rows=-9 tile_q=8", "line 3: rows is \"-9\"; it must be a whole number"},
      {"rows=1-2-3 tile_q=8", "line 3: rows is \"1-2-3\"; it must be a whole number"},
      {"keys=1-1099511627777 tile_q=8", "line 3: keys is \"1-1099511627777\"; it must be"},
      {"features=64.0 tile_q=8", "line 3: features is \"64.0\"; it must be a whole number"},
      {"key=float tile_q=8",
       "line 3: key is \"float\"; it must be f32, f64, bf16, f16, i8, f8_e4m3"},
      {"value=mask tile_q=8", "line 3: value is \"mask\"; it must be f32"},
      {"causal=1 tile_q=8", "line 3: causal is \"1\"; it must be no, yes"},
      {"row=8 tile_q=8",
       "line 3: it has \"row=\"; the name must be tile_q, tile_kv, key, value, features, "
       "value_features, rows, keys, heads, threads, causal"},
      {"isa=scalar", "line 3: it has \"isa=\"; the name must be tile_q"},
      {"cpu=x", "line 3: it has \"cpu=x\"; isa=NAME must follow, and nothing else"},
      {"cpu=x isa=y tile_q=8", "line 3: it has \"cpu=x\"; isa=NAME must follow"},
      {"cpu= isa=x", "line 3: it has \"cpu=\"; it must be NAME=VALUE"},
      {"# fine\n\n \ttile_q=8 # fine\r\ntile_q=a", "line 6: tile_q is \"a\"; it must be"},
      {"cpu=other isa=neon\ntile_q=a", "line 4: tile_q is \"a\"; it must be"},
      {"# \x1b[31m", "line 3: it has the byte 0x1b; it must be ASCII text"},
      {"# caf\xc3\xa9", "line 3: it has the byte 0xc3; it must be ASCII text"},
  };
  for (const auto& row : lines) check_file_refused(file_of(row.line), row.words);
  check_file_refused(file_of(std::string("tile_q=8\0", 9)), "line 3: it has the byte 0x00");
  check_file_refused("", "line 1: it begins with \"\"; it must be \"heed-tuning 1\"");
  check_file_refused("\nheed-tuning 1\n", "line 1: it begins with \"\"; it must be");
  check_file_refused("heed-tuning 1 2\n", "line 1: it goes on with \"2\"; it must be");
  check_file_refused("tuning 1\n", "line 1: it begins with \"tuning\"; it must be");
  check_file_refused("heed-tuning 1\ntile_q=8\n",
                     "line 2: a line cpu=NAME isa=NAME must come before it");
  for (const std::string version : {"", "2"})
    check_file_refused("heed-tuning " + version + "\nwhatever\n",
                       "line 1: the version is \"" + version + "\"; this library reads 1",
                       HEED_STATUS_UNSUPPORTED);
  const std::string most = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  check_file_refused(file_of(most + most + "=8"),
                     "line 3: it has \"" + most + "=\"; the name must be");
}

TEST_CASE("a tuning file of another CPU or ISA is refused", "[tuning][refused][files]") {
  const Environment quiet;
  std::string here = section();
  here.pop_back();
  const std::string bound = "; it must be for this one, " + here;
  const auto check_foreign = [](const std::string& text, const std::string& words) {
    check_file_refused(text, words, HEED_STATUS_INVALID_ARGUMENT);
  };
  check_foreign("heed-tuning 1", "it is for cpu=none isa=none" + bound);
  check_foreign("heed-tuning 1\ncpu=pentium isa=scalar\ntile_q=8",
                "it is for cpu=pentium isa=scalar" + bound);
  std::string other = section("neon") + "tile_q=8\n";
  check_foreign("heed-tuning 1\n" + other,
                "it is for " + other.substr(0, other.find('\n')) + bound);
}

TEST_CASE("a tuning file that cannot be read is refused", "[tuning][refused][files]") {
  api_test::check_refused("context", R"(
    options.tuning_file = "/nowhere/heed.tuning"
      => (io) ; opening it failed: No such file or directory
    options.tuning_file = "/" | "/dev/null" => must be a regular file
    HEED_TUNING_FILE = "/nowhere/heed.tuning"
      => (environment) ; opening it failed: No such file or directory
  )");
  const std::string most = file_of("tile_q=8");
  const std::string filled = most + std::string((1 << 16) - most.size(), ' ');
  const File fits(filled);
  const heed_context_options options = options_with(fits.path());
  CHECK(tiles_of(options, grouped()).tuning_line == 3);
  check_file_refused(filled + " ", "it has 65537 bytes; it must have at most 65536");
}

TEST_CASE("a tuning file needs memory of the context's allocator", "[tuning][files]") {
  const Environment environment;
  const File file(file_of("tile_q=8\ntile_q=9"));
  environment.set("HEED_TUNING_FILE", file.path());
  CountingAllocator memory;
  heed_context_options options = memory.options();
  options.isa = "scalar";
  // Of the text, the tiles, the path and the context.
  CHECK(refuse_each_request(memory, [&] { return try_context(options); }) >= 4);
}

TEST_CASE("tiles: option > environment > tuning file > automatic, of gradients too",
          "[tuning][files][backward]") {
  const Environment environment;
  environment.set("HEED_TUNING_FILE", "");
  const heed_attention_desc desc = grouped();
  heed_context_options options = options_with(nullptr);
  const heed_attention_info automatic = tiles_of(options, desc);
  const std::uint32_t of_gradients = tiles_of_gradients(options, desc).tile_kv;
  CHECK(automatic.tuning_line == 0);
  CHECK(describe(make_context(&options)).tuning_file == nullptr);

  const auto check = [&](std::uint32_t tile_q, std::uint32_t tile_kv, std::uint32_t line) {
    const heed_attention_info info = tiles_of(options, desc);
    CHECK(info.tile_q == tile_q);
    CHECK(info.tile_kv == tile_kv);
    CHECK(info.tuning_line == line);
    const heed_attention_info backward = tiles_of_gradients(options, desc);  // which have no tile_q
    const bool is_automatic = tile_kv == automatic.tile_kv;
    CHECK(backward.tile_kv == (is_automatic ? of_gradients : tile_kv));
    CHECK(backward.tuning_line == (is_automatic ? 0 : line));
  };
  const File both(file_of("tile_q=48 tile_kv=256"));
  const File rows(file_of("tile_q=48"));
  const File keys(file_of("tile_kv=1024"));
  REQUIRE(automatic.tile_q != 48);
  REQUIRE(automatic.tile_kv != 256);
  environment.set("HEED_TUNING_FILE", both.path());
  check(48, 256, 3);
  CHECK(std::string(describe(make_context(&options)).tuning_file) == both.path());
  options.tuning_file = rows.path();
  check(48, automatic.tile_kv, 3);
  options.tuning_file = keys.path();
  check(automatic.tile_q, 1024, 3);
  options.tuning_file = "";
  check(automatic.tile_q, automatic.tile_kv, 0);
  CHECK(describe(make_context(&options)).tuning_file == nullptr);
  options.tuning_file = both.path();
  environment.set("HEED_TILE_Q", "72");
  check(72, 256, 3);
  environment.set("HEED_TILE_KV", "640");
  check(72, 640, 0);
  options.tile_q = 96;
  check(96, 640, 0);
  options.tile_kv = 256;
  check(96, 256, 0);
}

TEST_CASE("tiles of gradients have fewer keys, because more lies beside them",
          "[tuning][backward]") {
  const Environment quiet;
  heed_attention_desc attention = grouped();
  attention.features = attention.value_features = 8;  // a small cache too has room for two tiles
  attention.key_length = 1 << 20;
  const heed_context_options options = options_with(nullptr);
  CHECK(tiles_of_gradients(options, attention).tile_kv < tiles_of(options, attention).tile_kv);
}

TEST_CASE("the first line of a tuning file that covers a problem gives its tiles",
          "[tuning][files]") {
  const Environment quiet;
  const heed_attention_desc desc = grouped();
  const auto line = [&](const std::string& lines, const heed_attention_desc& of) {
    const File file(file_of(lines));
    return tiles_of(options_with(file.path()), of).tuning_line;
  };
  for (const char* const covers :
       {"key=f32", "value=f32", "features=64", "value_features=80", "rows=200", "rows=1-200",
        "rows=200-1099511627776", "keys=1500", "heads=6", "threads=1", "causal=no",
        "key=f32 value=f32 features=1-64 value_features=80-90 rows=200 keys=2-2000 heads=6"}) {
    CAPTURE(covers);
    CHECK(line(std::string(covers) + " tile_q=40", desc) == 3);
  }
  for (const char* const covers_not :
       {"key=f64", "value=bf16", "features=80", "value_features=64", "rows=100", "rows=201-300",
        "rows=1-199", "keys=1499", "keys=100", "heads=2", "heads=12", "threads=2", "causal=yes",
        "key=f32 value=f32 features=64 value_features=80 rows=200 keys=1500 heads=7"}) {
    CAPTURE(covers_not);
    CHECK(line(std::string(covers_not) + " tile_q=40", desc) == 0);
    CHECK(line(std::string(covers_not) + " tile_q=40\n\ntile_q=8", desc) == 5);
  }
  CHECK(line("tile_q=40\nrows=200 tile_q=48", desc) == 3);
  heed_attention_desc other = desc;
  other.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  CHECK(line("causal=no tile_q=8\ncausal=yes tile_q=8", other) == 4);
  other.key.dtype = HEED_DTYPE_F8_E4M3;
  CHECK(line("key=f32 tile_q=8\nvalue=f32 key=f8_e4m3 tile_q=8", other) == 4);
  other = desc;
  other.query.dtype = other.key.dtype = other.value.dtype = other.out.dtype = HEED_DTYPE_F64;
  CHECK(line("key=f32 tile_q=8\nkey=f64 value=f64 tile_q=8", other) == 4);
  other = desc;
  other.key_length = 0;
  CHECK(line("keys=1 tile_q=8\ntile_q=8", other) == 4);
}

TEST_CASE("of a tuning file's sections, those of the context's CPU and ISA count, as they are then",
          "[tuning][files]") {
  const Environment quiet;
  std::string path;
  Context context;
  {
    const File file("heed-tuning 1 # format\r\ncpu=pentium isa=scalar\ntile_q=8\n" +
                    section("neo") + "tile_q=8\n" + section() +
                    "rows=1 tile_q=8\ncpu=pentium isa=neo\ntile_q=8\n" + section() + "tile_q=48\n");
    path = file.path();
    const heed_context_options options = options_with(path.c_str());
    context = make_context(&options);
  }
  const heed_attention_info info = describe(make_plan(context, grouped()));
  CHECK(info.tuning_line == 11);
  CHECK(info.tile_q == 48);
  CHECK(describe(context).tuning_file == path);
}

TEST_CASE("HEED_VERBOSE=1 shows the tuning file's line", "[tuning][verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  const File file(file_of("tile_q=48 tile_kv=128"));
  const heed_context_options options = options_with(file.path());
  const Context context = make_context(&options);
  Captured err(STDERR_FILENO);
  (void)run(context);
  check_contains(err.text(), {"tiles 48 x 128 of line 3, "});
}
