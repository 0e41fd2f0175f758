// The fields of descriptors and arguments by the names that messages call them, for tables that
// change one after the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/api/support.hpp"

namespace api_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// The largest size.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// What a field is changed to: a number, a text, no pointer, some pointer, or its own a few bytes
/// further.
class Value {
 public:
  enum class Pointer { kNull, kGiven, kMoved };

  template <class T, class = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
  Value(T whole) : whole_(static_cast<std::int64_t>(whole)), is_(std::to_string(whole_)) {}
  Value(double real) : real_(real), is_(text_of(real)) {}
  Value(const char* text) : text_(text), is_('"' + std::string(text).substr(0, 40) + '"') {}
  Value(Pointer pointer, int bytes) : pointer_(pointer), bytes_(bytes) {
    const char* const words[] = {"NULL", "given", "0x"};
    is_ = words[static_cast<int>(pointer)];
  }

  /// As messages print it, or how that begins.
  const std::string& is() const { return is_; }
  const char* text() const { return text_; }

  template <class T>
  void write_to(T& field) const {
    if constexpr (std::is_same_v<T, const char*>) {
      field = text_;
    } else if constexpr (std::is_pointer_v<T>) {
      alignas(64) static unsigned char some[64];
      const auto moved = reinterpret_cast<std::uintptr_t>(field) + static_cast<unsigned>(bytes_);
      if (pointer_ == Pointer::kMoved) field = reinterpret_cast<T>(moved);
      if (pointer_ == Pointer::kGiven) field = reinterpret_cast<T>(some);
      if (pointer_ == Pointer::kNull) field = nullptr;
    } else if constexpr (std::is_floating_point_v<T>) {
      field = static_cast<T>(real_);
    } else {
      field = static_cast<T>(whole_);
    }
  }

 private:
  static std::string text_of(double real) {
    if (std::isnan(real)) return "... nan";  // its sign may stand before it
    char text[32];
    (void)std::snprintf(text, sizeof text, "%g", real);
    return text;
  }

  std::int64_t whole_ = 0;
  double real_ = 0;
  const char* text_ = nullptr;
  Pointer pointer_ = Pointer::kNull;
  int bytes_ = 0;
  std::string is_;
};
inline const Value kNull = {Value::Pointer::kNull, 0};
inline const Value kGiven = {Value::Pointer::kGiven, 0};
inline Value moved(int bytes) { return {Value::Pointer::kMoved, bytes}; }

struct Field {
  bool ends_with(const std::string& end) const {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  }

  std::string name;
  bool pointer;  ///< given, and not NULL
  std::function<void(const Value&)> write;
};

/// Fields that are added by calling it with their names, without the prefix, and places.
class Fields {
 public:
  Fields& in(std::string prefix) {
    prefix_ = std::move(prefix);
    return *this;
  }
  template <class T>
  Fields& operator()(const std::string& name, T& at) {
    bool pointer = false;
    if constexpr (std::is_pointer_v<T>) pointer = at != nullptr;
    all_.push_back({prefix_ + name, pointer, [&at](const Value& value) { value.write_to(at); }});
    return *this;
  }
  /// A variable of the environment.
  Fields& operator()(const std::string& name, const Environment& environment) {
    all_.push_back({name, false, [&environment, name](const Value& value) {
                      environment.set(name.c_str(), value.text());
                    }});
    return *this;
  }
  template <class T, std::size_t n>
  Fields& operator()(const std::string& name, T (&list)[n]) {
    for (std::size_t i = 0; i < n; ++i) (*this)(name + "[" + std::to_string(i) + "]", list[i]);
    return *this;
  }
  Fields& operator()(const std::string& name, heed_layout& l) {
    return (*this)(name + ".dtype", l.dtype)(name + ".reserved", l.reserved)(
        name + ".stride_batch", l.stride_batch)(name + ".stride_head", l.stride_head)(
        name + ".stride_row", l.stride_row)(name + ".stride_feature", l.stride_feature);
  }
  Fields& operator()(const std::string& name, heed_matrix_layout& l) {
    return (*this)(name + ".dtype", l.dtype)(name + ".reserved", l.reserved)(
        name + ".stride_matrix", l.stride_matrix)(name + ".stride_in", l.stride_in)(
        name + ".stride_out", l.stride_out);
  }
  Fields& operator()(const std::string& name, heed_score_layout& l) {
    return (*this)(name + ".dtype", l.dtype)(name + ".reserved", l.reserved)(
        name + ".batch", l.batch)(name + ".heads", l.heads)(name + ".rows", l.rows)(
        name + ".keys", l.keys)(name + ".stride_batch", l.stride_batch)(name + ".stride_row",
                                                                        l.stride_row);
  }
  Fields& operator()(const std::string& name, heed_rotary& r) {
    return (*this)(name + ".pairs", r.pairs)(name + ".reserved", r.reserved)(
        name + ".features", r.features)(name + ".base", r.base)(name + ".cosines", r.cosines)(
        name + ".sines", r.sines)(name + ".table_rows", r.table_rows)(name + ".table_stride",
                                                                      r.table_stride);
  }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::string prefix_;
  std::vector<Field> all_;
};

/// Those that the problem has, but for the layouts of query, key, value and out, which blocks have
/// not.
inline void add(Fields& fields, heed_attention_desc& d) {
  fields("causal", d.causal)("batch", d.batch)("query_heads", d.query_heads)(
      "key_heads", d.key_heads)("query_length", d.query_length)("key_length", d.key_length)(
      "features", d.features)("value_features", d.value_features)("scale", d.scale)(
      "causal_offset", d.causal_offset)("softcap", d.softcap)("temperature", d.temperature)(
      "hard", d.hard)("window", d.window)("window_left", d.window_left)(
      "window_right", d.window_right)("alignment_offset", d.alignment_offset)(
      "alignment", d.alignment)("weights_point", d.weights_point)("sum_columns", d.sum_columns)(
      "reserved", d.reserved)("weight_rows", d.weight_rows)("packed_queries", d.packed_queries)(
      "packed_keys", d.packed_keys)("pages", d.pages)("page_rows", d.page_rows)(
      "block_table_stride", d.block_table_stride)("mask", d.mask)("bias", d.bias)("lse", d.lse);
  if (d.weights_point != HEED_WEIGHTS_NONE) fields("weights", d.weights);
  if (d.sum_columns != 0) fields("column_sums", d.column_sums);
}

/// Without the pointers to query, key, value and out.
inline void add(Fields& fields, heed_attention_args& a) {
  fields("reserved", a.reserved)("mask", a.mask)("bias", a.bias)("key_lengths", a.key_lengths)(
      "cu_seqlens_q", a.cu_seqlens_q)("cu_seqlens_k", a.cu_seqlens_k)("block_table", a.block_table)(
      "alibi_slopes", a.alibi_slopes)("sinks", a.sinks)("score_user", a.score_user)(
      "weight_rows", a.weight_rows)("lse", a.lse)("weights", a.weights)(
      "column_sums", a.column_sums)("key_scales", a.key_scales)("value_scales", a.value_scales);
}

/// Writes one field of a form.
template <class AForm>
void set(AForm& form, const std::string& name, const Value& value) {
  for (const Field& field : fields_of(form))
    if (field.name == name) return field.write(value);
  FAIL("there is no field " << name);
}

/// The change of one field.
inline auto with(std::string name, Value value) {
  return [name = std::move(name), value = std::move(value)](auto& form) { set(form, name, value); };
}

}  // namespace api_test
