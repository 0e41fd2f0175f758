#include "tests/support/compare.hpp"

#include <algorithm>
#include <cmath>
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

}  // namespace

Comparison compare_elements(const std::string& what, const Numbers& got,
                            const std::vector<Element>& want, Unspecified unspecified) {
  const Verdict verdict = compare(got, want);
  const bool bounded = unspecified == Unspecified::kAllowed || verdict.unspecified == 0;
  if (verdict.ratio <= 1 && bounded) return {verdict.ratio, {}};
  std::ostringstream message;
  message << what << ": ";
  if (got.size() != want.size())
    message << got.size() << " elements, expected " << want.size();
  else if (verdict.ratio <= 1)
    message << verdict.unspecified << " of " << want.size() << " elements have no bound";
  else if (is_written(got, verdict.at) != want[verdict.at].written)
    message << "element " << element_name(got.shape, verdict.at)
            << (want[verdict.at].written ? " was not written" : " was written");
  else
    message << std::setprecision(17) << "element " << element_name(got.shape, verdict.at) << " is "
            << got[verdict.at] << ", expected " << want[verdict.at].value << " within "
            << want[verdict.at].bound;
  return {verdict.ratio, message.str()};
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

}  // namespace heed_test
