// heed.multihead, its plans, its gradients and what is kept for these; and heed.project.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/call.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/plan.hpp"
#include "api/python/module/signature.hpp"
#include "api/python/module/weights.hpp"

namespace heed::python {

// ---- A call of a multi-head block, from Python's arguments to those of C ----

/// As they came, the caller holding them; null or None where one was not given.
struct BlockArguments {
  nb::handle query;
  nb::handle key;
  nb::handle out;
  nb::tuple matrices;  // w_query, w_key, w_value, w_out
  nb::tuple biases;
  nb::tuple settings;  // heads, key_heads, combine, head_weights
  Options options;
};

/// desc and args, and what args point at: themselves too, so that a call stays where it is.
struct BlockCall {
  enum { kQuery, kKey, kValue, kOut, kMatrices };

  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  Call attention;
  Array query;
  Array key;
  Matrix matrices[kMatrices];
  Bias biases[kMatrices];
  Reals head_weights;
  Outputs outputs;

  BlockCall() = default;
  BlockCall(const BlockCall&) = delete;
  BlockCall& operator=(const BlockCall&) = delete;

  /// All that is given.
  void read(const BlockArguments& arguments);
  /// And then what is given back.
  void make_outputs(const BlockArguments& arguments);
  /// [batch, rows, width], as query has them.
  Shape out_shape() const;
  /// Of all products, roughly.
  double flops() const;
};

extern const NamedMatrix kBlockMatrices[BlockCall::kMatrices];

/// Rows of inputs and out: [batch, rows, width], [rows, width], or packed [rows, width].
heed_layout rows_layout(const Form& form);
Array read_input(const char* name, nb::handle from, bool packed);

// ---- heed.Kept: what a call of heed.multihead leaves for its gradients ----

class Kept {
 public:
  /// Memory at a multiple of HEED_WORKSPACE_ALIGNMENT, and what it was filled by: the block but for
  /// its results.
  struct Filled {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
    heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
    heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;

    /// Makes a call read or write it.
    void place_in(BlockCall& call) const;
  };

  std::size_t bytes() const;

  /// Gives up what there is, and returns room for so many bytes, to be filled and given back.
  Filled take(std::size_t bytes);
  void fill(Filled filled, const BlockCall& by);

  /// What there is, which stays while the result does. Raises unless `by`, a block that asks for
  /// gradients, is what filled it.
  Filled of(const BlockCall& by) const;

