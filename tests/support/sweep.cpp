#include "tests/support/sweep.hpp"

#include <algorithm>

namespace heed_test {

OptionReport::~OptionReport() {
  for (const auto& [what, seen] : seen_)
    report(what.c_str(), (std::to_string(seen.problems) + "x").c_str(), seen.worst);
}

void OptionReport::add(const std::string& what, double ratio) {
  Seen& seen = seen_[what];
  seen.worst = std::max(seen.worst, ratio);
  ++seen.problems;
}

}  // namespace heed_test
