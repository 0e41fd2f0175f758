// A call of dense attention, from Python's arguments to those of C.
#pragma once

#include "api/python/module/errors.hpp"
#include "api/python/module/numbers.hpp"
#include "api/python/module/score_function.hpp"

namespace heed::python {

// ---- The options of attention by name, for every function that takes them ----

/// As they came, the caller holding them; null where one was not given, or None.
struct Options {
  nb::handle attn_mask, bias, causal, window, alignment, scale, softcap, alibi_slopes, sinks,
      temperature, hard, key_lengths, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
      block_table, key_scales, value_scales, score_function, return_lse, return_weights,
      weight_rows, return_column_sums;
};

struct OptionName {
  const char* name;
  nb::handle Options::*place;
  bool tensor;  // given anew in every call of a plan
};

constexpr OptionName kOptions[] = {
    {"attn_mask", &Options::attn_mask, true},
    {"bias", &Options::bias, true},
    {"causal", &Options::causal, false},
    {"window", &Options::window, false},
    {"alignment", &Options::alignment, false},
    {"scale", &Options::scale, false},
    {"softcap", &Options::softcap, false},
    {"alibi_slopes", &Options::alibi_slopes, true},
    {"sinks", &Options::sinks, true},
    {"temperature", &Options::temperature, false},
    {"hard", &Options::hard, false},
    {"key_lengths", &Options::key_lengths, true},
    {"cu_seqlens_q", &Options::cu_seqlens_q, true},
    {"cu_seqlens_k", &Options::cu_seqlens_k, true},
    {"max_seqlen_q", &Options::max_seqlen_q, false},
    {"max_seqlen_k", &Options::max_seqlen_k, false},
    {"block_table", &Options::block_table, true},
    {"key_scales", &Options::key_scales, true},
    {"value_scales", &Options::value_scales, true},
    {"score_function", &Options::score_function, false},
    {"return_lse", &Options::return_lse, false},
    {"return_weights", &Options::return_weights, false},
    {"weight_rows", &Options::weight_rows, false},
    {"return_column_sums", &Options::return_column_sums, false},
};

/// Reads the dict `given`; TypeError names what `function` does not know.
Options read_options(const char* function, nb::handle given);

/// Numbers per head, of the arithmetic's type.
struct Reals {
  Vector<float> singles;
  Vector<double> doubles;
};

/// desc and args, and what args point at. To be filled in this order: lengths, tensors (or the
/// sizes in desc, by whoever has no tensors of heads), scores, and outputs (outputs.hpp).
struct Call {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  int axes = 4;            // of query, key and value, the most of them
  bool float64 = false;    // the arithmetic
  bool out_given = false;  // by the caller
  Kind kind;               // of results
  Element out_element = Element::kF32;
  std::int64_t rows = 0;           // of query and out: of a sequence, or of all that are packed
  const char* batch_of = nullptr;  // the argument that said how many sequences there are

  Array query;
  Array key;
  Array value;
  Array out;  // the caller's
  Array attn_mask;
  Array bias;
  Array key_scales;
  Array value_scales;
  Vector<float> key_scale;  // of a whole tensor
  Vector<float> value_scale;
  Reals alibi_slopes;
  Reals sinks;
  Vector<std::int32_t> key_lengths;
  Vector<std::int32_t> cu_seqlens_q;
  Vector<std::int32_t> cu_seqlens_k;
  Table<std::int32_t> block_table;
  Vector<std::int64_t> weight_rows;
  ScoreFunction score_function;

  bool packed_queries() const { return args.cu_seqlens_q != nullptr; }
  bool packed_keys() const { return args.cu_seqlens_k != nullptr; }
  bool paged() const { return args.block_table != nullptr; }
};

/// cu_seqlens_q, cu_seqlens_k and block_table, which say what the axes of tensors are; and the
/// batch, where they know it.
void read_lengths(Call& call, const Options& options);

/// How many rows queries and keys have; those of packed ones are of all sequences together.
void set_query_rows(Call& call, std::int64_t rows, const Options& options);
void set_key_rows(Call& call, std::int64_t rows, const Options& options);

/// How many sequences the argument `name` is for, which must be what others said before.
void set_batch(Call& call, const char* name, std::int64_t batch);

/// Sizes, layout and pointer of query alone, where keys are no argument.
void read_query(Call& call, nb::handle query, const Options& options);

/// Sizes, layouts and pointers of query, key and value.
void read_tensors(Call& call, nb::handle query, nb::handle key, nb::handle value,
                  const Options& options);

/// Everything that changes scores: masks, biases, causal, windows, lengths of keys, scales and so
/// on. The sizes are known. `whole`: rows and keys are not a rank's part of more.
void read_scores(Call& call, const Options& options, bool whole = true);

/// causal, window and alignment; scale, softcap, temperature and hard; return_weights.
void read_choices(heed_attention_desc& desc, const Options& options);

/// A number for each of the query heads, of the arithmetic's type; null where none are given.
const void* read_reals(const char* name, nb::handle from, bool float64, std::int64_t heads,
                       Reals& reals);

/// The layout of a mask or bias, which broadcasts to [batch, heads, rows, keys].
heed_score_layout score_layout(const char* name, const Form& form, const heed_attention_desc& desc);

/// Refuses types that are not for computing.
void check_floating(const char* name, const Form& form);

/// The address of an array, never null: heed takes null for "not given".
void* address_of(const Array& array);

/// A layout of [batch, head, row, feature], axes that there are none of being of one element; or
/// of [row, head, feature].
heed_layout layout_of(const Form& form, bool packed);

/// Of [batch, heads, rows], also where out is packed: [heads, rows].
heed_layout lse_layout(const Form& form);

// ---- How heads become one, in blocks and over graphs ----

/// A heed_combine by its name, up to `last`.
std::uint32_t read_combine(nb::handle from, heed_combine last);

/// Given if, and only if, `combine` is HEED_COMBINE_WEIGHTED.
const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals);

}  // namespace heed::python
