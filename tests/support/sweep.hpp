// Thousands of random problems, each from a seed of its own, against the oracle.
//
//   HEED_TEST_SEED=123   runs only the problem of that seed, and prints it
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/oracle/backward.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/contexts.hpp"

namespace heed_test {

/// The worst error / bound per option and output, and how many problems had it.
class OptionReport {
 public:
  OptionReport() = default;
  OptionReport(const OptionReport&) = delete;
  OptionReport& operator=(const OptionReport&) = delete;
  ~OptionReport();
  void add(const std::string& what, double ratio);

 private:
  struct Seen {
    double worst = 0;
    std::size_t problems = 0;
  };
  std::map<std::string, Seen> seen_;
};

/// Which options met which in a problem.
class OptionPairs {
 public:
  void add(const std::vector<const char*>& options);
  /// Two that did not although both occurred, and no problem rules them out together.
  std::string missing() const;

 private:
  std::map<std::string, std::map<std::string, std::size_t>> met_;
};

/// What the checks of a sweep share.
struct Sweep {
  Contexts contexts;
  OptionReport options;
  OptionPairs pairs;
  Coverage coverage;
};

/// Runs a problem, or says why that failed. (Messages of Catch2 outlive exceptions: none passes.)
template <class AnyProblem>
std::optional<Outputs> try_run(AnyProblem& problem, const Context& context) {
  try {
    return problem.run_all(context);
  } catch (const std::runtime_error& error) {
    FAIL_CHECK(error.what());
    return std::nullopt;
  }
}

/// Runs a problem of a seed everywhere: its outputs are within the oracle's bounds, which add_to
/// reports; other tiles and threads change no bit of any, nor does asking for them change `out`.
/// `asked` is the part of the problem that says what is asked for.
template <class AnyProblem, class AddTo>
bool check_everywhere(AnyProblem& problem, Problem& asked, const Expected& want, std::uint64_t seed,
                      const Choices& choices, Sweep& sweep, AddTo&& add_to) {
  sweep.coverage.add(want.out);
  bool good = true;
  std::vector<Outputs> runs;
  for (const char* const isa : isa_names()) {
    const auto got = try_run(problem, sweep.contexts.get(isa, choices));
    if (!got) return false;
    const Ratios ratios = check_outputs(problem, isa, *got, want, Unspecified::kAllowed);
    add_to(sweep.options, problem, ratios);
    good = good && ratios.worst() <= 1;
    runs.push_back(*got);
  }
  const bool alone = seed % 2 == 0;
  if (alone) asked.want_nothing_else();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto again = try_run(problem, sweep.contexts.get(isa_names()[i], {}));
    if (!again) return false;
    if (alone ? same_bits(again->out, runs[i].out) : same_bits(*again, runs[i])) continue;
    FAIL_CHECK(isa_names()[i] << ": other bits with other tiles"
                              << (alone ? " and nothing but out" : ""));
    good = false;
  }
  return good;
}

/// What is expected on an instruction set.
template <class Wanted>
const Wanted& on_isa(const Wanted& want, const std::string&) {
  return want;
}
inline const ExpectedGradients& on_isa(const ExpectedGradients& want, const std::string& isa) {
  return want.on(isa);
}

/// The same for gradients, which other tiles and threads do not change either.
template <class AnyProblem, class AllWanted, class AddTo>
bool check_gradients_everywhere(AnyProblem& problem, const std::string& line, const AllWanted& want,
                                const Choices& choices, Sweep& sweep, AddTo&& add_to) {
  for (const auto& elements : want) sweep.coverage.add(elements);
  bool good = true;
  for (const char* const isa : isa_names()) {
    const auto got = problem.run(sweep.contexts.get(isa, choices));
    const auto compared = compare_gradients(isa + (": " + line), problem, got, on_isa(want, isa),
                                            Unspecified::kAllowed);
    if (!compared.wrong.empty()) FAIL_CHECK(compared.wrong);
    add_to(sweep.options, problem, compared);
    const bool same = same_bits(problem.run(sweep.contexts.get(isa, {})), got);
    if (!same) FAIL_CHECK(isa << ": other bits with other tiles and threads");
    good = good && compared.worst() <= 1 && same;
  }
  return good;
}

/// Expects check(seed, sweep) of the seeds from 1 on, as many as there are cases; line(seed) says
/// what the problem of a seed is. Stops at the tenth failure.
template <class Line, class Check>
void sweep_seeds(std::size_t cases, const Line& line, const Check& check) {
  Sweep sweep;
  if (const char* const only = std::getenv("HEED_TEST_SEED")) {
    const std::uint64_t seed = std::strtoull(only, nullptr, 10);
    WARN("seed " << seed << ": " << line(seed));
    CHECK(check(seed, sweep));
    return;
  }
  std::size_t failures = 0;
  for (std::uint64_t seed = 1; seed <= cases && failures < 10; ++seed)
    failures += check(seed, sweep) ? 0 : 1;
  CHECK(failures == 0);
  // Few enough that the sweep checks what it seems to.
  const Coverage& coverage = sweep.coverage;
  INFO(coverage.unspecified << " of " << coverage.elements << " elements without a bound");
  CHECK(coverage.unspecified * 20 < coverage.elements);
  if (!small()) CHECK(sweep.pairs.missing().empty());
}

/// Calls check(problem, seed) for the problems that Draws draws, one from every seed; check says
/// whether there was something to see, which `at_least` so many of the full number must have.
template <class Draws, class Check>
void check_drawn(std::size_t full, std::size_t at_least, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    auto problem = Draws(seed).draw();
    INFO("seed " << seed << ": " << line_of(problem));
    seen += check(problem, seed) ? 1 : 0;
  }
  CHECK((small() || seen >= at_least));
}

}  // namespace heed_test
