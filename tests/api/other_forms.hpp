// A merge, a rotation, a matrix to prepare and the options of a context, to be made wrong in one
// way.
#pragma once

#include "tests/api/bytes.hpp"
#include "tests/api/counting_allocator.hpp"
#include "tests/api/fields.hpp"

namespace api_test {

/// Three parts [2, 3, 4, 5] and their outputs.
struct MergeForm {
  MergeForm() {
    desc.batch = 2;
    desc.heads = 3;
    desc.rows = 4;
    desc.features = 5;
  }
  MergeForm(const MergeForm&) = delete;  // its parts point into it
  MergeForm& operator=(const MergeForm&) = delete;

  bool outputs_untouched() const { return out.all_are(kPattern) && lse.all_are(kPattern); }

  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  std::size_t parts = 3;
  Bytes part_out[3], part_lse[3], out{kPattern}, lse{kPattern};
  const void* part_outs[3] = {part_out[0].at(), part_out[1].at(), part_out[2].at()};
  const void* part_lses[3] = {part_lse[0].at(), part_lse[1].at(), part_lse[2].at()};
  const void* const* outs = part_outs;
  const void* const* lses = part_lses;
  void* to_out = out.at();
  void* to_lse = lse.at();
};

inline Fields fields_of(MergeForm& form) {
  Fields fields;
  heed_merge_desc& d = form.desc;
  fields.in("desc.")("batch", d.batch)("heads", d.heads)("rows", d.rows)("features", d.features)(
      "part_out", d.part_out)("part_lse", d.part_lse)("out", d.out)("lse", d.lse)("reserved",
                                                                                  d.reserved);
  return fields.in("")("parts", form.parts)("part_outs", form.part_outs)(
      "part_lses", form.part_lses)("out", form.to_out)("lse", form.to_lse);
}

inline heed_status one_call(const Context& context, MergeForm& form) {
  return heed_merge(context.get(), &form.desc, form.parts, form.outs, form.lses, form.to_out,
                    form.to_lse);
}

template <class Check>
void hand_in(MergeForm& form, bool, const Check& check) {
  forget_last_error();
  check(one_call(serial(), form));
}

/// Rows [2, 3, 4, 6] to turn, with positions to be given and tables of 9 of them.
struct RotateForm {
  RotateForm() {
    desc.batch = 2;
    desc.heads = 3;
    desc.rows = 4;
    desc.features = 6;
    desc.rotary.pairs = HEED_ROTARY_HALVES;
  }
  RotateForm(const RotateForm&) = delete;  // its pointers point into it
  RotateForm& operator=(const RotateForm&) = delete;

  void give_positions() { positions = given_positions; }
  void give_tables() {
    desc.rotary.cosines = tables;
    desc.rotary.sines = tables + 27;
    desc.rotary.table_rows = 9;
  }

  bool outputs_untouched() const { return out.all_are(kPattern); }

  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  Bytes in, out{kPattern};
  std::int64_t given_positions[8] = {0, 1, 2, 3, 8, 1, 0, 5};
  float tables[2 * 27] = {};
  const void* from = in.at();
  const std::int64_t* positions = nullptr;
  void* to = out.at();
};

inline Fields fields_of(RotateForm& form) {
  Fields fields;
  heed_rotate_desc& d = form.desc;
  fields.in("desc.")("batch", d.batch)("heads", d.heads)("rows", d.rows)("features", d.features)(
      "from", d.from)("to", d.to)("rotary", d.rotary)("position", d.position)("reserved",
                                                                              d.reserved);
  return fields.in("")("from", form.from)("positions", form.positions)("to", form.to);
}

inline heed_status one_call(const Context& context, RotateForm& form) {
  return heed_rotate(context.get(), &form.desc, form.from, form.positions, form.to);
}

template <class Check>
void hand_in(RotateForm& form, bool, const Check& check) {
  forget_last_error();
  check(one_call(serial(), form));
}

/// A matrix from 5 features to 6, with its bias.
struct MatrixForm {
  MatrixForm() {
    desc.in = 5;
    desc.out = 6;
  }
  MatrixForm(const MatrixForm&) = delete;  // its pointers point into it
  MatrixForm& operator=(const MatrixForm&) = delete;

  bool outputs_untouched() const { return info.in == 0; }

  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  Bytes numbers, more;
  const void* matrix = numbers.at();
  const void* bias = more.at();
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;  ///< of what was made
};

inline Fields fields_of(MatrixForm& form) {
  Fields fields;
  heed_weights_desc& d = form.desc;
  fields.in("desc.")("arithmetic", d.arithmetic)("matrices", d.matrices)("in", d.in)("out", d.out)(
      "layout", d.layout)("bias_dtype", d.bias_dtype)("reserved", d.reserved);
  return fields.in("")("matrix", form.matrix)("bias", form.bias);
}

inline heed_status one_call(const Context& context, MatrixForm& form) {
  Object made;
  const heed_status status = make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
    return heed_weights_create(context.get(), &form.desc, form.matrix, form.bias, weights);
  });
  const auto* const weights = static_cast<const heed_weights*>(made.get());
  if (weights != nullptr) CHECK(heed_weights_describe(weights, &form.info) == HEED_STATUS_OK);
  return status;
}

template <class Check>
void hand_in(MatrixForm& form, bool, const Check& check) {
  forget_last_error();
  check(one_call(serial(), form));
}

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
  heed_context_options& o = form.options;
  fields.in("options.")("isa", o.isa)("executor_name", o.executor_name)("product", o.product)(
      "tuning_file", o.tuning_file)("threads", o.threads)("tile_q", o.tile_q)("tile_kv", o.tile_kv)(
      "check", o.check)("precision", o.precision)("executor.threads", form.executor.threads)(
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
