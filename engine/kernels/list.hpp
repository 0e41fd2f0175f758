// The list of all kernels, by family. table.hpp makes each family's table from it, the family's
// file and scalar.cpp fill these tables. To add a kernel, add a line here, its definition for
// vectors, and the plain loop in scalar.cpp.
//
// Every inclusion does something else with each line, so there is no include guard. The includer
// defines the macros of the families it is about, all as
//
//   HEED_..._KERNEL(result, name, parameters)
//
// Element is the type of values in memory, Real the type of the arithmetic.

#ifndef HEED_PANEL_KERNEL
#define HEED_PANEL_KERNEL(result, name, parameters)
#endif
#ifndef HEED_PRODUCT_KERNEL
#define HEED_PRODUCT_KERNEL HEED_PANEL_KERNEL  // to most includers they are kernels of panels
#endif
#ifndef HEED_PACK_KERNEL
#define HEED_PACK_KERNEL(result, name, parameters)
#endif
#ifndef HEED_ROW_KERNEL
#define HEED_ROW_KERNEL(result, name, parameters)
#endif
#ifndef HEED_ROW_PRODUCT
#define HEED_ROW_PRODUCT HEED_ROW_KERNEL  // to most includers they are kernels of rows
#endif
#ifndef HEED_NODE_KERNEL
#define HEED_NODE_KERNEL(result, name, parameters)
#endif
#ifndef HEED_NUMBER_KERNEL
#define HEED_NUMBER_KERNEL(result, name, parameters)
#endif

// ---- Panels: lanes are query rows ------------------------------------------------------------
// `vectors` is the number of vectors in the panel. These kernels are compiled once for each.

/// Transposes up to vectors * lanes query rows into a panel, times `scale`. rows[r] points at row
/// r; rows past `row_count` become zeros.
HEED_PRODUCT_KERNEL(void, pack_query,
                    (std::size_t vectors, const Element* const* rows, std::size_t row_count,
                     std::ptrdiff_t feature_stride, std::size_t features, Real scale,
                     Element* panel))

/// scores[j][r] = <key j, query r>, for the keys that r's vector needs. Rows are written in groups:
/// up to the last vector's end rounded up to row_padding. Rows past that end hold copies of other
/// keys' scores. A score that its vector does not need is such a copy, the score, or untouched.
HEED_PRODUCT_KERNEL(void, scores,
                    (std::size_t vectors, const RowsView<Element>& key, const KeyRanges& keys,
                     const Element* panel, std::size_t features, Real* scores))

/// The same of scores that are no products: the sum over features of weight times act(query + key),
/// for the keys that r's vector needs and no others.
HEED_PANEL_KERNEL(void, activated_scores,
                  (std::size_t vectors, const RowsView<Element>& key, const KeyRanges& keys,
                   const ActivatedPanel<Real>& panel, Real* scores))

/// Gradients of such scores, from gradients[j][r] of each, added to what is there: query[x][r] +=
/// weights[x][r] * the sum over keys of gradient * act'(query + key), weights[x][r] += the sum
/// of gradient * act(query + key), and key[j][x] += the sum over rows of gradient * weight * act'.
/// A gradient of 0 adds nothing to any, whatever it meets.
HEED_PANEL_KERNEL(void, activated_gradient,
                  (std::size_t vectors, const RowsView<Element>& key, std::size_t keys,
                   const ActivatedPanel<Real>& panel, const Real* gradients,
                   const ActivatedGradient<Real>& to))

/// sums[j][r] += <row j, column r of the panel>, summed over `parts` rows and panels in order and
/// in one run, for all j < count and nothing past that. Rows are as long as their panel has lines.
HEED_PANEL_KERNEL(void, add_scores,
                  (std::size_t vectors, const RowsAndPanel<Element>* parts, std::size_t part_count,
                   std::size_t count, Real* sums))

/// scores[j][r] = factor * tanh(x), where scores[j][r] is 2 log2(e) x on the way in, so that
/// e^(2x) is a power of two. The relative error is at most 4 ULP wherever tanh(x) is a normal
/// number; infinities give exactly +-factor, NaN stays NaN.
HEED_PANEL_KERNEL(void, softcap, (std::size_t vectors, Real* scores, std::size_t keys, Real factor))

