// Refusals of merges, rotations, prepared matrices and projections that are not of every field of a
// kind.
#include "tests/api/refused.hpp"

using namespace api_test;

TEST_CASE("a merge has parts, and every part its pointers", "[refused][merge]") {
  const Changes more = {{"no part_outs", [](Form& f) { f.at<MergeArgs>("args").outs = nullptr; }},
                        {"no part_lses", [](Form& f) { f.at<MergeArgs>("args").lses = nullptr; }}};
  check_refused("merge", R"(
    desc.batch | desc.heads | desc.rows | desc.features = -1 | least | -2^40 | 2^40+1 | most
      => must be 0 to 2^40
    parts = 0 => must be at least 1
    no part_outs => part_outs is NULL
    no part_lses => part_lses is NULL
    desc.batch desc.rows = 2^40
      => desc.part_out has 1099511627776 x 3 x 1099511627776 x 5 elements; that overflows an address
    desc.lse = [12 3 1 0] => desc.lse.stride_head is 3; it must exceed 3, or elements of
      the output overlap
    parts = 1 => ok
    lse = NULL => ok
    desc.part_out = [0 0 5 1] => ok
    with desc.part_out.dtype = f64:
    part_outs[1] = +4 => must be a multiple of 8
    part_lses[0] = +1 => must be a multiple of 4
    with desc.out.dtype = f16:
    out = +1 => must be a multiple of 2
    lse = +2 => must be a multiple of 4
  )",
                more);
}

TEST_CASE("what turns rows, tables and positions make sense", "[refused][rotate]") {
  check_refused("rotate", R"(
    desc.batch | desc.heads | desc.rows = -1 | least | -2^40 | 2^40+1 | most
      => must be 0 to 2^40
    desc.features = -1 | 2^40+1 => must be 2 to 2^40
    desc.rotary.pairs = 3 | 99 | 4294967295 => must be a heed_rotary_pairs, 0 to 2
    desc.rotary.pairs = 0 => must be HEED_ROTARY_HALVES (1) or HEED_ROTARY_INTERLEAVED (2)
    desc.rotary.features = 1 | 3 | 8 | -2 | least => must be even, 0 to 6
    desc.features = 5 => desc.rotary.features is 0, for all 5 of a row; that must be even
    desc.rotary.base = -1.0 | 1e-257 | inf | -inf | nan
      => must be finite and at least 1e-256, or 0 for the default 10000
    desc.rotary.table_rows = -1 | 2^40+2 => must be 0 to 2^40 + 1
    desc.batch desc.rows = 2^40
      => desc.from has 1099511627776 x 3 x 1099511627776 x 6 elements; that overflows an address
    desc.rotary.features = 6 => ok
    desc.rotary.base = 1e-256 => ok
    desc.from = [0 0 6 1] => ok
    desc.rotary.sines = own
      => desc.rotary.sines is 0x ... ; it must be NULL without desc.rotary.table_rows
    desc.rotary.table_stride = 3 => must be 0 without desc.rotary.table_rows
    desc.position = -1 | least | most => must be 0 to 2^40
    desc.position = 2^40-2
      => desc.position + desc.rows - 1 is 1099511627777; it must be 0 to 2^40
    desc.position = 2^40-3 => ok
    desc.rotary.pairs = 0, desc.rotary.features = 4 => must be 0 with HEED_ROTARY_NONE
    desc.rotary.pairs = 0, desc.rotary.table_rows = 1 => must be 0 with HEED_ROTARY_NONE
    desc.rotary.pairs = 0, desc.rotary.table_stride = 3 => must be 0 with HEED_ROTARY_NONE
    desc.rotary.pairs = 0, desc.rotary.base = 5.0 => must be 0 with HEED_ROTARY_NONE
    desc.rotary.pairs = 0, desc.rotary.cosines = own => must be 0 with HEED_ROTARY_NONE
    desc.rotary.pairs = 0, desc.rotary.sines = own => must be 0 with HEED_ROTARY_NONE
    with float64:
    desc.from.dtype | desc.to.dtype = 0 | f32 | bf16 | f16
      => must be HEED_DTYPE_F64 (2) as that of another tensor is
    with tables:
    desc.rotary.cosines | desc.rotary.sines = NULL
      => ; with desc.rotary.table_rows it must be a table
    desc.rotary.base = 10000.0 => must be 0 with tables
    desc.rotary.table_stride = 2 | -3 => must be 0 or at least 3
    desc.rotary.table_stride = 288230376151711743
      => desc.rotary.table_rows is 9, desc.rotary.table_stride is 288230376151711743; a table
      overflows an address
    desc.rotary.table_rows = 0
      => desc.rotary.cosines is 0x ... ; it must be NULL without desc.rotary.table_rows
    desc.position = 9 => must be 0 to 8, which the tables have
    desc.position = 6
      => desc.position + desc.rows - 1 is 9; it must be 0 to 8, which the tables have
    with positions:
    desc.position = 1 => must be 0 with positions
    positions[0] = -1 => positions[0][0] is -1; it must be 0 to 2^40
    positions[3] = 2^40+1, positions[6] = 2^40+1
      => positions[0][3] is 1099511627777; it must be 0 to 2^40
    positions[7] = least
      => positions[1][3] is -9223372036854775808; it must be 0 to 2^40
    with tables, positions:
    positions[5] = 9 => positions[1][1] is 9; it must be 0 to 8, which the tables have
  )");
}

