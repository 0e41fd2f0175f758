#include "api/python/module/call.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "api/python/module/errors.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

/// The names as Python's strings, which keywords are compared with by address first.
struct Interned {
  std::vector<nb::object> names;

  Interned() {
    for (const OptionName& option : kOptions)
      names.push_back(nb::steal(PyUnicode_InternFromString(option.name)));
  }
};

const OptionName* find(nb::handle key) {
  const std::vector<nb::object>& names = once<Interned>().names;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].is(key)) return &kOptions[i];
  for (const OptionName& option : kOptions)
    if (PyUnicode_CompareWithASCIIString(key.ptr(), option.name) == 0) return &option;
  return nullptr;
}

}  // namespace

Options read_options(const char* function, nb::handle given) {
  Options options;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given.ptr(), &at, &key, &value) != 0;) {
    const OptionName* option = find(key);
    if (option == nullptr) {
      nb::list known;
      for (const OptionName& one : kOptions) known.append(one.name);
      refuse_keyword(function, key, known);
    }
    if (value != Py_None) options.*option->place = value;
  }
  return options;
}

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
      refuse("%s is %s, %s is %s: their %s, %lld and %lld, must be the same, or 1", longest->name,
             text(longest->form).c_str(), tensor.name, text(tensor.form).c_str(), axis,
             static_cast<long long>(other), static_cast<long long>(size));
    longest = &tensor;
  }
  return longest->form.size(back);
}

void check_same(const char* axis, int back, Named a, Named b) {
  if (a.form.size(back) != b.form.size(back))
    refuse("%s is %s, %s is %s: their %s, %lld and %lld, must be the same", a.name,
           text(a.form).c_str(), b.name, text(b.form).c_str(), axis,
           static_cast<long long>(a.form.size(back)), static_cast<long long>(b.form.size(back)));
}

void check_axes(const Named& tensor, int least, int most, const char* axes) {
  if (tensor.form.axes < least || tensor.form.axes > most)
    refuse("%s has shape %s; it must have axes %s", tensor.name,
           shape_text(tensor.form.shape, tensor.form.axes).c_str(), axes);
}

constexpr char kAxes[] = "[batch, heads, rows, features], the first one or two of which may lack";
constexpr char kPackedAxes[] = "[rows, heads, features], as cu_seqlens are given";
constexpr char kPageAxes[] = "[pages, heads, rows of a page, features], as block_table is given";

void check_element(const Named& tensor) {
  const Element element = tensor.form.element;
  if (is_floating(element) || element == Element::kI8 || element == Element::kF8E4M3) return;
  refuse(
      "%s is %s; it must be float32, float64, float16 or bfloat16, or int8 or float8_e4m3fn with "
      "scales",
      tensor.name, name_of(element));
}

void check_arithmetic(std::initializer_list<Named> tensors) {
  const auto is_double = [](const Named& t) { return t.form.element == Element::kF64; };
  const Named* of = std::find_if(tensors.begin(), tensors.end(), is_double);
  const Named* other = std::find_if_not(tensors.begin(), tensors.end(), is_double);
  if (of != tensors.end() && other != tensors.end())
    refuse("%s is float64 but %s is %s; query, key, value and out must all be float64, or none",
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
  if (value < 0) refuse("%s is %lld; it must be at least 0", name, static_cast<long long>(value));
  if (at_least ? value < otherwise : value > otherwise)
    refuse("%s is %lld; %s has %lld rows for a sequence", name, static_cast<long long>(value), of,
           static_cast<long long>(otherwise));
  return value;
}

const std::int32_t* read_offsets(Call& call, const char* name, nb::handle from,
                                 Vector<std::int32_t>& offsets) {
  if (!from.is_valid()) return nullptr;
  offsets = read_vector<std::int32_t>(name, from);
  if (offsets.count < 1)
    refuse("%s is empty; it must hold one number more than there are sequences", name);
  set_batch(call, name, offsets.count - 1);
  return offsets.data;
}

/// Where something else than query, key and value says how many sequences there are.
void check_batch(const Call& call, const Named& tensor) {
  const std::int64_t batch = tensor.form.size(4);
  if (batch != call.desc.batch && batch != 1)
    refuse("%s is %s, a batch of %lld, but %s is for %lld sequences", tensor.name,
           text(tensor.form).c_str(), static_cast<long long>(batch), call.batch_of,
           static_cast<long long>(call.desc.batch));
}

void check_needed(const char* name, nb::handle given, const char* with, bool used) {
  if (given.is_valid() && !used) refuse("%s is given without %s", name, with);
}

}  // namespace

