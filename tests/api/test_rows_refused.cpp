// Refusals of merges, rotations, prepared matrices and projections that are not of every field of a
// kind.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

// ---- Merges ----

TEST_CASE("a merge has parts, and every part its pointers", "[refused][merge]") {
  check_refused<MergeForm>(
      {{"parts", 0, "must be at least 1"},
       {[](MergeForm& f) { f.outs = nullptr; }, "part_outs is NULL"},
       {[](MergeForm& f) { f.lses = nullptr; }, "part_lses is NULL"},
       {[](MergeForm& f) { f.desc.batch = f.desc.rows = kMost; },
        "desc.part_out has 1099511627776 x 3 x 1099511627776 x 5 elements; that overflows"},
       {[](MergeForm& f) { f.desc.lse = {0, 0, 12, 3, 1, 0}; },
        "desc.lse.stride_head is 3; it must exceed 3"}});
  for (const auto& change : {with("parts", 1), with("lse", kNull)})
    check_accepted<MergeForm>(change);
  check_accepted<MergeForm>(  // inputs may repeat
      [](MergeForm& f) { f.desc.part_out = {0, 0, 0, 0, 5, 1}; });
  check_refused<MergeForm>(with("desc.part_out.dtype", HEED_DTYPE_F64),
                           {{"part_outs[1]", moved(4), "must be a multiple of 8"},
                            {"part_lses[0]", moved(1), "must be a multiple of 4"}});
  check_refused<MergeForm>(
      with("desc.out.dtype", HEED_DTYPE_F16),
      {{"out", moved(1), "must be a multiple of 2"}, {"lse", moved(2), "must be a multiple of 4"}});
}

TEST_CASE("an executor that merges nothing is found out", "[merge]") {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 4;
  executor.run = [](void*, std::uint32_t, void (*)(void*, std::uint32_t), void*) {};
  const std::vector<float> part(4000 * 64, 1.0F);
  std::vector<float> out(part.size());
  MergeForm form;
  form.desc = HEED_MERGE_DESC_INIT;
  form.desc.batch = form.desc.heads = 1;
  form.desc.rows = 4000;
  form.desc.features = 64;
  for (int i = 0; i < 3; ++i) form.part_outs[i] = form.part_lses[i] = part.data();
  form.to_out = out.data();
  form.to_lse = nullptr;
  check_refusal(one_call(context_with(executor), form), HEED_STATUS_EXECUTOR_FAILED,
                "the executor \"caller\" ran 0 of ");
}

// ---- Rotations ----

TEST_CASE("what turns rows makes sense", "[refused][rotate]") {
  check_refused<RotateForm>(
      {{"desc.rotary.pairs", HEED_ROTARY_NONE,
        "must be HEED_ROTARY_HALVES (1) or HEED_ROTARY_INTERLEAVED (2)"},
       {"desc.rotary.features", 1, "must be even, 0 to 6"},
       {"desc.rotary.features", 3, "must be even, 0 to 6"},
       {"desc.rotary.features", 8, "must be even, 0 to 6"},
       {"desc.rotary.features", -2, "must be even, 0 to 6"},
       {"desc.rotary.features", INT64_MIN, "must be even, 0 to 6"},
       {with("desc.features", 5),
        "desc.rotary.features is 0, for all 5 of a row; that must be even"},
       {"desc.rotary.base", -1.0, "must be finite and at least 1e-256, or 0 for the default 10000"},
       {"desc.rotary.base", 1e-257, "must be finite and at least 1e-256"},
       {"desc.rotary.base", kInfinity, "must be finite and at least 1e-256"},
       {"desc.rotary.base", -kInfinity, "must be finite and at least 1e-256"},
       {"desc.rotary.base", kNan, "must be finite and at least 1e-256"},
       {"desc.rotary.table_rows", -1, "must be 0 to 1099511627777"},
       {"desc.rotary.table_rows", kMost + 2, "must be 0 to 1099511627777"},
       {[](RotateForm& f) { f.desc.batch = f.desc.rows = kMost; },
        "desc.from has 1099511627776 x 3 x 1099511627776 x 6 elements; that overflows"}});
  check_accepted<RotateForm>(with("desc.rotary.features", 6));
  check_accepted<RotateForm>(with("desc.rotary.base", 1e-256));
  check_accepted<RotateForm>(  // inputs may repeat
      [](RotateForm& f) { f.desc.from = {0, 0, 0, 0, 6, 1}; });
  const std::pair<const char*, Value> with_none[] = {{"features", 4},     {"table_rows", 1},
                                                     {"table_stride", 3}, {"base", 5.0},
                                                     {"cosines", kGiven}, {"sines", kGiven}};
  for (const auto& [name, value] : with_none) {
    const std::string field = std::string("desc.rotary.") + name;
    check_refused<RotateForm>({{[&, &value = value](RotateForm& f) {
                                  f.desc.rotary.pairs = HEED_ROTARY_NONE;
                                  set(f, field, value);
                                },
                                field + " is " + (value.is() == "given" ? "0x" : value.is()) +
                                    " ... ; it must be 0 with HEED_ROTARY_NONE"}});
  }
}

