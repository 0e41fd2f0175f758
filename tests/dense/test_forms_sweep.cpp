// Thousands of random problems of every form, each from a seed of its own, against the oracle.
//
//   HEED_TEST_SEED=123   runs only the problem of that seed, and prints it
#include <cstdlib>
#include <map>

#include "tests/dense/random_forms.hpp"
#include "tests/support/contexts.hpp"

using namespace heed_test;

namespace {

/// The worst error / bound per option and output.
class OptionReport {
 public:
  ~OptionReport() {
    for (const auto& [what, ratio] : worst_)
      report(what.c_str(), (std::to_string(cases_[what]) + "x").c_str(), ratio);
  }
  void add(const Problem& p, const Ratios& ratios) {
    const auto option = [&](const char* what, bool used) {
      if (used) add(std::string("out, ") + what, ratios.out);
    };
    option("float32", p.out.dtype() == HEED_DTYPE_F32);
    option("float64", p.out.dtype() == HEED_DTYPE_F64);
    option("16 bits", format_of(p.out.dtype()).bytes == 2);
    option("mask", p.mask.has_value());
    option("bias", p.bias.has_value());
    option("slopes", !p.slopes.numbers.empty());
    option("softcap", p.desc.softcap > 0);
    option("score function", p.function.call != nullptr);
    option("temperature", p.desc.temperature != 0);
    option("hard", p.desc.hard != 0);
    option("sinks", !p.sinks.numbers.empty());
    option("window", p.desc.window != 0);
    option("key lengths", !p.key_lengths.empty());
    option("packed queries", p.desc.packed_queries > 0);
    option("packed keys", p.desc.packed_keys > 0);
    if (p.lse) add("lse", ratios.lse);
    if (p.weights)
      add(std::string("weights, ") + name_of_point(p.desc.weights_point), ratios.weights);
    if (p.column_sums) add("column sums", ratios.column_sums);
  }

 private:
  void add(const std::string& what, double ratio) {
    worst_[what] = std::max(worst_[what], ratio);
    ++cases_[what];
  }
  std::map<std::string, double> worst_;
  std::map<std::string, std::size_t> cases_;
};

/// Other tiles and threads change no bit of any output, nor does asking for outputs change `out`.
bool check_again(Problem& problem, const char* isa, const Outputs& before, bool alone,
                 Contexts& contexts) {
  if (alone) problem.want_nothing_else();
  const std::optional<Outputs> again = try_run(problem, contexts.get(isa, {}));
  if (!again) return false;
  if (alone ? same_bits(again->out, before.out) : same_bits(*again, before)) return true;
  FAIL_CHECK(isa << ": other bits with other tiles" << (alone ? " and nothing but out" : ""));
  return false;
}

/// Draws a problem, runs it everywhere, and says whether all was right.
bool check_seed(std::uint64_t seed, Contexts& contexts, OptionReport& options, Coverage& coverage) {
  Problem problem = RandomForms(seed).draw();
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  INFO("HEED_TEST_SEED=" << seed << ": " << line_of(problem) << "; " << choices.executor
                         << ", tiles " << choices.tile_q << " x " << choices.tile_kv);
  const Expected want = problem.expected_all();
  coverage.add(want.out);
  bool good = true;
  std::vector<std::optional<Outputs>> runs;
  for (const char* const isa : isa_names()) {
    runs.push_back(try_run(problem, contexts.get(isa, choices)));
    if (!runs.back()) return false;
    const Ratios ratios = check_outputs(problem, isa, *runs.back(), want, Unspecified::kAllowed);
    options.add(problem, ratios);
    good = good && ratios.worst() <= 1;
  }
  for (std::size_t i = 0; i < runs.size(); ++i)
    good = check_again(problem, isa_names()[i], *runs[i], seed % 2 == 0, contexts) && good;
  return good;
}

}  // namespace

TEST_CASE("random problems of every form", "[sweep][forms]") {
  Contexts contexts;
  OptionReport options;
  Coverage coverage;
  if (const char* const only = std::getenv("HEED_TEST_SEED")) {
    const std::uint64_t seed = std::strtoull(only, nullptr, 10);
    WARN("seed " << seed << ": " << line_of(RandomForms(seed).draw()));
    CHECK(check_seed(seed, contexts, options, coverage));
    return;
  }
  const std::size_t cases = count(20000);
  std::size_t failures = 0;
  for (std::uint64_t seed = 1; seed <= cases && failures < 10; ++seed)
    failures += check_seed(seed, contexts, options, coverage) ? 0 : 1;
  CHECK(failures == 0);
  // Few enough that the sweep checks what it seems to.
  INFO(coverage.unspecified << " of " << coverage.elements << " elements without a bound");
  CHECK(coverage.unspecified * 20 < coverage.elements);
}
