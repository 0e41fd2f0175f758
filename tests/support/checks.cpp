#include "tests/support/checks.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

namespace heed_test {
namespace {

const std::vector<Element>& elements_of(const Expected& want, std::size_t of) {
  const std::vector<Element>* const all[] = {&want.out, &want.lse, &want.weights,
                                             &want.column_sums};
  return *all[of];
}

/// As float32 has them: where a finite log-sum-exp is past its range, the end of what scores have.
double as_log_sum(double x) {
  return std::isfinite(x) ? std::clamp(x, -0x1.fffffep127, 0x1.fffffcp127) : x;
}

bool is_rounded(const Numbers& a, std::size_t i, const Numbers& b, bool log_sums) {
  if (a.written(i) != b.written(i)) return false;
  double wide = b[i];
  if (!a.written(i) || (std::isnan(a[i]) && std::isnan(wide))) return true;
  if (a.dtype == b.dtype) return a.bits[i] == b.bits[i];
  if (log_sums && a.dtype == HEED_DTYPE_F32) wide = as_log_sum(wide);
  return a.bits[i] == encode(a.dtype, wide);
}

bool check_rounded(const std::string& what, const Numbers& a, const Numbers& b, bool log_sums) {
  std::size_t i = 0;
  if (a.size() == b.size())
    while (i < a.size() && is_rounded(a, i, b, log_sums)) ++i;
  if (i == a.size() && i == b.size()) return true;
  std::ostringstream message;
  message << what << " has " << a.size() << " and " << b.size() << " elements, or others from " << i
          << " on";
  if (i < std::min(a.size(), b.size()))
    message << std::setprecision(17) << ": " << a[i] << " and " << b[i];
  FAIL_CHECK(message.str());
  return false;
}

/// Calls function(a, b) for every result that both runs have.
template <class Function>
void each_common(const Results& a, const Results& b, Function&& function) {
  for (const Result& x : a)
    for (const Result& y : b)
      if (x.of == y.of) function(x, y);
}

}  // namespace

Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude) {
  Problem problem(sizes);
  problem.fill(seed, amplitude);
  return problem;
}

void set_window(Problem& p, std::int64_t left, std::int64_t right, std::int64_t offset) {
  p.desc.window = 1;
  p.desc.window_left = left;
  p.desc.window_right = right;
  p.desc.alignment = HEED_ALIGNMENT_OFFSET;
  p.desc.alignment_offset = offset;
}

void want_all(Problem& p, heed_weights_point point) {
  if (p.desc.hard == 0) p.want_lse();
  p.want_weights(point);
  p.want_column_sums();
}

bool same_element(const Numbers& a, std::size_t i, const Numbers& b, std::size_t k) {
  if (a.written(i) != b.written(k)) return false;
  return a.bits[i] == b.bits[k] || (std::isnan(a[i]) && std::isnan(b[k]));
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

double check_elements(const std::string& what, const Numbers& got, const std::vector<Element>& want,
                      Unspecified unspecified) {
  const Comparison comparison = compare_elements(what, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.ratio;
}

bool check_bits(const std::string& what, const Results& a, const Results& b) {
  bool same = a.size() == b.size();
  each_common(a, b, [&](const Result& x, const Result& y) {
    if (same_bits(x.numbers, y.numbers)) return;
    same = false;
    FAIL_CHECK(what << ": other bits of " << x.name);
  });
  return same;
}

bool check_same(const std::string& what, const Numbers& a, const Numbers& b) {
  return check_rounded(what, a, b, false);
}

bool check_same(const std::string& what, const Outputs& a, const Outputs& b) {
  const bool results[] = {check_same(what + ", out", a.out, b.out),
                          check_same(what + ", lse", a.lse, b.lse),
                          check_same(what + ", weights", a.weights, b.weights),
                          check_same(what + ", column sums", a.column_sums, b.column_sums)};
  return results[0] && results[1] && results[2] && results[3];
}

bool check_same_numbers(const std::string& what, const Results& a, const Results& b) {
  bool all = true;
  each_common(a, b, [&](const Result& x, const Result& y) {
    all = check_rounded(what + ": " + x.name, x.numbers, y.numbers, x.name == "lse") && all;
  });
  return all;
}

Wanted wanted(Expected expected) {
  return [all = std::move(expected)](const std::string& isa, const Result& got) {
    const Expected& want = all.on(isa);
    return got.of == 0 ? chosen(got.numbers, want) : elements_of(want, got.of);
  };
}
Wanted wanted(BackwardProblem& p) {
  return [all = p.expected()](const std::string& isa, const Result& got) {
    return all.on(isa)[got.of];
  };
}
Wanted wanted(BlockBackward& p) {
  std::map<std::string, ExpectedBlockGradients> all = {{"", p.expected()}};
  for (const char* const isa : isa_names())
    if (multiplies_pairs(isa)) all.emplace(isa, p.expected(isa));
  return [all](const std::string& isa, const Result& got) {
    return all.at(all.count(isa) != 0 ? isa : "")[got.of];
  };
}
Wanted wanted(GraphBackwardProblem& p) {
  return [all = p.expected()](const std::string&, const Result& got) { return all[got.of]; };
}
Wanted wanted(Projection& p) {
  return [p](const std::string& isa, const Result&) { return p.expected_on(isa.c_str()); };
}

double check_results(const std::string& what, const Results& got, const Wanted& want,
                     const std::string& isa, Unspecified unspecified) {
  double worst = 0;
  for (const Result& result : got)
    worst = std::max(worst, check_elements(what + ", " + result.name, result.numbers,
                                           want(isa, result), unspecified));
  return worst;
}

}  // namespace heed_test
