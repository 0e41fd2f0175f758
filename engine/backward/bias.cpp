#include "engine/backward/bias.hpp"

#include <algorithm>

#include "engine/backward/reader.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/gradient.hpp"

namespace heed {
namespace {

/// Steps [begin, end) along an axis: one of many, or all of them where the bias repeats.
struct Steps {
  std::int64_t begin, end;
};

/// How many tasks an axis of `count` steps makes.
std::int64_t parts(std::int64_t size, std::int64_t count) { return size == 1 ? 1 : count; }

Steps steps(std::int64_t size, std::int64_t count, std::int64_t part) {
  return size == 1 ? Steps{0, count} : Steps{part, part + 1};
}

std::int64_t panels_of(const heed_attention_backward_plan& plan) {
  return ceil_div(plan.problem.attention.query_length, plan.attention.panel_rows);
}

std::int64_t tiles_of(const heed_attention_backward_plan& plan) {
  return ceil_div(plan.problem.attention.key_length, plan.attention.tile_kv);
}

template <class Real>
class BiasSums {
 public:
  BiasSums(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
           std::byte* slab)
      : plan_(plan),
        problem_(plan.problem.attention),
        args_(args),
        sizes_(plan.problem.bias_sizes),
        slab_(slab) {
    const auto take = [&](std::int64_t size, std::int64_t count) {
      const std::int64_t part = task % parts(size, count);
      task /= parts(size, count);
      return part;
    };
    tile_ = take(sizes_[3], tiles_of(plan));
    panel_ = take(sizes_[2], panels_of(plan));
    head_ = take(sizes_[1], problem_.query_heads);
    batch_ = take(sizes_[0], problem_.batch);
  }

  void sum() const {
    std::fill_n(sums(), keys() * pitch(), Real{0});
    const Steps batch = steps(sizes_[0], problem_.batch, batch_);
    const Steps heads = steps(sizes_[1], problem_.query_heads, head_);
    for (std::int64_t b = batch.begin; b < batch.end; ++b) {
      const Sequence sequence = sequence_of(problem_, args_.attention, b);
      for (std::int64_t h = heads.begin; h < heads.end; ++h)
        add_head({plan_, args_, sequence, {h, 1, nullptr}, slab_, nullptr});
    }
    write();
  }

 private:
  Real* buffer(std::size_t offset) const {
    return reinterpret_cast<Real*>(slab_ + plan_.attention.slab.bytes + offset);
  }
  Real* sums() const { return buffer(plan_.slab.bias); }  ///< [keys][pitch]
  std::int64_t pitch() const { return plan_.attention.panel_rows; }
  /// Of the bias, in this task.
  std::int64_t keys() const {
    const std::int64_t tile = plan_.attention.tile_kv;
    return sizes_[3] == 1 ? 1 : std::min(tile, problem_.key_length - tile_ * tile);
  }

  void add_head(const PackRows<Real>& rows) const {
    const ScoreGradients<Real> gradients(rows);
    const Reader<Real> reader(rows, gradients.scores());
    const Steps panels = steps(sizes_[2], panels_of(plan_), panel_);
    const Steps tiles = steps(sizes_[3], tiles_of(plan_), tile_);
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * pitch();
      const std::int64_t count = std::min(pitch(), rows.sequence.query_length - first);
      if (count <= 0) return;
      const GradPanel<Real> panel = reader.panel(first, count, 0, 0);
      reader.read(panel);
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t)
        add_tile(gradients, reader, panel, t * plan_.attention.tile_kv);
    }
  }

  void add_tile(const ScoreGradients<Real>& gradients, const Reader<Real>& reader,
                const GradPanel<Real>& panel, std::int64_t begin) const {
    const std::int64_t first = std::max(begin, panel.key_begin);
    const std::int64_t end = std::min(begin + plan_.attention.tile_kv, panel.key_end);
    if (first >= end) return;
    const KeyTile<Real> tile = reader.tile(first, end);
    const std::int64_t step = kernels_of<Real>(*plan_.context->kernels).panels.key_block;
    for (std::int64_t k = first, next = 0; k < end; k = next) {
      next = std::min(round_down(k, step) + step, end);
      const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
      const Allowed allowed = gradients.scores().allowed(panel, block);
      if (allowed == Allowed::kNone) continue;
      gradients.compute_biased(panel, tile, block, allowed);
      const Real* from = buffer(plan_.slab.gradients);
      Real* to = sums() + (sizes_[3] == 1 ? 0 : k - begin) * pitch();
      for (std::int64_t j = k; j < next; ++j, from += panel.pitch) {
        for (std::size_t i = 0; i < panel.rows; ++i) to[i] += from[i];
        if (sizes_[3] != 1) to += pitch();
      }
    }
  }

  void write() const {
    const Layout& layout = plan_.problem.grad_bias;
    const auto factor = static_cast<Real>(1 / problem_.temperature);
    const std::int64_t first = panel_ * pitch();
    const std::int64_t rows = sizes_[2] == 1 ? 1 : std::min(pitch(), problem_.query_length - first);
    // Lanes are rows of the bias, or all add up to its only one.
    const std::int64_t lanes = sizes_[2] == 1 ? pitch() : 1;
    Real* const values = buffer(plan_.slab.packed);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < keys(); ++j) {
        values[j] = 0;
        for (std::int64_t l = 0; l < lanes; ++l) values[j] += sums()[j * pitch() + i + l];
        values[j] *= factor;
      }
      std::byte* const to = row_at(args_.given.grad_bias, layout, batch_, head_, first + i) +
                            tile_ * plan_.attention.tile_kv * layout.strides.feature * layout.bytes;
      write_gradient(kernels_of<Real>(*plan_.context->kernels), layout, plan_.problem.accumulate,
                     values, keys(), values + keys(), to);
    }
  }

  const heed_attention_backward_plan& plan_;
  const Problem& problem_;
  const BackwardArgs& args_;
  const Shape& sizes_;
  std::byte* const slab_;
  std::int64_t tile_, panel_, head_, batch_;
};

}  // namespace

std::int64_t bias_tasks(const heed_attention_backward_plan& plan) {
  const Problem& p = plan.problem.attention;
  const Shape& sizes = plan.problem.bias_sizes;
  return parts(sizes[0], p.batch) * parts(sizes[1], p.query_heads) *
         parts(sizes[2], panels_of(plan)) * parts(sizes[3], tiles_of(plan));
}

template <class Real>
void add_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
              std::byte* slab) {
  BiasSums<Real>(plan, args, task, slab).sum();
}

template void add_bias<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                              std::int64_t, std::byte*);
template void add_bias<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                               std::int64_t, std::byte*);

}  // namespace heed
