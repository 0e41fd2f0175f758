#include "tests/oracle/project.hpp"

namespace heed_test {
namespace {

template <class Real>
std::vector<Element> project(const GivenProjection& given) {
  using Wide = typename Arithmetic<Real>::Wide;
  const GivenMatrix& w = given.w;
  Matrix<Wide> matrix{w.out, {}};
  for (Index m = 0; m < given.matrices; ++m) {
    const auto one = rows_of<Wide>(w.matrix, m, 0, 0, given.in, w.out);
    matrix.numbers.insert(matrix.numbers.end(), one.numbers.begin(), one.numbers.end());
  }
  std::vector<Element> y;
  if (given.rows == 0 || w.out == 0) return y;  // of however many others
  for (Index b = 0; b < given.batch; ++b)
    for (Index i = 0; i < given.rows; ++i) {
      const auto x = rows_of<Wide>(given.x, b, 0, i, 1, given.matrices * given.in);
      for (Index o = 0; o < w.out; ++o) {
        const Bounded<Wide> number = projected_row<Real>(x.row(0), matrix, w, o, given.as);
        y.push_back(stored(number.value, number.bound, given.dtype_y, given.real));
      }
    }
  return y;
}

}  // namespace

std::vector<Element> expect_project(const GivenProjection& given) {
  return given.real == HEED_DTYPE_F64 ? project<double>(given) : project<float>(given);
}

}  // namespace heed_test