/// scores[j][r] -= slope[r] * |position[r] - j|. Positions are whole numbers.
HEED_PANEL_KERNEL(void, alibi,
                  (std::size_t vectors, Real* scores, std::size_t keys, const Real* position,
                   const Real* slope))

/// scores[j][r] += rows[r][j] * factor >= 0, for r < row_count, j < keys. An addend of -inf masks
/// the key: the score becomes -inf whatever it and the factor were, NaN and 0 included. Where
/// addend and score are finite, the product and the sum stay it: what overflows becomes kNoRowMax
/// or kHighestScore, which masks nothing.
HEED_PANEL_KERNEL(void, add_rows,
                  (std::size_t vectors, Real* scores, std::size_t keys, const Real* const* rows,
                   std::size_t row_count, Real factor))

/// to[j][r] = rows[r][j] * factor, and -0 for r >= row_count: what `add_rows` adds. False if sums
/// of these and finite scores may overflow, and then these are of no use; -inf, which masks the
/// key, may be among them.
HEED_PANEL_KERNEL(bool, lay_rows,
                  (std::size_t vectors, Real* to, std::size_t keys, const Real* const* rows,
                   std::size_t row_count, Real factor))

/// scores[j][r] = -inf where rows[r][j] is 0, for r < row_count, j < keys. The others become 0 with
/// `fresh`, else stay.
HEED_PANEL_KERNEL(void, mask_rows,
                  (std::size_t vectors, Real* scores, std::size_t keys,
                   const std::uint8_t* const* rows, std::size_t row_count, bool fresh))

/// scores[j][r] = -inf unless first[r] <= j < limit[r]. Both are whole numbers.
HEED_PANEL_KERNEL(void, mask,
                  (std::size_t vectors, Real* scores, std::size_t keys, const Real* first,
                   const Real* limit))

/// One step of online softmax, over the keys that r's vector needs; the other scores are neither
/// read nor written. Scores become probabilities exp2(score - row_max), and row_sum grows by them.
/// Where a score has outgrown its row_max, row_max moves first, and row_sum, the accumulators
/// [accumulated][pitch] and the `pending` rows of probabilities that lie before `scores` are
/// rescaled: pending ones belong to the same key block and are not accumulated yet. Source: Milakov
/// & Gimelshein 2018, algorithm 3 (arXiv:1805.02867), with lazy rescaling. Pairs leave it to
/// `accumulate` to add them to row_sum, because it rounds them.
HEED_PRODUCT_KERNEL(void, softmax,
                    (std::size_t vectors, Real* scores, const KeyRanges& keys, std::size_t pending,
                     const RowState<Real>& rows, std::size_t accumulated))

/// Only the last step of `softmax`, for a row_max that is final: scores become probabilities
/// exp2(score - row_max), row_sum[r] grows by them.
HEED_PANEL_KERNEL(void, exponentials,
                  (std::size_t vectors, Real* scores, std::size_t keys, const Real* row_max,
                   Real* row_sum))

/// Softmax backwards, for probabilities that are normalised: scores become probabilities
/// exp2(score - rest - whole), and their gradients become gradients of scores in natural units,
/// probability * (gradient - delta); 0 where the score is -inf, whatever the gradient holds. The
/// log-sum-exp is whole + rest; `whole` is a whole number of at most kMostWhole, of either sign.
HEED_PANEL_KERNEL(void, softmax_gradient,
                  (std::size_t vectors, Real* scores, std::size_t keys, const Real* whole,
                   const Real* rest, const Real* delta, Real* gradients))

/// `scores` and `softmax` fused, for scores that no option changes except by rows.addend:
/// probs[j][r] becomes the probability that the two would leave there, except that row_max may move
/// at other keys. `keys` is a multiple of row_padding.
HEED_PRODUCT_KERNEL(void, qk_softmax,
                    (std::size_t vectors, const RowsView<Element>& key, std::size_t keys,
                     const Element* panel, std::size_t features, Real* probs, std::size_t pending,
                     const RowState<Real>& rows, std::size_t accumulated))

