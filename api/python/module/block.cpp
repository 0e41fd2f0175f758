// heed.multihead, its plans, its gradients and what is kept for these; and heed.project.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "api/python/module/gradients.hpp"
#include "api/python/module/plan.hpp"
#include "api/python/module/weights.hpp"

namespace heed::python {
namespace {

// ---- A call of a multi-head block, from Python's arguments to the ones of C ----

struct BlockApi {
  using Desc = heed_multihead_desc;
  using Args = heed_multihead_args;
  using BackwardDesc = heed_multihead_backward_desc;
  using BackwardArgs = heed_multihead_backward_args;
};

enum { kQuery, kKey, kValue, kOut, kMatrices };
constexpr Projection kBlockMatrices[kMatrices] = {
    HEED_PROJECTION(BlockApi, query), HEED_PROJECTION(BlockApi, key),
    HEED_PROJECTION(BlockApi, value), HEED_PROJECTION(BlockApi, out)};

/// A block, and its attention.
struct BlockDescribed {
  heed_multihead_desc block;
  heed_attention_desc attention;
};

/// desc and args, and what args point at: themselves too, so that a call stays where it is.
struct BlockCall {
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  Call heads;
  Array query;
  Array key;
  Matrix matrices[kMatrices];
  Array biases[kMatrices];
  Reals head_weights;

  BlockCall() = default;
  BlockCall(const BlockCall&) = delete;
  BlockCall& operator=(const BlockCall&) = delete;

  /// All that is given.
  void read(const Arguments& given);
  /// And then what is given back.
  void make_outputs(const Arguments& given);
  nb::object result(const Arguments& given) const { return heads.result(given); }
  /// [batch, rows, width], as query has them.
  Shape out_shape() const;
  /// Roughly the operations of all products.
  double flops() const;
  heed_status compute(const heed_context* context) const {
    return heed_multihead(context, &desc, &args);
  }

