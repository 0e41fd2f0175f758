// Gradients that a call gives back, in arrays of the caller's library or where the caller wants
// them.
#pragma once

#include <optional>

#include "api/python/module/outputs.hpp"

namespace heed::python {

/// One gradient: what is given back, and where C writes it.
struct Gradient {
  nb::object object;        // null where it is not wanted
  nb::object keeper;        // of what is written, where that is the caller's
  std::vector<int> summed;  // axes that its tensor repeats: `full` is to be summed over them
  Made full;
  bool accumulate = false;
  bool given = false;  // by the caller

  /// What is given back, once C has written: summed over repeated axes, of the kind of `like`.
  nb::object result(const Kind& kind, nb::handle like) const;
};

/// Whether a gradient is wanted: True, False or an array to write to.
bool is_wanted(const char* name, nb::handle wanted);

/// None as what it stands for: wanted where the call has what it is the gradient of.
inline nb::handle unless_given(nb::handle wanted, bool has) {
  return wanted.is_none() ? nb::handle(has ? Py_True : Py_False) : wanted;
}

/// Makes arrays for gradients, or takes the caller's.
struct GradientMaker {
  Kind kind;
  const char* like;  // the argument whose type says what the arithmetic is, and that type
  Element like_element;
  bool accumulate;

  bool float64() const { return like_element == Element::kF64; }
  Element real() const { return float64() ? Element::kF64 : Element::kF32; }

  /// float64 if, and only if, the arithmetic is.
  void check_type(const char* name, const Form& form) const;

  /// The caller's, of the shape of `form`, or a new one of its type too, zeroed if that is asked
  /// for or it is added to.
  Array array(const char* name, nb::handle wanted, const Form& form, Gradient& gradient,
              bool zeroed = false) const;

  /// Of any strides and floating type, in the shape of `form`.
  Gradient of_tensor(const char* name, nb::handle wanted, const Form& form, Array& array,
                     bool zeroed = false) const;

  /// Contiguous numbers of the arithmetic's type.
  Gradient of_reals(const char* name, nb::handle wanted, std::int64_t count, void*& data) const;
};

/// Gradients of what attention is given beside query, key and value, in the order of heed.Gradients
/// from bias on.
class OptionGradients {
 public:
  enum { kBias, kSinks, kSlopes, kArrays, kScale = kArrays, kTemperature, kCount };

  /// `wanted` says what of each, from the entry `first` on.
  template <class Desc, class Args>
  OptionGradients(const GradientMaker& make, const Call& call, const nb::tuple& wanted, int first,
                  Desc& desc, Args& args) {
    arrays_[kBias] = of_bias(make, call, wanted[first + kBias], desc.grad_bias, args.grad_bias);
    arrays_[kSinks] =
        of_heads(make, "sinks", wanted[first + kSinks], call.args.sinks, call, args.grad_sinks);
    arrays_[kSlopes] = of_heads(make, "alibi_slopes", wanted[first + kSlopes],
                                call.args.alibi_slopes, call, args.grad_alibi_slopes);
    args.grad_scale = numbers_[0].want("grad_scale", wanted[first + kScale], make);
    args.grad_temperature =
        numbers_[1].want("grad_temperature", wanted[first + kTemperature], make);
  }
  OptionGradients(const OptionGradients&) = delete;
  OptionGradients& operator=(const OptionGradients&) = delete;

  void append_to(nb::list& results, const Kind& kind, nb::handle like) const;

 private:
  /// A derivative that is one number.
  struct Number {
    bool wanted = false;
    bool float64 = false;
    float single = 0;
    double number = 0;

    void* want(const char* name, nb::handle given, const GradientMaker& make);
  };

  static Gradient of_bias(const GradientMaker& make, const Call& call, nb::handle wanted,
                          heed_score_layout& layout, void*& data);
  static Gradient of_heads(const GradientMaker& make, const char* of, nb::handle wanted,
                           const void* given, const Call& call, void*& data);

  Gradient arrays_[kArrays];
  Number numbers_[kCount - kArrays];
};

/// Refuses results that are asked for of gradients, and attention that has none.
void check_differentiable(const char* function, const Call& call, const Options& options);

/// Of gradients of `function`, an option is refused as no function knows it.
[[noreturn]] void refuse_option(const char* function, const char* option);

/// score_gradient, which a score function needs, and nothing else has.
heed_score_gradient score_gradient_of(Call& call, nb::handle given);

/// What gradients start from, beside query, key and value; what is wanted of each, in the order of
/// heed.Gradients; and accumulate.
struct GivenResults {
  nb::handle out, lse, grad_out, grad_lse;
  const nb::tuple& wanted;
  nb::handle accumulate;
};

/// heed.Gradients of a call that has been read.
class AttentionGradients {
 public:
  /// Fills desc and args, but for the context, accumulate included. `all_keys` are those that masks
  /// and biases have, unless that is the call's key_length: -1.
  AttentionGradients(Call& call, const GivenResults& given, heed_attention_backward_desc& desc,
                     heed_attention_backward_args& args, std::int64_t all_keys = -1);

  nb::object named(const Call& call, nb::handle query) const;

 private:
  struct Results {
    Array out, lse, grad_out, grad_lse;
  };
  struct RowGradients {
    Gradient query, key, value;
  };

  static GradientMaker maker(const Call& call, nb::handle accumulate,
                             heed_attention_backward_desc& desc);
  static Results read_results(Call& call, const GradientMaker& make, const GivenResults& given,
                              heed_attention_backward_desc& desc,
                              heed_attention_backward_args& args);
  static RowGradients of_all_rows(const GradientMaker& make, const Call& call,
                                  const nb::tuple& wanted, heed_attention_backward_desc& desc,
                                  heed_attention_backward_args& args);

  GradientMaker make_;
  Results results_;
  RowGradients rows_;
  std::optional<OptionGradients> others_;
};

/// What a forward call gave, or the gradient of it: of its shape, and `like` its arithmetic.
Array read_like_out(const GradientMaker& make, const char* name, nb::handle from,
                    const Shape& shape);
Array read_like_lse(const char* name, nb::handle from, const Shape& shape);

}  // namespace heed::python
