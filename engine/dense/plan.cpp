#include "engine/dense/plan.hpp"

#include <algorithm>

#include "engine/dense/panel.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// At most this many claims per thread: a thread that works on neighbouring tasks can fetch the
/// next one's data while it computes.
constexpr std::int64_t kClaimsPerThread = 16;

/// Vectors of rows in a panel that tiles multiply: two are four tiles of results, and leave half of
/// the L1 cache for keys.
constexpr std::int64_t kTiledVectors = 2;

/// So many tasks per thread even out their different lengths, and threads that come late.
constexpr std::int64_t kTasksPerThread = 4;

/// Past this many rows a block gains nothing: packing values is then below 1 % of its work. Tiles
/// of a matrix unit multiply several times as fast.
constexpr std::int64_t kLargestBlock = 384;
constexpr std::int64_t kLargestTiledBlock = 1024;

/// Every score of decoding is a sum over lanes. Keys of F features on L lanes pay for 4 F / L of
/// them, and for half as many where panels would do, too.
constexpr std::int64_t kSumsPerVector = 4;

/// Past so many rows, tiles of a matrix unit take less time than decoding.
constexpr std::int64_t kRowsOfTiles = 6;

/// Panels of a few rows are faster where keys and values lie in a cache, and decoding where they do
/// not. A sequence with so many bytes is taken to lie in memory.
constexpr std::int64_t kLongBytes = std::int64_t{4} << 20;
constexpr std::int64_t kManyBytes = std::int64_t{16} << 20;

/// At most so many bytes of a panel's probabilities are kept for the weights.
constexpr std::int64_t kMostKept = std::int64_t{4} << 20;

/// Decoding waits for memory, so that its claims last longer than their products take.
constexpr double kDecodeSlowness = 8;

/// `a` rounded down to a multiple of step, but at least one step.
std::int64_t in_steps(std::int64_t a, std::int64_t step) {
  return std::max(round_down(a, step), step);
}

/// The sum over i < rows of i + first, each clamped to [0, most].
double ramp_sum(std::int64_t rows, std::int64_t first, std::int64_t most) {
  const std::int64_t begin = std::clamp(-first, std::int64_t{0}, rows);
  const std::int64_t end = std::clamp(most - first, std::int64_t{0}, rows);
  const auto ramp = static_cast<double>(end - begin);
  const auto low = static_cast<double>(begin + first);
  return ramp * low + ramp * (ramp - 1) / 2 +
         static_cast<double>(rows - end) * static_cast<double>(most);
}

/// Pairs of a query row and a key that it attends, masks aside, in one head of a sequence of full
/// length.
double attended_pairs(const Problem& p) {
  const Limits limits = p.limits(p.query_length, p.key_length);
  return ramp_sum(p.query_length, limits.end, p.key_length) -
         ramp_sum(p.query_length, limits.first, p.key_length);
}

/// Half of the L2 cache holds a query block's queries and accumulators, all of it where keys and
/// values take less. Blocks are of even size, and small enough that every thread gets several.
std::int64_t automatic_tile_q(const heed_context& context, const Problem& problem,
                              std::int64_t rows, std::int64_t packs, const Widths& widths) {
  const std::int64_t panel = widths.panel;
  const Size row_bytes = (Size(problem.features) +
                          round_up(Size(problem.value_features), PanelGeometry::row_padding)) *
                         widths.bytes;
  const auto part =
      static_cast<std::int64_t>(tile_cache(context.caches) / (widths.by_tiles ? 1 : 2));
  const std::int64_t most = widths.by_tiles ? kLargestTiledBlock : kLargestBlock;
  std::int64_t largest = std::min(in_steps(part / row_bytes.value(), panel), in_steps(most, panel));
  const std::int64_t wanted =
      ceil_div(kTasksPerThread * context.threads.count, std::max(packs, std::int64_t{1}));
  const std::int64_t fair = round_up(ceil_div(rows, wanted), panel);
  largest = std::min(largest, std::max(fair, 4 * panel));
  const std::int64_t blocks = std::max(ceil_div(rows, largest), std::int64_t{1});
  return std::max(round_up(ceil_div(rows, blocks), panel), panel);
}

