// Every refusal of a matrix that is to be prepared, and what prepared ones say of themselves.
#include "tests/api/blocks.hpp"

using namespace api_test;

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// A matrix from 5 features to 6, with its bias.
struct Given {
  Given() {
    desc.in = 5;
    desc.out = 6;
    matrix = numbers.at();
    bias = more.at();
  }
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  Bytes numbers, more;
  const void* matrix;
  const void* bias;
};
using Change = std::function<void(Given&)>;

void check_refused(const Change& change, Parts parts) {
  const Context context = serial();
  Given given;
  change(given);
  forget_last_error();
  heed_weights* weights = untouched<heed_weights>();
  const heed_status got =
      heed_weights_create(context.get(), &given.desc, given.matrix, given.bias, &weights);
  check_refusal(got, HEED_STATUS_INVALID_ARGUMENT, parts);
  CHECK(weights == untouched<heed_weights>());
  if (got == HEED_STATUS_OK) heed_weights_destroy(weights);
}

heed_weights_info check_accepted(const Change& change) {
  const Context context = serial();
  Given given;
  change(given);
  heed_weights* weights = nullptr;
  const heed_status status =
      heed_weights_create(context.get(), &given.desc, given.matrix, given.bias, &weights);
  INFO(heed_last_error());
  REQUIRE(status == HEED_STATUS_OK);
  const Weights owner(weights);
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  REQUIRE(heed_weights_describe(weights, &info) == HEED_STATUS_OK);
  return info;
}

const void* off_by(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

}  // namespace

TEST_CASE("prepared matrices describe themselves", "[weights]") {
  for (const std::uint32_t arithmetic : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const std::int64_t matrices : {0, 1, 3}) {
      const heed_weights_info info = check_accepted([&](Given& given) {
        given.desc.arithmetic = arithmetic;
        given.desc.matrices = matrices;
      });
      const bool float64 = arithmetic == HEED_DTYPE_F64;
      CHECK(info.arithmetic == (float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32));
      CHECK(info.in == 5 * (matrices == 0 ? 1 : matrices));
      CHECK(info.out == 6);
      const std::size_t numbers = static_cast<std::size_t>(info.in * info.out + info.out);
      CHECK(info.bytes >= numbers * (float64 ? 8 : 4));
      CHECK(info.bytes <= 8 * numbers * (float64 ? 8 : 4));  // a few that fill up blocks
    }
}

TEST_CASE("a bias may be missing", "[weights]") {
  check_accepted([](Given& given) { given.bias = nullptr; });
}

TEST_CASE("the arithmetic of prepared matrices is float32 or float64", "[weights]") {
  for (const std::uint32_t arithmetic :
       {std::uint32_t{HEED_DTYPE_BF16}, std::uint32_t{HEED_DTYPE_F16}, 5U, 0xffffffffU}) {
    const std::string field = "desc.arithmetic is " + std::to_string(arithmetic);
    check_refused([&](Given& given) { given.desc.arithmetic = arithmetic; },
                  {field.c_str(), "HEED_DTYPE_F32 (1)", "HEED_DTYPE_F64 (2)"});
  }
}

TEST_CASE("sizes of prepared matrices are in range", "[weights]") {
  struct Size {
    const char* name;
    std::int64_t heed_weights_desc::*size;
    std::int64_t low;
  };
  for (const Size& size :
       {Size{"desc.matrices", &heed_weights_desc::matrices, 0},
        Size{"desc.in", &heed_weights_desc::in, 1}, Size{"desc.out", &heed_weights_desc::out, 1}})
    for (const std::int64_t value : {size.low - 1, INT64_MIN, kMost + 1, INT64_MAX}) {
      const std::string field = std::string(size.name) + " is " + std::to_string(value);
      const std::string bound = std::to_string(size.low) + " to 1099511627776";
      check_refused([&](Given& given) { given.desc.*size.size = value; },
                    {field.c_str(), bound.c_str()});
    }
  check_refused(
      [](Given& given) {
        given.desc.matrices = kMost;
        given.desc.in = kMost;
      },
      {"overflow"});
  check_refused(
      [](Given& given) {
        given.desc.in = kMost;
        given.desc.out = kMost;
        given.desc.layout.stride_in = 0;
        given.desc.layout.stride_out = 1;
      },
      {"overflow"});
}