void* address_of(const Array& array) { return array.form.elements() == 0 ? nullptr : array.data; }

heed_layout layout_of(const Form& form, bool packed) {
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.stride_batch = packed ? 0 : form.stride(4);
  layout.stride_head = form.stride(packed ? 2 : 3);
  layout.stride_row = form.stride(packed ? 3 : 2);
  layout.stride_feature = form.stride(1);
  return layout;
}

heed_layout lse_layout(const Form& form) {
  Form with_feature = form;
  with_feature.shape[with_feature.axes] = 1;
  with_feature.strides[with_feature.axes++] = 0;
  return layout_of(with_feature, false);
}

void check_floating(const char* name, const Form& form) {
  if (!is_floating(form.element))
    refuse("%s is %s; it must be float32, float64, float16 or bfloat16", name,
           name_of(form.element));
}

void set_batch(Call& call, const char* name, std::int64_t batch) {
  if (call.batch_of != nullptr && call.desc.batch != batch)
    refuse("%s is for %lld sequences, but %s for %lld", name, static_cast<long long>(batch),
           call.batch_of, static_cast<long long>(call.desc.batch));
  call.batch_of = name;
  call.desc.batch = batch;
}

// heed takes 0 packed rows for "not packed"; one that no sequence has is as good as none.
void set_query_rows(Call& call, std::int64_t rows, const Options& options) {
  const bool packed = call.packed_queries();
  call.rows = rows;
  if (packed) call.desc.packed_queries = std::max<std::int64_t>(1, rows);
  call.desc.query_length = packed ? length("max_seqlen_q", options.max_seqlen_q, "cu_seqlens_q",
                                           longest(call.cu_seqlens_q), true)
                                  : rows;
}

void set_key_rows(Call& call, std::int64_t rows, const Options& options) {
  const bool packed = call.packed_keys();
  if (packed) call.desc.packed_keys = std::max<std::int64_t>(1, rows);
  call.desc.key_length = packed ? length("max_seqlen_k", options.max_seqlen_k, "cu_seqlens_k",
                                         longest(call.cu_seqlens_k), true)
                                : rows;
}

void read_lengths(Call& call, const Options& options) {
  call.args.cu_seqlens_q =
      read_offsets(call, "cu_seqlens_q", options.cu_seqlens_q, call.cu_seqlens_q);
  call.args.cu_seqlens_k =
      read_offsets(call, "cu_seqlens_k", options.cu_seqlens_k, call.cu_seqlens_k);
  if (options.block_table.is_valid()) {
    if (call.packed_keys()) refuse("block_table and cu_seqlens_k cannot both say where keys are");
    call.block_table = read_table<std::int32_t>("block_table", options.block_table);
    set_batch(call, "block_table", call.block_table.rows);
    call.args.block_table = call.block_table.entries.data;
  }
  check_needed("max_seqlen_q", options.max_seqlen_q, "cu_seqlens_q", call.packed_queries());
  check_needed("max_seqlen_k", options.max_seqlen_k, "cu_seqlens_k or block_table",
               call.packed_keys() || call.paged());
}

void read_query(Call& call, nb::handle query, const Options& options) {
  call.query = read_array("query", query);
  call.kind = call.query.kind;
  const Form& form = call.query.form;
  check_floating("query", form);
  call.out_element = form.element;
  call.float64 = form.element == Element::kF64;
  const bool packed = call.packed_queries();
  const Named q = {"query", form};
  check_axes(q, packed ? 3 : 2, packed ? 3 : 4, packed ? kPackedAxes : kAxes);
  if (!packed && call.batch_of != nullptr) check_batch(call, q);
  call.desc.query_heads = form.size(packed ? 2 : 3);
  call.desc.features = form.size(1);
  set_query_rows(call, form.size(packed ? 3 : 2), options);
  call.desc.query = layout_of(form, packed);
  call.args.query = address_of(call.query);
}

