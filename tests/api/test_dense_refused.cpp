// Refusals of dense attention that are not of every field of a kind: sizes and options that do not
// go together, masks and biases, overlapping outputs, lengths and offsets, slopes and sinks.
#include "tests/api/refused.hpp"

using namespace api_test;

TEST_CASE("sizes of dense attention have bounds, and go with each other and with addresses",
          "[refused]") {
  check_refused("dense", R"(
    desc.batch | desc.query_heads | desc.key_heads | desc.query_length | desc.key_length
      | desc.packed_queries | desc.packed_keys | desc.pages = -1 | least | -2^40 | 2^40+1 | most
      => must be 0 to 2^40
    desc.features = -1 | 0 | least | -2^40 | 2^40+1 | most => must be 1 to 2^40
    desc.value_features = -1 | 2^40+1 => must be 1 to 2^40
    desc.query_heads = 1 | 3 => must be a multiple of desc.key_heads, 2
    desc.key_heads = 3 => desc.query_heads is 4; it must be a multiple of desc.key_heads, 3
    desc.key_heads = 8 => desc.query_heads is 4; it must be a multiple of desc.key_heads, 8
    desc.batch desc.query_length = 2^40
      => desc.query has 1099511627776 x 4 x 1099511627776 x 4 elements; that overflows an address
    desc.batch desc.key_length = 2^40
      => desc.key has 1099511627776 x 2 x 1099511627776 x 4 elements; that overflows an address
    desc.key_length desc.value_features = 2^40, desc.key.reserved = explicit, desc.key = [0 0 0 1]
      => desc.value has 2 x 2 x 1099511627776 x 1099511627776 elements; that overflows an address
    desc.query = [288230376151711743 72057594037927935 0 1]
      => desc.query reaches ... elements; that overflows an address
    desc.causal = 4 | 99 | 4294967295 => must be a heed_causal, 0 to 3
    desc.hard | desc.window | desc.sum_columns = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    desc.alignment = 4 | 99 | 4294967295 => must be a heed_alignment, 0 to 3
    desc.weights_point = 5 | 99 | 4294967295 => must be a heed_weights_point, 0 to 4
  )");
}

TEST_CASE("problems without rows whose numbers overflow are refused", "[refused]") {
  check_refused("dense", R"(
    strides of 1, desc.batch = 0, desc.query_heads desc.query_length = 2^40, desc.key_heads = 1
      => desc.batch is 0, desc.query_heads is 1099511627776, desc.query_length is 1099511627776,
      desc.key_length is 5; the number of rows overflows an address
    strides of 1, desc.batch desc.query_heads desc.key_heads = 2^40, desc.(query_length key_length) = 0
      => desc.batch is 1099511627776, desc.query_heads is 1099511627776, desc.query_length is 0,
      desc.key_length is 0; the number of heads overflows an address
  )");
}

TEST_CASE("a workspace that overflows with all threads is refused", "[refused]") {
  heed_attention_desc desc = small_desc(1, 1, 1, kMost);
  desc.batch = 1024;
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  check_refusal(heed_attention_plan_create(context_with(in_order(1024)).get(), &desc, &plan),
                HEED_STATUS_INVALID_ARGUMENT,
                "desc.features is 1, desc.value_features is 1099511627776, threads is 1024; the "
                "workspace overflows an address");
  CHECK(plan == untouched<heed_attention_plan>());
  make_plan(serial(), desc);
}

TEST_CASE("query, key, value and out are float64, or none is", "[refused]") {
  const std::string tensors[] = {"desc.query", "desc.key", "desc.value", "desc.out"};
  std::string table;
  for (unsigned mix = 1; mix < 15; ++mix)
    for (const std::string other : {"0", "f32", "bf16", "f16", "i8", "e4m3"}) {
      unsigned first = 0;  // that is not float64
      while ((mix >> first & 1U) != 0) ++first;
      for (unsigned n = 0; n < 4; ++n)
        table += tensors[n] + ".dtype = " + ((mix >> n & 1U) != 0 ? "f64" : other) +
                 (n < 3 ? ", " : " => ");
      table += tensors[first] + ".dtype is " + std::to_string(Value(other).whole()) +
               "; it must be HEED_DTYPE_F64 (2) as that of another tensor is\n";
    }
  for (const std::string& tensor : tensors) table += tensor + ".dtype = f32 | bf16 | f16 => ok\n";
  check_refused("dense", table);
}

