// A problem with one of everything, to be made wrong in one way, and what a refusal must leave.
#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include "tests/api/bytes.hpp"
#include "tests/api/support.hpp"

namespace api_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// A problem with one of everything: [2, 4, 3, 4] queries, [2, 2, 5, 4] keys, values of 6 features.
struct Form {
  Form() {
    desc.batch = 2;
    desc.query_heads = 4;
    desc.key_heads = 2;
    desc.query_length = 3;
    desc.key_length = 5;
    desc.features = 4;
    desc.value_features = 6;
    desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.weight_rows = 2;
    desc.sum_columns = 1;
    args.query = query.at();
    args.key = key.at();
    args.value = value.at();
    args.out = out.at();
    args.mask = static_cast<std::uint8_t*>(mask.at());
    args.bias = bias.at();
    args.key_lengths = key_lengths;
    args.alibi_slopes = slopes.at();
    args.sinks = sinks.at();
    args.weight_rows = weight_rows;
    args.lse = lse.at();
    args.weights = weights.at();
    args.column_sums = column_sums.at();
  }
  Form(const Form&) = delete;  // its arguments point into it
  Form& operator=(const Form&) = delete;

  void pack_queries() {
    desc.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    desc.packed_keys = 10;
    args.cu_seqlens_k = cu_seqlens_k;
  }
  void all_float64() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }
  void all_16_bits() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F16;
    desc.bias.dtype = desc.weights.dtype = desc.column_sums.dtype = HEED_DTYPE_BF16;
  }
  /// Without what hard attention must not have.
  void be_hard() {
    desc.hard = 1;
    args.sinks = args.lse = nullptr;
  }

  bool outputs_untouched() const {
    return out.all_are(kPattern) && lse.all_are(kPattern) && weights.all_are(kPattern) &&
           column_sums.all_are(kPattern);
  }

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  Bytes query, key, value, mask{1}, bias, slopes, sinks;
  Bytes out{kPattern}, lse{kPattern}, weights{kPattern}, column_sums{kPattern};
  std::int32_t key_lengths[2] = {5, 2};
  std::int32_t cu_seqlens_q[3] = {0, 3, 5};
  std::int32_t cu_seqlens_k[3] = {1, 6, 10};
  std::int64_t weight_rows[2] = {0, 2};
};

using Change = std::function<void(Form&)>;

/// No plan is made of the descriptor, and the one call refuses it the same way.
inline void check_desc_refused(const Change& change, Parts parts) {
  const Context context = serial();
  Form form;
  change(form);
  forget_last_error();
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  const heed_status got = heed_attention_plan_create(context.get(), &form.desc, &plan);
  check_refusal(got, HEED_STATUS_INVALID_ARGUMENT, parts);
  CHECK(plan == untouched<heed_attention_plan>());
  if (got == HEED_STATUS_OK) heed_attention_plan_destroy(plan);
  forget_last_error();
  check_refusal(heed_attention(context.get(), &form.desc, &form.args), HEED_STATUS_INVALID_ARGUMENT,
                parts);
  CHECK(form.outputs_untouched());
}

/// The descriptor is good; a run with these arguments is refused, and so is the one call.
inline void check_args_refused(const Change& change, Parts parts) {
  const Context context = serial();
  Form form;
  change(form);
  const Plan plan = make_plan(context, form.desc);
  const Workspace workspace(describe(plan).workspace_bytes);
  forget_last_error();
  check_refusal(heed_attention_plan_run(plan.get(), &form.args, workspace.get(), workspace.bytes()),
                HEED_STATUS_INVALID_ARGUMENT, parts);
  forget_last_error();
  check_refusal(heed_attention(context.get(), &form.desc, &form.args), HEED_STATUS_INVALID_ARGUMENT,
                parts);
  CHECK(form.outputs_untouched());
}

inline void check_accepted(const Change& change) {
  const Context context = serial();
  Form form;
  change(form);
  const heed_status status = heed_attention(context.get(), &form.desc, &form.args);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK_FALSE(form.out.all_are(kPattern));
}

struct NamedLayout {
  const char* name;
  heed_layout heed_attention_desc::*layout;
};
constexpr NamedLayout kInputs[] = {{"desc.query", &heed_attention_desc::query},
                                   {"desc.key", &heed_attention_desc::key},
                                   {"desc.value", &heed_attention_desc::value},
                                   {"desc.out", &heed_attention_desc::out}};
constexpr NamedLayout kOutputs[] = {{"desc.lse", &heed_attention_desc::lse},
                                    {"desc.weights", &heed_attention_desc::weights},
                                    {"desc.column_sums", &heed_attention_desc::column_sums}};

struct NamedScoreLayout {
  const char* name;
  heed_score_layout heed_attention_desc::*layout;
};
constexpr NamedScoreLayout kScores[] = {{"desc.mask", &heed_attention_desc::mask},
                                        {"desc.bias", &heed_attention_desc::bias}};

}  // namespace api_test
