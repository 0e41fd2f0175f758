// Every refusal of heed_merge.
#include <cstddef>

#include "tests/api/support.hpp"

using namespace api_test;

namespace {

/// Three parts [2, 3, 4, 5] and their outputs.
struct Merge {
  Merge() {
    desc.batch = 2;
    desc.heads = 3;
    desc.rows = 4;
    desc.features = 5;
  }
  Merge(const Merge&) = delete;  // its parts point into it
  Merge& operator=(const Merge&) = delete;

  heed_status run(const Context& context) {
    return heed_merge(context.get(), &desc, count, outs, lses, to_out, to_lse);
  }
  bool untouched() const {
    for (const double x : out)
      if (x != kUntouched) return false;
    for (const double x : lse)
      if (x != kUntouched) return false;
    return true;
  }

  static constexpr double kUntouched = -12345.678;
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  std::size_t count = 3;
  std::vector<double> part_out = std::vector<double>(200, 1.0);
  std::vector<double> part_lse = std::vector<double>(40, 0.0);
  std::vector<double> out = std::vector<double>(200, kUntouched);
  std::vector<double> lse = std::vector<double>(40, kUntouched);
  const void* part_outs[3] = {part_out.data(), part_out.data(), part_out.data()};
  const void* part_lses[3] = {part_lse.data(), part_lse.data(), part_lse.data()};
  const void* const* outs = part_outs;
  const void* const* lses = part_lses;
  void* to_out = out.data();
  void* to_lse = lse.data();
};

void* advanced(const void* pointer, std::size_t bytes) {
  return static_cast<char*>(const_cast<void*>(pointer)) + bytes;
}

template <class Change>
void check_refused(Change change, std::initializer_list<const char*> parts) {
  const Context context = make_context(nullptr, "serial", 1);
  Merge merge;
  change(merge);
  forget_last_error();
  check_refusal(merge.run(context), HEED_STATUS_INVALID_ARGUMENT, parts);
  CHECK(merge.untouched());
}

template <class Change>
void check_accepted(Change change) {
  const Context context = make_context(nullptr, "serial", 1);
  Merge merge;
  change(merge);
  const heed_status status = merge.run(context);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
}

}  // namespace

TEST_CASE("a merge that is refused here is refused for one reason", "[merge]") {
  check_accepted([](Merge&) {});
  check_accepted([](Merge& m) { m.to_lse = nullptr; });
  check_accepted([](Merge& m) { m.count = 1; });
}

TEST_CASE("NULL is refused by a merge", "[merge]") {
  Merge merge;
  const Context context = make_context(nullptr, "serial", 1);
  forget_last_error();
  check_refusal(heed_merge(nullptr, &merge.desc, 3, merge.outs, merge.lses, merge.to_out, nullptr),
                HEED_STATUS_INVALID_ARGUMENT, {"context", "NULL"});
  forget_last_error();
  check_refusal(
      heed_merge(context.get(), nullptr, 3, merge.outs, merge.lses, merge.to_out, nullptr),
      HEED_STATUS_INVALID_ARGUMENT, {"desc", "NULL"});
  CHECK(merge.untouched());
  check_refused([](Merge& m) { m.outs = nullptr; }, {"part_outs is NULL"});
  check_refused([](Merge& m) { m.lses = nullptr; }, {"part_lses is NULL"});
  check_refused([](Merge& m) { m.part_outs[1] = nullptr; }, {"part_outs[1]", "NULL"});
  check_refused([](Merge& m) { m.part_lses[2] = nullptr; }, {"part_lses[2]", "NULL"});
  check_refused([](Merge& m) { m.to_out = nullptr; }, {"out", "NULL"});
}

TEST_CASE("a merge has at least one part", "[merge]") {
  check_refused([](Merge& m) { m.count = 0; }, {"parts is 0", "at least 1"});
}

