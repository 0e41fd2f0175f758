#include "engine/multihead/problem.hpp"

#include "engine/projection/weights.hpp"
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
    refuse("desc.attention->pages is %lld; it must be 0: a block makes its keys itself",
           lld(attention.pages));
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
    refuse("desc.width_out is %lld; without a W_out it must be %svalue_features, %lld, or 0",
           lld(p.width_out), apart ? "query_heads * " : "", lld(natural));
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

void check_matrices(const MultiheadProblem& p, const heed_multihead_args& args,
                    const PreparedFor& products) {
  check_given(HEED_GIVEN_MATRIX(args, query), p.w_query, p.float64(), products);
  check_given(HEED_GIVEN_MATRIX(args, key), p.w_key, p.float64(), products);
  check_given(HEED_GIVEN_MATRIX(args, value), p.w_value, p.float64(), products);
  if (p.combine == HEED_COMBINE_CONCAT && args.w_out == nullptr && args.p_out == nullptr)
    refuse(
        "args.w_out and args.p_out are both NULL; give one of them, or heads stay as they are with "
        "desc.combine HEED_COMBINE_HEADS (5)");
  if (p.has_w_out())
    check_given(HEED_GIVEN_MATRIX(args, out), p.w_out, p.float64(), products);
  else if (args.p_out != nullptr)
    refuse("args.p_out is given; it must be NULL %s", kHasWOut.unless);
}

void check_head_weights(const MultiheadProblem& p, const void* head_weights) {
  const bool wanted = p.combine == HEED_COMBINE_WEIGHTED;
  if (wanted != (head_weights != nullptr))
    refuse(
        "args.head_weights is %s with desc.combine %d; it must be given with "
        "HEED_COMBINE_WEIGHTED (1) and NULL otherwise",
        wanted ? "NULL" : "given", static_cast<int>(p.combine));
}

void check_one_input(const MultiheadProblem& p, const heed_multihead_args& args) {
  if (args.input_key == nullptr && p.key_rows > 0 && !p.one_input_fits)
    refuse(
        "args.input_key is NULL; input_query can stand for it only with as many rows and "
        "features, and %lld x %lld are not %lld x %lld",
        lld(p.query_rows), lld(p.width_query), lld(p.key_rows), lld(p.width_key));
}

void check_kept(const MultiheadProblem& p, const heed_multihead_args& args, std::size_t bytes) {
  if (!p.keep && args.kept != nullptr)
    refuse("args.kept is given; it must be NULL with desc.keep 0");
  if (!p.keep && args.kept_bytes != 0)
    refuse("args.kept_bytes is %zu; it must be 0 with desc.keep 0", args.kept_bytes);
  if (bytes == 0) return;
  if (args.kept == nullptr) refuse("args.kept is NULL; desc.keep 1 needs %zu bytes", bytes);
  if (args.kept_bytes < bytes)
    refuse("args.kept_bytes is %zu; it must be at least %zu", args.kept_bytes, bytes);
  check_alignment("args.kept", args.kept, HEED_WORKSPACE_ALIGNMENT);
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
  resolve_layouts<kBlockOperands>(&desc, p.float64(), p);
  p.bias = check_vector("desc.bias_dtype", desc.bias_dtype, p.float64());
  resolve_rows(p);
  return p;
}

heed_attention_args read_attention_args(const heed_multihead_args& args) {
  if (args.attention == nullptr) return HEED_ATTENTION_ARGS_INIT;
  const heed_attention_args inner = read_struct(args.attention, "args.attention");
  const struct {
    const char* name;
    const void* pointer;
  } own[] = {{"query", inner.query},           {"key", inner.key},
             {"value", inner.value},           {"out", inner.out},
             {"key_scales", inner.key_scales}, {"value_scales", inner.value_scales}};
  for (const auto& tensor : own)
    if (tensor.pointer != nullptr)
      refuse("args.attention->%s is given; it must be NULL: the block makes its own", tensor.name);
  return inner;
}

void validate(const MultiheadProblem& p, const heed_multihead_args& args,
              const heed_attention_args& attention, const PreparedFor& products,
              std::size_t kept_bytes) {
  check_reserved("args.reserved", args.reserved);
  check_inputs<kBlockOperands>(p, &args, p.float64());
  check_one_input(p, args);
  check_matrices(p, args, products);
  check_head_weights(p, args.head_weights);
  check_kept(p, args, kept_bytes);
  within("args.attention", [&] { validate(p.attention, attention); });
}

}  // namespace heed
