// Arithmetic with sizes.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace heed {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_down(std::int64_t a, std::int64_t b) { return a / b * b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Counts of elements stay below this, so that their bytes, of any type, fit an address, even one
/// step past the last.
inline constexpr std::int64_t kFarthest = INT64_MAX >> 5;

/// A product or sum of callers' sizes, which are at least 0. A result out of the range of
/// integers becomes the largest one and stays too large, so that it is enough to check the end
/// result.
class Size {
 public:
  constexpr Size(std::int64_t value) : value_(value) {}

  friend constexpr Size operator*(Size a, Size b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &result) ? INT64_MAX : result;
  }
  friend constexpr Size operator+(Size a, Size b) {
    std::int64_t result = 0;
    return __builtin_add_overflow(a.value_, b.value_, &result) ? INT64_MAX : result;
  }

  constexpr bool fits() const { return value_ <= kFarthest; }

  /// Some value past kFarthest if it does not fit.
  constexpr std::int64_t value() const { return value_; }

  /// A field, as in "desc.heads", and its value.
  struct Field {
    const char* name;
    std::int64_t value;
  };

  /// The value. If it does not fit, throws an Error that names `what` and the fields it is made of.
  std::int64_t checked(const char* what, std::initializer_list<Field> fields) const {
    if (!fits()) refuse(what, fields);
    return value_;
  }

 private:
  [[noreturn]] static void refuse(const char* what, std::initializer_list<Field> fields);

  std::int64_t value_;
};

inline Size round_up(Size a, std::int64_t b) { return a.fits() ? Size(round_up(a.value(), b)) : a; }

}  // namespace heed