/// A quarter of the L2 cache holds a tile of keys and values; on the way back packed keys and the
/// sums of both lie beside them.
std::int64_t automatic_tile_kv(const heed_context& context, const Problem& problem, Pass pass,
                               const Widths& widths) {
  const std::int64_t step = widths.step;
  const Size key_bytes = (Size(problem.features) +
                          round_up(Size(problem.value_features), PanelGeometry::value_block)) *
                         widths.key_bytes;
  const std::size_t parts = pass == Pass::kForward ? 4 : 8;
  const auto part = static_cast<std::int64_t>(tile_cache(context.caches) / parts);
  const std::int64_t largest = in_steps(part / key_bytes.value(), step);
  return std::min(largest, round_up(std::max(problem.key_length, std::int64_t{1}), step));
}

/// Takes tiles from the context's options or environment, else from its tuning file, else from the
/// caches. On the way back tasks are splits of rows, which decide bits, so that tile_q is not asked
/// for.
void choose_tiles(heed_attention_plan& plan, Pass pass, std::int64_t rows, std::int64_t packs,
                  const Widths& widths) {
  const heed_context& context = *plan.context;
  const Problem& p = plan.problem;
  const TunedTiles tuned = context.tuning.find(
      {static_cast<std::int64_t>(p.key.type), static_cast<std::int64_t>(p.value.type), p.features,
       p.value_features, rows, p.key_length, packs, context.threads.count, p.triangular()});
  const auto given = [&](std::uint32_t asked, std::uint32_t found) {
    if (asked == 0 && found != 0) plan.tuning_line = tuned.line;
    return asked != 0 ? asked : found;
  };
  const std::uint32_t tile_q =
      pass == Pass::kForward ? given(context.tile_q, tuned.tile_q) : std::uint32_t{0};
  const std::uint32_t tile_kv = given(context.tile_kv, tuned.tile_kv);
  plan.tile_q = tile_q != 0 ? round_up(tile_q, widths.panel)
                            : automatic_tile_q(context, p, rows, packs, widths);
  plan.tile_kv =
      tile_kv != 0 ? round_up(tile_kv, widths.step) : automatic_tile_kv(context, p, pass, widths);
}

/// How many rows the problem has, or how many of something that each row has.
std::int64_t checked_rows(const Problem& p, Size size, const char* what) {
  return size.checked(what, {{"desc.batch", p.batch},
                             {"desc.query_heads", p.query_heads},
                             {"desc.query_length", p.query_length},
                             {"desc.key_length", p.key_length}});
}

/// Whether rows of other heads lie between the rows of one.
bool heads_interleave(const Problem& p) {
  const auto inside = [](const Layout& layout) {
    return magnitude(layout.strides.head) < magnitude(layout.strides.row);
  };
  return p.pages > 0 || inside(p.key) || inside(p.value);
}

/// How many packs a task takes side by side, so that it reads what lies side by side; but every
/// thread gets some tasks.
void plan_packs(heed_attention_plan& plan) {
  // A page of memory holds 8 rows of 128 float32, and finds room in the L2 cache 64 times.
  constexpr std::int64_t kInterleaved = 8;
  const Problem& p = plan.problem;
  Decode& decode = plan.decode;
  const std::int64_t wanted = kTasksPerThread * plan.context->threads.count;
  const auto groups = [&] { return ceil_div(plan.packs(), decode.packs); };
  decode.packs = heads_interleave(p) ? std::clamp<std::int64_t>(plan.packs(), 1, kInterleaved) : 1;
  while (decode.packs > 1 && (Size(p.batch) * groups() * decode.chunks).value() < wanted)
    decode.packs = ceil_div(decode.packs, 2);
  decode.groups = groups();
  const std::int64_t sharing = p.pages > 0 ? std::clamp<std::int64_t>(p.batch, 1, kSharing) : 1;
  decode.together = std::min(decode.packs * sharing, kTogether);
}

/// Keys and values are read in turns where a sequence has too many for most caches: both streams
/// then keep the processor's own prefetching busy, which is worth more than what is lost between
/// turns. From caches longer blocks are better, but where some heads read a row no more than what
/// is prefetched ahead of them.
std::int64_t decoded_block(const heed_attention_plan& plan, bool many) {
  constexpr std::int64_t kTurnBytes = std::int64_t{4} << 10;
  constexpr std::int64_t kBlockBytes = std::int64_t{16} << 10;
  constexpr auto kFewest = static_cast<std::int64_t>(StoredRows::kRunRows);
  constexpr std::int64_t kSomeHeads = 4;
  const Problem& p = plan.problem;
  const std::int64_t row_bytes = std::max(std::min(p.features, kBlockBytes) * p.key.bytes,
                                          std::min(p.value_features, kBlockBytes) * p.value.bytes);
  const auto fit = [&](std::int64_t keys, std::int64_t bytes) {
    while (keys > kFewest && keys * row_bytes > bytes) keys /= 2;
    return keys;
  };
  if (many) return fit(StoredRows::kMostRows, kTurnBytes);
  return plan.pack_heads >= kSomeHeads ? fit(PanelGeometry::run, kBlockBytes)
                                       : std::int64_t{PanelGeometry::run};
}

