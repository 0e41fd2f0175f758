// One layer of a real language model (tests/data/README.md), and what storing its keys and values
// in 8 bits costs.
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "tests/support/checks.hpp"

using namespace heed_test;

namespace {

/// The numbers of a .npy file of tests/data: little-endian float32 in C order, after a header whose
/// length stands in it.
std::vector<float> read(const char* name, std::size_t count) {
  std::ifstream file(std::string(HEED_TEST_DATA_DIR "/minilm_layer3_") + name + ".npy",
                     std::ios::binary);
  char begin[10];
  file.read(begin, sizeof begin);
  file.ignore(static_cast<unsigned char>(begin[8]) + 256 * static_cast<unsigned char>(begin[9]));
  std::vector<float> values(count);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(float)));
  if (!file.good()) throw std::runtime_error(std::string(name) + ".npy cannot be read");
  return values;
}

constexpr std::size_t kNumbers = 12 * 141 * 32;  // of each array

void copy(const char* name, Tensor& to) {
  const std::vector<float> from = read(name, kNumbers);
  std::size_t i = 0;
  to.fill([&] { return from[i++]; });
}

Problem language_model() {
  Sizes sizes = {141, 141, 32, 32};
  sizes.query_heads = sizes.key_heads = 12;
  Problem problem(sizes);
  copy("q", problem.query);
  copy("k", problem.key);
  copy("v", problem.value);
  return problem;
}

}  // namespace

TEST_CASE("a layer of a language model", "[real][files]") {
  Problem problem = language_model();
  const std::vector<float> model = read("out", kNumbers);
  const std::vector<Element> want = problem.expected().out;
  check_problem(problem);

  // The model computed in float32 too, by an order of its own: measured, its output is within
  // 1.3e-6 of float64. heed's own error comes on top; both together were chosen to be 4e-6.
  constexpr double kModelError = 1.3e-6;
  constexpr double kTogether = 4e-6;
  double model_error = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    model_error = std::max(model_error, std::fabs(model[i] - want[i].value));
  CHECK(model_error <= kModelError);

  on_every_isa(problem, [&](const Outputs& got) {
    double difference = 0;
    double error = 0;
    for (std::size_t e = 0; e < got.out.size(); ++e) {
      difference = std::max(difference, std::fabs(got.out[e] - model[e]));
      error = std::max(error, std::fabs(got.out[e] - want[e].value));
    }
    INFO("error " << error << ", from the model " << difference);
    CHECK(difference <= kTogether);
    CHECK(error <= kTogether - kModelError);
  });
}

namespace {

/// How far a result is from another, as a share of the root of the other's mean square.
struct Loss {
  double rms = 0;
  double most = 0;

  Loss(const Numbers& got, const std::vector<Element>& exact) {
    double squares = 0;
    double errors = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = got[i] - exact[i].value;
      squares += exact[i].value * exact[i].value;
      errors += error * error;
      most = std::max(most, std::fabs(error));
    }
    rms = std::sqrt(errors / squares);
    most /= std::sqrt(squares / static_cast<double>(exact.size()));
  }
};

/// Stores the keys and values of a float32 problem in 8 bits: on every instruction set the result
/// is no further from float64's of the problem than api/docs/reference/layouts.md says, and no less
/// than half as far.
void check_loss(const char* what, Problem& exact, std::uint32_t dtype, double rms, double most) {
  Sizes sizes = sizes_of(exact);
  sizes.types.key = sizes.types.value = dtype;
  Problem stored(sizes);
  stored.query.assign(exact.query);
  for (Tensor Problem::*const tensor : {&Problem::key, &Problem::value}) {
    std::vector<double> all;
    double largest = 0;
    (exact.*tensor).each([&](const Axes& at) {
      all.push_back((exact.*tensor).get(at));
      largest = std::max(largest, std::fabs(all.back()));
    });
    std::size_t i = 0;
    stored.store(tensor, largest, [&] { return all[i++]; });
  }
  const std::vector<Element> want = exact.expected().out;
  on_every_isa(stored, [&](const Outputs& got) {
    const Loss loss(got.out, want);
    INFO(what << " as " << name_of_dtype(dtype) << ": " << loss.rms << ", at most " << loss.most);
    CHECK((loss.rms <= rms && loss.rms > rms / 2));
    CHECK((loss.most <= most && loss.most > most / 2));
  });
}

}  // namespace

TEST_CASE("what 8-bit keys and values cost", "[real][files][eight]") {
  Problem model = language_model();
  check_loss("language model", model, HEED_DTYPE_I8, 0.0054, 0.064);
  check_loss("language model", model, HEED_DTYPE_F8_E4M3, 0.029, 0.52);
  if (small()) return;
  Problem normal = filled({16, 2048, 128, 128, 1, 2, 2}, 90);
  Problem decoded = filled({1, 8192, 128, 128, 1, 4, 2}, 91);
  check_loss("normal", normal, HEED_DTYPE_I8, 0.008, 0.033);
  check_loss("normal", normal, HEED_DTYPE_F8_E4M3, 0.039, 0.24);
  check_loss("decoded", decoded, HEED_DTYPE_I8, 0.0086, 0.028);
  check_loss("decoded", decoded, HEED_DTYPE_F8_E4M3, 0.041, 0.123);
}