TEST_CASE("8-bit keys have scales, per row if they are integers, and others none", "[refused]") {
  check_refused("dense", R"(
    args.key_scales = given
      => must be NULL unless desc.key.dtype is HEED_DTYPE_I8 (5) or HEED_DTYPE_F8_E4M3 (6)
    args.value_scales = given
      => must be NULL unless desc.value.dtype is HEED_DTYPE_I8 (5) or HEED_DTYPE_F8_E4M3 (6)
    desc.key_scales.stride_head = 3 => desc.key_scales is set with desc.key.dtype 0; it must be 0
      unless that is HEED_DTYPE_I8 (5), which has a scale per row
    desc.value_scales.reserved = 1 => desc.value_scales is set with desc.value.dtype 0; it must be 0
      unless that is HEED_DTYPE_I8 (5), which has a scale per row
    with 8 bits:
    desc.key_scales.dtype = f64 | bf16 | i8 | 9 | 4294967295 => must be 0 or HEED_DTYPE_F32 (1)
    args.key_scales | args.value_scales = NULL => ; its tensor has elements
    desc.value_scales.stride_row = 1 => desc.value_scales is set with desc.value.dtype 6; it must
      be 0 unless that is HEED_DTYPE_I8 (5), which has a scale per row
    with 8 bits, desc.key.dtype = e4m3, desc.value.dtype = i8:
    desc.key_scales.dtype = f32 => desc.key_scales is set with desc.key.dtype 6; it must be 0
      unless that is HEED_DTYPE_I8 (5), which has a scale per row
    args.value_scales = NULL => ; its tensor has elements
  )");
}

TEST_CASE("a mask's and a bias's sizes are the problem's, 1 or 0", "[refused]") {
  check_refused("dense", R"(
    desc.mask.batch | desc.bias.batch = -1 | 3 | most => must be 2, 1 or 0 (the same)
    desc.mask.heads | desc.bias.heads = -1 | 3 | 5 | most => must be 4, 1 or 0 (the same)
    desc.mask.rows | desc.bias.rows = -1 | 2 | 4 | most => must be 3, 1 or 0 (the same)
    desc.mask.keys | desc.bias.keys = -1 | 4 | 6 | most => must be 5, 1 or 0 (the same)
  )");
}

TEST_CASE("outputs whose elements overlap are refused", "[refused]") {
  const std::string overlap = ", or elements of the output overlap\n";
  std::string table;
  for (const char* const row :
       {// Contiguous is 72, 18, 6, 1 for [2, 4, 3, 6].
        "desc.out = [72 18 6 0] => desc.out.stride_feature is 0; it must exceed 0",
        "desc.out = [72 18 0 1] => desc.out.stride_row is 0; it must exceed 0",
        "desc.out = [72 0 6 1] => desc.out.stride_head is 0; it must exceed 0",
        "desc.out = [0 18 6 1] => desc.out.stride_batch is 0; it must exceed 0",
        "desc.out = [72 18 5 1] => desc.out.stride_row is 5; it must exceed 5",
        "desc.out = [72 17 6 1] => desc.out.stride_head is 17; it must exceed 17",
        "desc.out = [71 18 6 1] => desc.out.stride_batch is 71; it must exceed 71",
        "desc.out = [72 18 1 1] => desc.out.stride_ ... is 1; it must exceed ... ",
        "desc.out = [72 18 -5 1] => desc.out.stride_row is -5; it must exceed 5",
        "desc.out = [72 18 6 -6] => desc.out.stride_ ... it must exceed 12",
        // Rows outermost, batches innermost.
        "desc.out = [6 12 47 1] => desc.out.stride_row is 47; it must exceed 47",
        // 12, 3, 1 for [2, 4, 3], one number each.
        "desc.lse = [11 3 1 0] => desc.lse.stride_batch is 11; it must exceed 11",
        // 40, 10, 5, 1 for [2, 4, 2, 5]: two rows are listed.
        "desc.weights = [40 9 5 1] => desc.weights.stride_head is 9; it must exceed 9",
        "desc.weights = [40 10 5 0] => desc.weights.stride_feature is 0; it must exceed 0",
        // 20, 5, 1 for [2, 4, 5].
        "desc.column_sums = [20 -4 1 0]"
        " => desc.column_sums.stride_head is -4; it must exceed 4"})
    table += row + overlap;
  table +=
      "desc.batch desc.query_heads desc.key_heads desc.value_features = 1, "
      "desc.query_length desc.weight_rows = 1, desc.out.reserved = explicit => ok\n";
  check_refused("dense", table);
}

// ---- Options of the descriptor ----

