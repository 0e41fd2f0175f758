#include "tests/oracle/project.hpp"

namespace heed_test {
namespace {

template <class Real>
std::vector<Element> project(const GivenProjection& given) {
  using Wide = typename Arithmetic<Real>::Wide;
  const GivenMatrix& w = given.w;
  const Index in = given.matrices * given.in;
  const auto matrix = rows_of<Wide>(w.matrix, 0, in, w.out, [&](Index f) {
    return RowPlace{f / given.in, f % given.in};
  });
  std::vector<Element> y;
  if (given.rows == 0 || w.out == 0) return y;  // of however many others
  for (Index b = 0; b < given.batch; ++b)
    for (Index i = 0; i < given.rows; ++i) {
      const auto x = rows_of<Wide>(given.x, b, 0, i, 1, in);
      for (Index o = 0; o < w.out; ++o) {
        const Bounded<Wide> number = projected<Real>(x.row(0), matrix, w.bias, o, given.as);
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
