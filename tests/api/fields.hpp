// The structs of the API by the names and types of their members, as messages call them, and what a
// member is changed to, as text.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "api/heed.h"

namespace api_test {

/// The largest size.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// What a field is changed to: a whole number, also as 2^40-1, `most` and `least` of int64 or a
/// type's name; a real one; a "text"; NULL, `given` (some pointer), `own` (to memory of the form),
/// args.key+8 (to that of another tensor), +4 (so many bytes further) or `function` (to one that
/// does nothing).
class Value {
 public:
  Value(std::string text) : text_(std::move(text)) {}
  Value(const char* text) : text_(text) {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
  Value(T whole) : text_(std::to_string(static_cast<std::int64_t>(whole))) {}

  /// As messages print it in a field of this type, or how that begins.
  std::string is(char type) const {
    if (type == 'p') return is_moved() || text_ == "own" ? "0x" : text_;
    if (type == 's') return '"' + quoted().substr(0, 40) + '"';
    if (type != 'f') return std::to_string(whole());
    if (std::isnan(real())) return "... nan";  // its sign may stand before it
    char text[32];
    (void)std::snprintf(text, sizeof text, "%g", real());
    return text;
  }
  const std::string& text() const { return text_; }
  /// Without its quotes.
  std::string quoted() const { return text_.substr(1, text_.size() - 2); }
  bool is_moved() const { return text_[0] == '+'; }
  double real() const { return std::strtod(text_.c_str(), nullptr); }
  std::int64_t whole() const {
    constexpr const char* kTypes[] = {"default", "f32", "f64", "bf16", "f16", "i8", "e4m3"};
    for (std::int64_t dtype = 0; dtype < 7; ++dtype)
      if (text_ == kTypes[dtype]) return dtype;
    if (text_ == "explicit") return HEED_STRIDES_EXPLICIT;
    if (text_ == "most") return INT64_MAX;
    if (text_ == "least") return INT64_MIN;
    char* end = nullptr;
    const std::int64_t base = std::strtoll(text_.c_str(), &end, 10);
    if (*end != '^') return base;
    const std::int64_t power = std::int64_t{1} << std::strtoll(end + 1, &end, 10);
    return (base < 0 ? -power : power) + std::strtoll(end, nullptr, 10);
  }

 private:
  std::string text_;
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
    "column_sums/L pages page_rows block_table_stride key_scales/L value_scales/L "
    "dropout/f score/4 activation/4 slope/f";
constexpr Schema kAttentionArgs =
    "struct_size/4 reserved/4 query/p key/p value/p out/p mask/p bias/p key_lengths/p "
    "cu_seqlens_q/p cu_seqlens_k/p alibi_slopes/p sinks/p score_function/p score_user/p "
    "weight_rows/p lse/p weights/p column_sums/p block_table/p key_scales/p value_scales/p "
    "first_keys/p dropout_seed dropout_offset dropout_origin/p score_weights/p";
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
    "w_edge_value/M score/4 activation/4 slope/f dropout/f";
constexpr Schema kLayerArgs =
    "struct_size/4 reserved/4 query/p key/p value/p data/p w_query/p w_key/p w_value/p b_query/p "
    "b_key/p b_value/p p_query/p p_key/p p_value/p edge_data/p w_edge_key/p w_edge_value/p "
    "edge_bias/p head_weights/p out/p lse/p weights/p score_weights/p dropout_seed dropout_offset "
    "dropout_edges/p";
constexpr Schema kAttentionBackwardDesc =
    "struct_size/4 accumulate/4 attention/p grad_out/L grad_lse/L grad_query/L "
    "grad_key/L grad_value/L grad_bias/S";
constexpr Schema kAttentionBackwardArgs =
    "struct_size/4 reserved/4 attention/p grad_out/p grad_lse/p grad_query/p "
    "grad_key/p grad_value/p grad_bias/p grad_sinks/p grad_alibi_slopes/p "
    "grad_scale/p grad_temperature/p score_gradient/p grad_score_weights/p";
constexpr Schema kBlockBackwardDesc =
    "struct_size/4 accumulate/4 block/p grad_out/L grad_lse/L grad_input_query/L grad_input_key/L "
    "grad_w_query/M grad_w_key/M grad_w_value/M grad_w_out/M grad_bias/S grad_b_dtype/4 reserved/4";
constexpr Schema kBlockBackwardArgs =
    "struct_size/4 reserved/4 block/p grad_out/p grad_lse/p grad_input_query/p grad_input_key/p "
    "grad_w_query/p grad_w_key/p grad_w_value/p grad_w_out/p grad_b_query/p grad_b_key/p "
    "grad_b_value/p grad_b_out/p grad_head_weights/p grad_bias/p grad_sinks/p grad_alibi_slopes/p "
    "grad_scale/p grad_temperature/p score_gradient/p grad_score_weights/p";
constexpr Schema kLayerBackwardDesc =
    "struct_size/4 accumulate/4 attention/p grad_out/L grad_lse/L grad_query/L grad_key/L "
    "grad_value/L grad_data/L grad_edge_data/L grad_edge_bias/L grad_w_query/M grad_w_key/M "
    "grad_w_value/M grad_w_edge_key/M grad_w_edge_value/M";
constexpr Schema kLayerBackwardArgs =
    "struct_size/4 reserved/4 attention/p grad_out/p grad_lse/p grad_query/p grad_key/p "
    "grad_value/p grad_data/p grad_w_query/p grad_w_key/p grad_w_value/p grad_b_query/p "
    "grad_b_key/p grad_b_value/p grad_edge_data/p grad_w_edge_key/p grad_w_edge_value/p "
    "grad_edge_bias/p grad_head_weights/p grad_score_weights/p";
constexpr Schema kMergeDesc =
    "struct_size/4 reserved/4 batch heads rows features part_out/L part_lse/L out/L lse/L";
constexpr Schema kRotateDesc =
    "struct_size/4 reserved/4 batch heads rows features from/L to/L rotary/R position";
constexpr Schema kMatrixDesc =
    "struct_size/4 arithmetic/4 matrices in out layout/M bias_dtype/4 reserved/4";
constexpr Schema kProjectDesc = "struct_size/4 reserved/4 batch rows x/L y/L";
constexpr Schema kCacheDesc =
    "struct_size/4 dtype/4 layers key_heads features value_features page_rows pages sequences "
    "key_scale/f value_scale/f rotary/R";
constexpr Schema kAppendDesc =
    "struct_size/4 reserved/4 layer rows key/L value/L position_offset positions/p";
constexpr Schema kCacheAttentionDesc =
    "struct_size/4 reserved/4 attention/p sequences/p layer position_offset positions/p";
constexpr Schema kContextOptions =
    "struct_size/4 threads/4 isa/s executor_name/s executor/p allocator/p tile_q/4 tile_kv/4 "
    "product/s check/4 precision/4 tuning_file/s";
constexpr Schema kExecutor = "struct_size/4 threads/4 user/p run/p";
constexpr Schema kAllocator = "struct_size/4 reserved/4 user/p allocate/p release/p";

/// What other structs hold.
inline Schema inside_of(char type) {
  return type == 'L'   ? kLayout
         : type == 'S' ? kScoreLayout
         : type == 'M' ? kMatrixLayout
         : type == 'R' ? kRotary
                       : nullptr;
}

}  // namespace api_test
