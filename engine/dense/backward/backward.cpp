// Gradients of attention: scores are computed again, panel by panel as in attention.cpp, and become
// probabilities by the log-sum-exp that the forward run left.
//
//   for each split of a pack's query rows (or all of them, one after the other: a task)
//     for each query block, for each tile of keys and values, for each panel, for each key block
//       probabilities    = exp2(keys x queries - lse)                    [key][row]
//       gradients        = values x grad_out                             of probabilities
//       gradients        = probabilities * (gradients - delta)           of scores
//       grad_query      += keys^T x gradients                            [feature][row]
//       value sums      += probabilities x grad_out^T                    [key][feature]
//       key sums        += gradients x queries^T
//   grad_key, grad_value = the sums of all splits, in order
//
// Five products, as in T. Dao 2023, "FlashAttention-2", algorithm 2; the order of all sums is fixed
// by the sequence alone.
//
// With pairs of bfloat16, probabilities and gradients of scores are rounded to that before they
// meet queries, keys and gradients of out; all sums are of float32, as there. All else that scores
// become, and gradients that are one number or of a bias, comes of them as they were before.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/dense/backward/split.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Keys whose gradients one task writes, where splits are apart.
constexpr std::int64_t kKeysPerTask = 256;

/// Gradients that are one number, or one per head: sums over rows, in order. `terms`: of all
/// rows.
template <class Real>
void write_numbers(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const RowTerms* terms) {
  const Problem& p = plan.problem.attention;
  const heed_attention_backward_args& given = args.given;
  if (given.grad_sinks == nullptr && given.grad_alibi_slopes == nullptr &&
      given.grad_scale == nullptr && given.grad_temperature == nullptr)
    return;
  const auto write = [&](void* to, std::int64_t at, double gradient) {
    if (to == nullptr) return;
    Real& number = static_cast<Real*>(to)[at];
    number = static_cast<Real>(gradient + (plan.problem.accumulate ? double{number} : 0));
  };
  RowTerms all{};
  for (std::int64_t h = 0; h < p.query_heads; ++h) {
    RowTerms head{};
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const RowTerms* const of = terms + (b * p.query_heads + h) * p.query_length;
      const std::int64_t rows = sequence_of(p, args.attention, b).query_length;
      for (std::int64_t i = 0; i < rows; ++i) {
        head.slope += of[i].slope;
        head.scale += of[i].scale;
        head.temperature += of[i].temperature;
        head.sink += of[i].sink;
      }
    }
    write(given.grad_sinks, h, head.sink);
    write(given.grad_alibi_slopes, h, head.slope / p.temperature);
    all.scale += head.scale;
    all.temperature += head.temperature;
  }
  write(given.grad_scale, 0, all.scale / p.temperature);
  write(given.grad_temperature, 0, -all.temperature / p.temperature);
}

template <class Real>
class Backward {
 public:
  Backward(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::byte* workspace)
      : plan_(plan),
        problem_(plan.problem.attention),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        workspace_(workspace),
        terms_(reinterpret_cast<RowTerms*>(workspace + plan.terms)) {}

  /// All splits of a pack, and its keys.
  void add_pack(std::int64_t pack, std::byte* slab) const {
    const Sequence sequence = sequence_of_pack(pack);
    const Split<Real> rows = split(sequence, pack, slab, multiplies_pairs(sequence, pack, slab));
    auto* const total = plan_.buffer<Real>(slab, &BackwardSlab::sums);
    std::fill_n(total, plan_.sum_values, Real{0});
    for (std::int64_t s = 0; s < rows.splits(); ++s) {
      // The blocks of a split are summed before splits are.
      const bool apart = s > 0 && plan_.blocks_of_split() > 1;
      Real* const sums = apart ? total + plan_.sum_values : total;
      if (apart) std::fill_n(sums, plan_.sum_values, Real{0});
      rows.add(s, sums_in(sums, sequence, score_sums_of(pack, s)), s == 0 || apart);
      if (apart) kernels_.numbers.add_onto(sums, static_cast<std::size_t>(plan_.sum_values), total);
    }
    write_keys(sequence, head_of(pack), total, 1, 0, all_keys_of(sequence), slab);
  }

  void add_split(std::int64_t task, std::byte* slab) const {
    // The last splits of triangular problems take longest.
    const std::int64_t pack = task % plan_.packs;
    const std::int64_t s = plan_.splits - 1 - task / plan_.packs;
    const Sequence sequence = sequence_of_pack(pack);
    const Split<Real> rows = split(sequence, pack, slab, multiplies_pairs(sequence, pack, slab));
    if (s >= rows.splits()) return;
    Real* const sums = sums_of(pack) + s * plan_.sum_values;
    std::fill_n(sums, plan_.sum_values, Real{0});
    rows.add(s, sums_in(sums, sequence, score_sums_of(pack, s)), true);
  }

