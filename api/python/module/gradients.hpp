// Gradients that a call gives back, in arrays of the caller's library or where the caller wants
// them.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "api/python/module/call.hpp"

namespace heed::python {

// ---- Gradients ----

/// One gradient: what is given back, and where C writes it.
struct Gradient {
  Output output;            // of no object where it is not wanted
  std::vector<int> summed;  // axes that its tensor repeats: `full` is to be summed over them
  Output full;              // of an object where C cannot write the output itself

  const Output& written() const { return full.object.is_valid() ? full : output; }
  const Form& form() const { return written().array.form; }
  void* data() const { return written().data(); }
};

/// The gradients that a call gives back, in the order in which they are added here; each says in
/// the structs of C where it is written.
class Gradients {
 public:
  /// `like` is the argument whose type says what the arithmetic is, and of which kind results are.
  Gradients(const Arguments& given, const char* like, const Kind& kind, Element element, void* desc,
            void* args);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  Element real() const { return float64() ? Element::kF64 : Element::kF32; }

  /// A result of the forward call, or its gradient: of its shape, and in its arithmetic.
  Array read_like_out(const char* name, nb::handle from, const Shape& shape) const;
  static Array read_like_lse(const char* name, nb::handle from, const Shape& shape);

  /// Gradients start from these, in desc and args of the operation; `lay_out` and `lay_lse` say how
  /// C knows where they lie.
  template <class Desc, class Args, class LayOut, class LayLse>
  void read_given(Desc& desc, Args& args, const Shape& out, LayOut&& lay_out, const Shape& lse,
                  LayLse&& lay_lse) {
    desc.accumulate = accumulates_ ? 1 : 0;
    grad_out_ = read_like_out("grad_out", given_.grad_out, out);
    desc.grad_out = lay_out(grad_out_.form);
    args.grad_out = address_of(grad_out_);
    if (!given_.grad_lse.is_valid()) return;
    grad_lse_ = read_like_lse("grad_lse", given_.grad_lse, lse);
    desc.grad_lse = lay_lse(grad_lse_.form);
    args.grad_lse = address_of(grad_lse_);
  }

  /// True, or the array that an operand's gradient is written to; null if it is not wanted. Where
  /// the caller says nothing, `by_default` does.
  nb::handle wanted(const Operand& operand, bool by_default) const;

  /// A gradient of any strides and floating type, in the shape of `form`; a new one is zeroed if
  /// that is asked for or it is added to. Unless `any_type` says so, all are float64, or none.
  /// nullptr where it is not wanted; otherwise its layout is to be set.
  const Gradient* add(const Operand& operand, nb::handle wanted, const Form& form,
                      bool zeroed = false, bool any_type = false);
  /// Lets C write the latest one in the arithmetic's type if its own is narrower, and rounds then.
  void write_wide(const Operand& operand);
  template <class Layout>
  void set_layout(const Operand& operand, const Layout& layout) {
    set_member(desc_, operand.grad_layout, layout);
  }

  /// Contiguous numbers of the arithmetic's type.
  void add_reals(const Operand& operand, nb::handle wanted, std::int64_t count);

  /// The gradient of rows of heads, `full` of them; summed over axes that their tensor repeats.
  void add_rows(const Operand& operand, const Form& form, const Shape& full, bool packed);

  /// Gradients of attention's options, in the order of heed.Gradients. `Api` names the operation's
  /// structs.
  template <class Api>
  void add_options(const Call& call) {
    Operand bias = HEED_GRADIENT(typename Api, bias);
    bias.grad_layout = offsetof(typename Api::BackwardDesc, grad_bias);
    add_bias(bias, call);
    const std::int64_t heads = call.desc.query_heads;
    add_given(HEED_GRADIENT(typename Api, sinks), call.args.sinks, heads);
    add_given(HEED_GRADIENT(typename Api, alibi_slopes), call.args.alibi_slopes, heads);
    add_given(HEED_GRADIENT(typename Api, score_weights), call.args.score_weights,
              score_weights_of(call.desc, heads));
    add_number(HEED_GRADIENT(typename Api, scale));
    add_number(HEED_GRADIENT(typename Api, temperature));
  }

  /// Which are wanted: a bit for each, in their order.
  std::uint32_t bits() const;

  /// The tuple of this type, once C has written.
  nb::object result(const nb::object& type, nb::handle like) const;

 private:
  /// A derivative that is one number.
  struct Number {
    bool wanted = false;
    float single = 0;
    double number = 0;
  };

  bool float64() const { return element_ == Element::kF64; }
  void check_type(const char* name, const Form& form) const;
  Gradient& make(const char* name, nb::handle wanted, const Form& form, bool zeroed);
  void add_bias(const Operand& operand, const Call& call);
  /// The gradient of so many numbers, which may not have been given.
  void add_given(const Operand& operand, const void* given, std::int64_t count);
  void add_number(const Operand& operand);
  nb::object handed(const Gradient& gradient, nb::handle like) const;

  const Arguments& given_;
  const char* like_;
  Kind kind_;
  Element element_;
  bool accumulates_;
  void* desc_;
  void* args_;
  Array grad_out_;
  Array grad_lse_;
  std::deque<Gradient> arrays_;
  std::deque<Number> numbers_;
};

/// Refuses results that are asked for of gradients, and attention that has none.
void check_differentiable(const char* function, const Arguments& given);

/// score_gradient, which a score function needs, and nothing else has.
heed_score_gradient score_gradient_of(Call& call, const Arguments& given);

// ---- Gradients of dense attention ----

struct AttentionApi {
  using Desc = heed_attention_desc;
  using Args = heed_attention_args;
  using BackwardDesc = heed_attention_backward_desc;
  using BackwardArgs = heed_attention_backward_args;
};

/// heed.Gradients of a call that has been read. It stays where it is, as what it points at.
struct AttentionGradients {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  Array out, lse;
  Gradients gradients;

  AttentionGradients(Call& call, const Arguments& given);
  nb::object result(nb::handle like) const { return gradients.result(names().gradients, like); }
};

}  // namespace heed::python
