// Forms of every kind full of numbers, and what they give.
#pragma once

#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"

namespace api_test {

inline void fill(Bytes& bytes, std::uint32_t seed) {
  const std::vector<float> all = numbers(4096 / sizeof(float), seed);
  std::memcpy(bytes.at(), all.data(), 4096);
}

inline heed_status run(Form& form) {
  return heed_attention(serial().get(), &form.desc, &form.args);
}
inline heed_status run(BlockForm& form) {
  return heed_multihead(serial().get(), &form.desc, &form.args);
}
inline heed_status run(GraphForm& form) {
  const Context context = serial();
  return attend(context, make_graph(context, form.graph.desc), form);
}

inline void fill(Form& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes : {&form.query, &form.key, &form.value, &form.bias, &form.slopes})
    fill(*bytes, seed++);
}
inline void fill(BlockForm& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes : {&form.input_query, &form.input_key, &form.w_query, &form.w_key,
                             &form.w_value, &form.w_out, &form.b_query, &form.b_key, &form.b_value})
    fill(*bytes, seed++);
}
inline void fill(GraphForm& form) {
  std::uint32_t seed = 1;
  for (Bytes* const bytes :
       {&form.query, &form.key, &form.value, &form.data, &form.edge_data, &form.edge_bias,
        &form.w_query, &form.w_key, &form.w_value, &form.w_edge_key, &form.w_edge_value})
    fill(*bytes, seed++);
}

template <class AForm>
std::vector<unsigned char> outputs(AForm& form) {
  std::vector<unsigned char> all;
  for (Bytes* const bytes : {&form.out, &form.lse, &form.weights}) {
    const auto* const begin = static_cast<const unsigned char*>(bytes->at());
    all.insert(all.end(), begin, begin + 4096);
  }
  return all;
}

/// What a form, filled with numbers and then changed, gives.
template <class AForm, class Change>
std::vector<unsigned char> outputs_of(Change&& change) {
  AForm form;
  fill(form);
  change(form);
  const heed_status status = run(form);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK_FALSE(form.out.all_are(kPattern));
  return outputs(form);
}

}  // namespace api_test
