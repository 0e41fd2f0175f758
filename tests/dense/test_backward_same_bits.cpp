// What may not change a bit of a gradient: threads, executors and tiles, the batch around a
// sequence, and where tensors lie.
#include "tests/dense/gradients.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

/// One long head, one short sequence of many heads, and few rows of a long one.
std::vector<Sizes> sizes() {
  Sizes one_head = {1300, 150, 8, 8};
  one_head.causal = HEED_CAUSAL_TOP_LEFT;
  Sizes many = {60, 70, 12, 9, 3, 6, 2};
  const Sizes long_keys = {5, 4200, 6, 6, 1, 4, 1};
  return small() ? std::vector<Sizes>{many} : std::vector<Sizes>{one_head, many, long_keys};
}

/// With a bias that repeats over batch, heads and perhaps rows.
BackwardProblem problem(const Sizes& of, Index bias_rows = 1) {
  Problem forward = filled(of, 21);
  forward.desc.softcap = 10;
  // Keys that nobody attends and that hold NaN: their blocks are summed pair by pair.
  forward.add_bias({1, 1, bias_rows, of.key_length})
      .set_where([](const Axes& at) { return at[3] == 3 || at[3] == 67; }, -kInfinity);
  for (Index h = 0; h < of.query_heads; ++h) forward.sinks.numbers.push_back(0.1);
  BackwardProblem p = all_gradients_of(std::move(forward));
  for (const Index j : {3, 67}) p.forward.key.set({0, 0, j, 0}, kNaN);
  return p;
}

/// The part of a tensor that belongs to item b.
Tensor item_of(const Tensor& all, Index b) {
  Axes shape = all.shape();
  shape[0] = 1;
  Tensor item = placed(shape, Arrangement::kDefault, all.dtype(), 0);
  item.fill([&](const Axes& at) { return all.get({b, at[1], at[2], at[3]}); });
  return item;
}

}  // namespace

TEST_CASE("threads and executors change no bit of a gradient", "[backward][same][threads]") {
  std::vector<BackwardProblem> problems;
  for (const Sizes& of : sizes()) problems.push_back(problem(of));
  // Its parts are tasks of their own only where there are threads for them.
  problems.push_back(problem({60, 70, 12, 9, 3, 6, 2}, 60));
  for (BackwardProblem& p : problems) {
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      const Gradients want = p.run(plain_contexts()[n]);
      each_executor(IsaContexts::name(n), [&](const std::string& name, const Context& context) {
        check_same(IsaContexts::name(n) + (", " + name + ": ") + line_of(p), p.run(context), want);
      });
    }
  }
}

TEST_CASE("tiles change no bit of a gradient", "[backward][same]") {
  for (const Sizes& of : sizes()) {
    BackwardProblem p = problem(of);
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      const Gradients want = p.run(plain_contexts()[n]);
      for (const auto& [tile_q, tile_kv] :
           std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1}, {1000, 128}, {64, 10000}}) {
        INFO("tiles " << tile_q << " x " << tile_kv);
        check_same(IsaContexts::name(n) + (": " + line_of(p)),
                   p.run(make_context(IsaContexts::name(n), {"serial", 1, tile_q, tile_kv})), want);
      }
    }
  }
}

TEST_CASE("the batch around a sequence changes no bit of its gradients", "[backward][same]") {
  Sizes of = {90, 140, 12, 9, 3, 4, 2};
  of.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  Problem forward = filled(of, 22);
  forward.key_lengths = {140, 7, 96};
  BackwardProblem p = all_gradients_of(std::move(forward));
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const Gradients want = p.run(plain_contexts()[n]);
    for (Index b = 0; b < 3; ++b) {
      of.batch = 1;
      Problem part(of);
      part.key_lengths = {p.forward.key_lengths[static_cast<std::size_t>(b)]};
      for (Tensor Problem::*tensor : {&Problem::query, &Problem::key, &Problem::value})
        (part.*tensor).assign(item_of(p.forward.*tensor, b));
      BackwardProblem alone(std::move(part));
      alone.forward.out.assign(item_of(p.forward.out, b));
      alone.forward.lse->assign(item_of(*p.forward.lse, b));
      alone.grad_out.assign(item_of(p.grad_out, b));
      alone.give_grad_lse(1);
      alone.grad_lse->assign(item_of(*p.grad_lse, b));
      for (const GradientOf gradient : {kGradQuery, kGradKey, kGradValue}) alone.want(gradient);
      const Gradients got = alone.run(plain_contexts()[n]);
      for (const GradientOf gradient : {kGradQuery, kGradKey, kGradValue}) {
        const std::size_t size = got[gradient].size();
        bool same = size * 3 == want[gradient].size();
        for (std::size_t i = 0; same && i < size; ++i)
          same =
              got[gradient].bits[i] == want[gradient].bits[static_cast<std::size_t>(b) * size + i];
        INFO(IsaContexts::name(n) << ", item " << b << ", gradient of " << name_of(gradient));
        CHECK(same);
      }
    }
  }
}

TEST_CASE("where gradients lie changes no bit of them", "[backward][same]") {
  for (const Kind& kind : kinds()) {
    Sizes of = {30, 50, 12, 9, 2, 4, 2};
    of.types = kind.types;
    Problem forward = filled(of, 23);
    forward.add_bias({1, 4, 1, 50});
    BackwardProblem p = all_gradients_of(std::move(forward));
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      p.want_all();
      const Gradients want = p.run(plain_contexts()[n]);
      for (int a = 1; a < static_cast<int>(Arrangement::kCount); ++a) {
        const auto arrangement = static_cast<Arrangement>(a);
        for (const GradientOf gradient : {kGradQuery, kGradKey, kGradValue, kGradBias})
          p.want(gradient, {p.gradients[gradient]->dtype(), arrangement, 1});
        check_same(IsaContexts::name(n) + (": " + line_of(p)) + ", " + name_of(arrangement),
                   p.run(plain_contexts()[n]), want);
      }
    }
  }
}
