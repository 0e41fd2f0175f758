#include "engine/dense/backward/bias.hpp"

#include <algorithm>
#include <iterator>

#include "engine/dense/backward/reader.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/loops.hpp"

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
  return ceil_div(plan.problem.attention.key_length, plan.bias_keys);
}

/// Parts have a few panels of rows each.
constexpr std::int64_t kPanelsPerPart = 4;
constexpr std::int64_t kMostParts = 16;

/// Panels of rows that a tile of the bias repeats over, in all heads and batch items.
std::int64_t repeats_of(const heed_attention_backward_plan& plan) {
  const Problem& p = plan.problem.attention;
  const Shape& sizes = plan.problem.bias_sizes;
  const auto repeats = [](std::int64_t size, std::int64_t count) {
    return Size(size == 1 ? count : 1);
  };
  return (repeats(sizes[0], p.batch) * repeats(sizes[1], p.query_heads) *
          repeats(sizes[2], panels_of(plan)))
      .value();
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

  /// Transposes the tile of the bias once for the heads and batch items whose sums follow.
  void lay_bias() {
    const heed_attention_args& args = args_.attention;
    if (!shares_bias(plan_) || args.bias == nullptr || args.score_function != nullptr) return;
    const Sequence sequence = sequence_of(problem_, args, batch_);
    const HeadPack pack = {head_, 1, nullptr};
    const Scores<Real> scores(plan_.attention, args, sequence, HEED_WEIGHTS_PROBABILITIES, slab_);
    const PanelKernels<Real>& panels = kernels_of<Real>(*plan_.context->kernels).panels;
    const std::int64_t first = panel_ * pitch();
    Panel<Real> panel{};
    static_cast<PanelRows&>(panel) =
        PanelRows::of(first, std::min(pitch(), problem_.query_length - first), panels.lanes);
    panel.pack = &pack;
    Real* const lanes = buffer(plan_.slab.bias_lanes);
    const std::int64_t begin = first_key();
    const std::int64_t end = begin + keys();
    for (std::int64_t k = begin, next = 0; k < end; k = next) {
      next = std::min(k + std::int64_t{panels.key_block}, end);
      if (!scores.lay_bias(panel, {k, static_cast<std::size_t>(next - k)},
                           lanes + (k - begin) * static_cast<std::int64_t>(panel.pitch)))
        return;
    }
    bias_pitch_ = panel.pitch;
  }

  /// Sums [keys][pitch] of a part.
  void sum(std::int64_t part, Real* sums) const {
    std::fill_n(sums, numbers(), Real{0});
    const Steps batch = steps(sizes_[0], problem_.batch, batch_);
    const Steps heads = steps(sizes_[1], problem_.query_heads, head_);
    const Steps panels = steps(sizes_[2], panels_of(plan_), panel_);
    const std::int64_t all = repeats_of(plan_);
    const std::int64_t end = (part + 1) * all / plan_.bias_parts;
    const std::int64_t of_head = panels.end - panels.begin;
    const std::int64_t of_item = (heads.end - heads.begin) * of_head;
    for (std::int64_t n = part * all / plan_.bias_parts, next = 0; n < end; n = next) {
      // The part's panels of one head.
      next = std::min(n / of_head * of_head + of_head, end);
      const Sequence sequence = sequence_of(problem_, args_.attention, batch.begin + n / of_item);
      const std::int64_t head = heads.begin + n % of_item / of_head;
      const std::int64_t first = panels.begin + n % of_head;
      add_head({plan_, args_, sequence, {head, 1, nullptr}, slab_, nullptr},
               {first, first + next - n}, sums);
    }
  }

  void add(const Real* part, Real* sums) const {
    add_values(part, static_cast<std::size_t>(numbers()), sums);
  }

  /// Of this tile.
  std::int64_t numbers() const { return keys() * pitch(); }

  void write(Real* sums) const {
    const std::int64_t first = panel_ * pitch();
    const bool one = sizes_[2] == 1;  // row, to which all lanes add up
    for (std::int64_t j = 0; j < keys() && one; ++j)
      for (std::int64_t l = 1; l < pitch(); ++l) sums[j * pitch()] += sums[j * pitch() + l];
    const std::int64_t rows = one ? 1 : std::min(pitch(), problem_.query_length - first);
    const auto vectors = kernels_of<Real>(*plan_.context->kernels).panels.max_vectors;
    write_bias_columns(plan_, sums, vectors, static_cast<std::size_t>(rows), keys(),
                       buffer(plan_.slab.bias_rows), [&](std::size_t i) {
                         const std::int64_t row = first + static_cast<std::int64_t>(i);
                         return bias_at(plan_, args_, batch_, head_, row, first_key());
                       });
  }

 private:
  Real* buffer(std::size_t offset) const {
    return reinterpret_cast<Real*>(slab_ + plan_.attention.slab.bytes + offset);
  }
  std::int64_t pitch() const { return plan_.attention.panel_rows; }
  /// Of the bias, in this task.
  std::int64_t first_key() const { return tile_ * plan_.bias_keys; }
  std::int64_t keys() const {
    return sizes_[3] == 1 ? 1 : std::min(plan_.bias_keys, problem_.key_length - first_key());
  }

  void add_head(const PackRows<Real>& rows, const Steps& panels, Real* sums) const {
    const ScoreGradients<Real> gradients(rows);
    const Reader<Real> reader(rows, gradients.scores());
    const Steps tiles = steps(sizes_[3], tiles_of(plan_), tile_);
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * pitch();
      const std::int64_t count = std::min(pitch(), rows.sequence.query_length - first);
      if (count <= 0) return;
      GradPanel<Real> panel = reader.panel(first, count, {0, 0, 0, count});
      if (panel.pitch == bias_pitch_) {  // shorter sequences of a batch may have fewer vectors
        panel.bias = buffer(plan_.slab.bias_lanes);
        panel.bias_begin = first_key();
      }
      const Real* grad_out[kMaxPanel];
      reader.read(panel, grad_out);
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t)
        add_tile(gradients, reader, panel, t * plan_.bias_keys, sums);
    }
  }

  void add_tile(const ScoreGradients<Real>& gradients, const Reader<Real>& reader,
                const GradPanel<Real>& panel, std::int64_t begin, Real* sums) const {
    const std::int64_t end = std::min(begin + plan_.bias_keys, panel.key_end);
    const std::int64_t size = plan_.attention.tile_kv;
    for (std::int64_t k = std::max(begin, panel.key_begin), next = 0; k < end; k = next) {
      next = std::min(round_down(k, size) + size, end);
      add_keys(gradients, panel, reader.tile(k, next),
               sums + (sizes_[3] == 1 ? 0 : k - begin) * pitch());
    }
  }

  void add_keys(const ScoreGradients<Real>& gradients, const GradPanel<Real>& panel,
                const KeyTile<Real>& tile, Real* sums) const {
    const std::int64_t step = kernels_of<Real>(*plan_.context->kernels).panels.key_block;
    for (std::int64_t k = tile.begin, next = 0; k < tile.end; k = next) {
      next = std::min(round_down(k, step) + step, tile.end);
      const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
      const Allowed allowed = gradients.scores().allowed(panel, block);
      if (allowed == Allowed::kNone) continue;
      gradients.compute_biased(panel, tile, block, allowed);
      const Real* from = panel.gradients;
      Real* to = sums + (sizes_[3] == 1 ? 0 : k - tile.begin) * pitch();
      for (std::int64_t j = k; j < next; ++j, from += panel.pitch) {
        add_values(from, panel.rows, to);
        if (sizes_[3] != 1) to += pitch();
      }
    }
  }

  const heed_attention_backward_plan& plan_;
  const Problem& problem_;
  const BackwardArgs& args_;
  const Shape& sizes_;
  std::byte* const slab_;
  std::int64_t tile_, panel_, head_, batch_;
  std::size_t bias_pitch_ = 0;  ///< of the bias in lanes; 0: it is not there
};

}  // namespace