  std::int64_t key_tasks() const { return ceil_div(problem_.key_length, kKeysPerTask); }

  /// Some keys of a pack, whose splits are apart.
  void write_keys(std::int64_t task, std::byte* slab) const {
    const std::int64_t pack = task / key_tasks();
    const std::int64_t begin = task % key_tasks() * kKeysPerTask;
    const Sequence sequence = sequence_of_pack(pack);
    const std::int64_t splits = split(sequence, pack, slab, false).splits();
    write_keys(sequence, head_of(pack), sums_of(pack), splits, begin,
               std::min(begin + kKeysPerTask, all_keys_of(sequence)), slab);
  }

  /// Keys that no query heads attend, because there are none.
  void write_unattended(std::byte* slab) const {
    const bool wanted = args_.given.grad_key != nullptr || args_.given.grad_value != nullptr;
    if (!wanted || (problem_.key_length == 0 && problem_.packed_keys == 0)) return;
    for (std::int64_t b = 0; b < problem_.batch; ++b) {
      const Sequence sequence = sequence_of(problem_, args_.attention, b);
      for (std::int64_t head = 0; head < problem_.key_heads; ++head)
        write_keys(sequence, head, nullptr, 0, 0, all_keys_of(sequence), slab);
    }
  }

  /// Shorter sequences have fewer splits, whose sums stay 0.
  void begin_score_weights() const {
    if (weights_ > 0) std::fill(score_sums_of(0, 0), score_sums_of(plan_.packs, 0), 0.0);
  }

  /// The gradients of weights of scores: the sums of all splits of all batches, in order.
  void write_score_weights() const {
    auto* const to = static_cast<Real*>(args_.given.grad_score_weights);
    if (to == nullptr) return;
    const std::int64_t of_pack = plan_.attention.pack_heads * weights_;
    for (std::int64_t at = 0; at < problem_.query_heads * weights_; ++at) {
      double sum = 0;
      for (std::int64_t pack = at / of_pack; pack < plan_.packs; pack += plan_.attention.packs())
        for (std::int64_t s = 0; s < plan_.splits; ++s) sum += score_sums_of(pack, s)[at % of_pack];
      to[at] = static_cast<Real>(sum * problem_.scale / problem_.temperature +
                                 (plan_.problem.accumulate ? double{to[at]} : 0));
    }
  }

 private:
  Sequence sequence_of_pack(std::int64_t pack) const {
    return sequence_of(problem_, args_.attention, pack / plan_.attention.packs());
  }
  Split<Real> split(const Sequence& sequence, std::int64_t pack, std::byte* slab,
                    bool pairs) const {
    return {plan_, args_, sequence, head_of(pack), slab, terms_, pairs};
  }

