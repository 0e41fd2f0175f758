// The fields of descriptors and arguments by the names that messages call them, for tables that
// change one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <sstream>
#include <stdexcept>
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
      alignas(64) static unsigned char some[8192];
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
  bool there;  ///< not of a layout of a tensor that the problem has not
  char type;   ///< as in a Schema
  std::function<void(const Value&)> write;
};

/// The members of a struct of the API in their order, "name/type": 4 an uint32_t, f a double, p a
/// pointer, s a text, L a heed_layout, S a heed_score_layout, M a heed_matrix_layout, R a
/// heed_rotary, else an int64_t or size_t. Programs were compiled with it: members are only ever
/// appended.
using Schema = const char*;

/// Calls visit(name, type, offset) for every member.
template <class Visit>
std::uint32_t each_member(Schema schema, Visit visit) {
  std::istringstream words(schema);
  std::uint32_t offset = 0;
  for (std::string word; words >> word;) {
    const std::size_t slash = word.find('/');
    const char type = slash == std::string::npos ? '8' : word[slash + 1];
    visit(word.substr(0, slash), type, offset);
    offset += type == 'L'   ? 40
              : type == 'S' ? 72
              : type == 'M' ? 32
              : type == 'R' ? 56
              : type == '4' ? 4
                            : 8;
  }
  return offset;
}

inline std::uint32_t size_of(Schema schema) {
  return each_member(schema, [](const std::string&, char, std::uint32_t) {});
}

constexpr Schema kLayout = "dtype/4 reserved/4 stride_batch stride_head stride_row stride_feature";
constexpr Schema kScoreLayout =
    "dtype/4 reserved/4 batch heads rows keys stride_batch stride_head stride_row stride_key";
constexpr Schema kMatrixLayout = "dtype/4 reserved/4 stride_matrix stride_in stride_out";
constexpr Schema kRotary =
    "pairs/4 reserved/4 features base/f cosines/p sines/p table_rows table_stride";

/// What operations are described by, and what they get.
constexpr Schema kAttentionDesc =
    "struct_size/4 causal/4 batch query_heads key_heads query_length key_length features "
    "value_features query/L key/L value/L out/L scale/f causal_offset softcap/f temperature/f "
    "hard/4 window/4 window_left window_right alignment_offset alignment/4 weights_point/4 "
    "sum_columns/4 reserved/4 weight_rows packed_queries packed_keys mask/S bias/S lse/L weights/L "
    "column_sums/L pages page_rows block_table_stride key_scales/L value_scales/L";
constexpr Schema kAttentionArgs =
    "struct_size/4 reserved/4 query/p key/p value/p out/p mask/p bias/p key_lengths/p "
    "cu_seqlens_q/p cu_seqlens_k/p alibi_slopes/p sinks/p score_function/p score_user/p "
    "weight_rows/p lse/p weights/p column_sums/p block_table/p key_scales/p value_scales/p";
constexpr Schema kBlockDesc =
    "struct_size/4 combine/4 attention/p width_query width_key width_out input_query/L input_key/L "
    "out/L w_query/M w_key/M w_value/M w_out/M bias_dtype/4 keep/4";
constexpr Schema kBlockArgs =
    "struct_size/4 reserved/4 attention/p input_query/p input_key/p w_query/p w_key/p w_value/p "
    "w_out/p b_query/p b_key/p b_value/p b_out/p p_query/p p_key/p p_value/p p_out/p "
    "head_weights/p out/p kept/p kept_bytes";
constexpr Schema kGraphDesc =
    "struct_size/4 index_type/4 nodes edges sources/p destinations/p offsets/p duplicates/4 "
    "reverse/4 source_nodes";
constexpr Schema kLayerDesc =
    "struct_size/4 inputs/4 heads features value_features width edge_width steps scale/f softcap/f "
    "temperature/f hard/4 combine/4 residual/4 bias_dtype/4 query/L key/L value/L data/L "
    "edge_data/L edge_bias/L out/L lse/L weights/L w_query/M w_key/M w_value/M w_edge_key/M "
    "w_edge_value/M";
