#include "engine/multihead/operands.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {

heed_attention_desc read_attention(const heed_multihead_desc& desc) {
  heed_attention_desc attention = read_struct(desc.attention, "desc.attention");
  constexpr const char* kWhy = "projections have layouts of the block's own";
  check_unset("desc.attention->query", attention.query, kWhy);
  check_unset("desc.attention->key", attention.key, kWhy);
  check_unset("desc.attention->value", attention.value, kWhy);
  check_unset("desc.attention->out", attention.out, kWhy);
  check_unset("desc.attention->key_scales", attention.key_scales, kWhy);
  check_unset("desc.attention->value_scales", attention.value_scales, kWhy);
  check_size("attention->query_heads", attention.query_heads, 1);
  if (attention.pages != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.attention->pages is %lld; it must be 0: a block makes its keys itself",
         static_cast<long long>(attention.pages));
  const std::uint32_t type =
      desc.input_query.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  attention.query.dtype = type;
  attention.key.dtype = type;
  attention.value.dtype = type;
  attention.out.dtype = type;
  return attention;
}

namespace {

void resolve_widths(const heed_multihead_desc& desc, MultiheadProblem& p) {
  const Problem& a = p.attention;
  const auto width = [&](std::int64_t heads, std::int64_t features) {
    return (Size(heads) * features)
        .checked("a row of all heads", {{"desc.attention->query_heads", a.query_heads},
                                        {"desc.attention->key_heads", a.key_heads},
                                        {"desc.attention->features", a.features},
                                        {"desc.attention->value_features", a.value_features}});
  };
  p.queries_width = width(a.query_heads, a.features);
  p.keys_width = width(a.key_heads, a.features);
  p.values_width = width(a.key_heads, a.value_features);
  p.heads_width = width(a.query_heads, a.value_features);
  check_size("width_query", desc.width_query, 1);
  check_size("width_key", desc.width_key, 0);
  check_size("width_out", desc.width_out, 0);
  p.width_query = desc.width_query;
  p.width_key = desc.width_key == 0 ? desc.width_query : desc.width_key;
  const bool apart = p.combine == HEED_COMBINE_HEADS;
  const std::int64_t combined = apart ? p.heads_width : a.value_features;
  const std::int64_t natural = p.has_w_out() ? p.width_query : combined;
  p.width_out = desc.width_out == 0 ? natural : desc.width_out;
  if (!p.has_w_out() && p.width_out != natural)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.width_out is %lld; without a W_out it must be %svalue_features, %lld, or 0",
         static_cast<long long>(p.width_out), apart ? "query_heads * " : "",
         static_cast<long long>(natural));
}

void resolve_rows(MultiheadProblem& p) {
  const Axes query = query_axes(p.attention);
  const Axes key = key_axes(p.attention);
  const auto rows = [](const Axes& of, const char* length) {
    return (Size(of.sizes[0]) * of.sizes[2])
        .checked("the number of rows",
                 {{"desc.attention->batch", of.sizes[0]}, {length, of.sizes[2]}});
  };
  p.query_rows = rows(query, "desc.attention->query_length");
  p.key_rows = rows(key, "desc.attention->key_length");
  p.one_input_fits = p.width_query == p.width_key && query.sizes[0] == key.sizes[0] &&
                     query.sizes[2] == key.sizes[2] && query.nesting == key.nesting;
}

}  // namespace

MultiheadProblem validate(const heed_multihead_desc& desc) {
  check_choice("combine", desc.combine, "a heed_combine", HEED_COMBINE_HEADS);
  check_choice("keep", desc.keep, "a switch", 1);
  MultiheadProblem p{};
  p.combine = static_cast<heed_combine>(desc.combine);
  p.keep = desc.keep != 0;
  const heed_attention_desc attention = read_attention(desc);
  p.attention = within("desc.attention", [&] { return validate(attention); });
  if (p.keep && attention.hard != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.keep is 1; it must be 0 where desc.attention->hard is 1: hard attention is not "
         "differentiable");
  resolve_widths(desc, p);
  resolve_layouts(kBlockOperands, &desc, p.float64(), p);
  p.bias = check_vector("desc.bias_dtype", desc.bias_dtype, p.float64());
  resolve_rows(p);
  return p;
}

}  // namespace heed
