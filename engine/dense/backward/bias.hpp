// The gradient of a bias, summed over the axes that it repeats.
#pragma once

#include <algorithm>

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/backward/scores.hpp"
#include "engine/tensor/loops.hpp"

namespace heed {

/// Tiles of the bias: some keys, or the one that repeats, for a panel of rows, or the one, and so
/// on.
std::int64_t bias_tasks(const heed_attention_backward_plan& plan);

/// How many parts of the batch, heads and panels that a tile repeats over are summed apart, and
/// then in order. It depends on the problem and the panel alone.
std::int64_t bias_parts(const heed_attention_backward_plan& plan);

/// Whether tiles of the bias, of many rows and keys, repeat over heads or batch items.
bool shares_bias(const heed_attention_backward_plan& plan);

/// Of the sums of a tile.
Size bias_values(const heed_attention_backward_plan& plan);

/// Whether every pair has a number of the bias of its own: then its gradient is written as it is
/// found, after clear_bias(), because not all pairs are looked at.
bool bias_is_own(const heed_attention_backward_plan& plan);
template <class Real>
void clear_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                std::int64_t task, std::byte* slab);

/// Where the gradient of a row of the bias begins, from a key on.
inline std::byte* bias_at(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                          std::int64_t batch, std::int64_t head, std::int64_t row,
                          std::int64_t key) {
  const Layout& layout = plan.problem.grad_bias;
  return row_at(args.given.grad_bias, layout, batch, head, row) +
         key * layout.strides.feature * layout.bytes;
}

/// Writes gradients [keys][vectors], times temperature, as rows of the bias, of which row i begins
/// at to_row(i). `buffer`: [rows + 1][keys].
template <class Real, class ToRow>
void write_bias_columns(const heed_attention_backward_plan& plan, const Real* columns,
                        std::size_t vectors, std::size_t rows, std::int64_t keys, Real* buffer,
                        ToRow&& to_row) {
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);
  alignas(kAlignment) Real ones[kMaxPanel];
  std::fill_n(ones, kMaxPanel, Real{1});
  const auto count = static_cast<std::size_t>(keys);
  Real* to[kMaxPanel] = {};
  for (std::size_t i = 0; i < rows; ++i) to[i] = buffer + i * count;
  kernels.panels.finish(vectors, columns, ones, count, to, rows, 1, false);
  const auto factor = static_cast<Real>(1 / plan.problem.attention.temperature);
  for (std::size_t at = 0; at < rows * count; ++at) buffer[at] *= factor;
  for (std::size_t i = 0; i < rows; ++i)
    write_gradient(kernels, plan.problem.grad_bias, plan.problem.accumulate, to[i], keys,
                   buffer + rows * count, to_row(i));
}

/// Computes the gradients of scores of a tile again, sums and writes them.
template <class Real>
void add_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
              std::byte* slab);

/// The same where parts are apart: sums one part of a tile to plan.bias_sums of the workspace ...
template <class Real>
void add_bias_part(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   std::int64_t task, std::byte* slab, std::byte* workspace);
/// ... and writes the sums of all parts of a tile.
template <class Real>
void write_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                std::int64_t task, std::byte* slab, std::byte* workspace);

}  // namespace heed
