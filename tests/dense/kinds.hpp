// What the tests of forms share: the types that problems come in, and results that must be the
// same, to the bit or but for rounding.
#pragma once

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/attention.hpp"

namespace heed_test {

/// A choice of types for the four tensors.
struct Kind {
  const char* name;
  Types types;
};

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"f32", {}},
      {"f64", all_of(HEED_DTYPE_F64)},
      {"bf16", all_of(HEED_DTYPE_BF16)},
      {"f16", all_of(HEED_DTYPE_F16)},
      {"mixed", {HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F32, HEED_DTYPE_F16}}};
  static const std::vector<Kind> few = {all[0], all[1], all[4]};
  return small() ? few : all;
}

/// One context per instruction set, made once.
class IsaContexts {
 public:
  explicit IsaContexts(const Choices& choices = {}) {
    for (const char* const isa : isa_names()) all_.push_back(make_context(isa, choices));
  }
  std::size_t size() const { return all_.size(); }
  const Context& operator[](std::size_t i) const { return all_[i]; }
  static const char* name(std::size_t i) { return isa_names()[i]; }

 private:
  std::vector<Context> all_;
};

/// Whether element i of one and element k of the other were written alike and have the same bits;
/// of NaN the payload does not matter.
inline bool same_element(const Numbers& a, std::size_t i, const Numbers& b, std::size_t k) {
  if (a.written(i) != b.written(k)) return false;
  return a.bits[i] == b.bits[k] || (std::isnan(a[i]) && std::isnan(b[k]));
}

/// The first element of which that is not so, or how many there are.
inline std::size_t first_difference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size() || a.dtype != b.dtype) return 0;
  std::size_t i = 0;
  while (i < a.size() && same_element(a, i, b, i)) ++i;
  return i;
}

inline bool check_same(const std::string& what, const Numbers& a, const Numbers& b) {
  const std::size_t at = first_difference(a, b);
  if (at == a.size() && a.size() == b.size()) return true;
  std::ostringstream message;
  message << std::setprecision(17) << what << ": " << a.size() << " and " << b.size()
          << " elements, of two types or different at " << at;
  if (at < a.size() && at < b.size()) message << ": " << a[at] << " and " << b[at];
  FAIL_CHECK(message.str());
  return false;
}

inline bool check_same(const std::string& what, const Outputs& a, const Outputs& b) {
  const bool results[] = {check_same(what + ", out", a.out, b.out),
                          check_same(what + ", lse", a.lse, b.lse),
                          check_same(what + ", weights", a.weights, b.weights),
                          check_same(what + ", column sums", a.column_sums, b.column_sums)};
  return results[0] && results[1] && results[2] && results[3];
}

/// How far apart a and b are, in units of what they may be.
inline double distance(double a, double b, double allowed) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInfinity;
  if (a == b) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) / allowed : kInfinity;
}

/// A bound that says something: far below the number, or 1.
inline bool is_tight(double bound, double x, std::uint32_t dtype) {
  const double loosest = dtype == HEED_DTYPE_F64 ? 1e-11 : format_of(dtype).bytes == 4 ? 1e-3 : 0.1;
  return !std::isfinite(x) || bound < loosest * std::max(std::fabs(x), 1.0);
}

/// Element i of `a` and element `place(i)` of `b` are the same number but for rounding: each lies
/// within its oracle's bound of it. Of the oracle no value is used, only the bounds.
template <class Place>
bool check_close(const std::string& what, const Numbers& a, const std::vector<Element>& bounds_a,
                 const Numbers& b, const std::vector<Element>& bounds_b, Place&& place) {
  if (a.size() != b.size() || a.size() != bounds_a.size() || b.size() != bounds_b.size()) {
    FAIL_CHECK(what << ": " << a.size() << " and " << b.size() << " elements");
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t k = place(i);
    const double allowed = bounds_a[i].bound + bounds_b[k].bound;
    const bool tight = is_tight(allowed, bounds_a[i].value, a.dtype);
    if (tight && a.written(i) == b.written(k) && distance(a[i], b[k], allowed) <= 1) continue;
    FAIL_CHECK(what << ": element " << i << " is " << std::setprecision(17) << a[i] << " and "
                    << b[k] << " in the other, " << allowed << " apart allowed");
    return false;
  }
  return true;
}

inline bool check_close(const std::string& what, const Numbers& a,
                        const std::vector<Element>& bounds_a, const Numbers& b,
                        const std::vector<Element>& bounds_b) {
  return check_close(what, a, bounds_a, b, bounds_b, [](std::size_t i) { return i; });
}

}  // namespace heed_test
