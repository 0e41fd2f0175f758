#include "tests/support/checks.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

namespace heed_test {
namespace {

Results results_of(const Outputs& got, const Tensor& out, const Problem& p) {
  Results all = {{0, "out", out.shape(), got.out}};
  if (p.lse) all.push_back({1, "lse", p.lse->shape(), got.lse});
  if (p.weights)
    all.push_back({2, std::string("weights, ") + name_of_point(p.desc.weights_point),
                   p.weights->shape(), got.weights});
  if (p.column_sums) all.push_back({3, "column sums", p.column_sums->shape(), got.column_sums});
  return all;
}

template <class AnyProblem, class Gradients>
Results gradients_in(const Gradients& got, const AnyProblem& p) {
  Results all;
  for (const auto of : p.all())
    if (p.gradients[of])
      all.push_back(
          {of, std::string("gradient of ") + name_of(of), p.gradients[of]->shape(), got[of]});
  return all;
}

const std::vector<Element>& elements_of(const Expected& want, std::size_t of) {
  const std::vector<Element>* const all[] = {&want.out, &want.lse, &want.weights,
                                             &want.column_sums};
  return *all[of];
}

/// As float32 has them: where a finite log-sum-exp is past its range, the end of what scores have.
double as_log_sum(double x) {
  return std::isfinite(x) ? std::clamp(x, -0x1.fffffep127, 0x1.fffffcp127) : x;
}

bool is_rounded(const Result& a, std::size_t i, const Result& b) {
  if (a.numbers.written(i) != b.numbers.written(i)) return false;
  const double narrow = a.numbers[i];
  double wide = b.numbers[i];
  if (!a.numbers.written(i) || (std::isnan(narrow) && std::isnan(wide))) return true;
  const bool other = a.numbers.dtype != b.numbers.dtype;
  if (other && a.name == "lse" && a.numbers.dtype == HEED_DTYPE_F32) wide = as_log_sum(wide);
  return a.numbers.bits[i] == (other ? encode(a.numbers.dtype, wide) : b.numbers.bits[i]);
}

/// Calls function(a, b) for every result that both runs have.
template <class Function>
void each_common(const Results& a, const Results& b, Function&& function) {
  for (const Result& x : a)
    for (const Result& y : b)
      if (x.of == y.of) function(x, y);
}

}  // namespace

Report::Report(const char* what) : what_(what), worst_(isa_names().size(), 0.0) {}

Report::~Report() {
  for (std::size_t i = 0; i < worst_.size(); ++i) report(what_.c_str(), isa_names()[i], worst_[i]);
}

void Report::add(std::size_t isa, double ratio) { worst_[isa] = std::max(worst_[isa], ratio); }

double check_elements(const std::string& what, const Axes& shape, const Numbers& got,
                      const std::vector<Element>& want, Unspecified unspecified) {
  const Comparison comparison = compare_elements(what, shape, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.ratio;
}

Results run(Problem& p, const Context& context) { return results_of(p.run_all(context), p.out, p); }
Results run(Block& p, const Context& context) {
  return results_of(p.run_all(context), p.out, p.attention);
}
Results run(GraphProblem& p, const Context& context) {
  const GraphOutputs got = p.run(context);
  Results all = {{0, "out", p.out->shape(), got.out}};
  if (p.lse) all.push_back({1, "lse", p.lse->shape(), got.lse});
  if (p.weights) all.push_back({2, "weights", p.weights->shape(), got.weights});
  return all;
}
Results run(BackwardProblem& p, const Context& context) { return gradients_in(p.run(context), p); }
Results run(BlockBackwardCall& p, const Context& context) {
  return gradients_in(p.BlockBackward::run(context, p.keeps), p);
}
Results run(GraphBackwardProblem& p, const Context& context) {
  return gradients_in(p.run(context), p);
}
Results run(Merge& m, const Context& context) {
  const Merged got = m.run_all(context);
  return {{0, "out", m.out.shape(), got.out}, {1, "lse", m.lse.shape(), got.lse}};
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

bool check_same_numbers(const std::string& what, const Results& a, const Results& b) {
  bool all = true;
  each_common(a, b, [&](const Result& x, const Result& y) {
    std::size_t i = 0;
    if (x.numbers.size() == y.numbers.size())
      while (i < x.numbers.size() && is_rounded(x, i, y)) ++i;
    if (i == x.numbers.size() && i == y.numbers.size()) return;
    all = false;
    std::ostringstream message;
    message << what << ": " << x.name << " has " << x.numbers.size() << " and " << y.numbers.size()
            << " elements, or others from " << i << " on";
    if (i < std::min(x.numbers.size(), y.numbers.size()))
      message << std::setprecision(17) << ": " << x.numbers[i] << " and " << y.numbers[i];
    FAIL_CHECK(message.str());
  });
  return all;
}

Wanted wanted(Expected expected) {
  return [all = std::move(expected)](const std::string& isa, const Result& got) {
    const Expected& want = all.on(isa);
    return got.of == 0 ? chosen(got.numbers, want) : elements_of(want, got.of);
  };
}
Wanted wanted(GraphProblem& p) {
  return [want = p.expected()](const std::string&, const Result& got) {
    const std::vector<Element>* const all[] = {&want.out, &want.lse, &want.weights};
    return *all[got.of];
  };
}
Wanted wanted(BackwardProblem& p) {
  return [all = p.expected()](const std::string& isa, const Result& got) {
    return all.on(isa)[got.of];
  };
}
Wanted wanted(BlockBackwardCall& p) {
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
Wanted wanted(Merge& m) {
  return [want = m.expected()](const std::string&, const Result& got) {
    return got.of == 0 ? want.out : want.lse;
  };
}

double check_results(const std::string& what, const Results& got, const Wanted& want,
                     const std::string& isa, Unspecified unspecified) {
  double worst = 0;
  for (const Result& result : got)
    worst = std::max(worst, check_elements(what + ", " + result.name, result.shape, result.numbers,
                                           want(isa, result), unspecified));
  return worst;
}

}  // namespace heed_test