  /// Whether pairs of bfloat16 are multiplied: where all inputs of a key head's gradients are
  /// finite, so that a probability of 0 keeps from each row the keys that it does not attend. Other
  /// heads are computed without pairs, all of their rows: which of the two depends on the head
  /// alone, not on tiles and threads.
  bool multiplies_pairs(const Sequence& sequence, std::int64_t pack, std::byte* slab) const {
    if (!plan_.pairs) return false;
    const heed_attention_args& given = args_.attention;
    const std::int64_t key_head = head_of(pack);
    const auto rows_are = [&](const void* data, const Layout& layout, std::int64_t head,
                              std::int64_t begin, std::int64_t rows, std::int64_t features) {
      // Some rows in whole vectors, of which the last is filled up with 0.
      const std::int64_t padded = round_up(features, std::int64_t{kernels_.panels.lanes});
      const std::int64_t holds =
          plan_.attention.panel_rows * std::max(problem_.features, problem_.value_features);
      const std::int64_t most = std::max(holds / padded, std::int64_t{1});
      Real* const some = plan_.buffer<Real>(slab, &BackwardSlab::rows);
      std::fill_n(some, most * padded, Real{0});
      for (std::int64_t i = begin, end = begin + rows; i < end; i += most) {
        const std::int64_t count = std::min(most, end - i);
        for (std::int64_t r = 0; r < count; ++r)
          kernels_.numbers.read(layout.type, row_at(data, layout, sequence.batch, head, i + r),
                                layout.strides.feature, static_cast<std::size_t>(features),
                                some + r * padded);
        if (!kernels_.numbers.all_finite(some, static_cast<std::size_t>(count * padded)))
          return false;
      }
      return true;
    };
    const auto numbers_are = [&](const void* data, const Layout& layout, std::int64_t head,
                                 double lowest) {
      for (std::int64_t i = 0; data != nullptr && i < sequence.query_length; ++i) {
        const double number =
            number_at(*plan_.context->kernels, layout.type,
                      row_at(data, layout, sequence.batch, head, sequence.query_begin + i));
        if (!(number >= lowest && number <= std::numeric_limits<double>::max())) return false;
      }
      return true;
    };
    const auto keys_are = [&](const void* data, const Layout& layout, std::int64_t features) {
      return rows_are(data, layout, key_head, sequence.key_begin, sequence.key_length, features);
    };
    if (!keys_are(given.key, problem_.key, problem_.features) ||
        !keys_are(given.value, problem_.value, problem_.value_features))
      return false;
    const std::int64_t group = plan_.attention.pack_heads;
    for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      const auto queries_are = [&](const void* data, const Layout& layout, std::int64_t features) {
        return rows_are(data, layout, head, sequence.query_begin, sequence.query_length, features);
      };
      // A row that attends nothing has an lse of -infinity.
      constexpr double kLowest = std::numeric_limits<double>::lowest();
      if (!queries_are(given.query, problem_.query, problem_.features) ||
          !queries_are(args_.given.grad_out, plan_.problem.grad_out, problem_.value_features) ||
          !numbers_are(given.lse, problem_.lse, head, -std::numeric_limits<double>::infinity()) ||
          !numbers_are(args_.given.grad_lse, plan_.problem.grad_lse, head, kLowest))
        return false;
    }
    return true;
  }

  Real* sums_of(std::int64_t pack) const {
    return reinterpret_cast<Real*>(workspace_ + plan_.sums) +
           pack * plan_.splits * plan_.sum_values;
  }

  /// Weights of scores: of a split's rows.
  double* score_sums_of(std::int64_t pack, std::int64_t split) const {
    return reinterpret_cast<double*>(workspace_ + plan_.score_sums) +
           (pack * plan_.splits + split) * plan_.attention.pack_heads * weights_;
  }

  SplitSums<Real> sums_in(Real* sums, const Sequence& sequence, double* score_weights) const {
    return SplitSums<Real>::in(sums, problem_.features, plan_.columns.lanes,
                               static_cast<std::size_t>(sequence.key_length), 0, score_weights);
  }

  /// The key head of a pack: its number within its sequence.
  std::int64_t head_of(std::int64_t pack) const { return pack % plan_.attention.packs(); }

  /// Keys past the sequence's length count, too.
  std::int64_t all_keys_of(const Sequence& sequence) const {
    const std::int32_t* const offsets = args_.attention.cu_seqlens_k;
    return offsets == nullptr ? problem_.key_length
                              : offsets[sequence.batch + 1] - offsets[sequence.batch];
  }

  void write_keys(const Sequence& sequence, std::int64_t head, Real* sums, std::int64_t splits,
                  std::int64_t begin, std::int64_t end, std::byte* slab) const {
    const heed_attention_backward_args& args = args_.given;
    const BackwardProblem& p = plan_.problem;
    const auto factor = static_cast<Real>(problem_.scale / problem_.temperature);
    const auto write = [&](void* to, const Layout& layout, std::int64_t features,
                           KeySums<Real> SplitSums<Real>::*which, Real times) {
      if (to == nullptr) return;
      Real* const row = plan_.buffer<Real>(slab, &BackwardSlab::rows);
      const bool in_place = !p.accumulate && has_rows_of(kTypeOf<Real>, layout);
      for (std::int64_t j = begin; j < end; ++j) {
        std::byte* const at = row_at(to, layout, sequence.batch, head, sequence.key_begin + j);
        Real* const sum = in_place ? reinterpret_cast<Real*>(at) : row;
        const std::int64_t some = j < sequence.key_length ? splits : 0;
        if (some == 0) std::fill_n(sum, features, Real{0});
        for (std::int64_t s = 0; s < some; ++s) {
          const KeySums<Real> of_split =
              sums_in(sums + s * plan_.sum_values, sequence, nullptr).*which;
          add_row(of_split, j, features, s == 0, some > 1 ? 1 : times, sum);
        }
        if (some > 1) multiply_values(sum, times, static_cast<std::size_t>(features), sum);
        if (to == args.grad_key && problem_.divides_by_norms())
          leave_norm(sequence, head, j, row + 2 * features, sum);
        if (!in_place)
          write_gradient(kernels_, layout, p.accumulate, row, features, row + features, at);
      }
    };
    write(args.grad_key, p.grad_key, problem_.features, &SplitSums<Real>::keys, factor);
    write(args.grad_value, p.grad_value, problem_.value_features, &SplitSums<Real>::values,
          Real{1});
  }

  /// Turns the gradient of a key over its norm into the key's; `key` has room for that.
  void leave_norm(const Sequence& sequence, std::int64_t head, std::int64_t j, Real* key,
                  Real* gradient) const {
    if (j >= sequence.key_length) return;
    sequence.read_key(kernels_, heed::keys_of(problem_, args_.attention), head, j,
                      problem_.features, key);
    go_through_norm(kernels_, key, static_cast<std::size_t>(problem_.features), 1, gradient);
  }

  /// row += sums[key]; with `first`, row = sums[key] * factor.
  void add_row(const KeySums<Real>& sums, std::int64_t key, std::int64_t features, bool first,
               Real factor, Real* row) const {
    const auto count = static_cast<std::size_t>(features);
    each_columns(plan_.columns, count, [&](const Columns& some) {
      const Real* const from = sums.at(some, static_cast<std::size_t>(key));
      const std::size_t used = std::min(some.pitch, count - some.first);
      first ? multiply_values(from, factor, used, row + some.first)
            : kernels_.numbers.add_onto(from, used, row + some.first);
    });
  }

  const heed_attention_backward_plan& plan_;
  const Problem& problem_;
  const std::int64_t weights_ = weights_of_head(problem_.score, problem_.features);
  const BackwardArgs& args_;
  const KernelTable<Real>& kernels_;
  std::byte* const workspace_;
  RowTerms* const terms_;
};

}  // namespace

