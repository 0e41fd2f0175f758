// Refusals of heed_merge that are not of every field of a kind, and what it is given for nothing.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

TEST_CASE("a merge has parts, and every part its pointers", "[refused][merge]") {
  check_refused<MergeForm>(
      {{"parts", 0, "must be at least 1"},
       {[](MergeForm& form) { form.outs = nullptr; }, "part_outs is NULL"},
       {[](MergeForm& form) { form.lses = nullptr; }, "part_lses is NULL"},
       {"part_outs[1]", kNull, "its tensor has elements"},
       {"part_lses[2]", kNull, "its tensor has elements"},
       {"out", kNull, "its tensor has elements"},
       {[](MergeForm& form) { form.desc.batch = form.desc.rows = kMost; },
        "desc.part_out has 1099511627776 x 3 x 1099511627776 x 5 elements; that overflows"}});
  check_accepted<MergeForm>(with("parts", 1));
  check_accepted<MergeForm>(with("lse", kNull));
}

TEST_CASE("sizes of 0 in a merge: nothing to do, and no pointer is looked at", "[refused][merge]") {
  for (const char* const size : {"desc.batch", "desc.heads", "desc.rows"}) {
    MergeForm form;
    set(form, size, 0);
    form.outs = form.lses = nullptr;
    form.to_out = form.to_lse = nullptr;
    hand_in(form, false, [](heed_status status) { CHECK(status == HEED_STATUS_OK); });
  }
}

TEST_CASE("outputs of a merge whose elements overlap are refused", "[refused][merge]") {
  check_refused<MergeForm>({{[](MergeForm& form) { form.desc.out = {0, 0, 60, 20, 4, 1}; },
                             "desc.out.stride_row is 4; it must exceed 4"},
                            {[](MergeForm& form) { form.desc.lse = {0, 0, 12, 3, 1, 0}; },
                             "desc.lse.stride_head is 3; it must exceed 3"}});
  check_accepted<MergeForm>(  // inputs may repeat
      [](MergeForm& form) { form.desc.part_out = {0, 0, 0, 0, 5, 1}; });
}

TEST_CASE("pointers of a merge are aligned to the types of their own tensors", "[refused][merge]") {
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
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  const Context context = make_context(&options);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = desc.heads = 1;
  desc.rows = 4000;
  desc.features = 64;
  const std::vector<float> part(4000 * 64, 1.0F);
  std::vector<float> out(part.size());
  const void* const outs[] = {part.data(), part.data()};
  forget_last_error();
  check_refusal(heed_merge(context.get(), &desc, 2, outs, outs, out.data(), nullptr),
                HEED_STATUS_EXECUTOR_FAILED, "the executor \"caller\" ran 0 of ");
}