  // Plans are made of these, and compare them.
  static constexpr const char* kMaker = "heed.multihead_plan";
  heed_status plan(const heed_context* context, heed_multihead_plan** plan) const {
    return heed_multihead_plan_create(context, &desc, plan);
  }
  using Described = BlockDescribed;
  Described described() const;
  NamedForms forms() const;
  const Call* attention() const { return &heads; }
  [[noreturn]] void refuse_other(const Described& then) const {
    refuse_batch(heads, then.attention.batch);
  }
};

/// Rows of inputs and out: [batch, rows, width], [rows, width], or packed [rows, width].
heed_layout rows_layout(const Form& form) { return layout_by(form, 3, 0, 2, 1); }

Array read_input(const char* name, nb::handle from, bool packed) {
  Array input = read_array(name, from);
  check_axes(name, input.form, 2, packed ? 2 : 3,
             packed ? "[rows, width], as cu_seqlens are given"
                    : "[batch, rows, width], the first of which may be missing");
  check_floating(name, input.form);
  check_features(name, input.form);
  return input;
}

void read_inputs(BlockCall& call, const Arguments& given) {
  Call& heads = call.heads;
  read_lengths(heads, given);
  call.query = read_input("query", given.query, heads.packed_queries());
  const Form& query = call.query.form;
  const bool cross = given.key.is_valid();
  call.key = cross ? read_input("key", given.key, heads.packed_keys()) : call.query;
  const Form& key = call.key.form;
  heads.kind = call.query.kind;
  heads.element = query.element;
  check_arithmetic("key", key, "query", heads.float64());
  if (!heads.packed_queries()) set_batch(heads, "query", query.size(3));
  if (cross && !heads.packed_keys()) set_batch(heads, "key", key.size(3));
  heads.axes = 1 + query.axes;
  set_query_rows(heads, query.size(2), given);
  set_key_rows(heads, key.size(2), given);
  call.desc.width_query = query.size(1);
  call.desc.width_key = key.size(1);
  call.desc.input_query = rows_layout(query);
  call.desc.input_key = rows_layout(key);
  call.args.input_query = address_of(call.query);
  if (cross) call.args.input_key = address_of(call.key);
}

void read_matrices(BlockCall& call, const Arguments& given) {
  const bool tensor = call.desc.combine == HEED_COMBINE_TENSOR;
  const bool with_out = tensor || call.desc.combine == HEED_COMBINE_CONCAT;
  for (int i = 0; i < kMatrices; ++i) {
    const char* const name = kBlockMatrices[i].matrix.name;
    const nb::handle from = given.*kBlockMatrices[i].matrix.given;
    const bool wanted = i != kOut || with_out;
    if (wanted && !from.is_valid())
      refuse_type("{} must be an array or heed.Weights, not None{}", name,
                  i == kOut ? "; only combine=\"tensor\" needs it" : "");
    if (!wanted && from.is_valid())
      refuse("{} is given, but combine is neither \"concat\" nor \"tensor\", so it must not be",
             name);
    Matrix& matrix = call.matrices[i];
    if (wanted) matrix = read_matrix(name, from, i == kOut && tensor ? 3 : 2);
    if (matrix.data != nullptr)
      check_arithmetic(name, matrix.array.form, "query", call.heads.float64());
  }
  call.desc.bias_dtype = place_with_biases(kBlockMatrices, kMatrices, call.matrices, given,
                                           call.biases, &call.desc, &call.args);
}

void read_sizes(BlockCall& call, const Arguments& given) {
  heed_attention_desc& heads = call.heads.desc;
  const Matrix* const m = call.matrices;
  heads.query_heads = count("heads", given.heads);
  heads.key_heads =
      given.key_heads.is_valid() ? count("key_heads", given.key_heads) : heads.query_heads;
  if (heads.query_heads % heads.key_heads != 0)
    refuse("heads is {} and key_heads {}; each key head must serve the same number of heads",
           heads.query_heads, heads.key_heads);
  const char* const source = given.key.is_valid() ? "key" : "query";
  check_in("w_query", m[kQuery], "query", call.desc.width_query);
  check_in("w_key", m[kKey], source, call.desc.width_key);
  check_in("w_value", m[kValue], source, call.desc.width_key);
  heads.features = features_of("w_query", m[kQuery], heads.query_heads);
  check_columns("w_key", m[kKey], heads.key_heads, heads.features);
  heads.value_features = features_of("w_value", m[kValue], heads.key_heads);
  const Matrix& out = m[kOut];
  const Form& form = out.array.form;
  if (form.axes == 3 && (form.size(3) != heads.query_heads || form.size(2) != heads.value_features))
    refuse("w_out is {}; it must be [{}, {}, out]: heads, features of a value", text(form),
           heads.query_heads, heads.value_features);
  if (out.given())
    check_in("w_out", out, "the heads are wide", heads.query_heads * heads.value_features);
  const bool apart = call.desc.combine == HEED_COMBINE_HEADS;
  call.desc.width_out =
      out.given() ? out.out : (apart ? heads.query_heads : 1) * heads.value_features;
}

/// A block makes its keys itself. Packed self-attention says its sequences once.
Arguments own_options(Arguments given) {
  for (const auto& [name, option] :
       {std::pair{"block_table", given.block_table}, std::pair{"key_scales", given.key_scales},
        std::pair{"value_scales", given.value_scales}})
    if (option.is_valid())
      refuse_type("{} is given; a block makes its keys and values itself", name);
  if (given.key.is_valid()) return given;
  if (given.cu_seqlens_k.is_valid() && !given.cu_seqlens_q.is_valid())
    refuse("cu_seqlens_k is given without key and cu_seqlens_q");
  if (!given.cu_seqlens_k.is_valid()) {
    given.cu_seqlens_k = given.cu_seqlens_q;
    given.max_seqlen_k = given.max_seqlen_q;
  }
  return given;
}

void BlockCall::read(const Arguments& all) {
  const Arguments given = own_options(all);
  read_inputs(*this, given);
  if (given.combine.is_valid())
    desc.combine =
        read_word("combine", given.combine, {"concat", "weighted", "mean", "max", "tensor"});
  if (desc.combine == HEED_COMBINE_CONCAT && !given.w_out.is_valid())
    desc.combine = HEED_COMBINE_HEADS;
  read_matrices(*this, given);
  read_sizes(*this, given);
  args.head_weights = read_head_weights(desc.combine, given.head_weights, heads.float64(),
                                        heads.desc.query_heads, head_weights);
  read_scores(heads, given);
  desc.attention = &heads.desc;
  args.attention = &heads.args;
}

void BlockCall::make_outputs(const Arguments& given) {
  Output& out = heads.outputs.out;
  out = make_out(given.out, "query", heads.kind, heads.element, out_shape(), heads.leaves_rows());
  desc.out = rows_layout(out.array.form);
  args.out = out.data();
  add_outputs_beside_out(heads, given);
}

Shape BlockCall::out_shape() const {
  return Shape({heads.desc.batch, query.form.size(2), desc.width_out}, 3 - query.form.axes);
}

double BlockCall::flops() const {
  const auto product = [](const Form& rows, const Matrix& matrix) {
    return 2.0 * static_cast<double>(rows.size(3) * rows.size(2)) * static_cast<double>(matrix.in) *
           static_cast<double>(matrix.out);
  };
  return heads.flops() + product(query.form, matrices[kQuery]) + product(key.form, matrices[kKey]) +
         product(key.form, matrices[kValue]) + product(query.form, matrices[kOut]);
}

BlockCall::Described BlockCall::described() const {
  Described described = {desc, heads.desc};
  described.block.attention = nullptr;
  return described;
}

NamedForms BlockCall::forms() const {
  NamedForms forms = {{"query", query.form},
                      {"key", key.form},
                      {"out", heads.outputs.out.array.form},
                      {"attn_mask", heads.attn_mask.form},
                      {"bias", heads.bias.form}};
  for (int i = 0; i < kMatrices; ++i)
    forms.emplace_back(kBlockMatrices[i].matrix.name, matrices[i].array.form);
  return forms;
}

// ---- heed.Kept: what a call of heed.multihead leaves for its gradients ----

class Kept {
 public:
  /// Memory, and what it was filled by: the block without its results.
  struct Filled {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
    BlockDescribed by;

