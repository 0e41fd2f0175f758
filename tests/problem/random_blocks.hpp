// Random blocks: an attention of any form, and every choice of the block drawn on its own.
#pragma once

#include <cstdint>

#include "tests/problem/block.hpp"
#include "tests/problem/drawing.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {

class RandomBlocks : Drawing {
 public:
  /// Those that are differentiable have no outputs but out, and perhaps lse.
  explicit RandomBlocks(std::uint64_t seed, bool differentiable = false)
      : Drawing(seed ^ 0xb10c), seed_(seed), differentiable_(differentiable) {}

  Block draw();

 private:
  BlockChoice draw_choice(bool self, const Problem& attention);

  // ---- Types: float64 throughout, or any others in any mix ----

  std::uint32_t draw_narrow();
  std::uint32_t draw_type() { return float64_ ? std::uint32_t{HEED_DTYPE_F64} : draw_narrow(); }
  /// Of matrices and biases the default is the arithmetic's.
  std::uint32_t draw_matrix_type();

  // ---- Layouts ----

  MatrixChoice draw_matrix();

  /// The three matrices side by side in one W_qkv: [in, q k v], or [q k v, in].
  void pack_qkv(BlockChoice& c, const Problem& attention);

  void plant_specials(Block& block);

  std::uint64_t seed_;
  bool differentiable_;
  bool float64_ = false;
};

}  // namespace heed_test
