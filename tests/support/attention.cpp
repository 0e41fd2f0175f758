#include "tests/support/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <sstream>

namespace heed_test {
namespace {

/// Which element of an array of this shape, as [b, h, i, x].
std::string element_name(const Axes& shape, std::size_t at) {
  auto index = static_cast<std::int64_t>(at);
  std::string name = "]";
  for (std::size_t axis = 4; axis-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(shape[axis], 1);
    name.insert(0, (axis == 0 ? "[" : ",") + std::to_string(index % size));
    index /= size;
  }
  return name;
}

/// check_elements, of any kind of numbers.
template <class Numbers>
double check_numbers(const std::string& what, const Axes& shape, const Numbers& got,
                     const std::vector<Element>& want, Unspecified unspecified) {
  const Verdict verdict = compare(got, want);
  const bool bounded = unspecified == Unspecified::kAllowed || verdict.unspecified == 0;
  if (verdict.ratio <= 1 && bounded) return verdict.ratio;
  std::ostringstream message;
  message << what << ": ";
  if (got.size() != want.size())
    message << got.size() << " elements, expected " << want.size();
  else if (verdict.ratio <= 1)
    message << verdict.unspecified << " of " << want.size() << " elements have no bound";
  else if (is_written(got, verdict.at) != want[verdict.at].written)
    message << "element " << element_name(shape, verdict.at)
            << (want[verdict.at].written ? " was not written" : " was written");
  else
    message << std::setprecision(17) << "element " << element_name(shape, verdict.at) << " is "
            << got[verdict.at] << ", expected " << want[verdict.at].value << " within "
            << want[verdict.at].bound;
  FAIL_CHECK(message.str());
  return verdict.ratio;
}

}  // namespace

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Report::Report(const char* what) : what_(what), worst_(isa_names().size(), 0.0) {}

Report::~Report() {
  for (std::size_t i = 0; i < worst_.size(); ++i) report(what_.c_str(), isa_names()[i], worst_[i]);
}

void Report::add(std::size_t isa, double ratio) { worst_[isa] = std::max(worst_[isa], ratio); }

double check_elements(const std::string& what, const Axes& shape, const Numbers& got,
                      const std::vector<Element>& want, Unspecified unspecified) {
  return check_numbers(what, shape, got, want, unspecified);
}

double check_result(const heed_attention_desc& desc, const char* isa, const std::vector<float>& got,
                    const std::vector<Element>& want) {
  const Axes shape = {desc.batch, desc.query_heads, desc.query_length, value_features_of(desc)};
  return check_numbers(std::string(isa) + ": " + line_of(desc) + ", out", shape, got, want,
                       Unspecified::kForbidden);
}

std::vector<Element> chosen(const Numbers& got, const Expected& expected) {
  const auto worst = [&](const std::vector<Element>& elements, std::size_t first) {
    double ratio = 0;
    for (std::size_t x = 0; x < elements.size(); ++x)
      if (std::isfinite(elements[x].bound))
        ratio = std::max(ratio, ratio_of(got[first + x], elements[x]));
    return ratio;
  };
  std::vector<Element> want = expected.out;
  for (const OtherRow& other : expected.others) {
    const auto at = want.begin() + static_cast<std::ptrdiff_t>(other.first);
    const auto width = static_cast<std::ptrdiff_t>(other.elements.size());
    if (worst(other.elements, other.first) < worst({at, at + width}, other.first))
      std::copy(other.elements.begin(), other.elements.end(), at);
  }
  return want;
}

Ratios check_further(const std::string& line, const Problem& problem, const Outputs& got,
                     const Expected& want, Unspecified unspecified) {
  const auto check = [&](const char* what, const std::optional<Tensor>& tensor,
                         const Numbers& numbers, const std::vector<Element>& elements) {
    if (!tensor) return 0.0;
    return check_elements(line + what, tensor->shape(), numbers, elements, unspecified);
  };
  return {0, check("lse", problem.lse, got.lse, want.lse),
          check("weights", problem.weights, got.weights, want.weights),
          check("column sums", problem.column_sums, got.column_sums, want.column_sums)};
}

Ratios check_outputs(const Problem& problem, const std::string& isa, const Outputs& got,
                     const Expected& want, Unspecified unspecified) {
  const std::string line = isa + ": " + line_of(problem) + ", ";
  Ratios ratios = check_further(line, problem, got, want, unspecified);
  ratios.out = check_elements(line + "out", problem.out.shape(), got.out, chosen(got.out, want),
                              unspecified);
  return ratios;
}

void check_isas(const std::string& line, Report* report,
                const std::function<double(std::size_t, const char*)>& check) {
  const auto isas = isa_names();
  for (std::size_t i = 0; i < isas.size(); ++i) {
    INFO(isas[i] << ": " << line);
    const double worst = check(i, isas[i]);
    if (report != nullptr) report->add(i, worst);
  }
  SUCCEED();
}

void check_problem(Problem& problem, Report* report, Unspecified unspecified) {
  const Expected want = problem.expected_all();
  check_isas(line_of(problem), report, [&](std::size_t, const char* isa) {
    return check_outputs(problem, isa, problem.run_all(isa), want, unspecified).worst();
  });
}

}  // namespace heed_test