void read_tensors(Call& call, nb::handle query, nb::handle key, nb::handle value,
                  const Options& options) {
  read_query(call, query, options);
  call.key = read_array("key", key);
  call.value = read_array("value", value);
  const Named q = {"query", call.query.form};
  const Named k = {"key", call.key.form};
  const Named v = {"value", call.value.form};
  check_element(k);
  check_element(v);
  check_arithmetic({q, k, v});

  heed_attention_desc& desc = call.desc;
  const bool packed_q = call.packed_queries();
  const bool packed_k = call.packed_keys();
  for (const Named& t : {k, v})
    check_axes(t,
               packed_k       ? 3
               : call.paged() ? 4
                              : 2,
               packed_k ? 3 : 4,
               packed_k       ? kPackedAxes
               : call.paged() ? kPageAxes
                              : kAxes);
  const int heads_k = packed_k ? 2 : 3;
  const int rows_k = packed_k ? 3 : 2;

  check_same("features", 1, q, k);
  for (const Named& t : {k, v})
    if (t.form.size(1) == 0)
      refuse("%s is %s; it must have features", t.name, text(t.form).c_str());
  check_same(call.paged() ? "rows of a page" : "rows", rows_k, k, v);
  desc.value_features = v.form.size(1);
  desc.key_heads = shared("heads", heads_k, {k, v});
  if (desc.query_heads == 1) desc.query_heads = desc.key_heads;
  if (desc.key_heads == 0 ? desc.query_heads != 0 : desc.query_heads % desc.key_heads != 0)
    refuse("query has %lld heads and key %lld; each must serve the same number of query heads",
           static_cast<long long>(desc.query_heads), static_cast<long long>(desc.key_heads));
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
      refuse("key is %s, pages of %lld rows; that must be a multiple of 16", text(k.form).c_str(),
             static_cast<long long>(desc.page_rows));
    desc.key_length = length("max_seqlen_k", options.max_seqlen_k, "block_table",
                             call.block_table.columns * desc.page_rows, false);
    desc.block_table_stride = call.block_table.stride;
  } else {
    set_key_rows(call, k.form.size(rows_k), options);
  }
  desc.key = layout_of(k.form, packed_k);
  desc.value = layout_of(v.form, packed_k);
  call.args.key = address_of(call.key);
  call.args.value = address_of(call.value);
}

// ---- Options that are words, numbers and flags ----

