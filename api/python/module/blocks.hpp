// A call of a multi-head block, from Python's arguments to those of C.
#pragma once

#include "api/python/module/outputs.hpp"
#include "api/python/module/weights.hpp"

namespace heed::python {

/// As they came, the caller holding them; null or None where one was not given.
struct BlockArguments {
  nb::handle query;
  nb::handle key;
  nb::handle out;
  nb::tuple matrices;  // w_query, w_key, w_value, w_out
  nb::tuple biases;
  nb::tuple settings;  // heads, key_heads, combine, head_weights
  Options options;
};

/// desc and args, and what args point at: themselves too, so that a call stays where it is.
struct BlockCall {
  enum { kQuery, kKey, kValue, kOut, kMatrices };

  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  Call attention;
  Array query;
  Array key;
  Matrix matrices[kMatrices];
  Bias biases[kMatrices];
  Reals head_weights;
  Outputs outputs;

  BlockCall() = default;
  BlockCall(const BlockCall&) = delete;
  BlockCall& operator=(const BlockCall&) = delete;

  /// All that is given.
  void read(const BlockArguments& arguments);
  /// And then what is given back.
  void make_outputs(const BlockArguments& arguments);
  /// [batch, rows, width], as query has them.
  Shape out_shape() const;
  /// Of all products, roughly.
  double flops() const;
};

extern const NamedMatrix kBlockMatrices[BlockCall::kMatrices];

/// Rows of inputs and out: [batch, rows, width], [rows, width], or packed [rows, width].
heed_layout rows_layout(const Form& form);
Array read_input(const char* name, nb::handle from, bool packed);

}  // namespace heed::python
