// Refusals of heed_rotate that are not of every field of a kind, and what it is given for nothing.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void give_tables(RotateForm& form) { form.give_tables(); }
void give_positions(RotateForm& form) { form.give_positions(); }

}  // namespace

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
       {"desc.rotary.table_rows", kMost + 2, "must be 0 to 1099511627777"}});
  check_accepted<RotateForm>(with("desc.rotary.features", 6));
  check_accepted<RotateForm>(with("desc.rotary.base", 1e-256));
}

TEST_CASE("HEED_ROTARY_NONE is refused whatever is given with it", "[refused][rotate]") {
  const auto none = [](const char* field, const Value& value, const char* bound) {
    const auto change = with(field, value);
    return Refusal<RotateForm>(
        [change](RotateForm& form) {
          form.desc.rotary.pairs = HEED_ROTARY_NONE;
          change(form);
        },
        std::string(field) + " is " + value.is() + " ... ; it must be 0 with " + bound);
  };
  check_refused<RotateForm>({none("desc.rotary.features", 4, "HEED_ROTARY_NONE"),
                             none("desc.rotary.table_rows", 1, "HEED_ROTARY_NONE"),
                             none("desc.rotary.table_stride", 3, "HEED_ROTARY_NONE"),
                             none("desc.rotary.base", 5.0, "HEED_ROTARY_NONE")});
  for (const char* const table : {"desc.rotary.cosines", "desc.rotary.sines"})
    check_refused<RotateForm>({{[table](RotateForm& form) {
                                  form.desc.rotary.pairs = HEED_ROTARY_NONE;
                                  set(form, table, kGiven);
                                },
                                std::string(table) + " is 0x ... ; it must be 0 with"}});
}

TEST_CASE("tables come in pairs and instead of a base", "[refused][rotate]") {
  check_refused<RotateForm>(
      give_tables,
      {{"desc.rotary.cosines", kNull, "with desc.rotary.table_rows it must be a table"},
       {"desc.rotary.sines", kNull, "with desc.rotary.table_rows it must be a table"},
       {"desc.rotary.base", 10000.0, "must be 0 with tables"},
       {"desc.rotary.table_stride", 2, "must be 0 or at least 3"},
       {"desc.rotary.table_stride", -3, "must be 0 or at least 3"},
       {with("desc.rotary.table_stride", INT64_MAX / 32),
        "desc.rotary.table_rows is 9, desc.rotary.table_stride is 288230376151711743; a table "
        "overflows an address"},
       {[](RotateForm& form) { form.desc.rotary.table_rows = 0; },
        "desc.rotary.cosines is 0x ... ; it must be NULL without desc.rotary.table_rows"}});
  check_refused<RotateForm>(
      {{[](RotateForm& form) { form.desc.rotary.sines = form.tables; },
        "desc.rotary.sines is 0x ... ; it must be NULL without desc.rotary.table_rows"},
       {"desc.rotary.table_stride", 3, "must be 0 without desc.rotary.table_rows"}});
}

TEST_CASE("positions have bounds", "[refused][rotate]") {
  check_refused<RotateForm>(
      {{"desc.position", -1, "must be 0 to 1099511627776"},
       {"desc.position", INT64_MIN, "must be 0 to 1099511627776"},
       {"desc.position", INT64_MAX, "must be 0 to 1099511627776"},
       {with("desc.position", kMost - 2),
        "desc.position + desc.rows - 1 is 1099511627777; it must be 0 to 1099511627776"}});
  check_accepted<RotateForm>(with("desc.position", kMost - 3));
  check_refused<RotateForm>(
      give_tables,
      {{"desc.position", 9, "must be 0 to 8, which the tables have"},
       {with("desc.position", 6),
        "desc.position + desc.rows - 1 is 9; it must be 0 to 8, which the tables have"}});
  check_refused<RotateForm>(
      give_positions,
      {{"desc.position", 1, "must be 0 with positions"},
       {[](RotateForm& form) { form.given_positions[0] = -1; },
        "positions[0][0] is -1; it must be 0 to 1099511627776"},
       {[](RotateForm& form) { form.given_positions[3] = form.given_positions[6] = kMost + 1; },
        "positions[0][3] is 1099511627777; it must be 0 to 1099511627776"},
       {[](RotateForm& form) { form.given_positions[7] = INT64_MIN; },
        "positions[1][3] is -9223372036854775808; it must be 0 to 1099511627776"}});
  check_refused<RotateForm>([](RotateForm& form) { form.give_tables(), form.give_positions(); },
                            {{[](RotateForm& form) { form.given_positions[5] = 9; },
                              "positions[1][1] is 9; it must be 0 to 8, which the tables have"}});
}

TEST_CASE("float64 is turned into float64 only", "[refused][rotate]") {
  const auto float64 = [](RotateForm& form) {
    form.desc.from.dtype = form.desc.to.dtype = HEED_DTYPE_F64;
  };
  for (const char* const field : {"desc.from.dtype", "desc.to.dtype"})
    for (const heed_dtype dtype :
         {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      check_refused<RotateForm>(
          float64, {{field, dtype, "must be HEED_DTYPE_F64 (2) as that of another tensor is"}});
}

TEST_CASE("tensors of a rotation are given, fit an address and do not overlap themselves",
          "[refused][rotate]") {
  check_refused<RotateForm>(
      {{"from", kNull, "its tensor has elements"},
       {"to", kNull, "its tensor has elements"},
       {[](RotateForm& form) { form.desc.batch = form.desc.rows = kMost; },
        "desc.from has 1099511627776 x 3 x 1099511627776 x 6 elements; that overflows"},
       {[](RotateForm& form) { form.desc.to = {0, 0, 72, 24, 5, 1}; },
        "desc.to.stride_row is 5; it must exceed 5"}});
  check_accepted<RotateForm>(  // inputs may repeat
      [](RotateForm& form) { form.desc.from = {0, 0, 0, 0, 6, 1}; });
}

TEST_CASE("sizes of 0 in a rotation: nothing to do, and no pointer is looked at",
          "[refused][rotate]") {
  for (const char* const size : {"desc.batch", "desc.heads", "desc.rows"}) {
    RotateForm form;
    set(form, size, 0);
    form.give_positions();
    form.given_positions[0] = -1;
    form.from = form.to = nullptr;
    hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
  }
}

TEST_CASE("memory that a rotation cannot have is told", "[refused][rotate]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(&allocator);
  const Context context = make_context(&options);
  const std::size_t held = memory.live();
  RotateForm form;
  memory.restart();
  CHECK(one_call(context, form) == HEED_STATUS_OK);
  const std::size_t requests = memory.requests();
  CHECK(requests > 0);
  for (std::size_t refused = 0; refused < requests; ++refused) {
    form.out = Bytes(kPattern);
    memory.restart(refused);
    forget_last_error();
    check_refusal(one_call(context, form), HEED_STATUS_OUT_OF_MEMORY,
                  "the allocator returned NULL");
    CHECK(form.outputs_untouched());
    CHECK(memory.live() == held);
  }
  CHECK(memory.sound());
}
