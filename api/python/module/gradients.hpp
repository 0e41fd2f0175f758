// Gradients that a call gives back, in arrays of the caller's library or where the caller wants
// them.
#pragma once

#include "api/python/module/outputs.hpp"

namespace heed::python {

/// float64 if, and only if, the arithmetic is.
void check_result_type(const Call& call, const char* name, const Form& form);

/// One gradient: what is given back, and where C writes it.
struct Gradient {
  nb::object object;        // null where it is not wanted
  nb::object keeper;        // of what is written, where that is the caller's
  std::vector<int> summed;  // axes that its tensor repeats: `full` is to be summed over them
  Made full;
  bool accumulate = false;

  /// Sums over repeated axes, once C has written.
  void finish() const;
};

/// All of them, in the order of heed.Gradients.
class Gradients {
 public:
  /// `wanted`: for each True, False or an array to write to.
  Gradients(const Call& call, const nb::tuple& wanted, heed_attention_backward_desc& desc,
            heed_attention_backward_args& args);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  nb::object result(nb::handle query, const nb::tuple& wanted) const;

 private:
  Gradient of_tensor(const char* name, nb::handle wanted, const Form& of, const Shape& full,
                     bool packed, heed_layout& layout, void*& data);
  Gradient of_bias(nb::handle wanted, heed_score_layout& layout, void*& data);
  Gradient of_heads(const char* name, const char* of, nb::handle wanted, const void* given,
                    void*& data);
  void* of_number(const char* name, nb::handle wanted, int index);
  /// The caller's, or a new one; of packed rows, some may belong to no sequence, and stay 0.
  Array array_for(const char* name, nb::handle wanted, Element element, const Form& like,
                  Gradient& gradient, bool packed = false) const;

  const Call& call_;
  bool accumulate_;
  Gradient arrays_[6];
  struct {
    bool wanted;
    float single;
    double number;
  } numbers_[2] = {};  // of scale and temperature
};

}  // namespace heed::python