 private:
  mutable nb::ft_mutex mutex_;
  Filled filled_;
};

/// None: nullptr.
Kept* read_kept(nb::handle from);

const NamedMatrix kBlockMatrices[BlockCall::kMatrices] = {
    {"w_query", "b_query"}, {"w_key", "b_key"}, {"w_value", "b_value"}, {"w_out", "b_out"}};

heed_layout rows_layout(const Form& form) {
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.stride_batch = form.stride(3);
  layout.stride_row = form.stride(2);
  layout.stride_feature = form.stride(1);
  return layout;
}

Array read_input(const char* name, nb::handle from, bool packed) {
  Array input = read_array(name, from);
  const Form& form = input.form;
  if (packed ? form.axes != 2 : form.axes != 2 && form.axes != 3)
    refuse("%s has shape %s; it must have axes %s", name, shape_text(form.shape, form.axes).c_str(),
           packed ? "[rows, width], as cu_seqlens are given"
                  : "[batch, rows, width], the first of which may lack");
  check_floating(name, form);
  if (form.size(1) == 0) refuse("%s is %s; it must have features", name, text(form).c_str());
  return input;
}

namespace {

void read_inputs(BlockCall& call, const BlockArguments& arguments, const Options& options) {
  Call& attention = call.attention;
  read_lengths(attention, options);
  call.query = read_input("query", arguments.query, attention.packed_queries());
  const Form& query = call.query.form;
  const bool one = arguments.key.is_none();
  call.key = one ? call.query : read_input("key", arguments.key, attention.packed_keys());
  const Form& key = call.key.form;
  attention.kind = call.query.kind;
  attention.out_element = query.element;
  attention.float64 = query.element == Element::kF64;
  check_arithmetic("key", key, "query", attention.float64);
  if (!attention.packed_queries()) set_batch(attention, "query", query.size(3));
  if (!one && !attention.packed_keys()) set_batch(attention, "key", key.size(3));
  attention.axes = 1 + query.axes;
  set_query_rows(attention, query.size(2), options);
  set_key_rows(attention, key.size(2), options);
  call.desc.width_query = query.size(1);
  call.desc.width_key = key.size(1);
  call.desc.input_query = rows_layout(query);
  call.desc.input_key = rows_layout(key);
  call.args.input_query = address_of(call.query);
  if (!one) call.args.input_key = address_of(call.key);
}

std::int64_t read_heads(const char* name, nb::handle from) {
  const std::int64_t heads = integer(name, from);
  if (heads < 1) refuse("%s is %lld; it must be at least 1", name, static_cast<long long>(heads));
  return heads;
}

void read_matrices(BlockCall& call, const BlockArguments& arguments) {
  const bool tensor = call.desc.combine == HEED_COMBINE_TENSOR;
  const bool with_out = tensor || call.desc.combine == HEED_COMBINE_CONCAT;
  for (int i = 0; i < BlockCall::kMatrices; ++i) {
    const NamedMatrix& names = kBlockMatrices[i];
    const nb::handle from = arguments.matrices[i];
    const bool wanted = i != BlockCall::kOut || with_out;
    if (wanted && from.is_none())
      refuse_type("%s must be an array or heed.Weights, not None%s", names.name,
                  i == BlockCall::kOut ? "; only combine=\"tensor\" needs it" : "");
    if (!wanted && !from.is_none())
      refuse("%s is given, but combine is neither \"concat\" nor \"tensor\", so it must not be",
             names.name);
    Matrix& matrix = call.matrices[i];
    if (wanted) matrix = read_matrix(names.name, from, i == BlockCall::kOut && tensor ? 3 : 2);
    if (matrix.data != nullptr)
      check_arithmetic(names.name, matrix.array.form, "query", call.attention.float64);
  }
  call.desc.bias_dtype = read_biases(kBlockMatrices, call.matrices, BlockCall::kMatrices,
                                     arguments.biases, 0, call.biases);
}

void place_matrices(BlockCall& call) {
  const Matrix* const m = call.matrices;
  const Bias* const b = call.biases;
  heed_multihead_desc& desc = call.desc;
  heed_multihead_args& args = call.args;
  desc.w_query = m[BlockCall::kQuery].layout, args.w_query = m[BlockCall::kQuery].data;
  desc.w_key = m[BlockCall::kKey].layout, args.w_key = m[BlockCall::kKey].data;
  desc.w_value = m[BlockCall::kValue].layout, args.w_value = m[BlockCall::kValue].data;
  desc.w_out = m[BlockCall::kOut].layout, args.w_out = m[BlockCall::kOut].data;
  args.p_query = m[BlockCall::kQuery].prepared, args.b_query = b[BlockCall::kQuery].data;
  args.p_key = m[BlockCall::kKey].prepared, args.b_key = b[BlockCall::kKey].data;
  args.p_value = m[BlockCall::kValue].prepared, args.b_value = b[BlockCall::kValue].data;
  args.p_out = m[BlockCall::kOut].prepared, args.b_out = b[BlockCall::kOut].data;
}

void read_sizes(BlockCall& call, const BlockArguments& arguments) {
  heed_attention_desc& attention = call.attention.desc;
  const Matrix* const m = call.matrices;
  const nb::handle key_heads = arguments.settings[1];
  attention.query_heads = read_heads("heads", arguments.settings[0]);
  attention.key_heads =
      key_heads.is_none() ? attention.query_heads : read_heads("key_heads", key_heads);
  if (attention.query_heads % attention.key_heads != 0)
    refuse("heads is %lld and key_heads %lld; each key head must serve the same number of heads",
           static_cast<long long>(attention.query_heads),
           static_cast<long long>(attention.key_heads));
  const char* const source = arguments.key.is_none() ? "query" : "key";
  check_in("w_query", m[BlockCall::kQuery], "query", call.desc.width_query);
  check_in("w_key", m[BlockCall::kKey], source, call.desc.width_key);
  check_in("w_value", m[BlockCall::kValue], source, call.desc.width_key);
  attention.features = features_of("w_query", m[BlockCall::kQuery], attention.query_heads);
  check_columns("w_key", m[BlockCall::kKey], attention.key_heads, attention.features);
  attention.value_features = features_of("w_value", m[BlockCall::kValue], attention.key_heads);
  const Matrix& out = m[BlockCall::kOut];
  const Form& form = out.array.form;
  if (form.axes == 3 &&
      (form.size(3) != attention.query_heads || form.size(2) != attention.value_features))
    refuse("w_out is %s; it must be [%lld, %lld, out]: heads, features of a value",
           text(form).c_str(), static_cast<long long>(attention.query_heads),
           static_cast<long long>(attention.value_features));
  if (out.given())
    check_in("w_out", out, "the heads are wide", attention.query_heads * attention.value_features);
  const bool apart = call.desc.combine == HEED_COMBINE_HEADS;
  call.desc.width_out =
      out.given() ? out.out : (apart ? attention.query_heads : 1) * attention.value_features;
}

void make_out(BlockCall& call, nb::handle given) {
  Call& attention = call.attention;
  const Shape shape = call.out_shape();
  const std::int64_t* const sizes = shape.sizes.data();
  const int axes = shape.axes();
  attention.out_given = !given.is_none();
  if (attention.out_given) {
    attention.out = take_out(given, sizes, axes, "query", attention.out_element);
    call.outputs.out = nb::borrow(given);
    call.args.out = address_of(attention.out);
  } else {
    Made made =
        make_array(attention.kind, attention.out_element, sizes, axes, leaves_rows(attention));
    attention.out.form = contiguous_form(attention.out_element, sizes, axes);
    call.outputs.out = std::move(made.object);
    call.args.out = made.data;
  }
  call.desc.out = rows_layout(attention.out.form);
}

/// A block makes its keys itself. Of packed self-attention, sequences are said once.
Options own_options(const BlockArguments& arguments) {
  Options options = arguments.options;
  for (const auto& [name, given] :
       {std::pair{"block_table", options.block_table}, std::pair{"key_scales", options.key_scales},
        std::pair{"value_scales", options.value_scales}})
    if (given.is_valid())
      refuse_type("%s is given; a block makes its keys and values itself", name);
  if (arguments.key.is_none() && !options.cu_seqlens_k.is_valid()) {
    options.cu_seqlens_k = options.cu_seqlens_q;
    options.max_seqlen_k = options.max_seqlen_q;
  }
  if (arguments.key.is_none() && options.cu_seqlens_k.is_valid() &&
      !options.cu_seqlens_q.is_valid())
    refuse("cu_seqlens_k is given without key and cu_seqlens_q");
  return options;
}

}  // namespace

void BlockCall::read(const BlockArguments& arguments) {
  const Options options = own_options(arguments);
  read_inputs(*this, arguments, options);
  desc.combine = read_combine(arguments.settings[2], HEED_COMBINE_TENSOR);
  if (desc.combine == HEED_COMBINE_CONCAT && arguments.matrices[int{kOut}].is_none())
    desc.combine = HEED_COMBINE_HEADS;
  read_matrices(*this, arguments);
  read_sizes(*this, arguments);
  place_matrices(*this);
  args.head_weights = read_head_weights(desc.combine, arguments.settings[3], attention.float64,
                                        attention.desc.query_heads, head_weights);
  read_scores(attention, options);
  desc.attention = &attention.desc;
  args.attention = &attention.args;
}

void BlockCall::make_outputs(const BlockArguments& arguments) {
  make_out(*this, arguments.out);
  add_outputs_beside_out(attention, arguments.options, outputs);
}

Shape BlockCall::out_shape() const {
  return Shape({attention.desc.batch, query.form.size(2), desc.width_out}, 3 - query.form.axes);
}

double BlockCall::flops() const {
  const heed_attention_desc& a = attention.desc;
  const auto product = [](std::int64_t rows, const Matrix& matrix) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(matrix.in) *
           static_cast<double>(matrix.out);
  };
  const std::int64_t rows = query.form.size(3) * query.form.size(2);
  const std::int64_t keys = key.form.size(3) * key.form.size(2);
  const double scores = 2.0 * static_cast<double>(a.query_heads * a.query_length) *
                        static_cast<double>(a.batch * a.key_length) *
                        static_cast<double>(a.features + a.value_features);
  return scores + product(rows, matrices[kQuery]) + product(keys, matrices[kKey]) +
         product(keys, matrices[kValue]) + product(rows, matrices[kOut]);
}

