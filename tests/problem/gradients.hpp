// Gradients of any problem: which are asked for, where they lie, and what is there before a run.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/oracle/given.hpp"
#include "tests/problem/laid_out.hpp"

namespace heed_test {

/// Gradients that `Of` names, `kCount` of them. The gradient of out is given, normally distributed;
/// that of lse is not, and none is asked for.
template <class Desc, class Args, class Of, std::size_t kCount>
class GradientProblem {
 public:
  using Got = std::array<Numbers, kCount>;
  using Pointers = std::array<void * Args::*, kCount>;

  virtual ~GradientProblem() = default;

  void give_grad_lse(std::uint64_t seed, const Form& form = {}) {
    fill_normally(grad_lse.emplace(made(laid_out().lse, form)), seed);
  }

  /// Whether the problem has what this is the gradient of.
  virtual bool can_want(Of of) const = 0;
  void want(Of of, const Form& form = {}) { gradients[of].emplace(made(*laid_out().of[of], form)); }
  void want_all() {
    for (const Of of : all())
      if (can_want(of)) want(of);
  }
  void want_nothing() {
    for (auto& gradient : gradients) gradient.reset();
    desc_.accumulate = 0;
  }

  /// Adds to numbers that are there: random ones in rows that are written, or others'.
  void accumulate(std::uint64_t seed) {
    desc_.accumulate = 1;
    Random random(seed);
    for (const Of of : all()) {
      before_[of] = std::optional<Tensor>(gradients[of]);
      if (!gradients[of]) continue;
      Tensor& before = *before_[of];
      before.clear();
      before.each([&](const Axes& at) {
        if (owns(of, at[2])) before.set(at, random.normal());
      });
    }
  }
  void accumulate(std::array<std::optional<Tensor>, kCount> before) {
    desc_.accumulate = 1;
    before_ = std::move(before);
  }
  bool accumulates() const { return desc_.accumulate != 0; }
  const std::array<std::optional<Tensor>, kCount>& before() const { return before_; }

  /// Puts into gradients what is there before a run.
  void begin() {
    for (std::size_t of = 0; of < kCount; ++of) {
      if (!gradients[of]) continue;
      if (desc_.accumulate != 0)
        gradients[of].emplace(*before_[of]);
      else
        gradients[of]->clear();
    }
  }

  /// All that is given or asked for, whatever it lies in, of a descriptor that says how: gradients
  /// of all or some of what the problem has.
  void draw_tensors(Draw& draw) {
    LaidOutGradients<kCount> laid = laid_out();
    grad_out = laid.out.tensor(draw.index(4));
    fill_normally(grad_out, draw.bits());
    if (draw.one_in(2))
      fill_normally(grad_lse.emplace(laid.lse.tensor(draw.index(4))), draw.bits());
    if (draw.one_in(10)) draw.plant(grad_out);
    if (grad_lse && draw.one_in(20)) draw.plant(*grad_lse);
    const bool every = draw.one_in(2);
    for (const Of of : all())
      if (can_want(of) && (every || draw.one_in(2)))
        gradients[of].emplace(laid.of[of]->tensor(draw.index(4)));
    if (desc_.accumulate != 0) accumulate(draw.bits());
  }

  static std::array<Of, kCount> all() {
    std::array<Of, kCount> all{};
    for (std::size_t of = 0; of < kCount; ++of) all[of] = static_cast<Of>(of);
    return all;
  }

  Tensor grad_out{{0, 0, 0, 0}, {0, 0, 0, 0}};
  std::optional<Tensor> grad_lse;
  std::array<std::optional<Tensor>, kCount> gradients;

 protected:
  GradientProblem() = default;
  explicit GradientProblem(const Desc& desc) : desc_(desc) {}
  GradientProblem(const GradientProblem&) = default;
  GradientProblem(GradientProblem&&) = default;
  GradientProblem& operator=(const GradientProblem&) = default;
  GradientProblem& operator=(GradientProblem&&) = default;

  virtual LaidOutGradients<kCount> laid_out() = 0;
  /// Whether a row of a gradient is written: those that belong to no sequence are not.
  virtual bool owns(Of, Index) const { return true; }

  void give_grad_out(std::uint64_t seed, const Form& form) {
    grad_out = made(laid_out().out, form);
    fill_normally(grad_out, seed);
  }

  /// Arguments that point at what is given and asked for.
  void give(Args& args, const Pointers& pointers) {
    args.grad_out = grad_out.data();
    if (grad_lse) args.grad_lse = grad_lse->data();
    for (std::size_t of = 0; of < kCount; ++of)
      if (gradients[of]) args.*pointers[of] = gradients[of]->data();
  }

  /// What the oracle is given of them; valid until they begin anew.
  GivenGradients<kCount> given() const {
    GivenGradients<kCount> given;
    given.accumulate = accumulates();
    given.out = grad_out.source();
    if (grad_lse) given.lse = grad_lse->source();
    for (std::size_t of = 0; of < kCount; ++of)
      if (gradients[of]) given.of[of] = {gradients[of]->source(), gradients[of]->shape()};
    return given;
  }

  /// Everything that a run wrote; throws if it wrote anything else.
  Got got() const {
    Got got;
    for (std::size_t of = 0; of < kCount; ++of) {
      if (!gradients[of]) continue;
      if (!gradients[of]->padding_intact()) throw std::runtime_error("wrote outside a gradient");
      got[of] = gradients[of]->numbers();
    }
    return got;
  }

  Desc desc_{};

 private:
  static Tensor made(LaidOut laid, const Form& form) {
    laid.arrange(form.arrangement, form.dtype);
    return laid.tensor(form.misalign);
  }

  std::array<std::optional<Tensor>, kCount> before_;  ///< what is there
};

/// The layouts of a descriptor, each drawn of a type that type(gradient) draws; out is like the
/// gradient of no name, kCount.
template <std::size_t count, class Type>
void draw_layouts(Draw& draw, LaidOutGradients<count> laid, Type&& type) {
  laid.out.draw(draw, type(count));
  laid.lse.draw(draw,
                draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}));
  for (std::size_t of = 0; of < count; ++of)
    if (laid.of[of]) laid.of[of]->draw(draw, type(of));
}

/// What line_of says of gradients.
template <class AProblem>
std::string line_of_gradients(const AProblem& p) {
  std::string line = ", gradients of";
  for (const auto gradient : p.all())
    if (p.gradients[gradient])
      line += std::string(" ") + name_of(gradient) + " " +
              name_of_dtype(p.gradients[gradient]->dtype());
  return line + (p.grad_lse ? ", from lse too" : "");
}

template <std::size_t count>
bool same_bits(const std::array<Numbers, count>& a, const std::array<Numbers, count>& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const Numbers& x, const Numbers& y) { return same_bits(x, y); });
}

}  // namespace heed_test
