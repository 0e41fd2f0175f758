// The options of attention by name, for every function that takes them.
#pragma once

#include "api/python/module/errors.hpp"

namespace heed::python {

/// As they came, the caller holding them; null where one was not given, or None.
struct Options {
  nb::handle attn_mask;
  nb::handle bias;
  nb::handle causal;
  nb::handle window;
  nb::handle alignment;
  nb::handle scale;
  nb::handle softcap;
  nb::handle alibi_slopes;
  nb::handle sinks;
  nb::handle temperature;
  nb::handle hard;
  nb::handle key_lengths;
  nb::handle cu_seqlens_q;
  nb::handle cu_seqlens_k;
  nb::handle max_seqlen_q;
  nb::handle max_seqlen_k;
  nb::handle block_table;
  nb::handle key_scales;
  nb::handle value_scales;
  nb::handle score_function;
  nb::handle return_lse;
  nb::handle return_weights;
  nb::handle weight_rows;
  nb::handle return_column_sums;
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

}  // namespace heed::python