namespace {

/// What blocks that differ in results alone have in common.
heed_multihead_desc without_results(heed_multihead_desc desc) {
  desc.attention = nullptr;
  desc.out = HEED_LAYOUT_INIT;
  desc.keep = 1;
  return desc;
}

heed_attention_desc without_results(heed_attention_desc desc) {
  desc.weights_point = HEED_WEIGHTS_NONE;
  desc.sum_columns = 0;
  desc.weight_rows = 0;
  return desc;
}

template <class Struct>
bool same(const Struct& a, const Struct& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

void Kept::Filled::place_in(BlockCall& call) const {
  call.desc.keep = 1;
  call.args.kept = memory.get();
  call.args.kept_bytes = bytes;
}

std::size_t Kept::bytes() const {
  const nb::ft_lock_guard lock(mutex_);
  return filled_.bytes;
}

Kept::Filled Kept::take(std::size_t bytes) {
  Filled room;
  {
    const nb::ft_lock_guard lock(mutex_);
    std::swap(room, filled_);
  }
  // Others may still read it.
  if (room.bytes == bytes && room.memory.use_count() == 1) return room;
  constexpr std::size_t kAlignment = HEED_WORKSPACE_ALIGNMENT;
  room.memory.reset();
  room.memory.reset(std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment),
                    &std::free);
  if (room.memory == nullptr)
    refuse_memory("there is no memory for the %zu bytes that a call keeps", bytes);
  room.bytes = bytes;
  return room;
}

void Kept::fill(Filled filled, const BlockCall& by) {
  filled.desc = without_results(by.desc);
  filled.attention = without_results(by.attention.desc);
  const nb::ft_lock_guard lock(mutex_);
  std::swap(filled_, filled);
}

Kept::Filled Kept::of(const BlockCall& by) const {
  const nb::ft_lock_guard lock(mutex_);
  if (filled_.memory == nullptr)
    refuse("keep holds nothing; give it to heed.multihead, and then to its gradients");
  if (!same(filled_.desc, without_results(by.desc)) ||
      !same(filled_.attention, without_results(by.attention.desc)))
    refuse("keep was filled by a call with other shapes, strides, types or settings");
  return filled_;
}

Kept* read_kept(nb::handle from) {
  if (from.is_none()) return nullptr;
  Kept* kept = nullptr;
  if (!nb::try_cast(from, kept))
    refuse_type("keep must be a heed.Kept or None, not %s", type_text(from).c_str());
  return kept;
}

namespace {

void make_kept(Kept* self) { new (self) Kept; }

}  // namespace

void bind_kept(nb::module_& module) {
  nb::class_<Kept> kept(
      module, "Kept",
      R"(Room for what heed.multihead computes and heed.multihead_backward needs again: projections,
heads and their log-sum-exp.

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
}

// ---- heed.multihead, heed.multihead_plan and heed.MultiheadPlan ----

namespace {

nb::object result_of(const BlockCall& call, nb::handle query) {
  call.attention.score_function.raise();
  return call.outputs.result(call.attention.kind, call.attention.out_given, query);
}

constexpr PlanFunctions<heed_multihead_plan, heed_multihead_info, heed_multihead_args> kFunctions =
    {&heed_multihead_plan_destroy, &heed_multihead_plan_describe, &heed_multihead_plan_run};

/// A plan says how much is kept.
void compute_and_keep(BlockCall& call, Kept& kept, nb::handle context) {
  call.desc.keep = 1;
  const CPlan<heed_multihead_plan, heed_multihead_info, heed_multihead_args> plan(
      kFunctions, context, [&](const heed_context* held, heed_multihead_plan** made) {
        return heed_multihead_plan_create(held, &call.desc, made);
      });
  Kept::Filled room = kept.take(plan.info().kept_bytes);
  room.place_in(call);
  plan.run(call.args, call.flops(), call.attention.score_function);
  call.attention.score_function.raise();
  kept.fill(std::move(room), call);
}

nb::object multihead(nb::handle query, nb::handle key, const nb::tuple& matrices,
                     const nb::tuple& biases, const nb::tuple& settings, nb::handle out,
                     nb::handle context, nb::handle keep, nb::handle given) {
  const BlockArguments arguments = {
      query, key, out, matrices, biases, settings, read_options("multihead", given)};
  BlockCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  if (Kept* const kept = read_kept(keep)) {
    compute_and_keep(call, *kept, context);
    return result_of(call, query);
  }
  const HeldContext held = hold_context(context);
  check(without_gil(call.flops(), call.attention.score_function,
                    [&] { return heed_multihead(held.context, &call.desc, &call.args); }));
  return result_of(call, query);
}

/// A plan, and what it was made from. It keeps settings and the model's parameters.
class MultiheadPlan {
 public:
  MultiheadPlan(const BlockCall& call, const BlockArguments& made, nb::handle context)
      : plan_(kFunctions, context,
              [&](const heed_context* held, heed_multihead_plan** plan) {
                return heed_multihead_plan_create(held, &call.desc, plan);
              }),
        info_(plan_.info()),
        attention_(call.attention.desc),
        desc_(call.desc),
        flops_(call.flops()),
        out_given_(call.attention.out_given),
        key_given_(!made.key.is_none()),
        matrices_(made.matrices),
        biases_(made.biases),
        settings_(made.settings),
        kept_(call.attention, made.options) {
    each_form(call, [&](int i, const char*, const Form& form) { forms_[i] = form; });
  }

  nb::object run(nb::handle query, nb::handle key, nb::handle out, const nb::dict& tensors) const {
    if (key_given_ == key.is_none())
      refuse_type("key is %s, but the plan was made %s", key_given_ ? "None" : "given",
                  key_given_ ? "with one: give it" : "without");
    if (out_given_ && out.is_none()) refuse_type("the plan was made with out: give it");
    const BlockArguments arguments = {
        query,
        key,
        out,
        matrices_,
        biases_,
        settings_,
        kept_.with("MultiheadPlan.__call__", "heed.multihead_plan", tensors)};
    BlockCall call;
    call.read(arguments);
    call.make_outputs(arguments);
    check_same(call);
    plan_.run(call.args, flops_, call.attention.score_function);
    return result_of(call, query);
  }

  nb::dict describe() const {
    nb::dict said;
    said["isa"] = info_.isa;
    said["executor"] = info_.executor;
    said["product"] = info_.product;
    said["threads"] = info_.threads;
    said["workspace_bytes"] = info_.workspace_bytes;
    said["projection_flops"] = info_.projection_flops;
    said["attention_flops"] = info_.attention_flops;
    said["precision"] = name_of_precision(info_.precision);
    return said;
  }

 private:
  static constexpr int kForms = 5 + BlockCall::kMatrices;

  template <class Use>
  static void each_form(const BlockCall& call, Use use) {
    use(0, "query", call.query.form);
    use(1, "key", call.key.form);
    use(2, "out", call.attention.out.form);
    use(3, "attn_mask", call.attention.attn_mask.form);
    use(4, "bias", call.attention.bias.form);
    for (int i = 0; i < BlockCall::kMatrices; ++i)
      use(5 + i, kBlockMatrices[i].name, call.matrices[i].array.form);
  }

  void check_same(const BlockCall& call) const {
    heed_multihead_desc desc = call.desc;
    desc.attention = desc_.attention;
    if (std::memcmp(&desc, &desc_, sizeof desc) == 0 &&
        std::memcmp(&call.attention.desc, &attention_, sizeof attention_) == 0)
      return;
    kept_.check_mask(call.attention);
    each_form(call, [&](int i, const char* name, const Form& form) {
      check_form(name, form, forms_[i]);
    });
    refuse("%s is for %lld sequences; the plan was made for %lld", call.attention.batch_of,
           static_cast<long long>(call.attention.desc.batch),
           static_cast<long long>(attention_.batch));
  }

  CPlan<heed_multihead_plan, heed_multihead_info, heed_multihead_args> plan_;
  heed_multihead_info info_;
  heed_attention_desc attention_;
  heed_multihead_desc desc_;  // with a pointer that points nowhere any more
  double flops_;
  bool out_given_;
  bool key_given_;
  nb::tuple matrices_;
  nb::tuple biases_;
  nb::tuple settings_;
  KeptOptions kept_;
  Form forms_[kForms];
};

MultiheadPlan* multihead_plan(nb::handle query, nb::handle key, const nb::tuple& matrices,
                              const nb::tuple& biases, const nb::tuple& settings, nb::handle out,
                              nb::handle context, nb::handle given) {
  const BlockArguments arguments = {
      query, key, out, matrices, biases, settings, read_options("multihead_plan", given)};
  BlockCall call;
  call.read(arguments);
  call.make_outputs(arguments);
  return new MultiheadPlan(call, arguments, context);
}

}  // namespace

void bind_multihead(nb::module_& module) {
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
         &MultiheadPlan::run, "Computes what heed.multihead would. In C: heed_multihead_plan_run.");
  method(plan, "def describe(self) -> dict[str, object]", &MultiheadPlan::describe,
         "How it computes: isa, executor, product (what computes projections), threads, "
         "workspace_bytes, projection_flops, attention_flops, and the precision in effect, "
         "\"default\" where what lies between products is bfloat16, else \"exact\". In C: "
         "heed_multihead_plan_describe.");
  refuse_pickling(plan, "it is made for this computer: make it anew with heed.multihead_plan");
  internal(module,
           "def multihead(query: object, key: object, matrices: tuple[object, ...], biases: "
           "tuple[object, ...], settings: tuple[object, ...], out: object, context: Context | "
           "None, keep: object, options: object) -> typing.Any",
           &multihead);
  internal(module,
           "def multihead_plan(query: object, key: object, matrices: tuple[object, ...], "
           "biases: tuple[object, ...], settings: tuple[object, ...], out: object, context: "
           "Context | None, options: object) -> MultiheadPlan",
           &multihead_plan);
}

// ---- heed.multihead_backward ----

namespace {

/// In the order of heed.MultiheadGradients, up to what attention has by itself.
constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kMatrix = 2;
constexpr int kBias = kMatrix + BlockCall::kMatrices;
constexpr int kHeadWeights = kBias + BlockCall::kMatrices;
constexpr int kOptions = kHeadWeights + 1;

std::string gradient_of(const char* name) { return std::string("grad_") + name; }

/// Gradients of inputs, matrices, their biases, and weights of heads.
class BlockGradients {
 public:
  BlockGradients(const GradientMaker& make, const BlockCall& call, bool cross,
                 const nb::tuple& wanted, heed_multihead_backward_desc& desc,
                 heed_multihead_backward_args& args)
      : make_(make), call_(call), wanted_(wanted) {
    const Call& attention = call.attention;
    gradients_[kQuery] =
        of_input("grad_query", wanted[kQuery], call.query.form, attention.packed_queries(),
                 desc.grad_input_query, args.grad_input_query);
    const nb::handle key = unless_given(wanted[kKey], cross);
    if (!cross && is_wanted("grad_key", key))
      refuse("grad_key is wanted, but no key is given: grad_query is the sum of both");
    gradients_[kKey] = of_input("grad_key", key, call.key.form, attention.packed_keys(),
                                desc.grad_input_key, args.grad_input_key);
    heed_matrix_layout* const layouts[] = {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value,
                                           &desc.grad_w_out};
    void** const matrices[] = {&args.grad_w_query, &args.grad_w_key, &args.grad_w_value,
                               &args.grad_w_out};
    void** const biases[] = {&args.grad_b_query, &args.grad_b_key, &args.grad_b_value,
                             &args.grad_b_out};
    for (int i = 0; i < BlockCall::kMatrices; ++i) of_matrix(i, *layouts[i], *matrices[i]);
    for (int i = 0; i < BlockCall::kMatrices; ++i) of_bias(i, desc.grad_b_dtype, *biases[i]);
    const void* const weights = call.args.head_weights;
    const nb::handle of_heads = unless_given(wanted[kHeadWeights], weights != nullptr);
    if (weights == nullptr && is_wanted("grad_head_weights", of_heads))
      refuse("grad_head_weights is wanted, but no head_weights are given");
    gradients_[kHeadWeights] = make.of_reals("grad_head_weights", of_heads,
                                             attention.desc.query_heads, args.grad_head_weights);
  }
  BlockGradients(const BlockGradients&) = delete;
  BlockGradients& operator=(const BlockGradients&) = delete;

