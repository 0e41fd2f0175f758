// A small multi-head block for the tests of the C API, with one of everything.
#pragma once

#include <functional>
#include <vector>

#include "tests/api/bytes.hpp"
#include "tests/api/fields.hpp"
#include "tests/api/support.hpp"

namespace api_test {

/// [2, 3, 7] and [2, 5, 9] to [2, 3, 8]: 4 query heads, 2 key heads, 4 features, values of 6.
struct BlockForm {
  BlockForm() {
    attention.batch = 2;
    attention.query_heads = 4;
    attention.key_heads = 2;
    attention.query_length = 3;
    attention.key_length = 5;
    attention.features = 4;
    attention.value_features = 6;
    attention.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.attention = &attention;
    desc.width_query = 7;
    desc.width_key = 9;
    desc.width_out = 8;
    inner.mask = static_cast<std::uint8_t*>(mask.at());
    inner.key_lengths = key_lengths;
    inner.lse = lse.at();
    inner.weights = weights.at();
    args.attention = &inner;
    args.input_query = input_query.at();
    args.input_key = input_key.at();
    args.w_query = w_query.at();
    args.w_key = w_key.at();
    args.w_value = w_value.at();
    args.w_out = w_out.at();
    args.b_query = b_query.at();
    args.b_key = b_key.at();
    args.b_value = b_value.at();
    args.b_out = b_out.at();
    args.out = out.at();
  }
  BlockForm(const BlockForm&) = delete;  // its arguments point into it
  BlockForm& operator=(const BlockForm&) = delete;

  /// A combiner without a W_out.
  void reduce(heed_combine combine) {
    desc.combine = combine;
    desc.width_out = 0;
    args.w_out = args.b_out = nullptr;
    if (combine == HEED_COMBINE_WEIGHTED) args.head_weights = head_weights.at();
  }
  void all_float64() {
    desc.input_query.dtype = desc.input_key.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }

  void keep() {
    desc.keep = 1;
    args.kept = kept;
    args.kept_bytes = sizeof kept;
  }

  bool outputs_untouched() const {
    return out.all_are(kPattern) && lse.all_are(kPattern) && weights.all_are(kPattern);
  }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  Bytes input_query, input_key, w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out;
  Bytes head_weights, mask{1};
  Bytes out{kPattern}, lse{kPattern}, weights{kPattern};
  std::int32_t key_lengths[2] = {5, 2};
  alignas(64) unsigned char kept[8192] = {};
};

using BlockChange = std::function<void(BlockForm&)>;

/// Of a block, or of one inside its gradients: messages then begin with these words.
inline void add(Fields& fields, BlockForm& form, const std::string& in_desc,
                const std::string& in_args) {
  heed_multihead_desc& d = form.desc;
  heed_multihead_args& a = form.args;
  fields.in(in_desc + "desc.")("combine", d.combine)("width_query", d.width_query)(
      "width_key", d.width_key)("width_out", d.width_out)("input_query", d.input_query)(
      "input_key", d.input_key)("out", d.out)("w_query", d.w_query)("w_key", d.w_key)(
      "w_value", d.w_value)("w_out", d.w_out)("bias_dtype", d.bias_dtype)("keep", d.keep);
  add(fields.in(in_desc + "desc.attention: desc."), form.attention);
  fields.in(in_args + "args.")("reserved", a.reserved)("input_query", a.input_query)(
      "input_key", a.input_key)("w_query", a.w_query)("w_key", a.w_key)("w_value", a.w_value)(
      "w_out", a.w_out)("b_query", a.b_query)("b_key", a.b_key)("b_value", a.b_value)(
      "b_out", a.b_out)("head_weights", a.head_weights)("out", a.out)("kept", a.kept)("kept_bytes",
                                                                                      a.kept_bytes);
  add(fields.in(in_args + "args.attention: args."), form.inner);
  fields("key_lengths", form.key_lengths);
}

inline Fields fields_of(BlockForm& form) {
  Fields fields;
  add(fields, form, "", "");
  return fields;
}

/// A matrix prepared from zeros.
inline Weights prepared(const Context& context, std::int64_t in, std::int64_t out,
                        std::uint32_t arithmetic = HEED_DTYPE_F32, std::int64_t matrices = 1) {
  const std::vector<double> numbers(static_cast<std::size_t>(matrices * in * out), 0);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = arithmetic;
  desc.matrices = matrices;
  desc.in = in;
  desc.out = out;
  heed_weights* weights = nullptr;
  REQUIRE(heed_weights_create(context.get(), &desc, numbers.data(), nullptr, &weights) ==
          HEED_STATUS_OK);
  return Weights(weights);
}

/// Rows [2, 4, 5] to multiply with a prepared matrix from 5 features to 6.
struct ProjectForm {
  ProjectForm() {
    desc.batch = 2;
    desc.rows = 4;
    prepare(serial());
  }
  ProjectForm(const ProjectForm&) = delete;  // its pointers point into it
  ProjectForm& operator=(const ProjectForm&) = delete;

  void prepare(const Context& context, std::uint32_t arithmetic = HEED_DTYPE_F32) {
    made = prepared(context, 5, 6, arithmetic);
    weights = made.get();
  }
  void all_float64() {
    prepare(serial(), HEED_DTYPE_F64);
    desc.x.dtype = desc.y.dtype = HEED_DTYPE_F64;
  }

  bool outputs_untouched() const { return out.all_are(kPattern); }

  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  Bytes in, out{kPattern};
  Weights made;
  const heed_weights* weights = nullptr;
  const void* x = in.at();
  void* y = out.at();
};

inline Fields fields_of(ProjectForm& form) {
  Fields fields;
  heed_project_desc& d = form.desc;
  fields.in("desc.")("batch", d.batch)("rows", d.rows)("x", d.x)("y", d.y)("reserved", d.reserved);
  return fields.in("")("x", form.x)("y", form.y);
}

inline heed_status one_call(const Context& context, ProjectForm& form) {
  return heed_project(context.get(), &form.desc, form.weights, form.x, form.y);
}

template <class Check>
void hand_in(ProjectForm& form, bool, const Check& check) {
  forget_last_error();
  check(one_call(serial(), form));
}

}  // namespace api_test
