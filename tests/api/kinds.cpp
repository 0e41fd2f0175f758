#include <utility>

#include "tests/api/problems.hpp"

namespace api_test {
namespace {

void enlarge(Form& f) {
  f.desc.query_length = f.desc.key_length = 240;
  f.desc.features = f.desc.value_features = 32;
  f.desc.alignment = HEED_ALIGNMENT_DEFAULT;
  f.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  f.desc.weights_point = HEED_WEIGHTS_NONE;
  f.desc.sum_columns = 0;
  f.desc.weight_rows = 0;
  f.args = HEED_ATTENTION_ARGS_INIT;
  f.args.query = f.query.at();
  f.args.key = f.key.at();
  f.args.value = f.value.at();
  f.args.out = f.out.at();
}

/// One head, so that splits of its rows are tasks of their own.
void enlarge(BackwardForm& f) {
  f.attention.batch = f.attention.query_heads = f.attention.key_heads = 1;
  f.attention.query_length = 2100;
  f.attention.key_length = 120;
  f.key_lengths[0] = 120;
}

void enlarge(BlockForm& f) {
  f.attention.query_length = f.attention.key_length = 120;
  f.attention.features = f.attention.value_features = 20;
  f.attention.causal = HEED_CAUSAL_TOP_LEFT;
  f.attention.key_heads = 4;
  f.desc.width_query = f.desc.width_key = f.desc.width_out = 80;
  f.key_lengths[0] = 120;
}

void enlarge(BlockBackwardForm& f) {
  enlarge(f.block);
  f.attention.alignment = HEED_ALIGNMENT_DEFAULT;
}

/// A hub that is cut into pieces.
void enlarge(GraphForm& f) {
  constexpr int kNodes = 60;
  static const std::vector<std::int32_t> ends = [] {
    std::vector<std::int32_t> both;
    for (int e = 0; e < 20000; ++e) both.push_back(e * 7919 % 4001 % kNodes);
    for (int e = 0; e < 20000; ++e) both.push_back(e % 20 == 0 ? e * 31 % kNodes : 7);
    return both;
  }();
  f.graph.desc.nodes = kNodes;
  f.graph.desc.edges = 20000;
  f.graph.desc.sources = ends.data();
  f.graph.desc.destinations = ends.data() + 20000;
  f.graph.desc.duplicates = HEED_DUPLICATES_KEEP;
  f.no_residual();
  f.no_edge_data();
}

/// Over unsorted rows of int64.
void take_steps(GraphForm& f) {
  f.graph.by_rows();
  std::swap(f.graph.sources[0], f.graph.sources[1]);
  f.graph.widen();
  f.desc.steps = 3;
}

void unchanged_block(BlockBackwardForm&) {}

template <class AForm>
Kind kind(const char* name, const std::function<void(AForm&)>& change, bool prepared = false) {
  return {name, [=](MaybeFence fence) { return problem_of<AForm>(change, fence, prepared); }};
}
template <class AForm>
Kind large_kind(const char* name, bool prepared) {
  Kind kind = api_test::kind<AForm>(
      name, [](AForm& f) { enlarge(f); }, prepared);
  kind.large = true;
  return kind;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      large_kind<Form>("dense", false),
      kind<Form>("dense with everything", [](Form& f) { f.desc.softcap = 30; }),
      kind<Form>("dense, packed queries", &Form::pack_queries),
      kind<Form>("dense, packed keys",
                 [](Form& f) {
                   f.pack_keys();
                   f.cu_seqlens_k[0] = 0;
                   f.cu_seqlens_k[1] = 5;
                 }),
      kind<Form>("dense, float64", &Form::all_float64),
      kind<Form>("dense, 16 bits", &Form::all_16_bits),
      kind<Form>("dense, hard", &Form::be_hard),
      large_kind<BackwardForm>("backward", false),
      kind<BackwardForm>("backward with everything",
                         [](BackwardForm& f) {
                           f.attention.softcap = 30;
                           f.call_functions();
                         }),
      kind<BackwardForm>("backward, packed",
                         [](BackwardForm& f) {
                           f.pack_queries();
                           f.pack_keys();
                         }),
      kind<BackwardForm>("backward, float64", &BackwardForm::all_float64),
      kind<BackwardForm>("backward, 16 bits", &BackwardForm::all_16_bits),
      large_kind<BlockForm>("block of prepared matrices", true),
      kind<BlockForm>("block", [](BlockForm&) {}),
      kind<BlockForm>("block, float64", &BlockForm::all_float64),
      kind<BlockForm>("block, weighted", [](BlockForm& f) { f.reduce(HEED_COMBINE_WEIGHTED); }),
      kind<BlockForm>("block that keeps", &BlockForm::keep),
      large_kind<BlockBackwardForm>("gradients of a block", false),
      kind<BlockBackwardForm>("gradients of a block of prepared matrices", unchanged_block, true),
      kind<BlockBackwardForm>("gradients of a block, kept",
                              [](BlockBackwardForm& f) { f.block.keep(); }),
      kind<BlockBackwardForm>("gradients of a block, one input", &BlockBackwardForm::one_input),
      kind<BlockBackwardForm>("gradients of a block, float64", &BlockBackwardForm::all_float64),
      kind<BlockBackwardForm>("gradients of a block, weighted",
                              [](BlockBackwardForm& f) { f.reduce(HEED_COMBINE_WEIGHTED); }),
      large_kind<GraphForm>("graph", false),
      kind<GraphForm>("graph with everything", [](GraphForm& f) { f.desc.softcap = 20; }),
      kind<GraphForm>("graph, float64", &GraphForm::all_float64),
      kind<GraphForm>("graph, hard", &GraphForm::be_hard),
      kind<GraphForm>("graph, mean", [](GraphForm& f) { f.combine(HEED_COMBINE_MEAN); }),
      kind<GraphForm>("graph, prepared", &GraphForm::share, true),
      kind<GraphForm>("graph, steps of shared matrices",
                      [](GraphForm& f) {
                        f.share();
                        take_steps(f);
                      }),
      kind<GraphForm>("graph, matrices of nodes", &GraphForm::per_node),
  };
  return all;
}

}  // namespace api_test