TEST_CASE("tables come in pairs and instead of a base", "[refused][rotate]") {
  check_refused<RotateForm>(
      &RotateForm::give_tables,
      {{"desc.rotary.cosines", kNull, "with desc.rotary.table_rows it must be a table"},
       {"desc.rotary.sines", kNull, "with desc.rotary.table_rows it must be a table"},
       {"desc.rotary.base", 10000.0, "must be 0 with tables"},
       {"desc.rotary.table_stride", 2, "must be 0 or at least 3"},
       {"desc.rotary.table_stride", -3, "must be 0 or at least 3"},
       {with("desc.rotary.table_stride", INT64_MAX / 32),
        "desc.rotary.table_rows is 9, desc.rotary.table_stride is 288230376151711743; a table "
        "overflows an address"},
       {with("desc.rotary.table_rows", 0),
        "desc.rotary.cosines is 0x ... ; it must be NULL without desc.rotary.table_rows"}});
  check_refused<RotateForm>(
      {{with("desc.rotary.sines", kGiven),
        "desc.rotary.sines is 0x ... ; it must be NULL without desc.rotary.table_rows"},
       {"desc.rotary.table_stride", 3, "must be 0 without desc.rotary.table_rows"}});
}

TEST_CASE("positions have bounds", "[refused][rotate]") {
  const auto stand = [](int row, std::int64_t position) {
    return [=](RotateForm& f) { f.given_positions[row] = position; };
  };
  check_refused<RotateForm>(
      {{"desc.position", -1, "must be 0 to 1099511627776"},
       {"desc.position", INT64_MIN, "must be 0 to 1099511627776"},
       {"desc.position", INT64_MAX, "must be 0 to 1099511627776"},
       {with("desc.position", kMost - 2),
        "desc.position + desc.rows - 1 is 1099511627777; it must be 0 to 1099511627776"}});
  check_accepted<RotateForm>(with("desc.position", kMost - 3));
  check_refused<RotateForm>(
      &RotateForm::give_tables,
      {{"desc.position", 9, "must be 0 to 8, which the tables have"},
       {with("desc.position", 6),
        "desc.position + desc.rows - 1 is 9; it must be 0 to 8, which the tables have"}});
  check_refused<RotateForm>(
      &RotateForm::give_positions,
      {{"desc.position", 1, "must be 0 with positions"},
       {stand(0, -1), "positions[0][0] is -1; it must be 0 to 1099511627776"},
       {[&](RotateForm& f) { stand(3, kMost + 1)(f), stand(6, kMost + 1)(f); },
        "positions[0][3] is 1099511627777; it must be 0 to 1099511627776"},
       {stand(7, INT64_MIN),
        "positions[1][3] is -9223372036854775808; it must be 0 to 1099511627776"}});
  check_refused<RotateForm>(
      [](RotateForm& f) { f.give_tables(), f.give_positions(); },
      {{stand(5, 9), "positions[1][1] is 9; it must be 0 to 8, which the tables have"}});
}