void run_plan(const heed_attention_backward_plan& plan, const heed_attention_backward_args& given,
              void* workspace, std::size_t bytes) {
  const BackwardArgs args(given);
  validate(plan.problem, args);
  check_workspace(plan.bytes, workspace, bytes);
  auto* const space = static_cast<std::byte*>(workspace);
  with_real(plan.problem.attention.float64, [&](auto real) {
    using Real = decltype(real);
    const Backward<Real> backward(plan, args, space);
    const auto each = [&](std::int64_t count, auto&& function) {
      each_task(plan, count, 1, space, function);
    };
    const auto bias = [&](std::int64_t tile, std::byte* slab) {
      return BiasTile<Real>(plan, args, tile, slab);
    };
    const BiasTiling tiling(plan);
    const std::int64_t tiles = args.given.grad_bias != nullptr ? tiling.tiles() : 0;
    const bool own = tiling.is_own();
    backward.begin_score_weights();
    if (own) each(tiles, [&](std::int64_t tile, std::byte* slab) { bias(tile, slab).clear(); });
    if (plan.problem.attention.query_heads == 0 && plan.bytes > 0) backward.write_unattended(space);
    if (plan.apart) {
      each(plan.tasks, [&](std::int64_t task, std::byte* slab) { backward.add_split(task, slab); });
      each(plan.packs * backward.key_tasks(),
           [&](std::int64_t task, std::byte* slab) { backward.write_keys(task, slab); });
    } else {
      each(plan.tasks, [&](std::int64_t task, std::byte* slab) { backward.add_pack(task, slab); });
    }
    if (plan.bias_apart) {
      auto* const sums = reinterpret_cast<Real*>(space + plan.bias_sums);
      const std::int64_t parts = plan.bias_parts;
      const std::int64_t values = tiling.tile_values.value();
      each(tiles * parts, [&](std::int64_t task, std::byte* slab) {
        bias(task / parts, slab).add_part(task % parts, sums + task * values);
      });
      each(tiles, [&](std::int64_t tile, std::byte* slab) {
        bias(tile, slab).write_parts(sums + tile * parts * values, values);
      });
    } else if (!own) {
      each(tiles, [&](std::int64_t tile, std::byte* slab) { bias(tile, slab).add(); });
    }
    write_numbers<Real>(plan, args, reinterpret_cast<const RowTerms*>(space + plan.terms));
    backward.write_score_weights();
  });
}

void print_run(const heed_attention_backward_plan& plan, const heed_attention_backward_args& given,
               double seconds) noexcept {
  const BackwardArgs args(given);
  const Problem& p = plan.problem.attention;
  const heed_context& c = *plan.context;
  tell("attention backward %s%s, %s %s x%u, %lld tasks, %.3f ms, %.1f GFLOP/s", sizes_of(p).c_str(),
       options_of(p, args.attention).c_str(), c.kernels->f32.isa, c.threads.name, plan.workers,
       lld(plan.tasks), seconds * 1e3, seconds > 0 ? plan.flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