  void append_to(nb::list& results, nb::handle like) const {
    for (const Gradient& gradient : gradients_) results.append(gradient.result(make_.kind, like));
  }

 private:
  Gradient of_input(const char* name, nb::handle wanted, const Form& form, bool packed,
                    heed_layout& layout, void*& data) const {
    Array array;
    Gradient gradient = make_.of_tensor(name, wanted, form, array, packed);
    if (!gradient.object.is_valid()) return gradient;
    layout = rows_layout(array.form);
    data = address_of(array);
    return gradient;
  }

  /// As its array; of a prepared one in the arithmetic's type.
  Form form_of(int i) const {
    const Matrix& matrix = call_.matrices[i];
    if (matrix.data != nullptr) return matrix.array.form;
    const std::int64_t heads = call_.attention.desc.query_heads;
    const bool tensor = i == BlockCall::kOut && call_.desc.combine == HEED_COMBINE_TENSOR;
    const std::int64_t shape[] = {heads, tensor ? matrix.in / heads : matrix.in, matrix.out};
    return tensor ? contiguous_form(make_.real(), shape, 3)
                  : contiguous_form(make_.real(), shape + 1, 2);
  }

  /// Whether it is wanted; not of a matrix that the block lacks.
  bool wants(const std::string& name, nb::handle wanted, int i) const {
    if (!is_wanted(name.c_str(), wanted)) return false;
    if (!call_.matrices[i].given())
      refuse("%s is wanted, but there is no %s", name.c_str(), kBlockMatrices[i].name);
    return true;
  }

