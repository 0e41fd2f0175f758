#include "api/python/module/call.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

namespace heed::python {

// ---- Query, key and value: which axes they have, and how long they are ----

namespace {

struct Named {
  const char* name;
  const Form& form;
};

/// The size of an axis that all tensors share, or have one element of, which is then repeated.
std::int64_t shared(const char* axis, int back, std::initializer_list<Named> tensors) {
  const Named* longest = tensors.begin();
  for (const Named& tensor : tensors) {
    const std::int64_t size = tensor.form.size(back);
    const std::int64_t other = longest->form.size(back);
    if (size == other || size == 1) continue;
    if (other != 1)
      refuse("{} is {}, {} is {}: their {}, {} and {}, must be the same, or 1", longest->name,
             text(longest->form), tensor.name, text(tensor.form), axis, other, size);
    longest = &tensor;
  }
  return longest->form.size(back);
}

void check_same(const char* axis, int back, Named a, Named b) {
  if (a.form.size(back) != b.form.size(back))
    refuse("{} is {}, {} is {}: their {}, {} and {}, must be the same", a.name, text(a.form),
           b.name, text(b.form), axis, a.form.size(back), b.form.size(back));
}

constexpr char kAxes[] =
    "[batch, heads, rows, features], the first one or two of which may be missing";
constexpr char kPackedAxes[] = "[rows, heads, features], as cu_seqlens are given";
constexpr char kPageAxes[] = "[pages, heads, rows of a page, features], as block_table is given";

void check_element(const Named& tensor) {
  const Element element = tensor.form.element;
  if (is_floating(element) || element == Element::kI8 || element == Element::kF8E4M3) return;
  refuse(
      "{} is {}; it must be float32, float64, float16 or bfloat16, or int8 or float8_e4m3fn with "
      "scales",
      tensor.name, name_of(element));
}

void check_arithmetic(std::initializer_list<Named> tensors) {
  const auto is_double = [](const Named& t) { return t.form.element == Element::kF64; };
  const Named* of = std::find_if(tensors.begin(), tensors.end(), is_double);
  const Named* other = std::find_if_not(tensors.begin(), tensors.end(), is_double);
  if (of != tensors.end() && other != tensors.end())
    refuse("{} is float64 but {} is {}; query, key, value and out must all be float64, or none",
           of->name, other->name, name_of(other->form.element));
}

/// The longest sequence, by offsets that C checks.
std::int64_t longest(const Vector<std::int32_t>& offsets) {
  std::int64_t most = 0;
  for (std::int64_t i = 1; i < offsets.count; ++i)
    most = std::max<std::int64_t>(most, std::int64_t{offsets.data[i]} - offsets.data[i - 1]);
  return most;
}

/// max_seqlen_q or max_seqlen_k: what is given, or as much as there is.
std::int64_t length(const char* name, nb::handle given, const char* of, std::int64_t otherwise,
                    bool at_least) {
  if (!given.is_valid()) return otherwise;
  const std::int64_t value = integer(name, given);
  if (value < 0) refuse("{} is {}; it must be at least 0", name, value);
  if (at_least ? value < otherwise : value > otherwise)
    refuse("{} is {}; {} has {} rows for a sequence", name, value, of, otherwise);
  return value;
}

const std::int32_t* read_offsets(Call& call, const char* name, nb::handle from,
                                 Vector<std::int32_t>& offsets) {
  if (!from.is_valid()) return nullptr;
  offsets = read_vector<std::int32_t>(name, from);
  if (offsets.count < 1)
    refuse("{} is empty; it must hold one number more than there are sequences", name);
  set_batch(call, name, offsets.count - 1);
  return offsets.data;
}

/// Where something else than query, key and value says how many sequences there are.
void check_batch(const Call& call, const Named& tensor) {
  const std::int64_t batch = tensor.form.size(4);
  if (batch != call.desc.batch && batch != 1)
    refuse("{} is {}, a batch of {}, but {} is for {} sequences", tensor.name, text(tensor.form),
           batch, call.batch_of, call.desc.batch);
}

/// A message ends with this hint where the heads of query and key do not go together.
std::string heads_hint(const Call& call) {
  if (call.packed_queries() && !call.packed_keys() && !call.paged())
    return "; without cu_seqlens_k key is [batch, key heads, keys, features]";
  const std::int64_t rows = call.query.form.size(2);
  const std::int64_t keys = call.key.form.size(2);
  if (call.packed_queries() || call.packed_keys() || call.paged() || keys == 0 || rows % keys != 0)
    return "";
  return "; of tensors [batch, rows, heads, features] give x.swapaxes(1, 2)";
}

void check_needed(const char* name, nb::handle given, const char* with, bool used) {
  if (given.is_valid() && !used) refuse("{} is given without {}", name, with);
}

}  // namespace

heed_layout layout_by(const Form& form, int batch, int head, int row, int feature) {
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.stride_batch = form.stride(batch);
  layout.stride_head = form.stride(head);
  layout.stride_row = form.stride(row);
  layout.stride_feature = form.stride(feature);
  return layout;
}

heed_layout layout_of(const Form& form, bool packed) {
  return packed ? layout_by(form, 0, 2, 3, 1) : layout_by(form, 4, 3, 2, 1);
}

heed_layout lse_layout(const Form& form) { return layout_by(form, 3, 2, 1, 0); }

void set_batch(Call& call, const char* name, std::int64_t batch) {
  if (call.batch_of != nullptr && call.desc.batch != batch)
    refuse("{} is for {} sequences, but {} for {}", name, batch, call.batch_of, call.desc.batch);
  call.batch_of = name;
  call.desc.batch = batch;
}

void refuse_batch(const Call& call, std::int64_t then) {
  refuse("{} is for {} sequences; the plan was made for {}", call.batch_of, call.desc.batch, then);
}

namespace {

/// How many rows `tensor` has, and how long its sequences are at most. heed takes 0 packed rows for
/// "not packed": a batch without rows is one of sequences of length 0.
void set_rows(const char* tensor, const char* name, std::int64_t rows,
              const Vector<std::int32_t>& offsets, const char* longest_name,
              nb::handle longest_given, std::int64_t& packed, std::int64_t& most,
              const std::int32_t*& given) {
  if (offsets.count == 0) {
    most = rows;
    return;
  }
  most = length(longest_name, longest_given, name, longest(offsets), true);
  packed = rows;
  if (rows > 0) return;
  for (std::int64_t i = 0; i < offsets.count; ++i)
    if (offsets.data[i] != 0)
      refuse("{}[{}] is {}; it must be 0, as {} has no rows", name, i, offsets.data[i], tensor);
  most = 0;
  given = nullptr;
}

}  // namespace

void set_query_rows(Call& call, std::int64_t rows, const Arguments& given) {
  call.rows = rows;
  set_rows("query", "cu_seqlens_q", rows, call.cu_seqlens_q, "max_seqlen_q", given.max_seqlen_q,
           call.desc.packed_queries, call.desc.query_length, call.args.cu_seqlens_q);
}

void set_key_rows(Call& call, std::int64_t rows, const Arguments& given) {
  set_rows("key", "cu_seqlens_k", rows, call.cu_seqlens_k, "max_seqlen_k", given.max_seqlen_k,
           call.desc.packed_keys, call.desc.key_length, call.args.cu_seqlens_k);
}

void read_lengths(Call& call, const Arguments& given) {
  call.args.cu_seqlens_q =
      read_offsets(call, "cu_seqlens_q", given.cu_seqlens_q, call.cu_seqlens_q);
  call.args.cu_seqlens_k =
      read_offsets(call, "cu_seqlens_k", given.cu_seqlens_k, call.cu_seqlens_k);
  if (given.block_table.is_valid()) {
    if (call.packed_keys()) refuse("block_table and cu_seqlens_k cannot both say where keys are");
    call.block_table = read_vector<std::int32_t>("block_table", given.block_table, 2);
    set_batch(call, "block_table", call.block_table.rows);
    call.args.block_table = call.block_table.data;
  }
  check_needed("max_seqlen_q", given.max_seqlen_q, "cu_seqlens_q", call.packed_queries());
  check_needed("max_seqlen_k", given.max_seqlen_k, "cu_seqlens_k or block_table",
               call.packed_keys() || call.paged());
}

void read_query(Call& call, const Arguments& given) {
  call.query = read_array("query", given.query);
  call.kind = call.query.kind;
  const Form& form = call.query.form;
  check_floating("query", form);
  call.element = form.element;
  const bool packed = call.packed_queries();
  const Named q = {"query", form};
  check_axes("query", form, packed ? 3 : 2, packed ? 3 : 4, packed ? kPackedAxes : kAxes);
  if (!packed && call.batch_of != nullptr) check_batch(call, q);
  call.desc.query_heads = form.size(packed ? 2 : 3);
  call.desc.features = form.size(1);
  set_query_rows(call, form.size(packed ? 3 : 2), given);
  call.desc.query = layout_of(form, packed);
  const bool serves_none = !packed && call.batch_of != nullptr && call.desc.batch == 0;
  call.args.query = serves_none ? nullptr : address_of(call.query);
}

void read_tensors(Call& call, const Arguments& given) {
  read_query(call, given);
  call.key = read_array("key", given.key);
  call.value = read_array("value", given.value);
  const Named q = {"query", call.query.form};
  const Named k = {"key", call.key.form};
  const Named v = {"value", call.value.form};
  check_element(k);
  check_element(v);
  check_arithmetic({q, k, v});

  heed_attention_desc& desc = call.desc;
  const bool packed_q = call.packed_queries();
  const bool packed_k = call.packed_keys();
  const char* const axes = packed_k ? kPackedAxes : call.paged() ? kPageAxes : kAxes;
  const int least = packed_k ? 3 : call.paged() ? 4 : 2;
  for (const Named& t : {k, v}) check_axes(t.name, t.form, least, packed_k ? 3 : 4, axes);
  const int heads_k = packed_k ? 2 : 3;
  const int rows_k = packed_k ? 3 : 2;

  check_same("features", 1, q, k);
  for (const Named& t : {k, v}) check_features(t.name, t.form);
  check_same(call.paged() ? "rows of a page" : "rows", rows_k, k, v);
  desc.value_features = v.form.size(1);
  desc.key_heads = shared("heads", heads_k, {k, v});
  if (desc.query_heads == 1) desc.query_heads = desc.key_heads;
  if (desc.key_heads == 0 ? desc.query_heads != 0 : desc.query_heads % desc.key_heads != 0)
    refuse("query has {} heads and key {}; each must serve the same number of query heads{}",
           desc.query_heads, desc.key_heads, heads_hint(call));
  if (call.batch_of == nullptr) desc.batch = shared("batches", 4, {q, k, v});
  if (!packed_k && !call.paged()) check_batch(call, k), check_batch(call, v);
  call.axes = packed_q                   ? 3
              : packed_k || call.paged() ? (desc.batch == 1 ? q.form.axes : 4)
                                         : std::max({q.form.axes, k.form.axes, v.form.axes});

  if (call.paged()) {
    check_same("pages", 4, k, v);
    desc.pages = k.form.size(4);
    desc.page_rows = k.form.size(2);
    if (desc.page_rows == 0 || desc.page_rows % 16 != 0)
      refuse("key is {}, pages of {} rows; that must be a multiple of 16", text(k.form),
             desc.page_rows);
    desc.key_length = length("max_seqlen_k", given.max_seqlen_k, "block_table",
                             call.block_table.columns * desc.page_rows, false);
    desc.block_table_stride = call.block_table.stride;
  } else {
    set_key_rows(call, k.form.size(rows_k), given);
  }
  desc.key = layout_of(k.form, packed_k);
  desc.value = layout_of(v.form, packed_k);
  const bool apart = desc.batch == 0 && !packed_k && !call.paged();
  if (desc.batch == 0 && !packed_q) call.args.query = nullptr;
  call.args.key = apart ? nullptr : address_of(call.key);
  call.args.value = apart ? nullptr : address_of(call.value);
}

// ---- Results, and what plans compare ----

void Call::read(const Arguments& given) {
  read_lengths(*this, given);
  read_tensors(*this, given);
  read_scores(*this, given);
}

void Call::make_outputs(const Arguments& given) {
  outputs.out = make_out(given.out, "query", kind, element, out_shape(), leaves_rows());
  desc.out = layout_of(outputs.out.array.form, packed_queries());
  args.out = outputs.out.data();
  add_outputs_beside_out(*this, given);
}

void add_outputs_beside_out(Call& call, const Arguments& given) {
  const heed_attention_desc& desc = call.desc;
  const auto add = [&](Output& output, const Shape& shape, bool zeroed) {
    output = make_array(call.kind, call.float64() ? Element::kF64 : Element::kF32, shape, zeroed);
    return output.data();
  };
  const int lacking = call.packed_queries() ? 0 : 4 - call.axes;
  if (is_asked("return_lse", given.return_lse))
    call.args.lse = add(call.outputs.lse, call.lse_shape(), call.leaves_rows());
  if (desc.weights_point != HEED_WEIGHTS_NONE) {
    const std::int64_t listed = desc.weight_rows > 0 ? desc.weight_rows : desc.query_length;
    const Shape shape({desc.batch, desc.query_heads, listed, desc.key_length}, lacking);
    call.args.weights = add(call.outputs.weights, shape, call.packed_queries());
  }
  if (desc.sum_columns != 0) {
    const Shape shape({desc.batch, desc.query_heads, desc.key_length}, lacking);
    call.args.column_sums = add(call.outputs.column_sums, shape, false);
  }
}

nb::object Call::result(const Arguments& given) const {
  score_function.raise();
  return outputs.result(kind, given.query);
}

double Call::flops() const {
  return 2.0 * static_cast<double>(desc.features + desc.value_features) *
         static_cast<double>(desc.batch * desc.query_heads) *
         static_cast<double>(desc.query_length) * static_cast<double>(desc.key_length);
}

bool Call::leaves_rows() const {
  const std::int32_t* const offsets = cu_seqlens_q.data;
  return packed_queries() && (offsets[0] != 0 || offsets[desc.batch] != rows);
}

Shape Call::out_shape() const {
  if (packed_queries()) return {rows, desc.query_heads, desc.value_features};
  return Shape({desc.batch, desc.query_heads, rows, desc.value_features}, 4 - axes);
}

Shape Call::lse_shape() const {
  if (packed_queries()) return {desc.query_heads, rows};
  return Shape({desc.batch, desc.query_heads, rows}, 4 - axes);
}

NamedForms Call::forms() const {
  return {{"query", query.form},           {"key", key.form},
          {"value", value.form},           {"out", outputs.out.array.form},
          {"attn_mask", attn_mask.form},   {"bias", bias.form},
          {"key_scales", key_scales.form}, {"value_scales", value_scales.form}};
}

void Call::refuse_other(const Described& then) const {
  if (desc.batch != then.batch) refuse_batch(*this, then.batch);
  refuse("block_table has rows of {} entries; the plan was made for {}", desc.block_table_stride,
         then.block_table_stride);
}

// ---- Options that are words, numbers and flags ----

namespace {

/// The meaning of "top_left", "bottom_right" or an offset; the command's spelling, with a hyphen,
/// will do.
struct Offset {
  std::uint32_t kind;  // heed_causal or heed_alignment, which count alike
  std::int64_t offset;
};
static_assert(static_cast<int>(HEED_CAUSAL_TOP_LEFT) == HEED_ALIGNMENT_TOP_LEFT &&
              static_cast<int>(HEED_CAUSAL_BOTTOM_RIGHT) == HEED_ALIGNMENT_BOTTOM_RIGHT &&
              static_cast<int>(HEED_CAUSAL_OFFSET) == HEED_ALIGNMENT_OFFSET);

std::uint32_t read_corner(const char* name, nb::handle from, const char* choices) {
  for (const char* const spelled : {"top_left", "top-left"})
    if (from.equal(nb::str(spelled))) return HEED_CAUSAL_TOP_LEFT;
  for (const char* const spelled : {"bottom_right", "bottom-right"})
    if (from.equal(nb::str(spelled))) return HEED_CAUSAL_BOTTOM_RIGHT;
  refuse("{} is {}; it must be {}", name, nb::repr(from), choices);
}

Offset read_alignment(nb::handle from) {
  static constexpr char kChoices[] = "\"top_left\", \"bottom_right\" or an int";
  if (nb::isinstance<nb::str>(from)) return {read_corner("alignment", from, kChoices), 0};
  if (!is_integer(from) || truth(from))
    refuse_type("alignment must be {}, not {}", kChoices, type_text(from));
  return {HEED_CAUSAL_OFFSET, integer("alignment", from)};
}

// An int is refused: as an offset, 0 and 1 would mean something else than as flags.
void read_causal(heed_attention_desc& desc, nb::handle from, nb::handle alignment) {
  static constexpr char kChoices[] = "False, True, \"top_left\" or \"bottom_right\"";
  if (const std::optional<bool> given = truth(from)) {
    if (!*given) return;
    const Offset at =
        alignment.is_valid() ? read_alignment(alignment) : Offset{HEED_CAUSAL_TOP_LEFT, 0};
    desc.causal = at.kind;
    desc.causal_offset = at.offset;
    return;
  }
  if (!nb::isinstance<nb::str>(from))
    refuse_type("causal must be {}, not {}{}", kChoices, type_text(from),
                is_integer(from) ? ": give bool(flag) for a flag, and causal=True with "
                                   "alignment=offset for an offset"
                                 : "");
  desc.causal = read_corner("causal", from, kChoices);
  if (alignment.is_valid())
    refuse("alignment is given beside causal, which is \"{}\" and says itself where rows stand",
           desc.causal == HEED_CAUSAL_TOP_LEFT ? "top_left" : "bottom_right");
}

std::int64_t bound(const char* name, nb::handle from) {
  if (from.is_none()) return -1;
  const std::int64_t value = integer(name, from);
  if (value < -1)
    refuse("{} is {}; it must be a number of keys, at least 0, or None for no bound", name, value);
  return value;
}

void read_window(heed_attention_desc& desc, nb::handle from) {
  if (PySequence_Check(from.ptr()) == 0 || nb::isinstance<nb::str>(from))
    refuse_type("window must be a pair (left, right), not {}", type_text(from));
  if (nb::len(from) != 2)
    refuse("window has {} entries; it must be a pair (left, right)", nb::len(from));
  desc.window = 1;
  desc.window_left = bound("window[0]", from[0]);
  desc.window_right = bound("window[1]", from[1]);
}

/// A finite number other than 0, which C takes for "not given".
double factor(const char* name, nb::handle from, const char* for_zero) {
  const double value = number(name, from);
  if (!std::isfinite(value)) refuse("{} is {}; it must be finite", name, value);
  if (value == 0) refuse("{} is 0; {}", name, for_zero);
  return value;
}

std::uint32_t read_point(nb::handle from) {
  if (const std::optional<bool> given = truth(from))
    return *given ? HEED_WEIGHTS_PROBABILITIES : HEED_WEIGHTS_NONE;
  return HEED_WEIGHTS_SCORES + read_word("return_weights", from,
                                         {"scores", "capped", "masked", "probabilities"},
                                         "False, True, ");
}

}  // namespace

std::pair<std::uint64_t, std::uint64_t> read_seed(double dropout, nb::handle from) {
  if (dropout == 0) return {0, 0};  // one that is given takes no part
  if (!from.is_valid())
    refuse(
        "dropout is {} without seed; it must be an int, another one for every call, or a pair of "
        "an int and such an offset",
        dropout);
  // Any signs: their bits count.
  const auto bits = [](const char* name, nb::handle of) {
    return static_cast<std::uint64_t>(integer(name, of));
  };
  if (!nb::isinstance<nb::tuple>(from)) return {bits("seed", from), 0};
  if (nb::len(from) != 2)
    refuse("seed has {} entries; as a tuple it must be a pair of a seed and an offset",
           nb::len(from));
  return {bits("seed[0]", from[0]), bits("seed[1]", from[1])};
}

const std::int64_t* read_places(const char* name, double dropout, nb::handle from,
                                std::int64_t count, const char* of, Vector<std::int64_t>& places) {
  if (dropout == 0 || !from.is_valid()) return nullptr;  // as a seed they take no part
  places = read_each<std::int64_t>(name, from, count, of);
  return count == 0 ? nullptr : places.data;
}

template <class Desc>
void read_softmax(Desc& desc, const Arguments& given) {
  if (given.scale.is_valid())
    desc.scale = factor("scale", given.scale,
                        "for weights that no score changes give temperature=float(\"inf\")");
  if (given.softcap.is_valid()) desc.softcap = factor("softcap", given.softcap, "None is no cap");
  if (given.temperature.is_valid()) {
    desc.temperature = number("temperature", given.temperature);
    if (!(desc.temperature > 0))
      refuse("temperature is {}; it must be above 0 (hard=True is its limit)", desc.temperature);
  }
  desc.hard = is_asked("hard", given.hard) ? 1 : 0;
  if (given.dropout.is_valid()) {
    desc.dropout = number("dropout", given.dropout);
    if (!(desc.dropout >= 0 && desc.dropout < 1))
      refuse("dropout is {}; it must be at least 0 and less than 1", desc.dropout);
  }
}

template void read_softmax(heed_attention_desc&, const Arguments&);
template void read_softmax(heed_graph_attention_desc&, const Arguments&);

// ---- Options that are arrays: masks and biases, numbers per head, lengths, scales of 8-bit keys
// ----

namespace {

void set_bias(Call& call, const char* name, Array array) {
  call.desc.bias = score_layout(name, array.form, call);
  call.args.bias = address_of(array);
  call.bias = std::move(array);
}

void read_masks(Call& call, const Arguments& given) {
  if (given.attn_mask.is_valid()) {
    Array mask = read_array("attn_mask", given.attn_mask);
    if (mask.form.element == Element::kBool) {
      call.desc.mask = score_layout("attn_mask", mask.form, call);
      call.args.mask = static_cast<const std::uint8_t*>(address_of(mask));
      call.attn_mask = std::move(mask);
    } else if (!is_floating(mask.form.element)) {
      refuse_mask(name_of(mask.form.element));
    } else if (given.bias.is_valid()) {
      refuse("attn_mask is {}, a bias, but bias is given too: add them",
             name_of(mask.form.element));
    } else {
      set_bias(call, "attn_mask", std::move(mask));
    }
  }
  if (given.bias.is_valid()) {
    Array bias = read_array("bias", given.bias);
    check_floating("bias", bias.form);
    set_bias(call, "bias", std::move(bias));
  }
}

/// Reads the factors of 8-bit elements: one number per row, or for E4M3 one for all.
const float* read_scales(const char* name, const char* of, const Array& tensor, nb::handle from,
                         bool packed, Array& per_row, Vector<float>& single, heed_layout& layout) {
  const bool int8 = tensor.form.element == Element::kI8;
  if (!int8 && tensor.form.element != Element::kF8E4M3) {
    if (from.is_valid())
      refuse("{} is given, but {} is {}; scales belong to int8 and float8_e4m3fn", name, of,
             name_of(tensor.form.element));
    return nullptr;
  }
  if (!from.is_valid())
    refuse("{} is {}, so {} must be given: {}", of, name_of(tensor.form.element), name,
           !int8    ? "one number"
           : packed ? "float32 [keys, key heads]"
                    : "float32 [batch, key heads, keys], with the axes of " + std::string(of));
  if (!int8) {
    single.copy = {real<float>(name, from)};
    return single.data = single.copy.data();
  }
  per_row = read_array(name, from);
  const Form& given = per_row.form;
  Shape rows = tensor.form;
  --rows.axes;
  if (given.element != Element::kF32 || !given.has_shape(rows))
    refuse("{} is {}; it must be float32 {}, a number for each row of {}", name, text(given),
           shape_text(rows), of);
  layout = packed ? layout_by(given, 0, 1, 2, 0) : lse_layout(given);
  return static_cast<const float*>(address_of(per_row));
}

/// Combinations that C refuses too, in its own words.
void check_combinations(const Call& call, const Arguments& given) {
  const heed_attention_desc& desc = call.desc;
  const bool bounded = desc.window != 0 && (desc.window_left >= 0 || desc.window_right >= 0);
  const bool placed = desc.causal != HEED_CAUSAL_NONE || desc.alignment != HEED_ALIGNMENT_DEFAULT;
  const bool measures = bounded || call.args.alibi_slopes != nullptr;
  if (call.all_keys < 0 && measures && !placed && desc.query_length != desc.key_length)
    refuse(
        "{} given with {} query rows and {} keys: say by alignment, \"top_left\", "
        "\"bottom_right\" or an int, or by causal, at which key the rows stand",
        bounded ? "window is" : "alibi_slopes are", desc.query_length, desc.key_length);
  if (desc.hard == 0) return;
  const char* const denominator = given.temperature.is_valid()               ? "temperature"
                                  : given.sinks.is_valid()                   ? "sinks"
                                  : desc.dropout > 0                         ? "dropout"
                                  : is_asked("return_lse", given.return_lse) ? "return_lse"
                                                                             : nullptr;
  if (denominator != nullptr)
    refuse("{} is given with hard, which has no denominator", denominator);
}

}  // namespace

heed_score_layout score_layout(const char* name, const Form& form, const Call& call) {
  const heed_attention_desc& desc = call.desc;
  const std::int64_t keys = call.all_keys >= 0 ? call.all_keys : desc.key_length;
  const std::int64_t sizes[4] = {desc.batch, desc.query_heads, desc.query_length, keys};
  heed_score_layout layout = HEED_SCORE_LAYOUT_INIT;
  for (int axis = 0; axis < 4; ++axis) {
    const std::int64_t size = form.size(4 - axis);
    if (size == sizes[axis] || size == 1) continue;
    const bool of_words = form.axes == 2 && form.size(2) == desc.batch && form.size(1) == keys;
    refuse("{} has shape {}; it must broadcast to {}: batch, heads, rows, keys{}", name,
           shape_text(form), shape_text(sizes, 4),
           of_words ? "; of [batch, keys] give it as [:, None, None, :]" : "");
  }
  layout.dtype = form.element == Element::kBool ? HEED_DTYPE_DEFAULT : dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.batch = form.size(4), layout.stride_batch = form.stride(4);
  layout.heads = form.size(3), layout.stride_head = form.stride(3);
  layout.rows = form.size(2), layout.stride_row = form.stride(2);
  layout.keys = form.size(1), layout.stride_key = form.stride(1);
  return layout;
}

const void* read_reals(const char* name, nb::handle from, bool float64, std::int64_t count,
                       Reals& reals, const char* of) {
  if (!from.is_valid()) return nullptr;
  if (float64)
    reals.doubles = read_each<double>(name, from, count, of);
  else
    reals.singles = read_each<float>(name, from, count, of);
  return float64 ? static_cast<const void*>(reals.doubles.data) : reals.singles.data;
}

template <class Desc>
const void* read_score(Desc& desc, const Arguments& given, bool float64, std::int64_t heads,
                       Reals& weights) {
  if (given.score.is_valid())
    desc.score = read_word("score", given.score, {"dot", "sum", "additive", "cosine"});
  const bool cosine = desc.score == HEED_SCORE_COSINE;
  const bool product = desc.score == HEED_SCORE_DOT || cosine;
  for (const auto& [name, one] :
       {std::pair{"activation", given.activation}, std::pair{"slope", given.slope}})
    if (product && one.is_valid())
      refuse("{} is given; only score=\"sum\" and score=\"additive\" have it", name);
  if (!product) desc.activation = HEED_ACTIVATION_LEAKY_RELU;
  if (given.activation.is_valid())
    desc.activation = read_word("activation", given.activation, {"identity", "leaky_relu", "tanh"});
  const bool leaky = desc.activation == HEED_ACTIVATION_LEAKY_RELU;
  if (given.slope.is_valid() && !leaky)
    refuse("slope is given; only activation=\"leaky_relu\" has one");
  constexpr double kOfGat = 0.2;
  if (leaky) desc.slope = given.slope.is_valid() ? number("slope", given.slope) : kOfGat;
  const bool additive = desc.score == HEED_SCORE_ADDITIVE;
  if (additive && !given.score_weights.is_valid())
    refuse("score_weights is None; score=\"additive\" needs [heads * features]");
  if (!additive && !cosine && given.score_weights.is_valid())
    refuse("score_weights is given; only score=\"additive\" and score=\"cosine\" have them");
  if (desc.score == HEED_SCORE_SUM && desc.features != 1)
    refuse("query and key have {} features; with score=\"sum\" they are one number per head",
           desc.features);
  const void* const read =
      read_reals("score_weights", given.score_weights, float64, score_weights_of(desc, heads),
                 weights, cosine ? "heads" : "features of all heads");
  return heads == 0 ? nullptr : read;
}

template const void* read_score(heed_attention_desc&, const Arguments&, bool, std::int64_t, Reals&);
template const void* read_score(heed_graph_attention_desc&, const Arguments&, bool, std::int64_t,
                                Reals&);

void read_scores(Call& call, const Arguments& given) {
  heed_attention_desc& desc = call.desc;
  heed_attention_args& args = call.args;
  if (given.causal.is_valid()) read_causal(desc, given.causal, given.alignment);
  if (given.window.is_valid()) read_window(desc, given.window);
  if (given.alignment.is_valid() && desc.causal == HEED_CAUSAL_NONE) {
    const Offset read = read_alignment(given.alignment);
    desc.alignment = read.kind;
    desc.alignment_offset = read.offset;
  }
  read_softmax(desc, given);
  if (given.return_weights.is_valid()) desc.weights_point = read_point(given.return_weights);
  desc.sum_columns = is_asked("return_column_sums", given.return_column_sums) ? 1 : 0;
  read_masks(call, given);
  args.alibi_slopes = read_reals("alibi_slopes", given.alibi_slopes, call.float64(),
                                 desc.query_heads, call.alibi_slopes);
  args.sinks = read_reals("sinks", given.sinks, call.float64(), desc.query_heads, call.sinks);
  args.score_weights =
      read_score(desc, given, call.float64(), desc.query_heads, call.score_weights);
  std::tie(args.dropout_seed, args.dropout_offset) = read_seed(desc.dropout, given.seed);
  args.dropout_origin = read_places("dropout_origin", desc.dropout, given.dropout_origin, 4,
                                    "axes: batch, query heads, rows, keys", call.dropout_origin);
  const auto per_sequence = [&](const char* name, nb::handle from, Vector<std::int32_t>& numbers) {
    const std::int64_t sequences = call.sequences > 0 ? call.sequences : desc.batch;
    if (from.is_valid()) numbers = read_each<std::int32_t>(name, from, sequences, "sequences");
    return numbers.data;
  };
  args.key_lengths = per_sequence("key_lengths", given.key_lengths, call.key_lengths);
  args.first_keys = per_sequence("first_keys", given.first_keys, call.first_keys);
  args.key_scales = read_scales("key_scales", "key", call.key, given.key_scales, call.packed_keys(),
                                call.key_scales, call.key_scale, desc.key_scales);
  args.value_scales =
      read_scales("value_scales", "value", call.value, given.value_scales, call.packed_keys(),
                  call.value_scales, call.value_scale, desc.value_scales);
  check_combinations(call, given);
  if (given.score_function.is_valid()) {
    call.score_function = read_score_function(given.score_function);
    args.score_function = call.score_function.function;
    args.score_user = call.score_function.user;
  }
  if (given.weight_rows.is_valid()) {
    if (desc.weights_point == HEED_WEIGHTS_NONE)
      refuse("weight_rows is given without return_weights");
    call.weight_rows = read_vector<std::int64_t>("weight_rows", given.weight_rows);
    if (call.weight_rows.count == 0) refuse("weight_rows is empty; None is all rows");
    desc.weight_rows = call.weight_rows.count;
    args.weight_rows = call.weight_rows.data;
  }
}

const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals) {
  if (combine == HEED_COMBINE_WEIGHTED && !from.is_valid())
    refuse("head_weights is None; combine=\"weighted\" needs a number for each head");
  if (combine != HEED_COMBINE_WEIGHTED && from.is_valid())
    refuse("head_weights is given; only combine=\"weighted\" has them");
  return read_reals("head_weights", from, float64, heads, reals);
}

}  // namespace heed::python