TEST_CASE("scale, soft cap and temperature are numbers that make sense", "[refused]") {
  for (const char* const of : {"dense", "graph attention"})
    check_refused(of, R"(
      desc.scale = inf | -inf | nan => must be finite
      desc.scale = 3e38
        => ; with it scores would be multiplied by ... , which must be at most 3.40282e+38
      desc.softcap = -2.0 | inf | nan => must be finite and at least 0
      desc.temperature = -0.5 | -inf | nan => must be above 0, or 0 for the default 1
      desc.temperature = inf => ok
      with hard:
      desc.temperature = 1.0 | inf => must be 0 with desc.hard
      args.lse = given => must be NULL with desc.hard, which has no denominator
    )");
}

TEST_CASE("dropout is a part of weights, and a seed is for that", "[refused]") {
  for (const char* const operation : {"dense", "graph attention"})
    check_refused(operation, R"(
      desc.dropout = -0.1 | 1.0 | 2.0 | inf | nan => must be at least 0 and less than 1
      args.dropout_seed = 7 => must be 0 with desc.dropout 0
      args.dropout_offset = 7 => must be 0 with desc.dropout 0
      desc.dropout = 0.999, args.dropout_seed args.dropout_offset = -1 => ok
      with hard:
      desc.dropout = 0.5 => must be 0 with desc.hard, which has one weight
    )");
  check_refused("dense", R"(
    args.dropout_origin = given => must be NULL with desc.dropout 0
    with drop:
    args.dropout_origin = +4 => must be a multiple of 8
    args.dropout_origin[0] = -1 | 2^40+1 => must be 0 to 2^40
    args.dropout_origin[3] = -1 | 2^40+1 => must be 0 to 2^40
    args.dropout_origin[2] = 2^40 => ok
    args.dropout_origin = NULL => ok
  )");
  check_refused("graph attention", R"(
    args.dropout_edges = given => must be NULL with desc.dropout 0
    with drop:
    args.dropout_edges = +4 => must be a multiple of 8
    args.dropout_edges = NULL => ok
  )");
}

TEST_CASE("other scores than products, what they need and have no use for", "[refused]") {
  for (const char* const operation : {"dense", "graph attention"})
    check_refused(operation, R"(
      desc.score = 4 | 99 | 4294967295 => must be a heed_score, 0 to 3
      desc.activation = 3 | 99 | 4294967295 => must be a heed_activation, 0 to 2
      desc.activation = 1 | 2
        => must be 0 unless desc.score is HEED_SCORE_SUM (1) or HEED_SCORE_ADDITIVE (2)
      desc.slope = 0.2 | -1 | inf | nan
        => must be 0 unless desc.activation is HEED_ACTIVATION_LEAKY_RELU (1)
      args.score_weights = given
        => must be NULL unless desc.score is HEED_SCORE_ADDITIVE (2) or
        HEED_SCORE_COSINE (3)
      desc.score = 1 => desc.features is ... ; it must be 1 with desc.score HEED_SCORE_SUM (1)
      with additive:
      args.score_weights = NULL => ; its tensor has elements
      desc.slope = 0.2 => must be 0 unless desc.activation is HEED_ACTIVATION_LEAKY_RELU (1)
      desc.activation = 1, desc.slope = 2e30 | inf | -inf | nan => must be -1e+30 to 1e+30
      desc.activation = 1, desc.slope = 0.2 => ok
      desc.activation = 0 => ok
      with sum:
      args.score_weights = given
        => must be NULL unless desc.score is HEED_SCORE_ADDITIVE (2) or
        HEED_SCORE_COSINE (3)
      desc.features = 2 => must be 1 with desc.score HEED_SCORE_SUM (1)
      desc.activation = 2 => ok
      with cosine:
      desc.activation = 1
        => must be 0 unless desc.score is HEED_SCORE_SUM (1) or HEED_SCORE_ADDITIVE (2)
      args.score_weights = own => ok
    )");
}

TEST_CASE("factors that leave the arithmetic's range are refused", "[refused]") {
  check_refused("dense", R"(
    desc.scale = 3e38
      => ; with it scores would be multiplied by 4.32809e+38, which must be at most 3.40282e+38
    desc.scale = -3e38
      => ; with it scores would be multiplied by -4.32809e+38, which must be at most 3.40282e+38
    desc.temperature = 1e-39
      => ; with it scores would be multiplied by 1.4427e+39, which must be at most 3.40282e+38
    desc.softcap = 1e-39
      => ; with it scores would be multiplied by 1.4427e+39, which must be at most 3.40282e+38
    desc.softcap = 3e38
      => ; with it scores would be multiplied by 4.32809e+38, which must be at most 3.40282e+38
    with hard:
    args.sinks = given => must be NULL with desc.hard, which has no denominator
    with float64:
    desc.scale = 1.7e308
      => ; with it scores would be multiplied by inf, which must be at most 1.79769e+308
    desc.temperature = 1e-310
      => ; with it scores would be multiplied by inf, which must be at most 1.79769e+308
    desc.scale = 3e38 | -3e38 => ok
    desc.temperature | desc.softcap = 1e-39 => ok
  )");
}