  void of_matrix(int i, heed_matrix_layout& layout, void*& data) {
    const std::string name = gradient_of(kBlockMatrices[i].name);
    const nb::handle wanted = unless_given(wanted_[kMatrix + i], call_.matrices[i].given());
    if (!wants(name, wanted, i)) return;
    Array array;
    gradients_[kMatrix + i] = make_.of_tensor(name.c_str(), wanted, form_of(i), array);
    layout = matrix_layout(array.form);
    data = address_of(array);
  }

  /// They are all of one type: that of the biases, unless arrays are given.
  void of_bias(int i, std::uint32_t& dtype, void*& data) {
    const std::string name = gradient_of(kBlockMatrices[i].bias_name);
    const Bias& bias = call_.biases[i];
    const nb::handle wanted = unless_given(wanted_[kBias + i], bias.data != nullptr);
    if (!wants(name, wanted, i)) return;
    const std::int64_t width = call_.matrices[i].out;
    const Form form =
        contiguous_form(bias.data != nullptr ? bias.array.form.element : make_.real(), &width, 1);
    Array array;
    gradients_[kBias + i] = make_.of_tensor(name.c_str(), wanted, form, array);
    if (!is_contiguous(array.form))
      refuse("%s has a stride of %lld elements; its numbers must lie side by side", name.c_str(),
             static_cast<long long>(array.form.stride(1)));
    const std::uint32_t own = dtype_of(array.form.element);
    if (first_bias_ != nullptr && own != dtype)
      refuse("grad_%s and %s are of different types; gradients of biases must all be of one",
             first_bias_, name.c_str());
    first_bias_ = kBlockMatrices[i].bias_name;
    dtype = own;
    data = address_of(array);
  }