TEST_CASE("reserved words of prepared matrices are 0", "[weights]") {
  check_refused([](Given& given) { given.desc.reserved = 9; }, {"desc.reserved is 9", "must be 0"});
  check_refused([](Given& given) { given.desc.layout.reserved = 9; },
                {"desc.layout.reserved is 9", "must be 0"});
}

TEST_CASE("types of prepared matrices go with the arithmetic", "[weights]") {
  check_refused([](Given& given) { given.desc.layout.dtype = 5; },
                {"desc.layout.dtype is 5", "0 to 4"});
  check_refused([](Given& given) { given.desc.bias_dtype = 5; },
                {"desc.bias_dtype is 5", "0 to 4"});
  check_refused([](Given& given) { given.desc.layout.dtype = HEED_DTYPE_F64; },
                {"desc.layout.dtype is HEED_DTYPE_F64 (2)", "float32"});
  check_refused([](Given& given) { given.desc.bias_dtype = HEED_DTYPE_F64; },
                {"desc.bias_dtype is 2", "float32"});
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
    check_refused(
        [&](Given& given) {
          given.desc.arithmetic = HEED_DTYPE_F64;
          given.desc.layout.dtype = dtype;
        },
        {("desc.layout.dtype is " + std::to_string(dtype)).c_str(), "HEED_DTYPE_F64 (2)"});
    check_refused(
        [&](Given& given) {
          given.desc.arithmetic = HEED_DTYPE_F64;
          given.desc.bias_dtype = dtype;
        },
        {("desc.bias_dtype is " + std::to_string(dtype)).c_str(), "HEED_DTYPE_F64 (2)"});
  }
}

TEST_CASE("a stride between prepared matrices needs their number", "[weights]") {
  const Change with_stride = [](Given& given) { given.desc.layout = {0, 0, 30, 6, 1}; };
  check_refused(with_stride, {"desc.layout.stride_matrix is 30", "must be 0"});
  for (const std::int64_t matrices : {1, 2})
    check_accepted([&](Given& given) {
      with_stride(given);
      given.desc.matrices = matrices;
    });
}

TEST_CASE("addresses of matrices to prepare do not overflow", "[weights]") {
  check_refused(
      [](Given& given) {
        given.desc.layout = {0, 0, 0, INT64_MAX, 1};
      },
      {"desc.layout", "overflows an address"});
  check_refused(
      [](Given& given) {
        given.desc.layout = {0, 0, 0, 6, INT64_MIN};
      },
      {"desc.layout", "overflows an address"});
}

TEST_CASE("a matrix to prepare is needed, and aligned", "[weights]") {
  check_refused([](Given& given) { given.matrix = nullptr; }, {"matrix is NULL"});
  for (const std::uintptr_t bytes : {1U, 2U, 3U}) {
    check_refused([&](Given& given) { given.matrix = off_by(given.matrix, bytes); },
                  {"matrix is 0x", "multiple of 4"});
    check_refused([&](Given& given) { given.bias = off_by(given.bias, bytes); },
                  {"bias is 0x", "multiple of 4"});
  }
  check_accepted([](Given& given) {
    given.desc.layout.dtype = HEED_DTYPE_BF16;
    given.matrix = off_by(given.matrix, 2);
    given.bias = off_by(given.bias, 4);
  });
}

TEST_CASE("NULL is refused by the functions of prepared matrices", "[weights]") {
  const Context context = serial();
  const Weights weights = prepared(context, 3, 4);
  Given given;
  heed_weights* made = untouched<heed_weights>();
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  const auto refused = [](heed_status status, const char* name) {
    check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, {name, "NULL"});
    forget_last_error();
  };
  forget_last_error();
  refused(heed_weights_create(nullptr, &given.desc, given.matrix, nullptr, &made), "context");
  refused(heed_weights_create(context.get(), nullptr, given.matrix, nullptr, &made), "desc");
  refused(heed_weights_create(context.get(), &given.desc, given.matrix, nullptr, nullptr),
          "weights");
  refused(heed_weights_describe(nullptr, &info), "weights");
  refused(heed_weights_describe(weights.get(), nullptr), "info");
  CHECK(made == untouched<heed_weights>());
  CHECK(info.in == 0);
  heed_weights_destroy(nullptr);
}
