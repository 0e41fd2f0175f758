// What precision asks of gradients: `exact` has the bits of float32 kernels whatever units there
// are, and `default` the bounds of pairs of bfloat16 where all is that type, and finite.
#include "tests/dense/gradients.hpp"
#include "tests/support/executors.hpp"
#include "tests/support/precision.hpp"

using namespace heed_test;

namespace {

BackwardProblem in_types(Sizes sizes, std::uint32_t dtype, std::uint32_t of_out) {
  sizes.types = all_of(dtype);
  return all_gradients_of(filled(sizes, 3), 1, {of_out});
}
BackwardProblem in_bfloat16(const Sizes& sizes) {
  return in_types(sizes, HEED_DTYPE_BF16, HEED_DTYPE_BF16);
}

/// A long head whose splits are apart, and heads that share keys, with limits at any key.
std::vector<Sizes> long_and_many() {
  Sizes one_head = {1300, 150, 8, 8};
  one_head.causal = HEED_CAUSAL_TOP_LEFT;
  Sizes many = {61, 77, 12, 9, 3, 6, 2};
  many.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return small() ? std::vector<Sizes>{many} : std::vector<Sizes>{one_head, many};
}

}  // namespace

TEST_CASE("gradients, exact: bfloat16 has the bits of the kernels without pairs",
          "[backward][precision]") {
  for_each_with_pairs([](const char* isa, const char* plain) {
    if (plain == nullptr) return;  // it is the only one that is tested
    for (const Sizes& sizes : long_and_many()) {
      BackwardProblem p = in_bfloat16(sizes);
      const Gradients want = p.run(make_context(plain));
      check_same(isa, p.run(context_of(isa, HEED_PRECISION_EXACT)), want);
      CHECK(!same_bits(p.run(make_context(isa)), want));  // the unit was used
    }
  });
}

TEST_CASE("gradients: pairs are multiplied where everything is bfloat16, and a plan says so",
          "[backward][precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    const Context context = make_context(isa);
    const Context medium = context_of(isa, HEED_PRECISION_MEDIUM);
    const Context exact = context_of(isa, HEED_PRECISION_EXACT);
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32})
      for (const std::uint32_t of_out : {HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
        BackwardProblem p = in_types({60, 90, 24, 20}, dtype, of_out);
        const bool pairs = dtype == HEED_DTYPE_BF16 && of_out == HEED_DTYPE_BF16;
        INFO(isa << ": " << line_of(p));
        const auto precision = [&](const Context& of) {
          return describe(make_plan(of, p.desc())).precision;
        };
        CHECK(precision(context) == (pairs ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT));
        CHECK(precision(exact) == HEED_PRECISION_EXACT);
        CHECK(same_bits(p.run(context), p.run(exact)) == !pairs);
        CHECK(same_bits(p.run(medium), p.run(context)));
      }
  });
}

TEST_CASE("gradients of pairs: odd sizes, and windows that begin at odd keys",
          "[backward][precision]") {
  std::size_t index = 0;
  for (const std::int64_t features : {1, 7, 33, 64, 77})
    for (const auto& [rows, keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {7, 23}, {53, 65}, {23, 197}, {197, 77}}) {
      if (small() && rows * keys > 4000) continue;
      if (brief() && index++ % 2 != 0) continue;
      const Sizes sizes = {rows, keys, features, features == 33 ? 7 : features, 1, 2, 1};
      BackwardProblem p = in_bfloat16(sizes);
      check_backward(p);
      set_window(p.forward, 5, 8, keys - rows);
      p.attend(plain_contexts()[0]);
      check_backward(p);
    }
  for (const Sizes& sizes : long_and_many()) {  // several panels, of which some end at other keys
    BackwardProblem p = in_bfloat16(sizes);
    check_backward(p);
  }
}

TEST_CASE("gradients of pairs: a head that is not finite is computed without them",
          "[backward][precision]") {
  const Sizes sizes = {40, 50, 12, 9, 2, 4, 2, HEED_CAUSAL_BOTTOM_RIGHT};
  BackwardProblem finite = in_bfloat16(sizes);
  std::size_t index = 4;  // keys are among few
  for (const double special : {kInfinity, kNaN})
    for (const auto& plant : std::vector<std::function<Tensor&(BackwardProblem&)>>{
             [](BackwardProblem& p) -> Tensor& { return p.forward.query; },
             [](BackwardProblem& p) -> Tensor& { return p.forward.key; },
             [](BackwardProblem& p) -> Tensor& { return p.forward.value; },
             [](BackwardProblem& p) -> Tensor& { return p.grad_out; },
             [](BackwardProblem& p) -> Tensor& { return *p.forward.lse; },
             [](BackwardProblem& p) -> Tensor& { return *p.grad_lse; }}) {
      if (!keep_of_few(index++)) continue;
      BackwardProblem p = in_bfloat16(sizes);
      plant(p).set({1, 1, 3, 0}, special);
      check_backward(p, nullptr, Unspecified::kAllowed);
      for_each_with_pairs([&](const char* isa, const char*) {
        const Gradients pairs = finite.run(make_context(isa));
        const Gradients exact = p.run(context_of(isa, HEED_PRECISION_EXACT));
        const Gradients got = p.run(make_context(isa));
        // Of grad_query, head by head of both items.
        const std::size_t rows = got[kGradQuery].size() / 8;
        const auto same = [&](const Gradients& other, std::size_t first, std::size_t heads) {
          bool all = true;
          for (std::size_t n = first * rows; n < (first + heads) * rows; ++n)
            all = all && got[kGradQuery].bits[n] == other[kGradQuery].bits[n];
          CHECK(all);
        };
        same(pairs, 0, 4);  // the other batch item
        const bool of_keys = &plant(p) == &p.forward.key || &plant(p) == &p.forward.value;
        same(exact, of_keys ? 6 : 4, 2);
        same(pairs, of_keys ? 4 : 6, 2);
      });
    }
}

TEST_CASE("gradients of pairs: threads and tiles change no bit", "[backward][precision][threads]") {
  for (const Sizes& sizes : long_and_many()) {
    BackwardProblem p = in_bfloat16(sizes);
    for_each_with_pairs([&](const char* isa, const char*) {
      const Gradients want = p.run(make_context(isa));
      for (const auto& [tile_q, tile_kv] :
           std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1}, {1000, 128}, {64, 10000}})
        check_same(isa + (": " + line_of(p)),
                   p.run(make_context(isa, {"serial", 1, tile_q, tile_kv})), want);
      each_executor(isa, [&](const std::string& name, const Context& context) {
        check_same(isa + (", " + name + ": ") + line_of(p), p.run(context), want);
      });
    });
  }
}
