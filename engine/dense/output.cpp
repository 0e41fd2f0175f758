#include "engine/dense/output.hpp"

#include "engine/dense/placement.hpp"
#include "engine/tensor/log_sum_exp.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
Output<Real>::Output(const heed_attention_plan& plan, const heed_attention_args& args,
                     const Sequence& sequence, std::byte* slab, RowResult<Real>* results)
    : plan_(plan),
      problem_(plan.problem),
      args_(args),
      sequence_(sequence),
      kernels_(kernels_of<Real>(*plan.context->kernels)),
      slab_(slab),
      results_(results) {}

template <class Real>
std::byte* Output<Real>::out_row(std::int64_t row, std::int64_t head) const {
  return row_at(args_.out, problem_.out, sequence_.batch, head, sequence_.query_begin + row);
}

template <class Real>
RowResult<Real>& Output<Real>::result(std::int64_t row, std::int64_t head) const {
  return results_[(sequence_.batch * problem_.query_heads + head) * problem_.query_length + row];
}

template <class Real>
void Output<Real>::write(const Panel<Real>& panel) const {
  if (plan_.placement == Placement::kPanels) {
    write_panel(panel);
  } else {
    store_rows(
        kernels_, panel, panel.state.accumulators, panel.state.row_sum,
        static_cast<std::size_t>(problem_.value_features), problem_.out,
        reinterpret_cast<Real*>(slab_ + plan_.slab.rows),
        [&](std::size_t, std::int64_t row, std::int64_t head) { return out_row(row, head); });
  }
  if (args_.lse == nullptr && results_ == nullptr) return;
  for (std::size_t i = 0; i < panel.rows; ++i) write_softmax(panel, i);
}

template <class Real>
void Output<Real>::write_row(const Panel<Real>& panel, std::size_t i, const Real* values) const {
  const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
  kernels_.numbers.write(
      problem_.out.type, values, static_cast<std::size_t>(problem_.value_features),
      out_row(panel.pack->query_row(r), panel.pack->head_of(r)), problem_.out.strides.feature);
  write_softmax(panel, i);
}

/// How the softmax of row i ended, for those who ask.
template <class Real>
void Output<Real>::write_softmax(const Panel<Real>& panel, std::size_t i) const {
  const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
  const std::int64_t row = panel.pack->query_row(r);
  const std::int64_t head = panel.pack->head_of(r);
  const Real row_max = panel.state.row_max[i];
  const Real sum = panel.state.row_sum[i];
  if (args_.lse != nullptr) write_lse(row, head, row_max, sum);
  if (results_ != nullptr) result(row, head).soft = {row_max, sum};
}

template <class Real>
void Output<Real>::write_panel(const Panel<Real>& panel) const {
  kernels_.panels.normalise(panel.vectors, panel.state.accumulators, panel.state.row_sum,
                            static_cast<std::size_t>(problem_.value_features),
                            of_head(static_cast<Real*>(args_.out), plan_, panel, sequence_.batch,
                                    problem_.value_features));
}

template <class Real>
void Output<Real>::write_lse(std::int64_t row, std::int64_t head, Real row_max, Real sum) const {
  const double lse = log_sum_exp(row_max, sum);
  write_log_sum_exp(
      plan_.context->kernels->f64, problem_.lse.type, lse,
      row_at(args_.lse, problem_.lse, sequence_.batch, head, sequence_.query_begin + row));
}

template <class Real>
void Output<Real>::write_hard(const Panel<Real>& panel, std::size_t i, std::int64_t key,
                              Real* values) const {
  const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
  const std::int64_t row = panel.pack->query_row(r);
  const std::int64_t head = panel.pack->head_of(r);
  const auto features = static_cast<std::size_t>(problem_.value_features);
  if (results_ != nullptr) result(row, head).argmax = key;
  if (plan_.placement != Placement::kPanels)
    return kernels_.numbers.write(problem_.out.type, values, features, out_row(row, head),
                                  problem_.out.strides.feature);
  Real* const to = of_head(static_cast<Real*>(args_.out), plan_, panel, sequence_.batch,
                           problem_.value_features);
  for (std::size_t x = 0; x < features; ++x) to[x * panel.pitch + i] = values[x];
}

template class Output<float>;
template class Output<double>;

}  // namespace heed