TEST_CASE("sizes of a merge", "[merge]") {
  struct Size {
    const char* name;
    std::int64_t heed_merge_desc::*field;
  };
  for (const Size& size :
       {Size{"desc.batch", &heed_merge_desc::batch}, Size{"desc.heads", &heed_merge_desc::heads},
        Size{"desc.rows", &heed_merge_desc::rows},
        Size{"desc.features", &heed_merge_desc::features}})
    for (const std::int64_t value :
         {std::int64_t{-1}, INT64_MIN, (std::int64_t{1} << 40) + 1, INT64_MAX}) {
      const std::string field = std::string(size.name) + " is " + std::to_string(value);
      check_refused([&](Merge& m) { m.desc.*size.field = value; },
                    {field.c_str(), "0 to 1099511627776"});
    }
  check_refused([](Merge& m) { m.desc.batch = m.desc.rows = std::int64_t{1} << 40; },
                {"desc.part_out", "overflows"});
}

TEST_CASE("sizes of 0 in a merge: nothing to do, and no pointer is looked at", "[merge]") {
  for (std::int64_t heed_merge_desc::*const size :
       {&heed_merge_desc::batch, &heed_merge_desc::heads, &heed_merge_desc::rows})
    check_accepted([&](Merge& m) {
      m.desc.*size = 0;
      m.outs = m.lses = nullptr;
      m.to_out = m.to_lse = nullptr;
    });
}

TEST_CASE("types and layouts of a merge", "[merge]") {
  struct Layout {
    const char* name;
    heed_layout heed_merge_desc::*layout;
  };
  const Layout layouts[] = {{"desc.part_out", &heed_merge_desc::part_out},
                            {"desc.part_lse", &heed_merge_desc::part_lse},
                            {"desc.out", &heed_merge_desc::out},
                            {"desc.lse", &heed_merge_desc::lse}};
  for (const Layout& layout : layouts) {
    const std::string name = layout.name;
    check_refused([&](Merge& m) { (m.desc.*layout.layout).dtype = 5; },
                  {(name + ".dtype is 5").c_str(), "0 to 4"});
    check_refused([&](Merge& m) { (m.desc.*layout.layout).reserved = 9; },
                  {(name + ".reserved is 9").c_str(), "must be 0"});
    check_refused([&](Merge& m) { (m.desc.*layout.layout).stride_row = INT64_MAX; },
                  {name.c_str(), "overflows"});
  }
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16})
    for (const Layout* const layout : {&layouts[1], &layouts[3]}) {
      const std::string field = std::string(layout->name) + ".dtype is " + std::to_string(dtype);
      check_refused([&](Merge& m) { (m.desc.*layout->layout).dtype = dtype; },
                    {field.c_str(), "HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)"});
    }
  check_refused([](Merge& m) { m.desc.reserved = 7; }, {"desc.reserved is 7", "must be 0"});
}

TEST_CASE("outputs of a merge whose elements overlap are refused", "[merge]") {
  check_refused([](Merge& m) { m.desc.out = {0, 0, 60, 20, 4, 1}; },
                {"desc.out.stride_row is 4", "exceed 4"});
  check_refused([](Merge& m) { m.desc.lse = {0, 0, 12, 3, 1, 0}; },
                {"desc.lse.stride_head is 3", "exceed 3"});
  check_accepted([](Merge& m) { m.desc.part_out = {0, 0, 0, 0, 5, 1}; });  // inputs may repeat
}

TEST_CASE("misaligned pointers of a merge are refused", "[merge]") {
  check_refused([](Merge& m) { m.part_outs[2] = advanced(m.part_outs[2], 2); },
                {"part_outs[2]", "multiple of 4"});
  check_refused([](Merge& m) { m.part_lses[0] = advanced(m.part_lses[0], 1); },
                {"part_lses[0]", "multiple of 4"});
  check_refused(
      [](Merge& m) {
        m.desc.part_out.dtype = HEED_DTYPE_F64;
        m.part_outs[1] = advanced(m.part_outs[1], 4);
      },
      {"part_outs[1]", "multiple of 8"});
  check_refused([](Merge& m) { m.to_out = advanced(m.to_out, 2); }, {"out is ", "multiple of 4"});
  check_refused([](Merge& m) { m.to_lse = advanced(m.to_lse, 2); }, {"lse is ", "multiple of 4"});
  check_refused(
      [](Merge& m) {
        m.desc.out.dtype = HEED_DTYPE_F16;
        m.to_out = advanced(m.to_out, 1);
      },
      {"out is ", "multiple of 2"});
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
                HEED_STATUS_EXECUTOR_FAILED, {"executor", "ran 0 of "});
}