namespace {

/// What "top_left", "bottom_right" or an offset say.
struct Offset {
  std::uint32_t kind;  // heed_causal or heed_alignment, which count alike
  std::int64_t offset;
};
static_assert(static_cast<int>(HEED_CAUSAL_TOP_LEFT) == HEED_ALIGNMENT_TOP_LEFT &&
              static_cast<int>(HEED_CAUSAL_BOTTOM_RIGHT) == HEED_ALIGNMENT_BOTTOM_RIGHT &&
              static_cast<int>(HEED_CAUSAL_OFFSET) == HEED_ALIGNMENT_OFFSET);

Offset read_offset(const char* name, nb::handle from, const char* choices) {
  if (nb::isinstance<nb::str>(from)) {
    if (from.equal(nb::str("top_left"))) return {HEED_CAUSAL_TOP_LEFT, 0};
    if (from.equal(nb::str("bottom_right"))) return {HEED_CAUSAL_BOTTOM_RIGHT, 0};
    refuse("%s is %s; it must be %s", name, nb::repr(from).c_str(), choices);
  }
  if (!is_integer(from))
    refuse_type("%s must be %s, not %s", name, choices, type_text(from).c_str());
  return {HEED_CAUSAL_OFFSET, integer(name, from)};
}

void read_causal(heed_attention_desc& desc, nb::handle from) {
  if (from.ptr() == Py_False) return;
  const Offset read =
      from.ptr() == Py_True
          ? Offset{HEED_CAUSAL_TOP_LEFT, 0}
          : read_offset("causal", from, "False, True, \"top_left\", \"bottom_right\" or an int");
  desc.causal = read.kind;
  desc.causal_offset = read.offset;
}

std::int64_t bound(const char* name, nb::handle from) {
  if (from.is_none()) return -1;
  const std::int64_t value = integer(name, from);
  if (value < -1)
    refuse("%s is %lld; it must be a number of keys, at least 0, or None for no bound", name,
           static_cast<long long>(value));
  return value;
}

void read_window(heed_attention_desc& desc, nb::handle from) {
  if (PySequence_Check(from.ptr()) == 0 || nb::isinstance<nb::str>(from))
    refuse_type("window must be a pair (left, right), not %s", type_text(from).c_str());
  if (nb::len(from) != 2)
    refuse("window has %zu entries; it must be a pair (left, right)", nb::len(from));
  desc.window = 1;
  desc.window_left = bound("window[0]", from[0]);
  desc.window_right = bound("window[1]", from[1]);
}

/// A finite number other than 0, which C takes for "not given".
double factor(const char* name, nb::handle from, const char* for_zero) {
  const double value = number(name, from);
  if (!std::isfinite(value)) refuse("%s is %g; it must be finite", name, value);
  if (value == 0) refuse("%s is 0; %s", name, for_zero);
  return value;
}

std::uint32_t read_point(nb::handle from) {
  static constexpr const char* kPoints[] = {"scores", "capped", "masked", "probabilities"};
  static constexpr char kChoices[] =
      "False, True, \"scores\", \"capped\", \"masked\" or \"probabilities\"";
  if (from.ptr() == Py_False) return HEED_WEIGHTS_NONE;
  if (from.ptr() == Py_True) return HEED_WEIGHTS_PROBABILITIES;
  if (!nb::isinstance<nb::str>(from))
    refuse_type("return_weights must be %s, not %s", kChoices, type_text(from).c_str());
  for (std::uint32_t i = 0; i < 4; ++i)
    if (from.equal(nb::str(kPoints[i]))) return HEED_WEIGHTS_SCORES + i;
  refuse("return_weights is %s; it must be %s", nb::repr(from).c_str(), kChoices);
}

}  // namespace

void read_choices(heed_attention_desc& desc, const Options& options) {
  if (options.causal.is_valid()) read_causal(desc, options.causal);
  if (options.window.is_valid()) read_window(desc, options.window);
  if (options.alignment.is_valid()) {
    if (desc.causal != HEED_CAUSAL_NONE)
      refuse("alignment is given beside causal, which says itself where rows stand");
    const Offset read =
        read_offset("alignment", options.alignment, "\"top_left\", \"bottom_right\" or an int");
    desc.alignment = read.kind;
    desc.alignment_offset = read.offset;
  }
  if (options.scale.is_valid())
    desc.scale = factor("scale", options.scale,
                        "for weights that no score changes give temperature=float(\"inf\")");
  if (options.softcap.is_valid())
    desc.softcap = factor("softcap", options.softcap, "None is no cap");
  if (options.temperature.is_valid()) {
    desc.temperature = number("temperature", options.temperature);
    if (!(desc.temperature > 0))
      refuse("temperature is %g; it must be above 0 (hard=True is its limit)", desc.temperature);
  }
  if (options.hard.is_valid()) desc.hard = flag("hard", options.hard) ? 1 : 0;
  if (options.return_weights.is_valid()) desc.weights_point = read_point(options.return_weights);
  if (options.return_column_sums.is_valid())
    desc.sum_columns = flag("return_column_sums", options.return_column_sums) ? 1 : 0;
}

// ---- Options that are arrays: masks and biases, numbers per head, lengths, scales of 8-bit keys
// ----

