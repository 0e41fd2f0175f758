// What a context is made of: environment variables and options, heed_context_create, and one run
// with whatever tiles came of it.
#include <cstdlib>

#include "tests/fuzz/check.hpp"
#include "tests/problem/attention.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

/// A variable of the environment, whose text stays where it is: setenv would keep every text that
/// there ever was.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {}

  void set(const std::string& value) {
    std::snprintf(text_, sizeof text_, "%s=%s", name_, value.c_str());
    putenv(text_);
  }
  void clear() { unsetenv(name_); }

 private:
  const char* name_;
  char text_[160] = "";
};

/// How a variable or option was chosen.
struct Choice {
  bool valid = true;
  bool given = false;
};

std::string mutated(Draw& draw, std::string text) {
  const auto at = static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(text.size())));
  if (draw.one_in(2)) return text.insert(at, draw.text(6));
  return text.erase(std::min(at, text.size()), 1);
}

/// A name, or seldom something like it.
Choice draw_name(Draw& draw, Variable& variable, const char* name) {
  if (!draw.one_in(2)) return variable.clear(), Choice{};
  std::string text = name;
  if (draw.one_in(4)) text = draw.one_in(2) ? draw.text(100) : mutated(draw, text);
  const std::string seen = text.c_str();  // up to a byte that is 0
  variable.set(text);
  return {seen == name || seen.empty(), !seen.empty()};
}

/// A number, whose bounds are met or not.
Choice draw_number(Draw& draw, Variable& variable, std::int64_t low, std::int64_t high) {
  if (!draw.one_in(2)) return variable.clear(), Choice{};
  const std::int64_t number =
      draw.one_in(3) ? draw.hostile() : draw.integer(low, std::min<std::int64_t>(high, low + 40));
  std::string text = std::to_string(number);
  const bool plain = !draw.one_in(6);
  if (!plain) text = mutated(draw, text);
  variable.set(text);
  if (!plain) return {false, true};  // perhaps valid, perhaps not
  return {number >= low && number <= high, true};
}

std::uint32_t draw_option(Draw& draw, std::uint32_t most, bool& valid) {
  if (!draw.one_in(3)) return 0;
  const std::uint32_t option = draw.one_in(3) ? static_cast<std::uint32_t>(draw.hostile())
                                              : static_cast<std::uint32_t>(draw.integer(0, 40));
  valid = valid && option <= most;
  return option;
}

Problem& problem() {
  static Problem made = [] {
    Problem p(Sizes{37, 21, 3, 2});
    p.fill(1);
    p.want_lse();
    return p;
  }();
  return made;
}

void check_run(const Context& context, bool verbose) {
  static const Expected want = problem().expected();
  const Plan plan = make_plan(context, problem().desc);
  std::size_t bytes = 0;
  require_ok(heed_attention_plan_workspace(plan.get(), &bytes));
  if (bytes > 1 << 16) return;
  PrintedErrors errors;
  const Outputs got = problem().run_all(context);
  const std::string printed = errors.text();
  check_equal("out", problem().out, want.out);
  check_equal("lse", *problem().lse, want.lse);
  demand(printed.empty() != verbose, "HEED_VERBOSE decides whether something is printed");
}

void create(Draw& draw) {
  static Variable isa("HEED_ISA"), executor("HEED_PARALLEL"), threads("HEED_THREADS"),
      product("HEED_PRODUCT"), tile_q("HEED_TILE_Q"), tile_kv("HEED_TILE_KV"),
      verbose("HEED_VERBOSE"), check("HEED_CHECK");
  const Choice named[] = {draw_name(draw, isa, "scalar"), draw_name(draw, executor, "serial"),
                          draw_name(draw, product, "heed")};
  const Choice numbers[] = {draw_number(draw, threads, 1, 1024),
                            draw_number(draw, tile_q, 1, 65536),
                            draw_number(draw, tile_kv, 1, 65536)};
  const bool told = draw.one_in(4);
  if (told) verbose.set("1");
  if (!told) verbose.clear();
  if (draw.one_in(2))
    check.set("1");
  else
    check.clear();

  bool valid = true;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.threads = draw_option(draw, 1024, valid);
  options.tile_q = draw_option(draw, 65536, valid);
  options.tile_kv = draw_option(draw, 65536, valid);
  const std::string name = draw.one_in(8) ? draw.text(60) : "scalar";
  if (draw.one_in(4)) options.isa = name.c_str();
  if (options.isa != nullptr) valid = valid && std::string(name.c_str()) == "scalar";
  if (options.isa == nullptr) valid = valid && named[0].valid;
  heed_executor caller = backwards(3);
  const auto run = caller.run;
  const bool caller_damaged = draw.one_in(4);
  if (caller_damaged) draw.damage(caller);
  caller.run = run;
  const Versioned<heed_executor> caller_given(draw, caller);
  const bool own = draw.one_in(4);
  if (own) options.executor = caller_given.get();
  valid = valid && (own ? !caller_damaged && !caller_given.odd() : named[1].valid);
  valid = valid && named[2].valid;
  for (const Choice& number : numbers) valid = valid && number.valid;

  const Versioned<heed_context_options> given(draw, options);
  const Context context =
      made<heed_context>(!valid || given.odd(), {"options.", "HEED_"}, given.get());
  if (!context) return;
  const heed_context_info info = describe(context);
  demand(info.threads >= 1 && info.threads <= 1024, "a number of threads that cannot be");
  if (draw.one_in(4)) check_run(context, told);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  each_variant(first, [&](Draw& draw, bool) { create(draw); });
  return 0;
}