/// The components that a plan multiplies. Weights are rounded to bfloat16 only where all that they
/// meet is, or may be rounded too. Two components are all of a float16, and three products of them
/// as exact. Three of a float32 would be six products, which take as long as multiply-adds, or half
/// as long again where two threads share a core, and are less exact. Hard attention does not find
/// its choice again where a score is not finite.
Parts parts_of(const heed_context& context, const Problem& p, Placement placement) {
  const auto all_are = [&](ElementType type) {
    return p.query.type == type && p.key.type == type && p.value.type == type;
  };
  if (p.float64 || placement == Placement::kByHead || !p.is_dot()) return {};
  const bool rounds =
      context.precision == Precision::kMedium && !p.projected && all_are(ElementType::kF32);
  if (has_pairs(context) && (rounds || all_are(ElementType::kBf16))) return {1};

  const ProductKernels<float>* const products = context.kernels->f32.by_parts.two;
  if (products == nullptr || p.hard) return {};
  const Size whole = round_up(Size(p.features), products->depth) +
                     round_up(Size(p.value_features), PanelGeometry::value_block);
  if (whole.value() > 2 * (p.features + p.value_features)) return {};
  if (context.precision == Precision::kExact)
    return all_are(ElementType::kBf16) ? Parts{1, true} : Parts{};
  const bool high = context.precision == Precision::kHigh && all_are(ElementType::kF32);
  return {high || all_are(ElementType::kF16) ? std::uint32_t{2} : std::uint32_t{0}};
}

/// Sums of a row's products with integers must fit in 32 bits.
bool multiplies_integers(const heed_context& context, const Problem& p) {
  constexpr std::int64_t kMostFeatures = 512;
  return has_pairs(context) && p.key.type == ElementType::kI8 && p.value.type == ElementType::kI8 &&
         p.features <= kMostFeatures;
}

/// heed_attention_plan::key_chunks. Tasks of few rows are few, and each would read many keys.
std::int64_t chunks_of(const heed_attention_plan& plan, Pass pass) {
  const Problem& p = plan.problem;
  const std::int64_t fewest_rows = p.packed_queries > 0 ? 1 : p.query_length;
  const bool some = pass == Pass::kForward && plan.placement == Placement::kPacked && !p.hard &&
                    is_worth_chunks(plan.pack_heads * fewest_rows, p.key_length);
  return some ? std::min(ceil_div(p.key_length, kPrefillChunk), kMostChunks) : 1;
}

