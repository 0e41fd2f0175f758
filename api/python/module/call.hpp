// A call of dense attention, from Python's arguments to the ones of C.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "api/python/module/arguments.hpp"
#include "api/python/module/array.hpp"

namespace heed::python {

// ---- Results, in arrays of the caller's library or where the caller wants them ----

/// Names of arrays, and what plans are made for of each.
using NamedForms = std::vector<std::pair<const char*, Form>>;

/// The address of an array, null if it has no elements, so never of one that is given: heed takes
/// null for "not given".
inline void* address_of(const Array& array) {
  return array.form.elements() == 0 ? nullptr : array.data;
}

/// A new contiguous array, or the caller's, and the object that is given back.
struct Output {
  nb::object object;  // invalid where it is not asked for
  Array array;
  bool given = false;

  void* data() const { return address_of(array); }
  /// As the library of `like` has it, if make_array could not make that; None where there is none.
  nb::object handed(const Kind& kind, nb::handle like) const;
};

/// New, of NumPy for what has no better. With `zeroed` its elements are 0.
Output make_array(const Kind& kind, Element element, const Shape& shape, bool zeroed = false);

/// The caller's out, which must have the result's shape and be float64 where `like` is; or a new
/// one, where `given` is null.
Output make_out(nb::handle given, const char* like, const Kind& kind, Element element,
                const Shape& shape, bool zeroed = false);

/// A call gives this back: out, or heed.Result if more is asked for.
struct Outputs {
  Output out;
  Output lse;
  Output weights;
  Output column_sums;

  /// `like` is what results are of the kind of.
  nb::object result(const Kind& kind, nb::handle like) const;
};

// ---- Score functions: C's as they are, Python's through the interpreter ----

/// Python callables during a run. The first exception is kept, and nothing called afterwards.
struct PythonScores {
  nb::object callable;
  nb::object gradient;
  std::atomic<bool> failed = false;
  nb::object error;
};

struct ScoreFunction {
  heed_score_function function = nullptr;
  void* user = nullptr;
  nb::object keeper;
  std::unique_ptr<PythonScores> python;

  /// Raises what the callable raised during the run.
  void raise() const;
};

/// A Python callable; a function pointer of ctypes or numba; or a pair of such a pointer and what
/// is passed to it.
ScoreFunction read_score_function(nb::handle from);

/// A score function's derivative: a callable beside a callable, a function pointer beside a
/// function pointer, which C gives the same `user`.
heed_score_gradient read_score_gradient(ScoreFunction& beside, nb::handle from);

// ---- The call ----

/// Numbers per head, of the arithmetic's type.
struct Reals {
  Vector<float> singles;
  Vector<double> doubles;
};

/// desc and args, and what args point at.
struct Call {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  int axes = 4;                     // of query, key and value, the most of them
  Kind kind;                        // of results
  Element element = Element::kF32;  // of query, and of new results
  std::int64_t rows = 0;            // of query and out: of a sequence, or of all that are packed
  std::int64_t all_keys = -1;       // of all ranks, whose masks and biases have them; -1: of one
  std::int64_t sequences = 0;      // of a packed batch over ranks, which has one item; 0: the batch
  const char* batch_of = nullptr;  // the argument that said how many sequences there are

  Array query;
  Array key;
  Array value;
  Array attn_mask;
  Array bias;
  Array key_scales;
  Array value_scales;
  Vector<float> key_scale;  // of a whole tensor
  Vector<float> value_scale;
  Reals alibi_slopes;
  Reals sinks;
  Reals score_weights;
  Vector<std::int32_t> key_lengths;
  Vector<std::int32_t> first_keys;
  Vector<std::int32_t> cu_seqlens_q;
  Vector<std::int32_t> cu_seqlens_k;
  Vector<std::int32_t> block_table;
  Vector<std::int64_t> dropout_origin;
  Vector<std::int64_t> weight_rows;
  ScoreFunction score_function;
  Outputs outputs;

  bool float64() const { return element == Element::kF64; }
  bool packed_queries() const { return cu_seqlens_q.count > 0; }
  bool packed_keys() const { return cu_seqlens_k.count > 0; }
  bool paged() const { return args.block_table != nullptr; }