std::int64_t bias_tasks(const heed_attention_backward_plan& plan) {
  const Problem& p = plan.problem.attention;
  const Shape& sizes = plan.problem.bias_sizes;
  return (Size(parts(sizes[0], p.batch)) * parts(sizes[1], p.query_heads) *
          parts(sizes[2], panels_of(plan)) * parts(sizes[3], tiles_of(plan)))
      .value();
}

bool shares_bias(const heed_attention_backward_plan& plan) {
  const Shape& sizes = plan.problem.bias_sizes;
  const Problem& p = plan.problem.attention;
  const bool repeats = (sizes[0] == 1 && p.batch > 1) || (sizes[1] == 1 && p.query_heads > 1);
  return repeats && sizes[2] > 1 && sizes[3] > 1;
}

bool bias_is_own(const heed_attention_backward_plan& plan) {
  const Problem& p = plan.problem.attention;
  const Shape pairs = {p.batch, p.query_heads, p.query_length, p.key_length};
  return std::equal(std::begin(pairs), std::end(pairs), plan.problem.bias_sizes);
}

std::int64_t bias_parts(const heed_attention_backward_plan& plan) {
  return std::clamp(repeats_of(plan) / kPanelsPerPart, std::int64_t{1}, kMostParts);
}

Size bias_values(const heed_attention_backward_plan& plan) {
  return Size(plan.problem.bias_sizes[3] == 1 ? 1 : plan.bias_keys) * plan.attention.panel_rows;
}