namespace {

void set_bias(Call& call, const char* name, Array array) {
  call.desc.bias = score_layout(name, array.form, call.desc);
  call.args.bias = address_of(array);
  call.bias = std::move(array);
}

void read_masks(Call& call, const Options& options) {
  if (options.attn_mask.is_valid()) {
    Array mask = read_array("attn_mask", options.attn_mask);
    if (mask.form.element == Element::kBool) {
      call.desc.mask = score_layout("attn_mask", mask.form, call.desc);
      call.args.mask = static_cast<const std::uint8_t*>(address_of(mask));
      call.attn_mask = std::move(mask);
    } else if (!is_floating(mask.form.element)) {
      refuse("attn_mask is %s; it must be bool (True attends), or floating (added to scores)",
             name_of(mask.form.element));
    } else if (options.bias.is_valid()) {
      refuse("attn_mask is %s, a bias, but bias is given too: add them",
             name_of(mask.form.element));
    } else {
      set_bias(call, "attn_mask", std::move(mask));
    }
  }
  if (options.bias.is_valid()) {
    Array bias = read_array("bias", options.bias);
    check_floating("bias", bias.form);
    set_bias(call, "bias", std::move(bias));
  }
}

void read_key_lengths(Call& call, nb::handle from) {
  if (!from.is_valid()) return;
  call.key_lengths = read_vector<std::int32_t>("key_lengths", from);
  const Vector<std::int32_t>& lengths = call.key_lengths;
  if (lengths.count != call.desc.batch)
    refuse("key_lengths has %lld numbers; it must have one for each of the %lld sequences",
           static_cast<long long>(lengths.count), static_cast<long long>(call.desc.batch));
  call.args.key_lengths = lengths.data;
}

/// What 8-bit elements are to be multiplied with: one number per row, or for E4M3 one for all.
void read_scales(const char* name, const char* of, const Array& tensor, nb::handle from,
                 bool packed, Array& per_row, Vector<float>& single, heed_layout& layout,
                 const float*& pointer) {
  const bool int8 = tensor.form.element == Element::kI8;
  if (!int8 && tensor.form.element != Element::kF8E4M3) {
    if (from.is_valid())
      refuse("%s is given, but %s is %s; scales belong to int8 and float8_e4m3fn", name, of,
             name_of(tensor.form.element));
    return;
  }
  if (!from.is_valid())
    refuse("%s is %s, so %s must be given: %s", of, name_of(tensor.form.element), name,
           int8 ? "float32, the shape of rows" : "one number");
  if (int8) {
    per_row = read_array(name, from);
    Form rows = tensor.form;  // with features of one element, so that axes are the tensor's
    --rows.axes;
    Form& given = per_row.form;
    if (given.element != Element::kF32 || given.axes != rows.axes ||
        !std::equal(rows.shape, rows.shape + rows.axes, given.shape))
      refuse("%s is %s; it must be float32 %s, a number for each row of %s", name,
             text(given).c_str(), shape_text(rows.shape, rows.axes).c_str(), of);
    Form as_tensor = given;
    as_tensor.shape[as_tensor.axes] = 1;
    as_tensor.strides[as_tensor.axes++] = 0;
    layout = layout_of(as_tensor, packed);
    pointer = static_cast<const float*>(address_of(per_row));
    return;
  }
  single.copy = {real<float>(name, from)};
  single.data = pointer = single.copy.data();
}

/// Combinations that C refuses too, in its own words.
void check_combinations(const Call& call, const Options& options, bool whole) {
  const heed_attention_desc& desc = call.desc;
  const bool bounded = desc.window != 0 && (desc.window_left >= 0 || desc.window_right >= 0);
  const bool placed = desc.causal != HEED_CAUSAL_NONE || desc.alignment != HEED_ALIGNMENT_DEFAULT;
  const bool measures = bounded || call.args.alibi_slopes != nullptr;
  if (whole && measures && !placed && desc.query_length != desc.key_length)
    refuse(
        "%s given with %lld query rows and %lld keys: say by alignment, \"top_left\", "
        "\"bottom_right\" or an int, or by causal, at which key the rows stand",
        bounded ? "window is" : "alibi_slopes are", static_cast<long long>(desc.query_length),
        static_cast<long long>(desc.key_length));
  if (desc.hard == 0) return;
  const char* denominator =
      options.temperature.is_valid()                                            ? "temperature"
      : options.sinks.is_valid()                                                ? "sinks"
      : options.return_lse.is_valid() && flag("return_lse", options.return_lse) ? "return_lse"
                                                                                : nullptr;
  if (denominator != nullptr)
    refuse("%s is given with hard, which has no denominator", denominator);
}

}  // namespace

