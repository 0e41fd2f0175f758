#include "tests/support/sweep.hpp"

#include <algorithm>
#include <utility>

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

void OptionPairs::add(const std::vector<const char*>& options) {
  for (const char* const a : options)
    for (const char* const b : options) ++met_[a][b];
}

std::string OptionPairs::missing() const {
  const auto type = [](const std::string& name) {
    return name == "float32" || name == "float64" || name == "16 bits";
  };
  const std::vector<std::pair<std::string, std::string>> exclusive = {
      {"hard", "sinks"}, {"hard", "temperature"}, {"packed keys", "pages"}};
  for (const auto& [a, with] : met_)
    for (const auto& [b, also] : met_) {
      const bool ruled_out = (type(a) && type(b)) || std::find(exclusive.begin(), exclusive.end(),
                                                               std::pair(a, b)) != exclusive.end();
      if (a < b && !ruled_out && with.count(b) == 0) return a + " and " + b;
    }
  return "";
}

}  // namespace heed_test