  /// All that is given: what the four functions below read.
  void read(const Arguments& given);
  /// And then what is given back.
  void make_outputs(const Arguments& given);
  nb::object result(const Arguments& given) const;
  /// The operations of attention without masks.
  double flops() const;
  heed_status compute(const heed_context* context) const {
    return heed_attention(context, &desc, &args);
  }

  Shape out_shape() const;
  Shape lse_shape() const;
  /// Whether packed rows of the result belong to no sequence: nothing writes them.
  bool leaves_rows() const;

  // Plans are made of these, and compare them.
  static constexpr const char* kMaker = "heed.plan";
  heed_status plan(const heed_context* context, heed_attention_plan** plan) const {
    return heed_attention_plan_create(context, &desc, plan);
  }
  using Described = heed_attention_desc;
  const Described& described() const { return desc; }
  NamedForms forms() const;
  const Call* attention() const { return this; }
  [[noreturn]] void refuse_other(const Described& then) const;
};

/// cu_seqlens_q, cu_seqlens_k and block_table, which say what the axes of tensors are; and the
/// batch, where they know it.
void read_lengths(Call& call, const Arguments& given);

/// How many rows queries and keys have; packed ones have the rows of all sequences together.
void set_query_rows(Call& call, std::int64_t rows, const Arguments& given);
void set_key_rows(Call& call, std::int64_t rows, const Arguments& given);

/// How many sequences the argument `name` is for, which must be what others said before.
void set_batch(Call& call, const char* name, std::int64_t batch);
[[noreturn]] void refuse_batch(const Call& call, std::int64_t then);

/// Sizes, layout and pointer of query alone, where keys are no argument.
void read_query(Call& call, const Arguments& given);

/// Sizes, layouts and pointers of query, key and value.
void read_tensors(Call& call, const Arguments& given);

/// Everything that changes scores: masks, biases, causal, windows, lengths of keys, scales and so
/// on. The sizes are known; whoever has no tensors of heads has put them into desc.
void read_scores(Call& call, const Arguments& given);

/// seed: an int, or a pair of one and an offset; both of the mask of dropout.
std::pair<std::uint64_t, std::uint64_t> read_seed(double dropout, nb::handle from);

/// dropout_origin or dropout_edges, where in a larger problem the mask begins; null without
/// dropout.
const std::int64_t* read_places(const char* name, double dropout, nb::handle from,
                                std::int64_t count, const char* of, Vector<std::int64_t>& places);

/// scale, softcap, temperature, hard and dropout, of attention or of attention over a graph.
template <class Desc>
void read_softmax(Desc& desc, const Arguments& given);

/// How many numbers score_weights has.
template <class Desc>
std::int64_t score_weights_of(const Desc& desc, std::int64_t heads) {
  return heads * (desc.score == HEED_SCORE_COSINE ? 1 : desc.features);
}

/// score, activation, slope and score_weights: leaky ReLU of slope 0.2, as GAT and GATv2 have it,
/// unless something else is said. Returns the weights of scores.
template <class Desc>
const void* read_score(Desc& desc, const Arguments& given, bool float64, std::int64_t heads,
                       Reals& weights);

/// Makes the results that a call gives back beside out.
void add_outputs_beside_out(Call& call, const Arguments& given);

/// A number for each of the query heads, of the arithmetic's type; null where none are given.
const void* read_reals(const char* name, nb::handle from, bool float64, std::int64_t count,
                       Reals& reals, const char* of = "query heads");

/// The layout of a mask or bias, which broadcasts to [batch, heads, rows, keys].
heed_score_layout score_layout(const char* name, const Form& form, const Call& call);

/// A layout whose axes lie so many from the end of an array's axes; 0: it has none, or they do not
/// count.
heed_layout layout_by(const Form& form, int batch, int head, int row, int feature);

/// The layout of [batch, head, row, feature], where missing axes have one element; or of
/// [row, head, feature].
heed_layout layout_of(const Form& form, bool packed);

/// The layout of [batch, heads, rows], also where out is packed: [heads, rows].
heed_layout lse_layout(const Form& form);

// ---- How heads become one, in blocks and over graphs ----

/// Given if, and only if, `combine` is HEED_COMBINE_WEIGHTED.
const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals);

}  // namespace heed::python