// ---- Prepared matrices and projections ----

TEST_CASE("prepared matrices describe themselves", "[weights]") {
  for (const std::uint32_t arithmetic : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const std::int64_t matrices : {0, 1, 3}) {
      const heed_weights_info info = describe(prepared(serial(), 5, 6, arithmetic, matrices));
      const std::size_t bytes = arithmetic == HEED_DTYPE_F64 ? 8 : 4;
      CHECK(info.arithmetic == (bytes == 8 ? HEED_DTYPE_F64 : HEED_DTYPE_F32));
      CHECK(info.in == 5 * (matrices == 0 ? 1 : matrices));
      CHECK(info.out == 6);
      const auto numbers = static_cast<std::size_t>(info.in * info.out + info.out);
      CHECK(info.bytes >= numbers * bytes);
      CHECK(info.bytes <= 8 * numbers * bytes);  // a few that fill up blocks
    }
}

TEST_CASE("what a prepared matrix is made of", "[refused][weights]") {
  check_refused("matrix", R"(
    desc.matrices = -1 | least | 2^40+1 | most => must be 0 to 2^40
    desc.in | desc.out = -1 | 0 | least | 2^40+1 | most => must be 1 to 2^40
    desc.arithmetic = bf16 | f16 | 5 | 4294967295
      => must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)
    desc.layout = [30 6 1] => desc.layout.stride_matrix is 30; it must be 0: there is one
      matrix
    desc.layout = [0 6 -9223372036854775808] => desc.layout steps ... overflows an address
    desc.matrices desc.in = 2^40 => desc.layout has ... overflows an address
    desc.in desc.out = 2^40, desc.layout.stride_out = 1, desc.layout.reserved = explicit
      => desc. ... overflows an address
    desc.matrices = 1, desc.layout = [30 6 1] => ok
    desc.matrices = 2, desc.layout = [30 6 1] => ok
    bias = NULL => ok
    with desc.layout.dtype = bf16:
    matrix = +1 => must be a multiple of 2
    bias = +2 => must be a multiple of 4
    matrix = +2, bias = +4 => ok
  )");
}

TEST_CASE("tensors of a projection have no heads, and y does not overlap itself",
          "[refused][weights]") {
  std::string other_product;
  Changes more;
  Weights weights;
  if (heed_product_count() > 1) {
    heed_context_options options = serial_options();
    options.product = heed_product_name(1);
    weights = prepared(make_context(&options), 5, 6);
    more["other product"] = [&](Form& form) { form.weights = std::move(weights); };
    other_product =
        "    other product => weights is prepared with a context whose product is \"cblas\"; this "
        "context's is \"heed\"\n";
  }
  check_refused("project", other_product + R"(
    desc.batch | desc.rows = -1 | least | -2^40 | 2^40+1 | most => must be 0 to 2^40
    desc.x.stride_head = 20 => must be 0: it has no heads
    desc.y.stride_head = -1 => must be 0: it has no heads
    desc.batch desc.rows = 2^40
      => desc.x has 1099511627776 x 1 x 1099511627776 x 5 elements; that overflows an address
    desc.y = [24 0 5 1] => desc.y.stride_row is 5; it must exceed 5, or elements of the output
      overlap
    desc.x = [0 0 5 1] => ok
  )",
                more);
}
