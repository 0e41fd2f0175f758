// Query, key and value: which axes they have, and how long they are.
#include <algorithm>
#include <initializer_list>

#include "api/python/module/call.hpp"

namespace heed::python {
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

}  // namespace heed::python