/// One step of hard attention: where a score exceeds best[r], best[r] becomes that score and
/// index[r] its j. Keys come in order, so of equal scores the lowest key stays. A NaN among the
/// scores makes best[r] NaN for good.
HEED_PANEL_KERNEL(void, argmax,
                  (std::size_t vectors, const Real* scores, std::size_t keys, Real* best,
                   Real* index))

/// accumulators[x][r] += sum of probs[j][r] * value[j][x] over the keys j that r's vector needs,
/// summed in runs: the first of `first_run` keys, the others of `run`; pairs in runs of at most 64.
/// `fresh` starts from zero. Reads and writes up to `features` rounded up to row_padding. Pairs add
/// the rounded probabilities to row_sum; other kernels use only the accumulators of `rows`.
HEED_PRODUCT_KERNEL(void, accumulate,
                    (std::size_t vectors, const ValueView<Element>& value, const KeyRanges& keys,
                     std::size_t first_run, const Real* probs, const RowState<Real>& rows,
                     std::size_t features))

/// sums[x][r] += sum of panel[j][r] * value[j][x] over all j < keys, summed in runs as `accumulate`
/// does; pairs are summed in one run. The panel lies as pack_query lays it; its line of factors is
/// not read. `fresh` starts from zero. Reads and writes up to `features` rounded up to row_padding.
HEED_PRODUCT_KERNEL(void, multiply_panel,
                    (std::size_t vectors, const ValueView<Element>& value, std::size_t keys,
                     const Element* panel, Real* sums, std::size_t features, bool fresh))

/// out_rows[r][x * feature_stride] = accumulators[x][r] / row_sum[r], and 0 where row_sum is 0, for
/// r < row_count, x < features. Reads nothing past `features` rounded up to row_padding rows.
/// `past_caches`: nobody reads the rows soon, so that whole vectors of them may go straight to
/// memory.
HEED_PANEL_KERNEL(void, finish,
                  (std::size_t vectors, const Real* accumulators, const Real* row_sum,
                   std::size_t features, Real* const* out_rows, std::size_t row_count,
                   std::ptrdiff_t feature_stride, bool past_caches))

/// to[j][r] = from[j][r] * factor, or 0 where that pair is dropped, for the keys that r's vector
/// needs; the others stay. Unless `dropped` is nullptr, dropped[r] += the sum of the from[j][r]
/// that are dropped. Works in place too.
HEED_PANEL_KERNEL(void, drop,
                  (std::size_t vectors, const DroppedPairs& pairs, const KeyRanges& keys,
                   const Real* from, Real factor, Real* to, Real* dropped))

/// to[x][r] = accumulators[x][r] / row_sum[r], and 0 where row_sum is 0, for x < features: the
/// results of `finish`, left in a panel. Works in place too.
HEED_PANEL_KERNEL(void, normalise,
                  (std::size_t vectors, const Real* accumulators, const Real* row_sum,
                   std::size_t features, Real* to))

// ---- Panels: packing that serves panels of any width -----------------------------------------

/// Copies keys x features values to [feature block][key][value_block], zero-padded; pairs to
/// [feature block][group of keys][value_block][elements].
HEED_PACK_KERNEL(void, pack_values,
                 (const MatrixView<Element>& value, std::size_t keys, std::size_t features,
                  Element* packed))

// ---- Rows: lanes are features ----------------------------------------------------------------

/// scores[e * pitch + h] = <row of edge e, query h>, or grows by that unless `fresh`; the other
/// lanes stay. query is [heads][features]; `features` is a multiple of feature_padding.
HEED_ROW_KERNEL(void, edge_scores,
                (const EdgeRows& rows, std::size_t edges, const Real* query, std::size_t heads,
                 std::size_t features, bool fresh, Real* scores, std::size_t pitch))

/// sums[h][x] (+)= the sum over e < edges of weights[e * pitch + h] * row of edge e [h][x], edges
/// in order. sums is [heads][features]; `features` is a multiple of feature_padding. `fresh` starts
/// from zero.
HEED_ROW_KERNEL(void, edge_values,
                (const EdgeRows& rows, std::size_t edges, const Real* weights, std::size_t pitch,
                 std::size_t heads, std::size_t features, Real* sums, bool fresh))

