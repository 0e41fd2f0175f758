// Merging partial results: heed_merge, which checks and runs in one call. What could be accepted
// but not allocated gets parts that are NULL.
#include "tests/oracle/merge.hpp"

#include "tests/fuzz/check.hpp"
#include "tests/problem/extent.hpp"

using namespace heed_test;

namespace {

heed_merge_desc draw_merge(Draw& draw) {
  heed_merge_desc d = HEED_MERGE_DESC_INIT;
  d.batch = draw.integer(0, 3);
  d.heads = draw.integer(0, 3);
  d.rows = draw.size(0);
  d.features = draw.one_in(16) ? draw.integer(200, 600) : draw.size(0);
  const Axes out = {d.batch, d.heads, d.rows, d.features};
  const Axes lse = {d.batch, d.heads, d.rows, 1};
  const auto real = [&] {
    return draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
  };
  d.out = draw.layout(out, Use::kWritten, draw.dtype());
  d.lse = draw.layout(lse, Use::kWritten, real());
  d.part_out = draw.one_in(4) ? d.out : draw.layout(out, Use::kRead, draw.dtype());
  d.part_lse = draw.one_in(4) ? d.lse : draw.layout(lse, Use::kRead, real());
  return d;
}

bool same(const heed_layout& a, const heed_layout& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

class MergeCase {
 public:
  explicit MergeCase(const heed_merge_desc& d)
      : d_(d),
        part_out_(shape(d.features), d.part_out, HEED_DTYPE_F32, false),
        part_lse_(shape(1), d.part_lse, HEED_DTYPE_F32, false),
        out_(shape(d.features), d.out, HEED_DTYPE_F32, false),
        lse_(shape(1), d.lse, HEED_DTYPE_F32, false) {}

  bool every(bool (Extent::*is)() const) const {
    return (part_out_.*is)() && (part_lse_.*is)() && (out_.*is)() && (lse_.*is)();
  }
  bool possible() const { return every(&Extent::possible) && every(&Extent::addressable); }
  bool small() const { return every(&Extent::small); }
  bool apart() const { return out_.apart() && lse_.apart(); }

  void make(Draw& draw) {
    Random random(draw.bits());
    const double spread = draw.pick<double>({0, 3, 300, 1e5});
    for (std::int64_t n = draw.integer(0, 4); n > 0; --n) {
      outs.push_back(part_out_.tensor(static_cast<std::size_t>(n % 3)));
      outs.back().fill([&] { return random.normal(); });
      lses.push_back(part_lse_.tensor(static_cast<std::size_t>(n % 2)));
      lses.back().fill([&] { return static_cast<double>(random.normal()) * spread; });
    }
    if (outs.empty() || !draw.one_in(4)) return;
    draw.plant({&outs.front(), &lses.front(), &lses.back()});
  }

  /// Of a descriptor that was not damaged, or that may be valid nevertheless.
  void run(Draw& draw, const heed_merge_desc* given, bool valid) {
    make(draw);
    std::vector<const void*> part_outs;
    std::vector<const void*> part_lses;
    for (const Tensor& tensor : outs) part_outs.push_back(tensor.data());
    for (const Tensor& tensor : lses) part_lses.push_back(tensor.data());
    const bool damaged = !outs.empty() && draw.one_in(16);
    if (damaged) (draw.one_in(2) ? part_outs : part_lses)[0] = nullptr;
    out.emplace(out_.tensor(0));
    lse.emplace(lse_.tensor(1));
    const bool in_place = !outs.empty() && !damaged && same(d_.out, d_.part_out) &&
                          same(d_.lse, d_.part_lse) && draw.one_in(2);
    if (in_place) out.emplace(outs.back());
    if (in_place) lse.emplace(lses.back());
    if (in_place) part_outs.back() = out->data();
    if (in_place) part_lses.back() = lse->data();
    const bool with_lse = in_place || draw.one_in(2);
    const heed_status status =
        heed_merge(fuzz_context().get(), given, outs.size(), part_outs.data(), part_lses.data(),
                   out->data(), with_lse ? lse->data() : nullptr);
    if (status != HEED_STATUS_OK) {
      if (valid && !damaged && !outs.empty()) check_accepted(status);
      check_refused(status, {"desc.", "part_", "parts "});
      if (!in_place) check_untouched(*out);
      if (!in_place) check_untouched(*lse);
      return;
    }
    demand(possible() && apart(), "a merge that cannot be is accepted");
    demand(!outs.empty(), "a merge of no parts is accepted");
    const MergeExpected want = expect_merge(d_, sources_of(outs), sources_of(lses));
    check_equal("out", *out, want.out);
    if (with_lse) return check_equal("lse", *lse, want.lse);
    check_untouched(*lse);
  }

 private:
  Axes shape(std::int64_t features) const { return {d_.batch, d_.heads, d_.rows, features}; }

  const heed_merge_desc d_;
  Extent part_out_, part_lse_, out_, lse_;
  std::vector<Tensor> outs, lses;
  std::optional<Tensor> out, lse;
};

void merge(Draw& draw, heed_merge_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_merge_desc> given(draw, desc);
  MergeCase merge(given.known());
  if (merge.possible() && merge.small())
    return merge.run(draw, given.get(), !damaged && !given.odd());
  const void* const parts[] = {nullptr};
  const heed_status status =
      heed_merge(fuzz_context().get(), given.get(), 1, parts, parts, nullptr, nullptr);
  demand(status != HEED_STATUS_OK, "parts that have elements may not be NULL");
  check_refused(status, {"desc.", "part_", "parts "});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_merge_desc valid = draw_merge(first);
  each_variant(first, [&](Draw& draw, bool damaged) { merge(draw, valid, damaged); });
  return 0;
}
