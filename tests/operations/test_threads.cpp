// Threads, executors and tiles change no bit of problems that are large enough to be shared out.
// (Sweeps try the same with small ones.)
#include "tests/operations/operations.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

template <class AnyProblem>
void check_shared(AnyProblem p) {
  INFO(line_of(p));
  for (const char* const isa : isa_names()) {
    const Results want = run(p, make_context(isa));
    each_executor(isa, [&](const std::string& name, const Context& context) {
      check_bits(isa + (", " + name), run(p, context), want);
    });
    for (const auto& [tile_q, tile_kv] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
             {1, 1}, {1000, 128}, {50, 200}, {64, 10000}})
      check_bits(isa + (", tiles " + std::to_string(tile_q)),
                 run(p, make_context(isa, {"serial", 1, tile_q, tile_kv})), want);
  }
}

/// Every product is cut into tasks.
Block block_of(std::uint32_t combine, std::uint32_t dtype, Index length) {
  heed_multihead_desc desc = block_desc(dtype, 150);
  desc.combine = combine;
  desc.width_out = 140;
  if (small()) length = 40;
  Block block = plain_block(length, 0, 6, 32, desc, 2, 3, 30);
  block.fill(51, 0.7);
  return block;
}

}  // namespace

TEST_CASE("threads, executors and tiles change no bit of attention", "[same][threads]") {
  for (std::uint64_t seed = 1; seed <= count(40); ++seed) {
    check_shared(drawn<Lengths::kLarge>(seed));
    check_shared(drawn<Lengths::kEdges>(seed));
    check_shared(drawn<Lengths::kLong>(seed));
  }
  for (std::uint64_t seed = 1; seed <= count(6); ++seed) check_shared(drawn<Graphs::kHub>(seed));
}

TEST_CASE("threads, executors and tiles change no bit of a block", "[same][threads]") {
  for (const std::uint32_t combine : kCombiners)
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16}) {
      if (dtype != HEED_DTYPE_F32 && (small() || combine != HEED_COMBINE_CONCAT)) continue;
      Block block = block_of(combine, dtype, 170);
      block.attention.want_lse();
      check_shared(block);
    }
}

TEST_CASE("threads, executors and tiles change no bit of a gradient", "[backward][same][threads]") {
  for (std::uint64_t seed = 1; seed <= count(40); ++seed)
    for (const Lengths lengths : {Lengths::kLarge, Lengths::kLong, Lengths::kShared})
      check_shared(draw_gradients(seed, lengths));
  for (std::uint64_t seed = 1; seed <= count(6); ++seed)
    check_shared(draw_graph_backward(seed, Graphs::kHub));
  for (const bool keep : {false, true}) {
    const auto combine = keep ? HEED_COMBINE_WEIGHTED : HEED_COMBINE_CONCAT;
    BlockBackward p = all_gradients_of(block_of(combine, HEED_DTYPE_DEFAULT, 90));
    p.block.own_desc.keep = keep ? 1 : 0;
    check_shared(p);
  }
}