TEST_CASE("rows stand where causal says or alignment does, and are measured only then",
          "[refused]") {
  for (const std::string name : {"causal", "alignment"}) {
    const std::string field = "desc." + name;
    const std::string offset = name == "causal" ? "HEED_CAUSAL_OFFSET" : "HEED_ALIGNMENT_OFFSET";
    std::string table;
    for (const std::string choice : {"0", "1", "2"})
      table += "with unaligned, " + field + " = " + choice + ":\n" + field + "_offset = -3 => " +
               field + "_offset is -3 with " + field + " " + choice + "; it must be 0 unless " +
               name + " is " + offset + " (3)\n";
    table += "with desc.alignment = 0, " + field + " = 3:\n" + field +
             "_offset = least | 0 | most => ok\n";
    check_refused("dense", table);
  }
  std::string both = "with unaligned:\n";
  for (const std::string causal : {"1", "2", "3"})
    for (const std::string alignment : {"1", "2"})
      both += "desc.causal = " + causal + ", desc.alignment = " + alignment +
              " => desc.alignment is " + alignment + " with desc.causal " + causal +
              "; it must be 0: causal says where rows stand\n";
  check_refused("dense", both);
  check_refused("dense", R"(
    desc.alignment = 0
      => args.alibi_slopes is given with desc.alignment 0, desc.query_length 3 and desc.key_length
      5; distances over different lengths need a heed_alignment, 1 to 3
    desc.alignment = 0, desc.window = 1
      => desc.alignment is 0 with desc.query_length 3 and desc.key_length 5; a window
      over different lengths needs a heed_alignment, 1 to 3
    unaligned => ok
    desc.alignment = 0, desc.window = 1, desc.query_length = 5 => ok
    desc.alignment = 0, desc.window desc.causal = 1 => ok
  )");
}

TEST_CASE("window bounds are at least -1, and 0 without a window", "[refused]") {
  check_refused("dense", R"(
    desc.window_left = -1 => with desc.window 0; it must be 0 unless window is 1
    desc.window_right = 7 => with desc.window 0; it must be 0 unless window is 1
    with desc.window = 1:
    desc.window_left | desc.window_right = -2 | least => must be at least -1 (no bound)
    desc.window_left desc.window_right = -1 => ok
    desc.window_left desc.window_right = 0 => ok
    desc.window_left desc.window_right = most => ok
  )");
}

// ---- Arguments ----

TEST_CASE("outputs come if they are asked for, of rows that increase", "[refused]") {
  check_refused("dense", R"(
    desc.weight_rows = -1 | 4 => must be 0 to desc.query_length, 3
    desc.weights_point = 0 => desc.weight_rows is 2 with desc.weights_point 0; it must be
      0 unless weights_point is 1 to 4
    args.score_user = given => must be NULL without args.score_function
    args.weights = NULL => ; desc.weights_point asks for it
    args.column_sums = NULL => ; desc.sum_columns asks for it
    desc.weights_point desc.weight_rows = 0, args.weight_rows = NULL
      => args.weights is given; it must be NULL with desc.weights_point 0
    desc.sum_columns = 0 => args.column_sums is given; it must be NULL with desc.sum_columns 0
    args.weight_rows[0] = -1 | 3 => must be 0 to 2: rows increase
    args.weight_rows[0] = 2 => args.weight_rows[1] is 2; it must be 3 to 2: rows increase
    args.weight_rows[1] = 0 => must be 1 to 2: rows increase
    args.weight_rows[1] = 3 | most => must be 1 to 2: rows increase
    args.weight_rows = NULL => with desc.weight_rows 2; both or neither list rows
    desc.weight_rows = 0 => args.weight_rows is given with desc.weight_rows 0; both or neither
      list rows
  )");
}

