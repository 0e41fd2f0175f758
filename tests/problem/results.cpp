#include "tests/problem/results.hpp"

namespace heed_test {
namespace {

Results results_of(const Outputs& got) {
  const Numbers* const outputs[] = {&got.out, &got.lse, &got.weights, &got.column_sums};
  constexpr const char* kNames[] = {"out", "lse", "weights", "column sums"};
  Results all;
  for (std::size_t of = 0; of < std::size(outputs); ++of)
    if (of == 0 || outputs[of]->size() > 0) all.push_back({of, kNames[of], *outputs[of]});
  return all;
}

template <class AnyProblem, class Gradients>
Results gradients_in(const Gradients& got, const AnyProblem& p) {
  Results all;
  for (const auto of : p.all())
    if (p.gradients[of]) all.push_back({of, std::string("gradient of ") + name_of(of), got[of]});
  return all;
}

}  // namespace

Results run(Problem& p, const Context& context) { return results_of(p.run_all(context)); }
Results run(Block& p, const Context& context) { return results_of(p.run_all(context)); }
Results run(GraphProblem& p, const Context& context) { return results_of(p.run(context)); }
Results run(Merge& m, const Context& context) { return results_of(m.run_all(context)); }
Results run(Projection& p, const Context& context) { return {{0, "y", p.run_all(context)}}; }
Results run(BackwardProblem& p, const Context& context) { return gradients_in(p.run(context), p); }
Results run(BlockBackward& p, const Context& context) { return gradients_in(p.run(context), p); }
Results run(GraphBackwardProblem& p, const Context& context) {
  return gradients_in(p.run(context), p);
}

}  // namespace heed_test
