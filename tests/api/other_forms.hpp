// A merge, a rotation, a matrix to prepare, a projection and the options of a context, to be made
// wrong in one way.
#pragma once

#include "tests/api/forms.hpp"

namespace api_test {

struct MergeForm;
struct RotateForm;
struct MatrixForm;
struct ProjectForm;
std::vector<Tensor> tensors_of(MergeForm& form);
std::vector<Tensor> tensors_of(RotateForm& form);
std::vector<Tensor> tensors_of(MatrixForm& form);
std::vector<Tensor> tensors_of(ProjectForm& form);

/// Three parts [2, 3, 4, 5] and their outputs.
struct MergeForm : AnyForm<MergeForm, heed_merge_desc> {
  MergeForm() {
    desc.batch = 2;
    desc.heads = 3;
    desc.rows = 4;
    desc.features = 5;
    give_all_but(*this, {});
  }

  void all_float64() {
    for (heed_layout* const l : {&desc.part_out, &desc.part_lse, &desc.out, &desc.lse})
      l->dtype = HEED_DTYPE_F64;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 reserved/4 batch heads rows features part_out/L part_lse/L out/L "
                 "lse/L",
                 given_desc)};
  }
  void add_to(Fields& fields) {
    fields("parts", parts)("part_outs", part_outs)("part_lses", part_lses)("out", to_out)("lse",
                                                                                          to_lse);
  }

  std::size_t parts = 3;
  Bytes part_out[3], part_lse[3], out, lse;
  const void* part_outs[3] = {};
  const void* part_lses[3] = {};
  const void* const* outs = part_outs;
  const void* const* lses = part_lses;
  void* to_out = nullptr;
  void* to_lse = nullptr;
};

inline heed_status one_call(const Context& context, MergeForm& form) {
  forget_last_error();
  return heed_merge(context.get(), form.given_desc, form.parts, form.outs, form.lses, form.to_out,
                    form.to_lse);
}

/// Rows [2, 3, 4, 6] to turn, with positions to be given and tables of 9 of them.
struct RotateForm : AnyForm<RotateForm, heed_rotate_desc> {
  RotateForm() {
    desc.batch = 2;
    desc.heads = 3;
    desc.rows = 4;
    desc.features = 6;
    desc.rotary.pairs = HEED_ROTARY_HALVES;
    give_all_but(*this, {});
  }

  void give_positions() { positions = given_positions; }
  void give_tables() {
    desc.rotary.cosines = tables;
    desc.rotary.sines = tables + 27;
    desc.rotary.table_rows = 9;
  }
  void all_float64() { desc.from.dtype = desc.to.dtype = HEED_DTYPE_F64; }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 reserved/4 batch heads rows features from/L to/L rotary/R position",
                 given_desc)};
  }
  void add_to(Fields& fields) { fields("from", from)("positions", positions)("to", to); }

  Bytes in, out;
  std::int64_t given_positions[8] = {0, 1, 2, 3, 8, 1, 0, 5};
  float tables[2 * 27] = {};
  const void* from = nullptr;
  const std::int64_t* positions = nullptr;
  void* to = nullptr;
};

inline heed_status one_call(const Context& context, RotateForm& form) {
  forget_last_error();
  return heed_rotate(context.get(), form.given_desc, form.from, form.positions, form.to);
}

/// A matrix from 5 features to 6, with its bias.
struct MatrixForm : AnyForm<MatrixForm, heed_weights_desc> {
  MatrixForm() {
    desc.in = 5;
    desc.out = 6;
    give_all_but(*this, {});
  }

  bool outputs_untouched() const { return info.in == 0; }
  std::vector<Slot> slots() {
    return {slot("desc", "desc.",
                 "struct_size/4 arithmetic/4 matrices in out layout/M bias_dtype/4 reserved/4",
                 given_desc)};
  }
  void add_to(Fields& fields) { fields("matrix", matrix)("bias", bias); }

  Bytes numbers, more;
  const void* matrix = nullptr;
  const void* bias = nullptr;
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;  ///< of what was made
};

inline heed_status one_call(const Context& context, MatrixForm& form) {
  forget_last_error();
  Object made;
  const heed_status status = make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
    return heed_weights_create(context.get(), form.given_desc, form.matrix, form.bias, weights);
  });
  const auto* const weights = static_cast<const heed_weights*>(made.get());
  return weights == nullptr ? status : heed_weights_describe(weights, &form.info);
}

/// Rows [2, 4, 5] to multiply with a prepared matrix from 5 features to 6.
struct ProjectForm : AnyForm<ProjectForm, heed_project_desc> {
  ProjectForm() {
    desc.batch = 2;
    desc.rows = 4;
    prepare(serial());
    give_all_but(*this, {});
  }

  void prepare(const Context& context, std::uint32_t arithmetic = HEED_DTYPE_F32) {
    made = prepared(context, 5, 6, arithmetic);
    weights = made.get();
  }
  void all_float64() {
    prepare(serial(), HEED_DTYPE_F64);
    desc.x.dtype = desc.y.dtype = HEED_DTYPE_F64;
  }

  std::vector<Slot> slots() {
    return {slot("desc", "desc.", "struct_size/4 reserved/4 batch rows x/L y/L", given_desc)};
  }
  void add_to(Fields& fields) { fields("x", x)("y", y); }

  Bytes in, out;
  Weights made;
  const heed_weights* weights = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
};

inline heed_status one_call(const Context& context, ProjectForm& form) {
  forget_last_error();
  return heed_project(context.get(), form.given_desc, form.weights, form.x, form.y);
}

constexpr Schema kContextOptions =
    "struct_size/4 threads/4 isa/s executor_name/s executor/p allocator/p tile_q/4 tile_kv/4 "
    "product/s check/4 precision/4 tuning_file/s";

/// Options of a context, what they point at, and the environment.
struct ContextForm {
  ContextForm() {
    options.executor_name = "serial";
    options.allocator = &allocator;
  }
  ContextForm(const ContextForm&) = delete;  // its options point into it
  ContextForm& operator=(const ContextForm&) = delete;

  bool outputs_untouched() const { return !made; }

  const Environment environment;
  CountingAllocator memory;
  heed_allocator allocator = memory.get();
  heed_executor executor = in_order(2);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  const heed_context_options* given = &options;
  bool made = false;
};

/// The environment decides, or nothing does.
inline void choose_nothing(ContextForm& form) { form.options.executor_name = nullptr; }
inline void give_no_options(ContextForm& form) { form.given = nullptr; }

inline Fields fields_of(ContextForm& form) {
  Fields fields;
  fields.in("options.")
      .all_of(kContextOptions, &form.options)("executor.threads", form.executor.threads)(
          "allocator.reserved", form.allocator.reserved);
  for (const char* const name :
       {"HEED_ISA", "HEED_PARALLEL", "HEED_THREADS", "HEED_PRODUCT", "HEED_TILE_Q", "HEED_TILE_KV",
        "HEED_TUNING_FILE", "HEED_VERBOSE", "HEED_CHECK", "HEED_PRECISION"})
    fields(name, form.environment);
  return fields;
}

template <class Check>
void hand_in(ContextForm& form, bool, const Check& check) {
  forget_last_error();
  Object made;
  check(make_object(made, heed_context_destroy, [&](heed_context** context) {
    return heed_context_create(form.given, context);
  }));
  form.made = made != nullptr;
  made.reset();
  CHECK(form.memory.live() == 0);
}

}  // namespace api_test
