#include "api/python/module/planned_call.hpp"

#include <cstring>
#include <iterator>

namespace heed::python {
namespace {

constexpr struct {
  const char* name;
  Array Call::*array;
} kNamed[] = {{"query", &Call::query},           {"key", &Call::key},
              {"value", &Call::value},           {"out", &Call::out},
              {"attn_mask", &Call::attn_mask},   {"bias", &Call::bias},
              {"key_scales", &Call::key_scales}, {"value_scales", &Call::value_scales}};
static_assert(std::size(kNamed) == PlannedCall::kArrays);

}  // namespace

void read_shard_scores(Call& call, const Options& options, std::int64_t all_keys) {
  const std::int64_t own = call.desc.key_length;
  call.desc.key_length = all_keys;
  read_scores(call, options, false);
  call.desc.key_length = own;
}

PlannedCall::PlannedCall(const Call& call, const Options& options, std::int64_t all_keys)
    : desc_(call.desc), all_keys_(all_keys), out_given_(call.out_given), kept_(call, options) {
  for (std::size_t i = 0; i < std::size(kNamed); ++i) forms_[i] = (call.*kNamed[i].array).form;
}

Outputs PlannedCall::read(Call& call, const char* maker, const GivenCall& given) const {
  const Options options = kept_.with("Plan.__call__", maker, given.tensors);
  if (out_given_ && given.out.is_none()) refuse_type("the plan was made with out: give it");
  read_lengths(call, options);
  read_tensors(call, given.query, given.key, given.value, options);
  if (all_keys_ >= 0)
    read_shard_scores(call, options, all_keys_);
  else
    read_scores(call, options);
  Outputs outputs = make_outputs(call, options, given.out.is_none() ? nb::handle() : given.out);
  if (call.out_given && !out_given_) take_plain_out(call);
  // Made in the same way from the same, they are the same in every byte.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
  if (std::memcmp(&call.desc, &desc_, sizeof desc_) != 0) refuse_difference(call);
  return outputs;
}

/// An out where the plan was made without: it lies as a new one would.
void PlannedCall::take_plain_out(Call& call) const {
  const Form& form = call.out.form;
  if (!is_contiguous(form) || dtype_of(form.element) != static_cast<heed_dtype>(desc_.out.dtype))
    refuse(
        "out is %s with strides %s; the plan was made without, so it must be contiguous and "
        "of query's type",
        text(form).c_str(), shape_text(form.strides, form.axes).c_str());
  call.desc.out = desc_.out;
}

void PlannedCall::refuse_difference(const Call& call) const {
  kept_.check_mask(call);
  for (std::size_t i = 0; i < std::size(kNamed); ++i)
    check_form(kNamed[i].name, (call.*kNamed[i].array).form, forms_[i]);
  if (call.desc.batch != desc_.batch)
    refuse("%s is for %lld sequences; the plan was made for %lld", call.batch_of,
           static_cast<long long>(call.desc.batch), static_cast<long long>(desc_.batch));
  refuse("block_table has rows of %lld entries; the plan was made for %lld",
         static_cast<long long>(call.desc.block_table_stride),
         static_cast<long long>(desc_.block_table_stride));
}

}  // namespace heed::python
