#include <algorithm>
#include <cstdint>
#include <numeric>

#include "engine/audit/audit.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// The bytes [begin, end) that a tensor reaches, with gaps or not.
struct ByteSpan {
  std::uintptr_t begin, end;
};

ByteSpan bytes_of(const GivenTensor& tensor) {
  const Strides& strides = tensor.layout.strides;
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (int axis = 0; axis < 4; ++axis) {
    if (tensor.sizes[axis] == 1) continue;
    const std::int64_t reach = (tensor.sizes[axis] - 1) * strides[axis] * tensor.layout.bytes;
    (reach < 0 ? before : after) += reach;
  }
  const auto origin = reinterpret_cast<std::uintptr_t>(tensor.data);
  return {origin + static_cast<std::uintptr_t>(before),
          origin + static_cast<std::uintptr_t>(after + tensor.layout.bytes)};
}

/// Sums of steps: `step` bytes, up to `times` times.
struct Term {
  std::int64_t step, times;
};

/// Looks for a sum of terms, the largest step first, that hits a target.
class Search {
 public:
  /// One tensor's places count upwards and the other's downwards, so that all terms are positive:
  /// hitting the target means that two places are at distance 0.
  void add(const GivenTensor& tensor) {
    const Strides& strides = tensor.layout.strides;
    for (int axis = 0; axis < 4; ++axis)
      if (tensor.sizes[axis] > 1)
        add_term({magnitude(strides[axis]) * tensor.layout.bytes, tensor.sizes[axis] - 1});
    add_term({1, tensor.layout.bytes - 1});
  }

  bool hits(std::int64_t target) {
    std::sort(terms_, terms_ + count_, [](Term a, Term b) { return a.step > b.step; });
    reach_[count_] = 0;
    divisor_[count_] = 0;
    dense_[count_] = true;
    for (int i = count_ - 1; i >= 0; --i) {
      const std::int64_t step = terms_[i].step;
      divisor_[i] = std::gcd(divisor_[i + 1], step);
      const bool fits = i + 1 == count_ || divisor_[i] == divisor_[i + 1];
      dense_[i] = dense_[i + 1] && fits && step <= reach_[i + 1] + divisor_[i];
      reach_[i] = reach_[i + 1] + step * terms_[i].times;
    }
    return hits(0, target);
  }

 private:
  /// The most candidates to try. Strange strides have many, usual ones one or two per axis.
  static constexpr int kPatience = 1 << 16;

  void add_term(Term term) {
    if (term.step == 0 || term.times == 0) return;
    for (int i = 0; i < count_; ++i)
      if (terms_[i].step == term.step) {
        terms_[i].times += term.times;
        return;
      }
    terms_[count_++] = term;
  }

  /// Whether the terms from `first` on can add up to the target.
  bool hits(int first, std::int64_t target) {
    if (target < 0 || target > reach_[first]) return false;
    if (target == 0) return true;
    if (target % divisor_[first] != 0) return false;
    if (dense_[first]) return true;
    const Term& term = terms_[first];
    const std::int64_t rest = std::max<std::int64_t>(target - reach_[first + 1], 0);
    const std::int64_t fewest = (rest + term.step - 1) / term.step;
    for (std::int64_t n = std::min(target / term.step, term.times); n >= fewest; --n) {
      if (++tried_ > kPatience) return false;
      if (hits(first + 1, target - n * term.step)) return true;
    }
    return false;
  }

  Term terms_[10];
  int count_ = 0;
  std::int64_t reach_[11];    ///< the largest sum of the terms from here on
  std::int64_t divisor_[11];  ///< their greatest common divisor
  bool dense_[11];            ///< their sums are all its multiples up to their reach
  int tried_ = 0;
};

void refuse(heed_status status, const GivenTensor& a, const GivenTensor& b, const char* rule) {
  const ByteSpan x = bytes_of(a);
  const ByteSpan y = bytes_of(b);
  using Address = unsigned long long;
  fail(status, "%s, %#llx to %#llx, overlaps %s, %#llx to %#llx; %s", a.name, Address{x.begin},
       Address{x.end}, b.name, Address{y.begin}, Address{y.end}, rule);
}

}  // namespace

bool overlap(const GivenTensor& a, const GivenTensor& b) {
  const ByteSpan x = bytes_of(a);
  const ByteSpan y = bytes_of(b);
  if (x.begin >= y.end || y.begin >= x.end) return false;
  Search search;
  search.add(a);
  search.add(b);
  return search.hits(static_cast<std::int64_t>(y.end - 1 - x.begin));
}

void refuse_overlaps(const GivenTensor* begin, const GivenTensor* end,
                     const GivenTensor* workspace) {
  const auto written = [](const GivenTensor* tensor) { return tensor->role == Role::kOutput; };
  const auto replaced = [](const GivenTensor* tensor) { return tensor->role == Role::kReplaced; };
  for (const GivenTensor* a = begin; a != end; ++a) {
    if (workspace != nullptr && overlap(*workspace, *a))
      refuse(HEED_STATUS_INVALID_WORKSPACE, *workspace, *a, "it must lie apart from all tensors");
    for (const GivenTensor* b = a + 1; b != end; ++b)
      if ((written(a) || written(b)) && !replaced(a) && !replaced(b) && overlap(*a, *b))
        refuse(HEED_STATUS_INVALID_ARGUMENT, written(a) ? *a : *b, written(a) ? *b : *a,
               "outputs must not overlap each other or an input");
  }
}

}  // namespace heed