  const GradientMaker& make_;
  const BlockCall& call_;
  const nb::tuple& wanted_;
  const char* first_bias_ = nullptr;
  Gradient gradients_[kOptions];
};

nb::object multihead_backward(nb::handle query, nb::handle key, const nb::tuple& matrices,
                              const nb::tuple& biases, const nb::tuple& settings,
                              nb::handle grad_out, nb::handle grad_lse, const nb::tuple& wanted,
                              nb::handle accumulate, nb::handle score_gradient, nb::handle context,
                              nb::handle keep, nb::handle given) {
  const BlockArguments arguments = {query,
                                    key,
                                    nb::none(),
                                    matrices,
                                    biases,
                                    settings,
                                    read_options("multihead_backward", given)};
  BlockCall call;
  call.read(arguments);
  Call& attention = call.attention;
  check_differentiable("multihead_backward", attention, arguments.options);
  Kept::Filled filled;  // stays to the end
  if (const Kept* const kept = read_kept(keep)) {
    filled = kept->of(call);
    filled.place_in(call);
  }
  heed_multihead_backward_desc desc = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  desc.block = &call.desc;
  args.block = &call.args;
  desc.accumulate = flag("accumulate", accumulate) ? 1 : 0;
  const GradientMaker make = {attention.kind, "query", attention.out_element, desc.accumulate != 0};
  const Array from_out = read_like_out(make, "grad_out", grad_out, call.out_shape());
  desc.grad_out = rows_layout(from_out.form);
  args.grad_out = address_of(from_out);
  Array from_lse;
  if (!grad_lse.is_none()) {
    from_lse = read_like_lse("grad_lse", grad_lse, lse_shape(attention));
    desc.grad_lse = lse_layout(from_lse.form);
    args.grad_lse = address_of(from_lse);
  }
  args.score_gradient = score_gradient_of(attention, score_gradient);
  const BlockGradients block(make, call, !key.is_none(), wanted, desc, args);
  const OptionGradients others(make, attention, wanted, kOptions, desc, args);
  const HeldContext held = hold_context(context);
  constexpr double kProducts = 3;  // of the forward call's: once more, and two for each
  check(without_gil(kProducts * call.flops(), attention.score_function,
                    [&] { return heed_multihead_backward(held.context, &desc, &args); }));
  attention.score_function.raise();
  nb::list found;
  block.append_to(found, query);
  others.append_to(found, attention.kind, query);
  return names().block_gradients(*nb::tuple(found));
}

}  // namespace

void bind_multihead_backward(nb::module_& module) {
  internal(module,
           "def multihead_backward(query: object, key: object, matrices: tuple[object, ...], "
           "biases: tuple[object, ...], settings: tuple[object, ...], grad_out: object, "
           "grad_lse: object, wanted: tuple[object, ...], accumulate: object, score_gradient: "
           "object, context: Context | None, keep: object, options: object) -> typing.Any",
           &multihead_backward);
}

// ---- heed.project ----

namespace {

const Weights& weights_of(nb::handle given) {
  if (!nb::isinstance<Weights>(given))
    refuse_type("weights must be heed.Weights, not %s", type_text(given).c_str());
  return *nb::inst_ptr<Weights>(given);
}

nb::object project(nb::handle x, nb::handle weights, nb::handle out, nb::handle context) {
  const Weights& prepared = weights_of(weights);
  const heed_weights_info& info = prepared.info();
  const Array from = read_input("x", x, false);
  const Form& form = from.form;
  if (form.size(1) != info.in)
    refuse("x is %s; it must have %lld features, as weights have", text(form).c_str(),
           static_cast<long long>(info.in));
  check_arithmetic("x", form, "weights", info.arithmetic == HEED_DTYPE_F64);
  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  desc.batch = form.size(3);
  desc.rows = form.size(2);
  desc.x = rows_layout(form);
  std::int64_t shape[kMaxAxes];
  std::copy_n(form.shape, form.axes, shape);
  shape[form.axes - 1] = info.out;
  Made made;
  Array to;
  if (out.is_none()) {
    made = make_array(from.kind, form.element, shape, form.axes);
    desc.y.dtype = dtype_of(form.element);
  } else {
    to = take_out(out, shape, form.axes, "x", form.element);
    desc.y = rows_layout(to.form);
    made = {nb::borrow(out), address_of(to)};
  }
  const HeldContext held = hold_context(context);
  const double flops = 2.0 * static_cast<double>(form.elements()) * static_cast<double>(info.out);
  check(without_gil(flops, {}, [&] {
    return heed_project(held.context, &desc, prepared.get(), address_of(from), made.data);
  }));
  return out.is_none() ? as_kind_of(from.kind, x, made.object) : made.object;
}

}  // namespace

void bind_project(nb::module_& module) {
  internal(module,
           "def project(x: object, weights: object, out: object, context: Context | None) -> "
           "typing.Any",
           &project);
}

}  // namespace heed::python