/// values[e][h][x] = act(z), and slopes[e][h][x] its derivative unless that is nullptr, where z =
/// own row of edge e [h][x] + row of edge e [h][x], of Reals; both are [edges][heads][features];
/// `features` is a multiple of feature_padding. The relative error of tanh is at most 6 ULP
/// wherever it is a normal number.
HEED_ROW_KERNEL(void, activate,
                (const EdgeRows& rows, std::size_t edges, const OwnRows<Real>& own,
                 std::size_t heads, std::size_t features, const Activation<Real>& act, Real* values,
                 Real* slopes))

/// Lays out a query for row_scores, times `scale`: `to` gets RowOrder::query_numbers() numbers for
/// rows of that type. `features` is at least the lanes.
HEED_ROW_PRODUCT(void, row_query,
                 (ElementType type, const Real* query, std::size_t features, Real scale, Real* to))

/// scores[j * pitch + h] = <row j, query h> for j < rows.count, h < queries; the other lanes stay.
/// Queries lie as row_query lays them, one after the other. Pairs of bfloat16 take queries of
/// bfloat16. Pairs of integers take any: finite queries are rounded to 1 / 32767 of their largest
/// value.
HEED_ROW_PRODUCT(void, row_scores,
                 (const StoredRows& rows, const Real* query, std::size_t queries, Real* scores,
                  std::size_t pitch))

/// sums[h][x] += the sum over j < rows.count of weights[j * pitch + h] * row j [x], rows in order,
/// for h < queries; totals[h] += the sum of the weights. sums is [queries][padded features], in the
/// order of RowOrder; features that do not count are summed too, or not. Pairs take kMostRows rows
/// at most and round weights: to bfloat16, and then they total the rounded ones, or, times scales,
/// to 1 / 32767 of the largest.
HEED_ROW_PRODUCT(void, row_values,
                 (const StoredRows& rows, const Real* weights, std::size_t pitch,
                  std::size_t queries, Real* sums, Real* totals))

/// Scores of some keys become probabilities exp2(score - row_max[h]), and 0 in the lanes of no
/// query, which are finite before; nothing is totalled. Where a score has outgrown its row_max[h],
/// which is kNoRowMax at first, that moves, and row_sum[h] and the query's sums, [queries][padded],
/// are rescaled. `pitch` is a multiple of the lanes or divides them, and scores have room for
/// whole vectors.
HEED_ROW_KERNEL(void, row_probs,
                (std::size_t keys, std::size_t pitch, std::size_t queries, Real* scores,
                 Real* row_max, Real* row_sum, Real* sums, std::size_t padded))

/// Attention of up to kAttendQueries queries, over as many keys as values: `turn` keys are read and
/// then their values; `turn` is a multiple of kRunRows up to kMostRows. row_scores makes the
/// scores, row_probs the probabilities; row_values adds them to row_sum[h], and their products to
/// `sums`. How rows are divided between calls changes nothing, if all calls except the last have a
/// multiple of `turn`.
HEED_ROW_PRODUCT(void, row_attend,
                 (const StoredRows& keys, const StoredRows& values, const Real* query,
                  std::size_t queries, std::size_t turn, Real* row_max, Real* row_sum, Real* sums))

// ---- Nodes of graphs --------------------------------------------------------------------------
// They return false if a score or gradient of an edge is not finite, or for gradients a log-sum-exp
// is beyond kFarLogSum: results are then of no use. `features` and `value_features` are multiples
// of feature_padding.

/// Softmax over all edges of each node: out[h] = the weighted sum of values. row_max (the largest
/// score, log2 units) and row_sum, relative to that, are [nodes][heads], unless row_max is nullptr.
/// `weights`, unless nullptr, are the probabilities divided by row_sum, [edges][heads].
HEED_NODE_KERNEL(bool, attend_nodes,
                 (const NodeEdges<Real>& nodes, Real* row_max, Real* row_sum,
                  const NodeRows<Real>& out, Real* weights))

