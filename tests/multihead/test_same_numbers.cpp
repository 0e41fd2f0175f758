// Where the numbers of a block lie, and what they are stored as, changes no bit of any output.
#include "tests/multihead/copies.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// One element for all along an axis, in both tensors.
Tensor repeated(const Tensor& like, std::size_t axis) {
  Axes strides = strides_of(Arrangement::kContiguous, like.shape());
  strides[axis] = 0;
  return Tensor(like.shape(), strides, 0, like.dtype());
}

}  // namespace

TEST_CASE("where a block's tensors lie changes no bit", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomBlocks>(200, 200, [&](Block& block, std::uint64_t seed) {
    BlockChoice choice = block.choice;
    choice.query = choice.key = choice.out = Arrangement::kDefault;
    for (MatrixChoice* const w : matrices_of(choice)) {
      w->arrangement = Arrangement::kDefault;
      w->before = w->after = 0;
    }
    Block contiguous = remade(block, choice);
    check_same(block, contiguous, contexts);
    choice.misalign = 1 + seed % 3;
    for (MatrixChoice* const w : matrices_of(choice)) {
      w->arrangement = seed % 2 == 0 ? Arrangement::kTransposed : Arrangement::kPadded;
      w->misalign = 1 + seed % 5;
    }
    Block misaligned = remade(block, choice);
    check_same(block, misaligned, contexts);
    return true;
  });
}

TEST_CASE("prepared matrices have the bits of raw ones", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomBlocks>(200, 200, [&](Block& block, std::uint64_t) {
    BlockChoice choice = block.choice;
    for (MatrixChoice* const w : matrices_of(choice)) {
      // All biases that are not prepared share a type.
      w->bias_dtype = choice.bias_dtype;
      w->prepared = false;
    }
    Block raw = remade(block, choice);
    for (MatrixChoice* const w : matrices_of(choice)) w->prepared = true;
    Block prepared = remade(raw, choice);
    check_same(raw, prepared, contexts);
    return true;
  });
}

TEST_CASE("large matrices, prepared or not", "[same]") {
  // More inputs, outputs and rows than a product takes at a time.
  const IsaContexts contexts;
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16}) {
    BlockChoice choice = choice_of(dtype);
    choice.self = true;
    choice.width_query = choice.width_key = small() ? 200 : 700;
    choice.width_out = 300;
    Block raw = plain_block(small() ? 40 : 120, small() ? 40 : 120, 8, 80, choice, 1, 4);
    raw.fill(55);
    for (MatrixChoice* const w : matrices_of(choice)) w->prepared = true;
    Block prepared = remade(raw, choice);
    check_same(raw, prepared, contexts);
    for (MatrixChoice* const w : matrices_of(choice)) {
      w->prepared = false;
      w->arrangement = Arrangement::kTransposed;
    }
    Block transposed = remade(raw, choice);
    check_same(raw, transposed, contexts);
  }
}

TEST_CASE("matrices prepared for one instruction set serve another", "[same]") {
  BlockChoice choice;
  choice.width_query = choice.width_key = 40;
  Block block = plain_block(13, 17, 2, 9, choice);
  block.fill(56);
  const Context first = make_context(isa_names().front());
  std::array<Weights, 4> prepared;
  {
    BlockChoice all = choice;
    for (MatrixChoice* const w : matrices_of(all)) w->prepared = true;
    const Block from = remade(block, all);
    prepared = {from.w_query.prepare(first), from.w_key.prepare(first), from.w_value.prepare(first),
                from.w_out->prepare(first)};
  }
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    const Outputs want = block.run_all(context);
    const heed_multihead_desc desc = block.desc();
    heed_multihead_args args = block.args();
    args.w_query = args.w_key = args.w_value = args.w_out = nullptr;
    args.b_query = args.b_key = args.b_value = args.b_out = nullptr;
    args.p_query = prepared[0].get();
    args.p_key = prepared[1].get();
    args.p_value = prepared[2].get();
    args.p_out = prepared[3].get();
    block.out.clear();
    require_ok(heed_multihead(context.get(), &desc, &args));
    check_same(isa, block.out.numbers(), want.out);
  }
}

TEST_CASE("inputs that are NULL, the same or equal", "[same]") {
  const IsaContexts contexts;
  check_drawn<RandomBlocks>(150, 40, [&](Block& block, std::uint64_t) {
    if (!block.choice.self) return false;
    BlockChoice choice = block.choice;
    choice.self = false;
    choice.key = Arrangement::kPadded;
    choice.dtype_key = choice.dtype_query;
    Block apart = remade(block, choice);
    check_same(block, apart, contexts);
    return true;
  });
}

TEST_CASE("16-bit inputs and matrices are float32 ones", "[same]") {
  Choices exact;
  exact.precision = HEED_PRECISION_EXACT;
  const IsaContexts contexts(exact);
  check_drawn<RandomBlocks>(200, 80, [&](Block& block, std::uint64_t) {
    if (is_float64(block.attention.desc)) return false;
    BlockChoice choice = block.choice;
    choice.dtype_query = choice.dtype_key = choice.bias_dtype = HEED_DTYPE_F32;
    for (MatrixChoice* const w : matrices_of(choice)) w->dtype = w->bias_dtype = HEED_DTYPE_F32;
    Block wide = remade(block, choice);
    check_same(block, wide, contexts);
    return true;
  });
}

TEST_CASE("strides of 0 repeat inputs and matrices", "[same]") {
  const IsaContexts contexts;
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR})
    for (const std::size_t axis : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
      BlockChoice choice;
      choice.combine = combine;
      choice.query = choice.key = Arrangement::kContiguous;
      for (MatrixChoice* const w : matrices_of(choice)) w->arrangement = Arrangement::kContiguous;
      choice.width_query = 20;
      choice.width_key = 21;
      Block block = plain_block(24, 30, 3, 6, choice, 2);
      block.fill(59);
      block.input_query = repeated(block.input_query, axis);
      block.input_key.emplace(repeated(*block.input_key, axis));
      block.w_key.tensor = repeated(block.w_key.tensor, std::max<std::size_t>(axis, 2));
      block.w_out->tensor =
          repeated(block.w_out->tensor, combine == HEED_COMBINE_TENSOR ? axis : 3);
      Random random(axis);
      for (Tensor* const tensor :
           {&block.input_query, &*block.input_key, &block.w_key.tensor, &block.w_out->tensor})
        tensor->fill([&] { return random.normal(); });
      BlockChoice apart = choice;
      apart.query = apart.key = Arrangement::kDefault;
      Block written = remade(block, apart);
      check_same(block, written, contexts);
    }
}