/// Which sequences are decoded, and into which chunks.
void plan_decode(heed_attention_plan& plan, std::int64_t packs, const Widths& widths) {
  const Problem& p = plan.problem;
  const std::int64_t longest = plan.pack_heads * p.query_length;
  // Of narrow rows, sums over lanes take longer than the products.
  const std::int64_t sums = kSumsPerVector * p.features / widths.lanes;
  const bool pairs = plan.parts.count == 1 && !plan.parts.exact && p.key.type == ElementType::kBf16;
  const bool tiles = widths.by_tiles && pairs;
  const std::int64_t few = std::clamp(sums, std::int64_t{1}, tiles ? kRowsOfTiles : widths.decoded);
  const Size key_bytes = (Size(p.features) * p.key.bytes + Size(p.value_features) * p.value.bytes) *
                         std::max(p.key_heads, std::int64_t{1});
  const std::int64_t long_keys = ceil_div(kLongBytes, std::min(key_bytes.value(), kLongBytes));
  const std::int64_t far = tiles ? kRowsOfTiles : 2 * widths.decoded;
  const std::int64_t most = p.key_length < long_keys ? few : std::max(few, std::min(sums / 2, far));
  const bool some = p.packed_queries > 0 ? plan.pack_heads <= most : longest <= most;
  Decode& decode = plan.decode;
  if (plan.placement == Placement::kByHead || p.hard || !p.is_dot() || !some) return;
  decode.few = few;
  decode.rows = most;
  decode.long_keys = long_keys;
  decode.many_keys = long_keys * (kManyBytes / kLongBytes);
  decode.block_keys = decoded_block(plan, false);
  decode.turn_keys = decoded_block(plan, true);
  const bool has_rows = plan.context->kernels->f32.row_pairs != nullptr;
  decode.pairs = has_rows && longest > 1 && (pairs || multiplies_integers(*plan.context, p));
  decode.tables = has_rows && p.key.type == ElementType::kF8E4M3 && p.value.type == p.key.type;
  plan.strategy = longest <= few ? Strategy::kDecode : Strategy::kMixed;
  if (plan.strategy == Strategy::kDecode) {
    plan.tasks = 0;
    plan.key_chunks = 1;
  }
  const std::int64_t rows = std::min(longest, most);
  decode.chunks = std::max(ceil_div(p.key_length, kDecodeChunk), std::int64_t{1});
  plan_packs(plan);
  const std::int64_t parts =
      rows == 0 ? 0 : checked_rows(p, Size(packs) * decode.chunks, "the number of chunks");
  decode.tasks = parts == 0 ? 0 : p.batch * decode.groups * decode.chunks;
  decode.partial_values = checked_rows(p, (Size(p.value_features) + 2) * rows, "a chunk's sums");
  const double flops = 2.0 * static_cast<double>(p.features + p.value_features) *
                       static_cast<double>(rows * decode.packs) *
                       static_cast<double>(std::min(p.key_length, kDecodeChunk));
  decode.per_claim = static_cast<std::int64_t>(
      std::clamp(kFlopsPerClaim / (kDecodeSlowness * flops + 1), 1.0, 1e6));
}

/// How many keys a sequence may have for prefill to keep the probabilities of a panel until they
/// can be written as weights. Of longer ones, and where weights show something else, recompute()
/// finds them again.
std::int64_t kept_keys(const heed_attention_plan& plan, Pass pass, const Widths& widths) {
  const Problem& p = plan.problem;
  const bool keeps = pass == Pass::kForward && plan.tasks > 0 && !p.hard &&
                     p.weights_point == HEED_WEIGHTS_PROBABILITIES && p.weight_rows == 0;
  return keeps ? std::min(p.key_length, kMostKept / (widths.panel * widths.bytes)) : 0;
}

/// Whether weights go past the caches: so many bytes are written that the first of them would have
/// left before anybody reads them.
bool writes_past_caches(const Problem& p) {
  const Size rows = Size(p.batch) * p.query_heads * p.query_length;
  return (rows * p.key_length * p.weights.bytes).value() >= kManyBytes;
}

