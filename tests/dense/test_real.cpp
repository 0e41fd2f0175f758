// One layer of a real language model (tests/data/README.md).
#include "tests/dense/kinds.hpp"
#include "tests/support/npy.hpp"

using namespace heed_test;

namespace {

constexpr const char* kData = HEED_TEST_DATA_DIR "/minilm_layer3_";

Array read(const char* name) { return read_npy(std::string(kData) + name + ".npy"); }

void copy(const Array& from, Tensor& to) {
  REQUIRE(from.shape == std::vector<std::int64_t>(to.shape().begin(), to.shape().end()));
  std::size_t i = 0;
  to.fill([&] { return from.values[i++]; });
}

}  // namespace

TEST_CASE("a layer of a language model", "[real][files]") {
  Report report("language model");
  Sizes sizes = {141, 141, 32, 32};
  sizes.query_heads = sizes.key_heads = 12;
  Problem problem(sizes);
  copy(read("q"), problem.query);
  copy(read("k"), problem.key);
  copy(read("v"), problem.value);
  const Array model = read("out");
  const Expected expected = problem.expected_all();
  const std::vector<Element>& want = expected.out;

  // The model computed in float32 too, by an order of its own: measured, its output is within
  // 1.3e-6 of float64. heed's own error comes on top; both together were chosen to be 4e-6.
  constexpr double kModelError = 1.3e-6;
  constexpr double kTogether = 4e-6;
  double model_error = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    model_error = std::max(model_error, std::fabs(model.values[i] - want[i].value));
  CHECK(model_error <= kModelError);

  on_every_isa(problem, [&](const Outputs& got, std::size_t n) {
    report.add(n, check_outputs(problem, IsaContexts::name(n), got, expected).worst());
    double difference = 0;
    double error = 0;
    for (std::size_t e = 0; e < got.out.size(); ++e) {
      difference = std::max(difference, std::fabs(got.out[e] - model.values[e]));
      error = std::max(error, std::fabs(got.out[e] - want[e].value));
    }
    INFO("error " << error << ", from the model " << difference);
    CHECK(difference <= kTogether);
    CHECK(error <= kTogether - kModelError);
  });
}