TEST_CASE("float64 is turned into float64 only", "[refused][rotate]") {
  for (const std::string field : {"desc.from.dtype", "desc.to.dtype"})
    for (const heed_dtype dtype :
         {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      check_refused<RotateForm>(
          &RotateForm::all_float64,
          {{field, dtype, "must be HEED_DTYPE_F64 (2) as that of another tensor is"}});
}

TEMPLATE_TEST_CASE("sizes of 0: nothing to do, and no pointer is looked at", "[refused]", MergeForm,
                   RotateForm, ProjectForm) {
  for (const std::string size : {"desc.batch", "desc.heads", "desc.rows"}) {
    TestType form;
    if (size == "desc.heads" && std::is_same_v<TestType, ProjectForm>) continue;
    set(form, size, 0);
    for (const Tensor& tensor : tensors_of(form)) tensor.point_at(nullptr);
    if constexpr (std::is_same_v<TestType, MergeForm>) form.outs = form.lses = nullptr;
    if constexpr (std::is_same_v<TestType, RotateForm>) {
      form.give_positions();
      form.given_positions[0] = -1;
    }
    hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
  }
}

// ---- Prepared matrices and projections ----

TEST_CASE("prepared matrices describe themselves", "[weights]") {
  for (const std::uint32_t arithmetic : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const std::int64_t matrices : {0, 1, 3}) {
      MatrixForm form;
      form.desc.arithmetic = arithmetic;
      form.desc.matrices = matrices;
      hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
      const heed_weights_info& info = form.info;
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
  const char* const types = "must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)";
  const auto layout = [](std::int64_t matrix, std::int64_t in, std::int64_t out) {
    return [=](MatrixForm& f) { f.desc.layout = {0, 0, matrix, in, out}; };
  };
  check_refused<MatrixForm>(
      {{"desc.arithmetic", HEED_DTYPE_BF16, types},
       {"desc.arithmetic", HEED_DTYPE_F16, types},
       {"desc.arithmetic", 5, types},
       {"desc.arithmetic", 0xffffffffU, types},
       {layout(30, 6, 1), "desc.layout.stride_matrix is 30; it must be 0"},
       {layout(0, 6, INT64_MIN), "desc.layout steps ... overflows an address"},
       {[](MatrixForm& f) { f.desc.matrices = f.desc.in = kMost; },
        "desc.layout has ... overflows an address"},
       {[](MatrixForm& f) {
          f.desc.in = f.desc.out = kMost;
          f.desc.layout.stride_out = 1;
          f.desc.layout.reserved = HEED_STRIDES_EXPLICIT;
        },
        "desc. ... overflows an address"}});
  for (const int matrices : {1, 2})
    check_accepted<MatrixForm>(
        [=](MatrixForm& f) { layout(30, 6, 1)(f), f.desc.matrices = matrices; });
  check_accepted<MatrixForm>(with("bias", kNull));
  const ChangeOf<MatrixForm> narrow = with("desc.layout.dtype", HEED_DTYPE_BF16);
  check_refused<MatrixForm>(narrow, {{"matrix", moved(1), "must be a multiple of 2"},
                                     {"bias", moved(2), "must be a multiple of 4"}});
  check_accepted<MatrixForm>(
      [&](MatrixForm& f) { narrow(f), set(f, "matrix", moved(2)), set(f, "bias", moved(4)); });
}

TEST_CASE("tensors of a projection have no heads, and y does not overlap itself",
          "[refused][weights]") {
  check_refused<ProjectForm>(
      {{"desc.x.stride_head", 20, "must be 0: it has no heads"},
       {"desc.y.stride_head", -1, "must be 0: it has no heads"},
       {[](ProjectForm& f) { f.desc.batch = f.desc.rows = kMost; },
        "desc.x has 1099511627776 x 1 x 1099511627776 x 5 elements; that overflows"},
       {[](ProjectForm& f) { f.desc.y = {0, 0, 24, 0, 5, 1}; },
        "desc.y.stride_row is 5; it must exceed 5"}});
  check_accepted<ProjectForm>(  // inputs may repeat
      [](ProjectForm& f) { f.desc.x = {0, 0, 0, 0, 5, 1}; });
  if (heed_product_count() < 2) return;
  heed_context_options options = serial_options();
  options.product = heed_product_name(1);
  const Context other = make_context(&options);
  check_refused<ProjectForm>(
      {{[&](ProjectForm& f) { f.prepare(other); },
        "weights is prepared with a context whose product is \"cblas\"; this context's is "
        "\"heed\""}});
}