Slab lay_out(const heed_attention_plan& plan, const Widths& widths) {
  const Problem& p = plan.problem;
  Offsets offsets;
  const auto numbers = [&](Size rows, Size columns) {
    return offsets.take(rows, columns, widths.bytes);
  };
  const bool tiles = plan.strategy != Strategy::kDecode || plan.recomputed > 0;
  const bool decodes = plan.decode.rows > 0;
  // The widest row that passes through; a bias or mask is read one key block at a time.
  std::int64_t widest = widths.step;
  if (p.query.type != widths.type || p.divides_by_norms() || decodes || plan.parts.count > 0)
    widest = std::max(widest, p.features);
  if (p.out.type != widths.type || p.hard || decodes || plan.parts.count > 0)
    widest = std::max(widest, p.value_features);

  Slab slab{};
  const std::int64_t decoded = decodes ? plan.decode.rows * plan.decode.together : 0;
  const std::int64_t block = decodes ? std::int64_t{PanelGeometry::run} : 0;
  const std::int64_t tile = tiles ? plan.tile_kv : 0;
  const Size query = round_up(Size(p.features), widths.lanes);
  slab.query = numbers(1, std::max((Size(plan.tile_q) * plan.query_lines).value(),
                                   (Size(decoded) * (query * 2 + widths.lanes)).value()));
  slab.accumulators = numbers(
      std::max(plan.tile_q, decoded),
      std::max(plan.accumulator_rows, round_up(Size(p.value_features), widths.lanes).value()));
  const std::int64_t kept =  // kernels write whole groups
      plan.kept_keys > 0 ? round_up(plan.kept_keys, widths.step) + kNarrowestBlock : 0;
  slab.scores = numbers(std::max(widths.step, block) + kept, widths.panel);
  slab.block_max = numbers(kept / kNarrowestBlock, widths.panel);
  slab.attended = numbers(std::max(widths.step, block), widths.panel);
  slab.columns = numbers(p.sum_columns ? widths.step : 0, widths.panel);
  const auto copied = [&](const Layout& layout, bool divided = false) {
    const bool in_place = has_rows_of(widths.type, layout) && p.pages == 0 && !divided;
    return std::max(in_place && plan.parts.count == 0 ? 0 : tile, block);
  };
  slab.keys =
      numbers(copied(p.key, p.divides_by_norms()), round_up(Size(p.features), widths.lanes));
  slab.values = numbers(copied(p.value), round_up(Size(p.value_features), widths.lanes));
  const bool splits = plan.parts.count > 1;
  slab.packed = numbers(splits ? tile * plan.parts.count / 2 : tile,
                        round_up(Size(p.value_features), PanelGeometry::value_block));
  slab.split = numbers(splits ? tile : 0, plan.query_lines);
  slab.key_scales = offsets.take(block, 1, sizeof(float));
  slab.value_scales = offsets.take(block, 1, sizeof(float));
  slab.partial = numbers(decodes && plan.decode.chunks == 1 ? plan.decode.partial_values : 0,
                         plan.decode.together);
  slab.rows = numbers(widths.panel, widest);
  slab.row_max = numbers(plan.tile_q, 1);
  slab.row_sum = numbers(plan.tile_q, 1);
  slab.argmax = offsets.take(p.hard ? plan.tile_q : 0, 1, sizeof(std::int64_t));
  slab.summed = offsets.take(plan.tile_q, 1, sizeof(Summed));
  slab.bytes = offsets.end("a thread's workspace", {{"desc.features", p.features},
                                                    {"desc.value_features", p.value_features}});
  return slab;
}

/// Plans recompute(), where somebody asks for weights.
void plan_recompute(heed_attention_plan& plan, const Widths& widths) {
  const Problem& p = plan.problem;
  plan.chunks = ceil_div(p.key_length, plan.tile_kv);
  const bool all_kept =
      plan.strategy == Strategy::kPrefill && plan.key_chunks == 1 && plan.kept_keys >= p.key_length;
  const bool weights = p.weights_point != HEED_WEIGHTS_NONE && p.query_length > 0 && !all_kept;
  if (!weights && !p.sum_columns) return;
  const Size heads = Size(p.batch) * p.query_heads;
  plan.recomputed = checked_rows(p, heads * plan.chunks, "the number of columns of weights");
  const Size bytes = heads * p.query_length * std::max<std::int64_t>(2 * widths.bytes, 8);
  plan.results_bytes = static_cast<std::size_t>(
      checked_rows(p, round_up(bytes, kAlignment), "what is kept of every row"));
}

/// Results of rows, the slabs of all threads, and the partial results of all chunks.
void lay_out_workspace(heed_attention_plan& plan) {
  const Problem& p = plan.problem;
  if (plan.tasks == 0 && plan.decode.tasks == 0 && plan.recomputed == 0) return;
  const Size slabs = Size(plan.workers) * static_cast<std::int64_t>(plan.slab.bytes) +
                     static_cast<std::int64_t>(plan.results_bytes);
  plan.bytes = static_cast<std::size_t>(
      slabs.checked("the workspace", {{"desc.features", p.features},
                                      {"desc.value_features", p.value_features},
                                      {"threads", plan.workers}}));
  const auto take = [&](std::int64_t chunks, std::int64_t values) {
    const std::int64_t at =
        round_up(static_cast<std::int64_t>(plan.bytes), HEED_WORKSPACE_ALIGNMENT);
    const Size partials = Size(p.batch) * plan.packs() * chunks * values * real_bytes(p.float64);
    if (chunks > 1)
      plan.bytes =
          static_cast<std::size_t>(checked_rows(p, partials + at, "the sums of all chunks"));
    return static_cast<std::size_t>(at);
  };
  plan.decode.partials = take(plan.decode.chunks, plan.decode.partial_values);
  plan.key_partials = take(plan.key_chunks, plan.partial_values);
}

}  // namespace