TEST_CASE("offsets of packed rows start at 0 or later, never fall, and end in time", "[refused]") {
  check_refused("dense", R"(
    args.cu_seqlens_q = given => must be NULL with desc.packed_queries 0
    args.cu_seqlens_k = given => must be NULL with desc.packed_keys 0
    rows of nobody => ok, nothing to do
    rows of nobody, args.query | args.key | args.value | args.out = NULL => ; its tensor has elements
    args.key_lengths[0] = -1 => must be 0 to 5
    args.key_lengths[1] = 6 | -2147483648 => must be 0 to 5
    args.key_lengths = {0 0} => ok
    args.key_lengths = {5 5} => ok
    args.first_keys = {-1 0} => args.first_keys[0] is -1; it must be 0 to 5
    args.key_lengths = {5 2}, args.first_keys = {5 3} => args.first_keys[1] is 3; it must be 0 to 2
    args.key_lengths = {5 2}, args.first_keys = {5 2} => ok
    with pack_queries:
    args.cu_seqlens_q[0] = -1 | -2147483648 | 7 => must be 0 to 6
    args.cu_seqlens_q[0] = 4 => args.cu_seqlens_q[1] is 3; it must be 4 to 6
    args.cu_seqlens_q[2] = 2 | 7 | 2147483647 => must be 3 to 6
    args.cu_seqlens_q[1] = 4 => ; that makes a sequence of 4 rows, and desc.query_length is 3
    args.cu_seqlens_q = {0 1 6} => args.cu_seqlens_q[2] is 6; that makes a sequence of 5 rows, and
      desc.query_length is 3
    args.cu_seqlens_q = NULL => ; desc.packed_queries is 6
    with pack_keys:
    args.cu_seqlens_k[0] = -5 => must be 0 to 10
    args.cu_seqlens_k[1] = 0 => must be 1 to 10
    args.cu_seqlens_k[2] = 11 => must be 6 to 10
    args.cu_seqlens_k[0] = 0 => args.cu_seqlens_k[1] is 6; that makes a sequence of 6 rows, and
      desc.key_length is 5
    args.cu_seqlens_k = NULL => ; desc.packed_keys is 10
    args.key_lengths[0] = 6 => must be 0 to 5
    args.key_lengths[1] = 5 => must be 0 to 4
    args.key_lengths[1] = 4 => ok
  )");
}

TEST_CASE("pages are whole, and every entry of the table that is needed is one of them",
          "[refused]") {
  check_refused("dense", R"(
    desc.page_rows = 16 => must be 0 with desc.pages 0
    desc.block_table_stride = 1 => must be 0 with desc.pages 0
    args.block_table = given => must be NULL with desc.pages 0
    with page:
    desc.page_rows = 0 | 15 => must be 16 to 2^40
    desc.page_rows = 24 => must be a multiple of 16
    desc.pages = 2^31 => must be at most 2147483647: entries of the block table are int32
    desc.packed_keys = 10 => with desc.pages 3; it must be 0: keys lie in pages
    desc.block_table_stride = -1 => must be 1 to 2^40
    desc.batch desc.block_table_stride = 2^31
      => desc.batch is 2147483648, desc.block_table_stride is 2147483648; the block table overflows
      an address
    desc.batch desc.key_length = 2^33
      => desc.batch is 8589934592, desc.key_length is 8589934592; the block table overflows an
      address
    args.block_table = NULL => ; desc.pages is 3
    args.block_table[0] = 3 => args.block_table[0][0] is 3; it must be 0 to 2, for desc.pages
    args.block_table[1] = -1 => args.block_table[1][0] is -1; it must be 0 to 2, for desc.pages
  )");
}

TEST_CASE("slopes are finite, and a sink is a number", "[refused]") {
  // The largest are finite, but not in the kernels' units.
  check_refused("dense", R"(
    args.alibi_slopes[2] = 3.4e38 => args.alibi_slopes[2] is 3.4e+38; it must be finite, also
      times log2(e) / temperature
    with as it is | float64:
    args.alibi_slopes[0] = inf => args.alibi_slopes[0] is inf; it must be finite, also times
      log2(e) / temperature
    args.alibi_slopes[3] = -inf => args.alibi_slopes[3] is -inf; it must be finite, also times
      log2(e) / temperature
    args.alibi_slopes[1] = nan => args.alibi_slopes[1] is ... nan; it must be finite, also times
      log2(e) / temperature
    args.sinks[0] = nan => args.sinks[0] is ... nan; it must not be NaN
    args.sinks[3] = nan => args.sinks[3] is ... nan; it must not be NaN
    args.sinks[2] = inf | -inf => ok
    with float64:
    args.alibi_slopes[2] = 1.7e308 => args.alibi_slopes[2] is 1.7e+308; it must be finite, also
      times log2(e) / temperature
  )");
}
