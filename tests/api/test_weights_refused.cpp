// Refusals of a matrix that is to be prepared and of products with one that is, those of every
// field of a kind aside, and what prepared ones say of themselves.
#include "tests/api/blocks.hpp"
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

ChangeOf<MatrixForm> layout(std::int64_t matrix, std::int64_t in, std::int64_t out) {
  return [=](MatrixForm& form) { form.desc.layout = {0, 0, matrix, in, out}; };
}

}  // namespace

TEST_CASE("prepared matrices describe themselves", "[weights]") {
  for (const std::uint32_t arithmetic : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const std::int64_t matrices : {0, 1, 3}) {
      MatrixForm form;
      form.desc.arithmetic = arithmetic;
      form.desc.matrices = matrices;
      hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
      const heed_weights_info& info = form.info;
      const std::size_t bytes = arithmetic == HEED_DTYPE_F64 ? 8 : 4;
      CHECK(info.arithmetic == (bytes == 8 ? HEED_DTYPE_F64 : HEED_DTYPE_F32));
      CHECK(info.in == 5 * (matrices == 0 ? 1 : matrices));
      CHECK(info.out == 6);
      const auto numbers = static_cast<std::size_t>(info.in * info.out + info.out);
      CHECK(info.bytes >= numbers * bytes);
      CHECK(info.bytes <= 8 * numbers * bytes);  // a few that fill up blocks
    }
}

TEST_CASE("what a prepared matrix is made of", "[refused][weights]") {
  const char* const types = "must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)";
  check_refused<MatrixForm>(
      {{"desc.arithmetic", HEED_DTYPE_BF16, types},
       {"desc.arithmetic", HEED_DTYPE_F16, types},
       {"desc.arithmetic", 5, types},
       {"desc.arithmetic", 0xffffffffU, types},
       {"desc.in", 0, "must be 1 to 1099511627776"},
       {"desc.out", 0, "must be 1 to 1099511627776"},
       {"matrix", kNull, "its tensor has elements"},
       {layout(30, 6, 1), "desc.layout.stride_matrix is 30; it must be 0"},
       {layout(0, 6, INT64_MIN), "desc.layout steps ... overflows an address"},
       {[](MatrixForm& form) { form.desc.matrices = form.desc.in = kMost; },
        "desc.layout has ... overflows an address"},
       {[](MatrixForm& form) {
          form.desc.in = form.desc.out = kMost;
          form.desc.layout.stride_out = 1;
          form.desc.layout.reserved = HEED_STRIDES_EXPLICIT;
        },
        "desc. ... overflows an address"}});
  for (const int matrices : {1, 2})
    check_accepted<MatrixForm>(
        [=](MatrixForm& form) { layout(30, 6, 1)(form), form.desc.matrices = matrices; });
  check_accepted<MatrixForm>(with("bias", kNull));
}

TEST_CASE("a matrix to prepare is aligned to its own type", "[refused][weights]") {
  const auto narrow = [](MatrixForm& form) { form.desc.layout.dtype = HEED_DTYPE_BF16; };
  check_refused<MatrixForm>(narrow, {{"matrix", moved(1), "must be a multiple of 2"},
                                     {"bias", moved(2), "must be a multiple of 4"}});
  check_accepted<MatrixForm>([&](MatrixForm& form) {
    narrow(form);
    set(form, "matrix", moved(2));
    set(form, "bias", moved(4));
  });
}

TEST_CASE("tensors of a projection are given, have no heads, and y does not overlap itself",
          "[refused][weights]") {
  check_refused<ProjectForm>(
      {{"x", kNull, "its tensor has elements"},
       {"y", kNull, "its tensor has elements"},
       {"desc.x.stride_head", 20, "must be 0: it has no heads"},
       {"desc.y.stride_head", -1, "must be 0: it has no heads"},
       {[](ProjectForm& form) { form.desc.batch = form.desc.rows = kMost; },
        "desc.x has 1099511627776 x 1 x 1099511627776 x 5 elements; that overflows"},
       {[](ProjectForm& form) { form.desc.y = {0, 0, 24, 0, 5, 1}; },
        "desc.y.stride_row is 5; it must exceed 5"}});
  check_accepted<ProjectForm>(  // inputs may repeat
      [](ProjectForm& form) { form.desc.x = {0, 0, 0, 0, 5, 1}; });
}

TEST_CASE("a projection has the product that its matrix is prepared for", "[refused][weights]") {
  if (heed_product_count() < 2) return;
  heed_context_options options = serial_options();
  options.product = heed_product_name(1);
  const Context other = make_context(&options);
  check_refused<ProjectForm>(
      {{[&](ProjectForm& form) { form.prepare(other); },
        "weights is prepared with a context whose product is \"cblas\"; this context's is "
        "\"heed\""}});
}

TEST_CASE("sizes of 0 in a projection: nothing to do, and no pointer is looked at",
          "[refused][weights]") {
  for (const char* const size : {"desc.batch", "desc.rows"}) {
    ProjectForm form;
    set(form, size, 0);
    form.x = form.y = nullptr;
    hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
  }
}