/// The same softmax again, and the gradients of queries: grad_query = factor * the sum over edges
/// of prob * (<grad, value> - delta) * key, where delta = the sum of prob * <grad, value>, less
/// grad_lse, [nodes][heads], unless that is nullptr. stats is [nodes][2][heads]: log-sum-exp in
/// log2 units and delta; of a node without edges they are finite. Where slopes are no keys,
/// grad_query is the sum of them, and grad_weights grows by the sum of keys, unless it is nullptr.
HEED_NODE_KERNEL(bool, node_gradients,
                 (const NodeEdges<Real>& nodes, Real factor, const Real* grad_lse, Real* stats,
                  const NodeRows<Real>& grad_query, Real* grad_weights))

/// Gradients of sources, from edges e that lead to destinations[e]: with prob = exp2(score - lse),
/// grad_key (+)= the sum of factor * prob * (<grad, value> - delta) * slope, grad_value (+)= the
/// sum of prob * grad. stats is [nodes][2][heads]: lse and delta of all nodes. `fresh` starts from
/// zero.
HEED_NODE_KERNEL(bool, source_gradients,
                 (const NodeEdges<Real>& nodes, Real factor, const Real* stats,
                  const std::int32_t* destinations, bool fresh, const NodeRows<Real>& grad_key,
                  const NodeRows<Real>& grad_value))

// ---- Numbers one after the other -------------------------------------------------------------

/// y[i] = 2^x[i]. The error is at most 1 ULP where the result is normal and below the largest power
/// of two (float32: x in [-126, 127.5], float64: [-1022, 1023.5]). Where x is lower by 0.5 or more,
/// y is +0, and on some instruction sets where it is lower at all.
HEED_NUMBER_KERNEL(void, exp2, (const Real* x, Real* y, std::size_t count))

/// to[i] += from[i].
HEED_NUMBER_KERNEL(void, add_onto, (const Real* from, std::size_t count, Real* to))

/// scores[i] *= factor >= 0. Finite ones stay finite: what overflows becomes kNoRowMax or
/// kHighestScore. Infinities and NaN stay what they are.
HEED_NUMBER_KERNEL(void, scale_scores, (Real factor, std::size_t count, Real* scores))

/// Whether none of the numbers is infinite or NaN. `count` is a multiple of the panels' lanes.
HEED_NUMBER_KERNEL(bool, all_finite, (const Real* numbers, std::size_t count))

/// The sum of a[i] * b[i] in float64: 16 sums, added in pairs, the same on all instruction sets.
HEED_NUMBER_KERNEL(double, inner_product, (const Real* a, const Real* b, std::size_t count))

/// to[i] = the i-th element of `from` (no mask), `stride` elements apart, as Real, scales aside:
/// exact, except that float64 read as float32 rounds to nearest even; a finite value past the
/// largest becomes the largest.
HEED_NUMBER_KERNEL(void, read,
                   (ElementType type, const void* from, std::ptrdiff_t stride, std::size_t count,
                    Real* to))

/// The i-th element of `to` (no mask, not kI8), `stride` elements apart, = from[i] rounded to
/// nearest even. kF8E4M3 has no infinity: values past its largest become that.
HEED_NUMBER_KERNEL(void, write,
                   (ElementType type, const Real* from, std::size_t count, void* to,
                    std::ptrdiff_t stride))

/// kI8: *scale = the largest |from[i]| / 127, and to[i] = from[i] / *scale, rounded to nearest
/// even. If a number is not finite, *scale is NaN, and all of `to` 0. If the scale would be less
/// than the smallest normal number, it is 0, and so is `to`.
HEED_NUMBER_KERNEL(void, quantise,
                   (const Real* from, std::size_t count, std::int8_t* to, float* scale))

#undef HEED_PANEL_KERNEL
#undef HEED_PRODUCT_KERNEL
#undef HEED_PACK_KERNEL
#undef HEED_ROW_KERNEL
#undef HEED_ROW_PRODUCT
#undef HEED_NODE_KERNEL
#undef HEED_NUMBER_KERNEL
