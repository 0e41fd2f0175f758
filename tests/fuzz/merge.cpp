// Merging partial results: heed_merge, which checks and runs in one call. What could be accepted
// but not allocated gets parts that are NULL.
#include "tests/problem/merge.hpp"

#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

constexpr std::initializer_list<const char*> kFields = {"desc.", "part_", "parts "};

bool same(const heed_layout& a, const heed_layout& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Of a descriptor that was not damaged, or that may be valid nevertheless.
void run(Draw& draw, const heed_merge_desc* given, Merge& m, bool valid) {
  draw_numbers(draw, m);
  Merge::Parts parts = m.parts();
  const bool some = !m.outs.empty();
  const bool damaged = some && draw.one_in(16);
  if (damaged) (draw.one_in(2) ? parts.outs : parts.lses)[0] = nullptr;
  const bool in_place = some && !damaged && same(m.desc.out, m.desc.part_out) &&
                        same(m.desc.lse, m.desc.part_lse) && draw.one_in(2);
  if (in_place) {
    m.out = Tensor(m.outs.back());
    m.lse = Tensor(m.lses.back());
    parts.outs.back() = m.out.data();
    parts.lses.back() = m.lse.data();
  }
  const bool with_lse = in_place || draw.one_in(2);
  const heed_status status =
      heed_merge(fuzz_context().get(), given, m.outs.size(), parts.outs.data(), parts.lses.data(),
                 m.out.data(), with_lse ? m.lse.data() : nullptr);
  if (status != HEED_STATUS_OK) {
    if (valid && !damaged && some) check_accepted(status);
    check_refused(status, kFields);
    if (!in_place) check_untouched(m.out);
    if (!in_place) check_untouched(m.lse);
    return;
  }
  small(LaidOutMerge(m.desc).all());  // which demands that elements of outputs lie apart
  demand(some, "a merge of no parts is accepted");
  const Expected want = m.expected();
  check_equal("out", m.out, want.out);
  if (with_lse) return check_equal("lse", m.lse, want.lse);
  check_untouched(m.lse);
}

void merge(Draw& draw, heed_merge_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_merge_desc> given(draw, desc);
  heed_merge_desc known = given.known();
  if (may_be_small(LaidOutMerge(known).all())) {
    Merge m = Merge::of(known, draw.index(5), draw.index(4));
    return run(draw, given.get(), m, !damaged && !given.odd());
  }
  const void* const parts[] = {nullptr};
  const heed_status status =
      heed_merge(fuzz_context().get(), given.get(), 1, parts, parts, nullptr, nullptr);
  demand(status != HEED_STATUS_OK, "parts that have elements may not be NULL");
  check_refused(status, kFields);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_merge_desc valid = draw_merge_desc(first);
  each_variant(first, [&](Draw& draw, bool damaged) { merge(draw, valid, damaged); });
  return 0;
}