heed_score_layout score_layout(const char* name, const Form& form,
                               const heed_attention_desc& desc) {
  const std::int64_t sizes[4] = {desc.batch, desc.query_heads, desc.query_length, desc.key_length};
  heed_score_layout layout = HEED_SCORE_LAYOUT_INIT;
  for (int axis = 0; axis < 4; ++axis) {
    const std::int64_t size = form.size(4 - axis);
    if (size != sizes[axis] && size != 1)
      refuse("%s has shape %s; it must broadcast to %s: batch, heads, rows, keys", name,
             shape_text(form.shape, form.axes).c_str(), shape_text(sizes, 4).c_str());
  }
  layout.dtype = form.element == Element::kBool ? HEED_DTYPE_DEFAULT : dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.batch = form.size(4), layout.stride_batch = form.stride(4);
  layout.heads = form.size(3), layout.stride_head = form.stride(3);
  layout.rows = form.size(2), layout.stride_row = form.stride(2);
  layout.keys = form.size(1), layout.stride_key = form.stride(1);
  return layout;
}

const void* read_reals(const char* name, nb::handle from, bool float64, std::int64_t heads,
                       Reals& reals) {
  if (!from.is_valid()) return nullptr;
  const auto read = [&](auto& vector) -> const void* {
    vector =
        read_vector<std::remove_const_t<std::remove_pointer_t<decltype(vector.data)>>>(name, from);
    if (vector.count != heads)
      refuse("%s has %lld numbers; it must have one for each of the %lld query heads", name,
             static_cast<long long>(vector.count), static_cast<long long>(heads));
    return vector.data;
  };
  return float64 ? read(reals.doubles) : read(reals.singles);
}

void read_scores(Call& call, const Options& options, bool whole) {
  heed_attention_desc& desc = call.desc;
  heed_attention_args& args = call.args;
  read_choices(desc, options);
  read_masks(call, options);
  args.alibi_slopes = read_reals("alibi_slopes", options.alibi_slopes, call.float64,
                                 desc.query_heads, call.alibi_slopes);
  args.sinks = read_reals("sinks", options.sinks, call.float64, desc.query_heads, call.sinks);
  read_key_lengths(call, options.key_lengths);
  read_scales("key_scales", "key", call.key, options.key_scales, call.packed_keys(),
              call.key_scales, call.key_scale, desc.key_scales, args.key_scales);
  read_scales("value_scales", "value", call.value, options.value_scales, call.packed_keys(),
              call.value_scales, call.value_scale, desc.value_scales, args.value_scales);
  check_combinations(call, options, whole);
  if (options.score_function.is_valid()) {
    call.score_function = read_score_function(options.score_function);
    args.score_function = call.score_function.function;
    args.score_user = call.score_function.user;
  }
  if (options.weight_rows.is_valid()) {
    if (desc.weights_point == HEED_WEIGHTS_NONE)
      refuse("weight_rows is given without return_weights");
    call.weight_rows = read_vector<std::int64_t>("weight_rows", options.weight_rows);
    if (call.weight_rows.count == 0) refuse("weight_rows is empty; None is all rows");
    desc.weight_rows = call.weight_rows.count;
    args.weight_rows = call.weight_rows.data;
  }
}

std::uint32_t read_combine(nb::handle from, heed_combine last) {
  static constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor"};
  std::string choices;
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(last); ++i) {
    if (nb::isinstance<nb::str>(from) && from.equal(nb::str(kNames[i]))) return i;
    choices += (i == 0                                  ? "\""
                : i == static_cast<std::uint32_t>(last) ? " or \""
                                                        : ", \"") +
               std::string(kNames[i]) + "\"";
  }
  if (!nb::isinstance<nb::str>(from))
    refuse_type("combine must be %s, not %s", choices.c_str(), type_text(from).c_str());
  refuse("combine is %s; it must be %s", nb::repr(from).c_str(), choices.c_str());
}

const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals) {
  const bool wanted = combine == HEED_COMBINE_WEIGHTED;
  if (wanted == from.is_none())
    refuse("head_weights %s; %s", wanted ? "is None" : "is given",
           wanted ? "combine=\"weighted\" needs a number for each head"
                  : "only combine=\"weighted\" has them");
  return read_reals("head_weights", wanted ? from : nb::handle(), float64, heads, reals);
}

}  // namespace heed::python
