// Random blocks: an attention of any form, and every choice of the block drawn on its own.
#pragma once

#include <cstdint>

#include "tests/dense/random_forms.hpp"
#include "tests/multihead/block.hpp"

namespace heed_test {

class RandomBlocks {
 public:
  explicit RandomBlocks(std::uint64_t seed) : seed_(seed), random_(seed ^ 0xb10c) {}

  Block draw();

 private:
  bool one_in(std::int64_t n) { return random_.integer(0, n - 1) == 0; }
  double uniform(double low, double high) { return low + (high - low) * random_.unit(); }

  BlockChoice draw_choice(bool self, const Problem& attention);

  // ---- Types: float64 throughout, or any others in any mix ----

  std::uint32_t draw_narrow();
  std::uint32_t draw_type() { return float64_ ? std::uint32_t{HEED_DTYPE_F64} : draw_narrow(); }
  /// Of matrices and biases the default is the arithmetic's.
  std::uint32_t draw_matrix_type();

  // ---- Layouts ----

  Arrangement draw_arrangement();
  MatrixChoice draw_matrix();

  /// The three matrices side by side in one W_qkv: [in, q k v], or [q k v, in].
  void pack_qkv(BlockChoice& c, const Problem& attention);

  // ---- Infinities and NaN ----

  void plant_specials(Block& block);
  void plant(Tensor& tensor);

  std::uint64_t seed_;
  Random random_;
  bool float64_ = false;
};

}  // namespace heed_test