template <class Real>
void clear_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                std::int64_t task, std::byte* slab) {
  if (plan.problem.accumulate) return;
  const BiasSums<Real> tile(plan, args, task, slab);
  auto* const sums = reinterpret_cast<Real*>(slab + plan.attention.slab.bytes + plan.slab.bias);
  std::fill_n(sums, tile.numbers(), Real{0});
  tile.write(sums);
}

template <class Real>
void add_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
              std::byte* slab) {
  BiasSums<Real> tile(plan, args, task, slab);
  tile.lay_bias();
  std::byte* const own = slab + plan.attention.slab.bytes;
  auto* const sums = reinterpret_cast<Real*>(own + plan.slab.bias);
  auto* const latest = reinterpret_cast<Real*>(own + plan.slab.bias_part);
  tile.sum(0, sums);
  for (std::int64_t part = 1; part < plan.bias_parts; ++part) {
    tile.sum(part, latest);
    tile.add(latest, sums);
  }
  tile.write(sums);
}

template <class Real>
void add_bias_part(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   std::int64_t task, std::byte* slab, std::byte* workspace) {
  auto* const sums = reinterpret_cast<Real*>(workspace + plan.bias_sums);
  BiasSums<Real> tile(plan, args, task / plan.bias_parts, slab);
  tile.lay_bias();
  tile.sum(task % plan.bias_parts, sums + task * bias_values(plan).value());
}

template <class Real>
void write_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                std::int64_t task, std::byte* slab, std::byte* workspace) {
  const BiasSums<Real> tile(plan, args, task, slab);
  const std::int64_t numbers = bias_values(plan).value();
  auto* const sums =
      reinterpret_cast<Real*>(workspace + plan.bias_sums) + task * plan.bias_parts * numbers;
  for (std::int64_t part = 1; part < plan.bias_parts; ++part) tile.add(sums + part * numbers, sums);
  tile.write(sums);
}

template void clear_bias<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                                std::int64_t, std::byte*);
template void add_bias<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                              std::int64_t, std::byte*);
template void add_bias_part<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                                   std::int64_t, std::byte*, std::byte*);
template void write_bias<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                                std::int64_t, std::byte*, std::byte*);
template void clear_bias<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                                 std::int64_t, std::byte*);
template void add_bias<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                               std::int64_t, std::byte*);
template void add_bias_part<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                                    std::int64_t, std::byte*, std::byte*);
template void write_bias<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                                 std::int64_t, std::byte*, std::byte*);

}  // namespace heed
