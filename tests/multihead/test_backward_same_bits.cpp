// What may not change a bit of a block's gradients: threads, executors and tiles, and how matrices
// are given.
#include "tests/multihead/copies.hpp"
#include "tests/multihead/gradients.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

/// Enough work for several threads: every product is cut into tasks.
Block large_block(std::uint32_t combine, bool prepared = false) {
  BlockChoice choice;
  choice.combine = combine;
  choice.self = true;
  choice.width_query = choice.width_key = 150;
  choice.width_out = 140;
  for (MatrixChoice* const w : matrices_of(choice)) w->prepared = prepared;
  const Index length = small() ? 40 : 90;
  Block block = plain_block(length, length, 6, 32, choice, 2, 3, 30);
  block.fill(51, 0.7);
  return block;
}

}  // namespace

TEST_CASE("threads and executors change the bits of no gradient of a block",
          "[backward][same][threads]") {
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED}) {
    BlockBackward p = all_gradients_of(large_block(combine));
    for (const char* const isa : isa_names()) {
      const BlockGradients want = p.run(make_context(isa));
      each_executor(isa, [&](const std::string& name, const Context& context) {
        check_same(isa + (", " + name), p.run(context, Keeps::kAll), want);
      });
    }
  }
}

TEST_CASE("prepared matrices have the gradients of plain ones", "[backward][same]") {
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR}) {
    BlockBackward plain = all_gradients_of(large_block(combine));
    BlockBackward prepared = all_gradients_of(large_block(combine, true));
    for (std::size_t n = 0; n < plain_contexts().size(); ++n)
      check_same(IsaContexts::name(n), prepared.run(plain_contexts()[n]),
                 plain.run(plain_contexts()[n]));
  }
}

TEST_CASE("tiles change the bits of no gradient of a block", "[backward][same]") {
  BlockBackward p = all_gradients_of(large_block(HEED_COMBINE_CONCAT));
  for (const char* const isa : isa_names()) {
    const BlockGradients want = p.run(make_context(isa));
    check_same(isa, p.run(make_context(isa, {"serial", 1, 1, 1})), want);
    check_same(isa, p.run(make_context(isa, {"serial", 1, 64, 10000})), want);
  }
}