    /// Makes a call read or write it.
    void place_in(BlockCall& call) const {
      call.desc.keep = 1;
      call.args.kept = memory.get();
      call.args.kept_bytes = bytes;
    }
  };

  std::size_t bytes() const {
    const nb::ft_lock_guard lock(mutex_);
    return filled_.bytes;
  }

  /// Gives up what there is, and returns memory of so many bytes, to be filled and given back.
  Filled take(std::size_t bytes) {
    Filled taken;
    {
      const nb::ft_lock_guard lock(mutex_);
      std::swap(taken, filled_);
    }
    // Others may still read it.
    if (taken.bytes == bytes && taken.memory.use_count() == 1) return taken;
    taken.memory.reset();
    taken.memory.reset(aligned_memory(bytes, "what a call keeps,"), &std::free);
    taken.bytes = bytes;
    return taken;
  }

  void fill(Filled filled, const BlockCall& by) {
    filled.by = without_results(by);
    const nb::ft_lock_guard lock(mutex_);
    std::swap(filled_, filled);
  }

  /// The memory, which stays while the result does. Raises unless a block like `by`, which asks for
  /// gradients, has filled it.
  Filled of(const BlockCall& by) const {
    const nb::ft_lock_guard lock(mutex_);
    if (filled_.memory == nullptr)
      refuse("keep holds nothing; give it to heed.multihead, and then to its gradients");
    const BlockDescribed own = without_results(by);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
    if (std::memcmp(&own, &filled_.by, sizeof own) != 0)
      refuse("keep was filled by a call with other shapes, strides, types or settings");
    return filled_;
  }