constexpr Schema kLayerArgs =
    "struct_size/4 reserved/4 query/p key/p value/p data/p w_query/p w_key/p w_value/p b_query/p "
    "b_key/p b_value/p p_query/p p_key/p p_value/p edge_data/p w_edge_key/p w_edge_value/p "
    "edge_bias/p head_weights/p out/p lse/p weights/p";
constexpr Schema kAttentionBackwardDesc =
    "struct_size/4 accumulate/4 attention/p grad_out/L grad_lse/L grad_query/L "
    "grad_key/L grad_value/L grad_bias/S";
constexpr Schema kAttentionBackwardArgs =
    "struct_size/4 reserved/4 attention/p grad_out/p grad_lse/p grad_query/p "
    "grad_key/p grad_value/p grad_bias/p grad_sinks/p grad_alibi_slopes/p "
    "grad_scale/p grad_temperature/p score_gradient/p";

/// Fields that are added by calling it with their names, without the prefix, and places.
class Fields {
 public:
  /// Of the layouts in structs only these belong to tensors that there are.
  explicit Fields(std::vector<const void*> layouts = {}) : layouts_(std::move(layouts)) {}

  Fields& in(std::string prefix) {
    prefix_ = std::move(prefix);
    return *this;
  }
  template <class T>
  Fields& operator()(const std::string& name, T& at) {
    constexpr char type = std::is_pointer_v<T> ? 'p' : sizeof(T) == 4 ? '4' : '8';
    all_.push_back({prefix_ + name, true, type, [&at](const Value& value) { value.write_to(at); }});
    return *this;
  }
  /// A variable of the environment.
  Fields& operator()(const std::string& name, const Environment& environment) {
    all_.push_back({name, true, 's', [&environment, name](const Value& value) {
                      environment.set(name.c_str(), value.text());
                    }});
    return *this;
  }
  template <class T, std::size_t n>
  Fields& operator()(const std::string& name, T (&list)[n]) {
    for (std::size_t i = 0; i < n; ++i) (*this)(name + "[" + std::to_string(i) + "]", list[i]);
    return *this;
  }
  /// All members of a struct.
  Fields& all_of(Schema schema, const void* at, bool there = true) {
    each_member(schema, [&](const std::string& name, char type, std::uint32_t offset) {
      const void* const member = static_cast<const char*>(at) + offset;
      const Schema inside = type == 'L'   ? kLayout
                            : type == 'S' ? kScoreLayout
                            : type == 'M' ? kMatrixLayout
                            : type == 'R' ? kRotary
                                          : nullptr;
      if (inside != nullptr) {
        const std::string before = prefix_;
        const bool of_tensor = std::count(layouts_.begin(), layouts_.end(), member) > 0;
        in(before + name + ".")
            .all_of(inside, member, there && (type == 'R' || of_tensor))
            .in(before);
      } else if (type == '4') {
        add<std::uint32_t>(name, type, member, there);
      } else if (type == 'f') {
        add<double>(name, type, member, there);
      } else if (type == 'p') {
        add<void*>(name, type, member, there);
      } else if (type == 's') {
        add<const char*>(name, type, member, there);
      } else {
        add<std::int64_t>(name, type, member, there);
      }
    });
    return *this;
  }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  template <class T>
  void add(const std::string& name, char type, const void* at, bool there) {
    all_.push_back({prefix_ + name, there, type, [at](const Value& value) {
                      T field;
                      std::memcpy(&field, at, sizeof field);
                      value.write_to(field);
                      std::memcpy(const_cast<void*>(at), &field, sizeof field);
                    }});
  }

  std::string prefix_;
  std::vector<const void*> layouts_;
  std::vector<Field> all_;
};

/// Writes one field of whatever has fields.
template <class AForm>
void set(AForm& form, const std::string& name, const Value& value) {
  for (const Field& field : fields_of(form))
    if (field.name == name) return field.write(value);
  throw std::invalid_argument("there is no field " + name);
}

/// The change of one field.
inline auto with(std::string name, Value value) {
  return [name = std::move(name), value = std::move(value)](auto& form) { set(form, name, value); };
}

}  // namespace api_test
