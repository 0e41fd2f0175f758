// Gradients of multi-head blocks: heed_multihead_backward_plan_create and _run, of what a run of
// the block has kept, or of nothing.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

/// What a run of the block keeps for gradients, computed from arguments that may not be valid.
class Kept {
 public:
  Kept(const heed_multihead_desc& desc, heed_multihead_args& args) {
    if (desc.keep == 0) return;
    heed_multihead_plan* made = nullptr;
    const heed_status planned = heed_multihead_plan_create(fuzz_context().get(), &desc, &made);
    const MultiheadPlan plan(made);
    check_accepted(planned);
    if (planned != HEED_STATUS_OK) return;
    const heed_multihead_info info = describe(plan);
    kept_.emplace(info.kept_bytes);
    Workspace workspace(info.workspace_bytes);
    args.kept = kept_->get();
    args.kept_bytes = kept_->bytes();
    there_ =
        heed_multihead_plan_run(made, &args, workspace.get(), workspace.bytes()) == HEED_STATUS_OK;
    demand(kept_->intact(), "a run wrote beside what it keeps");
  }

  /// Whether it is there, if it has to be.
  bool valid(const heed_multihead_desc& desc) const { return desc.keep == 0 || there_; }

 private:
  std::optional<Workspace> kept_;
  bool there_ = false;
};

/// Pointers that are as good a byte further, or none of a tensor's.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_multihead_backward_args, block),
    offsetof(heed_multihead_backward_args, score_gradient)};

void run(Draw& draw, const heed_multihead_backward_plan* plan, heed_multihead_desc of_block,
         BlockBackward& p) {
  Block& block = p.block;
  draw_arrays(draw, kSmallBlockGradients, block.attention);
  bool valid = !spoil(draw, block.attention);
  draw_arrays(draw, block);
  p.draw_tensors(draw);
  // Before the run, which writes over what it adds to.
  ExpectedBlockGradients want;
  valid ? void(want = p.expected()) : p.begin();
  const Block::Prepared prepared = block.prepare(fuzz_context());
  heed_multihead_args block_args = block.args(prepared);
  const Kept kept(of_block, block_args);
  valid = valid && kept.valid(of_block);
  block_args.out = nullptr;
  const bool block_damaged = draw.damage_pointers(block_args, kBlockObjects);
  check_run(draw, plan, p.args(block_args), kKept, valid && !block_damaged, p, want);
  const auto& tiles = block.attention.tiles;
  if (tiles) demand(!tiles->wrong, "a score tile makes no sense");
}

void plan(Draw& draw, heed_attention_desc attention, heed_multihead_desc block,
          heed_multihead_backward_desc desc, bool damaged) {
  block.attention = &attention;
  desc.block = &block;
  const std::uint32_t where = damaged ? draw.choice(2) : 3;
  if (where == 0) draw.damage(attention);
  if (where == 1) draw.damage(block, offsetof(heed_multihead_desc, width_query));
  if (where == 2) draw.damage(desc, offsetof(heed_multihead_backward_desc, grad_out));
  const Versioned<heed_multihead_backward_desc> given(draw, desc);
  const heed_multihead_backward_desc known = given.known();
  const MultiheadBackwardPlan made = planned(damaged || given.odd(), given.get());
  if (!made) return;
  demand(known.block != nullptr, "gradients of no block are accepted");
  heed_multihead_backward_desc laid = known;
  std::optional<Block> small_one = small_block(draw, block, attention);
  if (!small(laid_out(laid).all()) || !small_one || !worth_running(draw, damaged)) return;
  BlockBackward problem(std::move(*small_one), known);
  run(draw, made.get(), block, problem);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  heed_attention_desc attention = draw_attention(first, kSmallBlockGradients);
  heed_multihead_desc block = draw_block_desc(first, attention, Lengths::kSmall);
  block.keep = first.choice(1);
  const heed_multihead_backward_desc desc = draw_backward(first, block);
  attention.query = HEED_LAYOUT_INIT;  // which says whether all is float64, and the block does now
  each_variant(first,
               [&](Draw& draw, bool damaged) { plan(draw, attention, block, desc, damaged); });
  return 0;
}