 private:
  /// Blocks that differ in results alone have this in common.
  static BlockDescribed without_results(const BlockCall& call) {
    BlockDescribed by = call.described();
    by.block.out = HEED_LAYOUT_INIT;
    by.block.keep = 1;
    by.attention.weights_point = HEED_WEIGHTS_NONE;
    by.attention.sum_columns = 0;
    by.attention.weight_rows = 0;
    return by;
  }

  mutable nb::ft_mutex mutex_;
  Filled filled_;
};

void make_kept(Kept* self) { new (self) Kept; }

/// None: nullptr.
Kept* read_kept(nb::handle from) {
  if (!from.is_valid()) return nullptr;
  Kept* kept = nullptr;
  if (!nb::try_cast(from, kept))
    refuse_type("keep must be a heed.Kept or None, not {}", type_text(from));
  return kept;
}

// ---- heed.multihead, heed.multihead_plan and heed.MultiheadPlan ----

using BlockPlan =
    CPlan<&heed_multihead_plan_destroy, &heed_multihead_plan_describe, &heed_multihead_plan_run>;
using MultiheadPlan = PlanOf<BlockCall, BlockPlan>;

/// A plan says how much is kept.
nb::object compute_and_keep(const Arguments& given, Kept& kept) {
  BlockCall call;
  call.read(given);
  call.make_outputs(given);
  call.desc.keep = 1;
  const BlockPlan plan(given.context, call);
  Kept::Filled filled = kept.take(plan.info().kept_bytes);
  filled.place_in(call);
  plan.run(call.args, call.flops(), &call.heads.score_function);
  nb::object result = call.result(given);
  kept.fill(std::move(filled), call);
  return result;
}

nb::object multihead(nb::handle arguments) {
  const Arguments given = read_arguments("multihead", arguments, kOfBlocks, kForward | kKeep);
  Kept* const kept = read_kept(given.keep);
  return kept == nullptr ? compute<BlockCall>(given) : compute_and_keep(given, *kept);
}

MultiheadPlan* multihead_plan(nb::handle arguments) {
  return new MultiheadPlan(read_arguments("multihead_plan", arguments, kOfBlocks, kForward));
}

nb::dict describe(const MultiheadPlan& plan) {
  const heed_multihead_info info = plan.info();
  return dict_of("isa", info.isa, "executor", info.executor, "product", info.product, "threads",
                 info.threads, "workspace_bytes", info.workspace_bytes, "projection_flops",
                 info.projection_flops, "attention_flops", info.attention_flops, "precision",
                 name_of_precision(info.precision));
}

// ---- heed.multihead_backward ----

/// As its array; of a prepared matrix in the arithmetic's type.
Form form_of(const BlockCall& call, int i, Element real) {
  const Matrix& matrix = call.matrices[i];
  if (matrix.data != nullptr) return matrix.array.form;
  const std::int64_t heads = call.heads.desc.query_heads;
  if (i == kOut && call.desc.combine == HEED_COMBINE_TENSOR)
    return contiguous_form(real, {heads, matrix.in / heads, matrix.out});
  return contiguous_form(real, {matrix.in, matrix.out});
}

/// Adds the gradients of inputs, matrices, their biases, and weights of heads.
void add_gradients(Gradients& gradients, const BlockCall& call, const Arguments& given,
                   std::uint32_t& bias_dtype) {
  const Operand query = HEED_OPERAND(BlockApi, query, input_query);
  const Operand key = HEED_OPERAND(BlockApi, key, input_key);
  const auto add_input = [&](const Operand& row, nb::handle wanted, const Form& form, bool packed) {
    if (const Gradient* to = gradients.add(row, wanted, form, packed))
      gradients.set_layout(row, rows_layout(to->form()));
  };
  add_input(query, gradients.wanted(query, true), call.query.form, call.heads.packed_queries());
  const bool cross = given.key.is_valid();
  const nb::handle of_key = gradients.wanted(key, cross);
  if (!cross && of_key.is_valid())
    refuse("grad_key is wanted, but no key is given: grad_query is the sum of both");
  add_input(key, of_key, call.key.form, call.heads.packed_keys());

  const auto wanted = [&](const Operand& row, bool by_default, int i) {
    const nb::handle how = gradients.wanted(row, by_default);
    if (how.is_valid() && !call.matrices[i].given())
      refuse("{} is wanted, but there is no {}", row.gradient, kBlockMatrices[i].matrix.name);
    return how;
  };
  for (int i = 0; i < kMatrices; ++i) {
    const Operand& row = kBlockMatrices[i].matrix;
    const nb::handle how = wanted(row, call.matrices[i].given(), i);
    if (const Gradient* to = gradients.add(row, how, form_of(call, i, gradients.real())))
      gradients.set_layout(row, matrix_layout(to->form()));
  }
  // Gradients of biases are all of one type: the one of the biases, unless arrays are given.
  const char* first = nullptr;
  for (int i = 0; i < kMatrices; ++i) {
    const Operand& row = kBlockMatrices[i].bias;
    const Array& bias = call.biases[i];
    const nb::handle how = wanted(row, bias.data != nullptr, i);
    const Element element = bias.data != nullptr ? bias.form.element : gradients.real();
    const Gradient* to = gradients.add(row, how, contiguous_form(element, {call.matrices[i].out}));
    if (to == nullptr) continue;
    if (!is_contiguous(to->form()))
      refuse("{} has a stride of {} elements; its numbers must lie side by side", row.gradient,
             to->form().stride(1));
    const std::uint32_t own = dtype_of(to->form().element);
    if (first != nullptr && own != bias_dtype)
      refuse("{} and {} are of different types; gradients of biases must all be of one", first,
             row.gradient);
    first = row.gradient;
    bias_dtype = own;
  }
  const Operand weights = HEED_VECTOR(BlockApi, head_weights);
  const nb::handle of_heads = gradients.wanted(weights, call.args.head_weights != nullptr);
  if (call.args.head_weights == nullptr && of_heads.is_valid())
    refuse("grad_head_weights is wanted, but no head_weights are given");
  gradients.add_reals(weights, of_heads, call.heads.desc.query_heads);
  gradients.add_options<BlockApi>(call.heads);
}

nb::object multihead_backward(nb::handle arguments) {
  const Arguments given =
      read_arguments("multihead_backward", arguments, kOfBlocks, kBackward | kKeep);
  BlockCall call;
  call.read(given);
  check_differentiable("multihead_backward", given);
  Call& heads = call.heads;
  Kept::Filled filled;  // stays to the end
  if (const Kept* const kept = read_kept(given.keep)) {
    filled = kept->of(call);
    filled.place_in(call);
  }
  heed_multihead_backward_desc desc = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  desc.block = &call.desc;
  args.block = &call.args;
  Gradients gradients(given, "query", heads.kind, heads.element, &desc, &args);
  gradients.read_given(desc, args, call.out_shape(), rows_layout, heads.lse_shape(), lse_layout);
  args.score_gradient = score_gradient_of(heads, given);
  add_gradients(gradients, call, given, desc.grad_b_dtype);
  constexpr double kProducts = 3;  // of the forward call's: once more, and two for each
  run_in(given.context, kProducts * call.flops(), &heads.score_function,
         [&](const heed_context* held) { return heed_multihead_backward(held, &desc, &args); });
  heads.score_function.raise();
  return gradients.result(names().block_gradients, given.query);
}

// ---- heed.project ----

nb::object project(nb::handle x, nb::handle weights, nb::handle out, nb::handle context) {
  if (!nb::isinstance<Weights>(weights))
    refuse_type("weights must be heed.Weights, not {}", type_text(weights));
  const Weights& prepared = *nb::inst_ptr<Weights>(weights);
  const heed_weights_info& info = prepared.info();
  const Array from = read_input("x", x, false);
  const Form& form = from.form;
  if (form.size(1) != info.in)
    refuse("x is {}; it must have {} features, as weights have", text(form), info.in);
  check_arithmetic("x", form, "weights", info.arithmetic == HEED_DTYPE_F64);
  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  desc.batch = form.size(3);
  desc.rows = form.size(2);
  desc.x = rows_layout(form);
  Shape shape = form;
  shape.sizes[shape.axes - 1] = info.out;
  const Output to = make_out(unless_none(out), "x", from.kind, form.element, shape);
  desc.y = rows_layout(to.array.form);
  const double flops = 2.0 * static_cast<double>(form.elements()) * static_cast<double>(info.out);
  run_in(context, flops, nullptr, [&](const heed_context* held) {
    return heed_project(held, &desc, prepared.get(), address_of(from), to.data());
  });
  return to.handed(from.kind, x);
}

}  // namespace

void bind_block(nb::module_& module) {
  nb::class_<Kept> kept(
      module, "Kept",
      R"(Memory for what heed.multihead computes and heed.multihead_backward needs again:
projections, heads and their log-sum-exp.

Give one to ``keep`` of both. A call of heed.multihead replaces what is there, and memory is taken
anew only where that is of another size, or still read.

>>> import heed, numpy as np
>>> x, w = np.eye(3, 4), np.eye(4)
>>> block = dict(w_query=w, w_key=w, w_value=w, w_out=w, heads=2)
>>> keep = heed.Kept()
>>> grad_out = heed.multihead(x, **block, keep=keep) - x
>>> kept = heed.multihead_backward(x, grad_out=grad_out, **block, keep=keep)
>>> again = heed.multihead_backward(x, grad_out=grad_out, **block)
>>> bool((kept.w_query == again.w_query).all())
True

In C: heed_multihead_desc.keep.)");
  method(kept, "def __init__(self) -> None", &make_kept);
  kept.def_prop_ro("nbytes", &Kept::bytes, "The bytes that it holds, 0 before the first call.");
  refuse_pickling(kept, "it is for one call: compute it anew with heed.multihead");
  nb::class_<MultiheadPlan> plan(
      module, "MultiheadPlan",
      R"(A multi-head block of fixed shapes, strides, types and settings, made by heed.multihead_plan.

A call takes query, and key and out if the plan was made with them, and exactly the tensors among
attention's options that it was made with, in the same shapes, strides and types. The plan keeps the
matrices and biases that it was given, and reads them anew in every call. Any threads may call one
plan at once: it keeps a workspace for each.

In C: heed_multihead_plan.)");
  method(plan,
         "def __call__(self, query: typing.Any, key: typing.Any | None = None, *, "
         "out: typing.Any | None = None, **tensors: typing.Any) -> typing.Any",
         &run<MultiheadPlan, kOfBlocks>,
         "Computes what heed.multihead would. In C: heed_multihead_plan_run.");
  method(plan, "def describe(self) -> dict[str, object]", &describe,
         "How it computes: isa, executor, product (what computes projections), threads, "
         "workspace_bytes, projection_flops, attention_flops, and the precision in effect, "
         "\"default\" where what lies between products is bfloat16, else \"exact\". In C: "
         "heed_multihead_plan_describe.");
  refuse_pickling(plan, "it is made for this computer: make it anew with heed.multihead_plan");
  internal(module, "def multihead(arguments: object) -> typing.Any", &multihead);
  internal(module, "def multihead_plan(arguments: object) -> MultiheadPlan", &multihead_plan);
  internal(module, "def multihead_backward(arguments: object) -> typing.Any", &multihead_backward);
  internal(module,
           "def project(x: object, weights: object, out: object, context: Context | None) -> "
           "typing.Any",
           &project);
}

}  // namespace heed::python