heed_attention_plan make_plan(const heed_context& context, const Problem& problem,
                              Placement placement, Pass pass) {
  Widths widths = Widths::of(context, problem.float64);
  heed_attention_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  plan.panel_rows = widths.panel;
  plan.placement = placement;
  plan.strategy = Strategy::kPrefill;
  const Parts parts = parts_of(context, problem, placement);
  const bool given_so = parts.count == 1 && !parts.exact && problem.key.type == ElementType::kBf16;
  if (pass == Pass::kForward || given_so) plan.parts = parts;
  plan.query_lines = summed_features(problem).value();
  if (plan.parts.count > 0) {
    const ProductKernels<float>& products = products_of(context.kernels->f32, plan.parts);
    widths.step = std::max<std::int64_t>(widths.step, products.key_block);
    widths.by_tiles = pass == Pass::kForward && products.attend != nullptr;
    if (products.attend != nullptr) plan.panel_rows = widths.panel = kTiledVectors * widths.lanes;
    if (widths.by_tiles) {
      widths.key_bytes = std::int64_t{2} * products.parts;
    }
    // Rows that are computed again without pairs have panels there too.
    plan.query_lines = std::max(problem.features, lines_of_panel(products, problem.features));
  }
  plan.pack_heads =
      placement != Placement::kPacked ? 1 : std::max<std::int64_t>(problem.group(), 1);
  const std::int64_t rows =
      checked_rows(problem, Size(plan.pack_heads) * problem.query_length, "the number of rows");
  const std::int64_t packs =
      checked_rows(problem, Size(problem.batch) * plan.packs(), "the number of heads");
  plan.key_chunks = chunks_of(plan, pass);
  choose_tiles(plan, pass, rows, packs * plan.key_chunks, widths);
  plan.accumulator_rows =
      accumulator_rows(problem.value_features, problem.key_length)
          .checked("the rows of accumulators", {{"desc.value_features", problem.value_features}});
  plan.query_blocks = ceil_div(rows, plan.tile_q);
  plan.tasks = checked_rows(problem, Size(packs) * plan.query_blocks * plan.key_chunks,
                            "the number of rows");
  plan.flops = 2.0 * static_cast<double>(problem.features + problem.value_features) *
               attended_pairs(problem) * static_cast<double>(problem.batch) *
               static_cast<double>(problem.query_heads);

  const std::int64_t worth =
      std::min(static_cast<std::int64_t>(std::min(plan.flops / kFlopsPerClaim, 1e15)) + 1,
               kClaimsPerThread * context.threads.count);
  const std::int64_t claims =
      std::clamp(worth, std::int64_t{1}, std::max(plan.tasks, std::int64_t{1}));
  plan.tasks_per_claim = std::max(ceil_div(plan.tasks, claims), std::int64_t{1});
  plan.partial_values =
      checked_rows(problem, (Size(problem.value_features) + 2) * std::min(rows, kMostChunkedRows),
                   "a chunk's sums");
  plan.decode.per_claim = 1;
  if (pass == Pass::kForward) plan_decode(plan, packs, widths);
  if (plan.strategy == Strategy::kDecode) plan.parts = {};
  const std::int64_t most_claims = std::max(ceil_div(plan.tasks, plan.tasks_per_claim),
                                            ceil_div(plan.decode.tasks, plan.decode.per_claim));
  plan.workers =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(most_claims, 1, context.threads.count));
  plan.kept_keys = kept_keys(plan, pass, widths);
  plan.largest_block = widths.step;
  plan.past_caches = writes_past_caches(problem);
  plan_recompute(plan, widths);
  plan.slab = lay_out(plan, widths);
  lay_out_workspace(plan);
  return plan;
}

void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept {
  const Problem& p = plan.problem;
  const heed_context& c = *plan.context;
  Text precision;
  if (plan.precision() != Precision::kExact) precision.add(" %s", name_of(plan.precision()));
  Text tuned;
  if (plan.tuning_line > 0) tuned.add(" of line %u", plan.tuning_line);
  tell(
      "attention %s scale %.6g%s, %s %s%s %s x%u, tiles %lld x %lld%s, %lld tasks, %.3f ms, "
      "%.1f GFLOP/s",
      sizes_of(p).c_str(), p.scale, options_of(p, args).c_str(), plan.strategy_name(),
      c.kernels->f32.isa, precision.c_str(), c.threads.name, plan.workers, lld(plan.tile_q),
      lld(plan.tile_kv), tuned.c_str(), lld(plan.all_tasks()), seconds * 1e3,
      seconds > 0 ? plan.flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
