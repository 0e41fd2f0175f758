#include "tests/problem/merge.hpp"

#include <sstream>
#include <stdexcept>

namespace heed_test {
namespace {

heed_merge_desc described(const Axes& shape, const Form& of_out, const Form& of_lse) {
  heed_merge_desc d = HEED_MERGE_DESC_INIT;
  d.batch = shape[0];
  d.heads = shape[1];
  d.rows = shape[2];
  d.features = shape[3];
  LaidOutMerge(d).out.arrange(of_out.arrangement, of_out.dtype);
  LaidOutMerge(d).lse.arrange(of_lse.arrangement, of_lse.dtype);
  d.part_out = d.out;
  d.part_lse = d.lse;
  return d;
}

/// Some rows of parts over no keys, which may hold anything.
void empty_parts(Draw& draw, Merge& m) {
  const auto percent = draw.pick<std::int64_t>({10, 50, 90, 100});
  for (Tensor& lse : m.lses)
    lse.set_where([&](const Axes&) { return draw.integer(0, 99) < percent; }, -kInfinity);
  const double held = draw.one_in(2) ? kNaN : kInfinity;
  for (std::size_t k = 0; k < m.outs.size(); ++k) {
    if (m.outs[k].repeats()) continue;  // others' rows too
    m.outs[k].set_where(
        [&](const Axes& at) {
          return m.lses[k].get({at[0], at[1], at[2], 0}) == -kInfinity;
        },
        held);
  }
}

}  // namespace

LaidOutMerge::LaidOutMerge(heed_merge_desc& d)
    : part_out(d.part_out, {d.batch, d.heads, d.rows, d.features}, HEED_DTYPE_F32, Use::kRead),
      part_lse(d.part_lse, {d.batch, d.heads, d.rows, 1}, HEED_DTYPE_F32, Use::kRead),
      out(d.out, part_out.shape(), HEED_DTYPE_F32, Use::kWritten),
      lse(d.lse, part_lse.shape(), HEED_DTYPE_F32, Use::kWritten) {}

Merge::Merge(const Axes& shape, std::size_t parts, const Form& of_out, const Form& of_lse)
    : Merge(0, described(shape, of_out, of_lse), parts) {}

Merge::Merge(std::size_t misalign, const heed_merge_desc& described, std::size_t parts)
    : desc(described),
      out(LaidOutMerge(desc).out.tensor(misalign)),
      lse(LaidOutMerge(desc).lse.tensor(misalign)) {
  for (std::size_t k = 0; k < parts; ++k) {
    outs.push_back(LaidOutMerge(desc).part_out.tensor(misalign));
    lses.push_back(LaidOutMerge(desc).part_lse.tensor(misalign));
  }
}

void Merge::fill(std::uint64_t seed, double spread) {
  Random random(seed);
  for (std::size_t k = 0; k < outs.size(); ++k) {
    outs[k].fill([&] { return random.normal(); });
    lses[k].fill([&] { return static_cast<double>(random.normal()) * spread; });
  }
}

Merge::Parts Merge::parts() const {
  Parts parts;
  for (const Tensor& tensor : outs) parts.outs.push_back(tensor.data());
  for (const Tensor& tensor : lses) parts.lses.push_back(tensor.data());
  return parts;
}

heed_status Merge::call(const Context& context, void* to, void* to_lse) {
  const Parts from = parts();
  return heed_merge(context.get(), &desc, outs.size(), from.outs.data(), from.lses.data(), to,
                    to_lse);
}

Outputs Merge::run_all(const Context& context, bool with_lse) {
  out.clear();
  lse.clear();
  require_ok(call(context, out.data(), with_lse ? lse.data() : nullptr));
  if (!out.padding_intact() || !lse.padding_intact())
    throw std::runtime_error("a merge wrote outside its outputs");
  return {out.numbers(), lse.numbers()};
}

heed_merge_desc draw_merge_desc(Draw& draw) {
  heed_merge_desc d = HEED_MERGE_DESC_INIT;
  d.batch = draw.integer(1, 3);
  d.heads = draw.integer(1, 3);
  d.rows = draw.one_in(10) ? draw.integer(9, 100) : draw.integer(1, 8);
  d.features = draw.integer(1, 40);
  if (draw.one_in(10)) d.features = draw.integer(250, 700);  // more than fit a strip
  if (draw.one_in(20)) (draw.one_in(2) ? d.rows : draw.one_in(2) ? d.batch : d.heads) = 0;
  const auto real = [&] {
    return draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
  };
  LaidOutMerge laid(d);
  laid.out.draw(draw, draw.dtype());
  laid.lse.draw(draw, real());
  laid.part_out.draw(draw, draw.dtype());
  laid.part_lse.draw(draw, real());
  if (draw.one_in(2)) return d;
  d.part_out = d.out;
  d.part_lse = d.lse;
  return d;
}

void draw_numbers(Draw& draw, Merge& m) {
  m.fill(draw.bits(), draw.pick<double>({0, 1, 3, 3, 300, 1e5}));
  if (m.outs.empty()) return;
  if (draw.one_in(2)) empty_parts(draw, m);
  if (!draw.one_in(4)) return;
  for (std::int64_t n = draw.integer(1, 4); n > 0; --n)
    draw.plant((draw.one_in(2) ? m.outs : m.lses)[draw.index(m.outs.size())]);
}

Merge draw_merge(std::uint64_t seed) {
  Draw draw(seed);
  const heed_merge_desc desc = draw_merge_desc(draw);
  const std::int64_t parts = draw.one_in(10) ? draw.integer(8, 40) : draw.integer(1, 7);
  Merge m = Merge::of(desc, static_cast<std::size_t>(parts), draw.index(4));
  draw_numbers(draw, m);
  return m;
}

std::string line_of(const Merge& m) {
  std::ostringstream line;
  line << m.outs.size() << " parts [" << m.desc.batch << "," << m.desc.heads << "," << m.desc.rows
       << "," << m.desc.features << "] " << name_of_dtype(m.desc.part_out.dtype) << "/"
       << name_of_dtype(m.desc.part_lse.dtype) << " to " << name_of_dtype(m.desc.out.dtype) << "/"
       << name_of_dtype(m.desc.lse.dtype);
  return line.str();
}

}  // namespace heed_test
