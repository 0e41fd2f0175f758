// The tensors of an operation are a table: the constexpr list in operands.hpp of its room, a row
// for each. The functions here read such tables: they resolve layouts, and check a run's pointers;
// the audit (engine/audit) finds there which may overlap and whose values it looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "engine/tensor/layout.hpp"

namespace heed {

// ---- Axes -------------------------------------------------------------------------------------

/// The names of the four axes of a tensor in messages.
struct AxisNames {
  const char* places[4];  ///< of an element, as in "row 5"; nullptr: it has no such axis
  const char* sizes[4];   ///< the fields that say how long they are
};
inline constexpr AxisNames kMatrixNames = {{"matrix", nullptr, "in", "out"}, {"nodes", "", "", ""}};
inline constexpr AxisNames kVectorNames = {{nullptr, nullptr, nullptr, "element"},
                                           {"", "", "", "heads"}};
inline constexpr AxisNames kRowNames = {{"batch", "head", "row", "feature"},
                                        {"batch", "heads", "rows", "features"}};

inline constexpr AxisNames kPackedRowNames = {{nullptr, "head", "row", "feature"},
                                              {"", "heads", "rows", "features"}};

/// How axes nest, and the meaning of a stride of the outermost one.
enum class Nesting {
  kAsListed,
  kPackedRows,   ///< rows outside heads; all sequences are one batch
  kPackedHeads,  ///< heads outside rows, likewise
  kOneMatrix,    ///< has no next
  kStacked,      ///< matrices one below the other
  kApart,        ///< matrices with inputs of their own
};

/// Whose rows a tensor has. Packed rows may belong to no sequence.
enum class Sequences { kNone, kQueries, kKeys };

struct Axes {
  Shape sizes;
  const AxisNames& names;
  Nesting nesting = Nesting::kAsListed;
  Sequences sequences = Sequences::kNone;
};

constexpr Axes vector_axes(std::int64_t size) { return {{1, 1, 1, size}, kVectorNames}; }
constexpr Axes row_axes(const Shape& sizes, std::int64_t features) {
  return {{sizes[0], sizes[1], sizes[2], features}, kRowNames};
}

// ---- Rows of a table --------------------------------------------------------------------------

/// How a descriptor gives a layout.
enum class Form { kNone, kTensor, kScores, kMatrix };

/// A tensor's fields in the structs of the API, which all have the same name.
struct Field {
  const char* desc;  ///< as in "desc.query"
  const char* args;  ///< as in "args.query"
  const char* name;  ///< as in "query"
  Form form;
  std::size_t layout;   ///< where in the descriptor its layout lies
  std::size_t pointer;  ///< where in the arguments its pointer lies
  std::int64_t bytes;   ///< of an element; 0: as a layout says, or as the arithmetic's type has
};

template <class Given>
constexpr Form form_of() {
  if (std::is_same_v<Given, heed_layout>) return Form::kTensor;
  return std::is_same_v<Given, heed_score_layout> ? Form::kScores : Form::kMatrix;
}
template <class Pointer>
constexpr std::int64_t element_bytes() {
  using Element = std::remove_pointer_t<Pointer>;
  if constexpr (std::is_void_v<Element>)
    return 0;
  else
    return sizeof(Element);
}

enum class Role {
  kInput,
  kOutput,
  kReplaced,  ///< an input that an output may replace element by element
};

/// Whether a run must have the tensor.
enum class Needed {
  kNo,
  kWithElements,      ///< if, and only if, it has elements
  kOnlyWithElements,  ///< no, but without elements it must not
};

/// The types that it may have, beside the ones that its form allows.
enum class Types {
  kAny,
  kStored,       ///< types of 8 bits, too
  kDenominator,  ///< float32 or float64
  kArithmetic,   ///< float64 if, and only if, the arithmetic is float64
  kAsQuery,      ///< likewise; messages say that query is, or out
  kAsOut,
};

/// The values in it that the audit tells of.
enum class Odd {
  kNone,
  kNotFinite,
  kNotFiniteUnlessMasked,  ///< -inf is usual
  kOfBias,                 ///< likewise; and nothing but ones and zeros, as of a mask
};

/// When a problem has a tensor.
template <class Problem>
struct Condition {
  /// The fate of the layout of a tensor that the problem has not.
  enum Layouts { kIgnored, kResolved, kRefused };

  bool (*holds)(const Problem&);
  const char* unless;  ///< the pointer must be NULL, as in "with desc.sum_columns 0"
  Layouts layouts = kIgnored;
  const char* unset_unless = nullptr;          ///< the layout must be 0; nullptr: the same words
  const char* asked_by = nullptr;              ///< the field that asks for it
  bool (*optional)(const Problem&) = nullptr;  ///< where runs may lack it nevertheless
};

template <class Problem>
inline constexpr Condition<Problem> kWeighsScores = {
    [](const Problem& p) { return p.has_score_weights(); },
    "unless desc.score is HEED_SCORE_ADDITIVE (2) or HEED_SCORE_COSINE (3)",
    Condition<Problem>::kIgnored,
    nullptr,
    nullptr,
    [](const Problem& p) { return p.divides_by_norms(); }};

/// The pointer that lies so many bytes after the beginning of a struct.
inline const void* address_at(const void* args, std::size_t offset) {
  const void* address = nullptr;
  std::memcpy(&address, static_cast<const std::byte*>(args) + offset, sizeof address);
  return address;
}

template <class Problem>
using AxesOf = Axes (*)(const Problem&);

/// A tensor's fields, and the member of a checked descriptor that says where its elements lie: side
/// by side without one.
template <class Problem>
struct TensorField : Field {
  Layout Problem::*layout_of = nullptr;
  Matrix Problem::*matrix_of = nullptr;

  constexpr TensorField(const Field& field, Layout Problem::*of) : Field(field), layout_of(of) {}
  constexpr TensorField(const Field& field, Matrix Problem::*of) : Field(field), matrix_of(of) {}
};

template <class Problem>
inline constexpr Layout Problem::*kSideBySide = nullptr;

/// The structs that a tensor's fields are in.
template <class DescStruct, class ArgsStruct, class CheckedStruct>
struct Structs {
  using Desc = DescStruct;
  using Args = ArgsStruct;
  using Checked = CheckedStruct;
};

/// A field that descriptors, arguments and checked descriptors have; of the arguments alone, with
/// elements side by side; and likewise, as a member of checked descriptors says. `Api`: see
/// Structs.
#define HEED_TENSOR(Api, field)                                                         \
  heed::TensorField<Api::Checked> {                                                     \
    HEED_FIELD(Api, field, "desc." #field, heed::form_of<decltype(Api::Desc::field)>(), \
               offsetof(Api::Desc, field)),                                             \
        &Api::Checked::field                                                            \
  }
#define HEED_VECTOR(Api, field) HEED_VECTOR_AS(Api, field, heed::kSideBySide<Api::Checked>)
#define HEED_VECTOR_AS(Api, field, member) \
  heed::TensorField<Api::Checked> { HEED_FIELD(Api, field, "", heed::Form::kNone, 0), member }
#define HEED_FIELD(Api, field, desc, form, layout)                          \
  heed::Field {                                                             \
    desc, "args." #field, #field, form, layout, offsetof(Api::Args, field), \
        heed::element_bytes<decltype(Api::Args::field)>()                   \
  }

template <class Problem>
struct Operand : TensorField<Problem> {
  Role role;
  Needed needed;
  Odd odd;
  AxesOf<Problem> axes;
  Types types = Types::kAny;
  bool no_heads = false;  ///< its layout has no stride_head
  const Condition<Problem>* condition = nullptr;
  std::size_t input = 0;  ///< of a gradient: where in the inner arguments its input's pointer lies
  bool input_is_optional = false;

  constexpr Operand(const TensorField<Problem>& tensor, Role is, Needed given, Odd told_of,
                    AxesOf<Problem> along)
      : TensorField<Problem>(tensor), role(is), needed(given), odd(told_of), axes(along) {}

  // The same row with a rule of its own.
  template <class Value>
  constexpr Operand set(Value Operand::*member, Value value) const {
    Operand row = *this;
    row.*member = value;
    return row;
  }
  constexpr Operand with(Types rule) const { return set(&Operand::types, rule); }
  constexpr Operand without_heads() const { return set(&Operand::no_heads, true); }
  constexpr Operand when_given(Needed rule) const { return set(&Operand::needed, rule); }
  constexpr Operand told(Odd values = Odd::kNotFinite) const { return set(&Operand::odd, values); }
  constexpr Operand not_told() const { return told(Odd::kNone); }
  constexpr Operand only(const Condition<Problem>& holds) const {
    return set<const Condition<Problem>*>(&Operand::condition, &holds);
  }
  /// Its pointer is an argument of a call, no member of arguments: messages name it alone.
  constexpr Operand passed() const {
    Operand row = *this;
    row.args = this->name;
    return row;
  }
  /// The gradient of an input that problems have or not, and of one that runs have or not.
  constexpr Operand of(std::size_t pointer) const { return set(&Operand::input, pointer); }
  constexpr Operand of_given(std::size_t pointer) const {
    return of(pointer).set(&Operand::input_is_optional, true);
  }

  const void* pointer_in(const void* args) const { return address_at(args, this->pointer); }
  bool is_used(const Problem& p) const { return condition == nullptr || condition->holds(p); }
  /// Where elements lie, of a problem whose layouts are resolved.
  Layout laid_out(const Problem& p, bool float64) const {
    if (this->layout_of != nullptr) return p.*this->layout_of;
    if (this->matrix_of != nullptr) return (p.*this->matrix_of).layout;
    if (this->bytes != 0) return side_by_side(ElementType::kMask, this->bytes);
    return side_by_side(real_type(float64), real_bytes(float64));
  }
};

/// An input that runs need, one that they may lack, and the same of outputs.
template <class Problem>
constexpr Operand<Problem> input(const TensorField<Problem>& tensor, AxesOf<Problem> axes) {
  return {tensor, Role::kInput, Needed::kWithElements, Odd::kNotFinite, axes};
}
template <class Problem>
constexpr Operand<Problem> option(const TensorField<Problem>& tensor, AxesOf<Problem> axes) {
  return {tensor, Role::kInput, Needed::kNo, Odd::kNone, axes};
}
template <class Problem>
constexpr Operand<Problem> output(const TensorField<Problem>& tensor, AxesOf<Problem> axes) {
  return {tensor, Role::kOutput, Needed::kWithElements, Odd::kNotFinite, axes};
}
template <class Problem>
constexpr Operand<Problem> wanted(const TensorField<Problem>& tensor, AxesOf<Problem> axes) {
  return {tensor, Role::kOutput, Needed::kNo, Odd::kNone, axes};
}

// ---- Layouts ----------------------------------------------------------------------------------

/// The layout that a descriptor gives a tensor. Throws an Error that names the field, its value and
/// the bound.
Layout resolve_layout(const Field& field, Role role, Types types, bool no_heads, const Axes& axes,
                      bool float64, const void* desc);
Matrix resolve_matrix(const Field& field, Role role, const Axes& axes, bool float64,
                      const void* desc);
/// Throws unless the layout of a tensor that a problem has not is 0.
void check_unset(const Field& field, const void* desc, const char* unless);

template <class Problem>
[[gnu::always_inline]] inline void resolve_layout_of(const Operand<Problem>& row, const void* desc,
                                                     bool float64, Problem& p) {
  if (row.form == Form::kNone) return;
  const Condition<Problem>* const condition = row.condition;
  if (!row.is_used(p) && condition->layouts != Condition<Problem>::kResolved) {
    if (condition->layouts == Condition<Problem>::kRefused)
      check_unset(row, desc,
                  condition->unset_unless != nullptr ? condition->unset_unless : condition->unless);
    return;
  }
  if (row.matrix_of != nullptr)
    p.*row.matrix_of = resolve_matrix(row, row.role, row.axes(p), float64, desc);
  else
    p.*row.layout_of =
        resolve_layout(row, row.role, row.types, row.no_heads, row.axes(p), float64, desc);
}

template <const auto& kRows, class Problem, std::size_t... kRow>
void resolve_rows(const void* desc, bool float64, Problem& p, std::index_sequence<kRow...>) {
  (resolve_layout_of(kRows[kRow], desc, float64, p), ...);
}

/// Fills in the layouts of all rows whose descriptor gives one. Row by row in line, because small
/// problems take microseconds.
template <const auto& kRows, class Problem>
void resolve_layouts(const void* desc, bool float64, Problem& p) {
  resolve_rows<kRows>(desc, float64, p, std::make_index_sequence<std::size(kRows)>{});
}

// ---- Pointers ---------------------------------------------------------------------------------

/// The arguments of the attention whose gradients a run computes, and their name in messages.
struct Inner {
  const void* args = nullptr;
  const char* name = nullptr;
};

[[noreturn]] void refuse_given(const Field& field, const char* unless);
[[noreturn]] void refuse_gradient(const Field& field, const char* inner);
[[noreturn]] void refuse_missing(const Field& field, const char* asked_by);
[[noreturn]] void refuse_empty(const char* field, const Axes& axes);

template <class Problem>
[[gnu::always_inline]] inline void check_pointer(const Operand<Problem>& row, const Problem& p,
                                                 const void* args, bool float64, Inner inner) {
  const void* const pointer = row.pointer_in(args);
  if (pointer == nullptr && row.needed != Needed::kWithElements) return;
  const bool used = row.is_used(p);
  const Condition<Problem>* const condition = row.condition;
  if (row.input != 0 && pointer != nullptr) {
    const bool lacking = row.input_is_optional && address_at(inner.args, row.input) == nullptr;
    if (!used || lacking) refuse_gradient(row, inner.name);
  }
  if (!used) {
    if (pointer != nullptr) refuse_given(row, condition->unless);
    return;
  }
  if (row.needed != Needed::kNo) {
    const Axes axes = row.axes(p);
    const bool empty = is_empty(axes.sizes);
    if (pointer != nullptr && empty) refuse_empty(row.args, axes);
    if (pointer == nullptr && !empty && row.needed == Needed::kWithElements &&
        (condition == nullptr || condition->optional == nullptr || !condition->optional(p)))
      refuse_missing(row, condition != nullptr ? condition->asked_by : nullptr);
  }
  check_alignment(row.args, pointer, row.laid_out(p, float64).bytes);
}

template <const auto& kRows, Role kRole, class Problem, std::size_t... kRow>
void check_rows(const Problem& p, const void* args, bool float64, Inner inner,
                std::index_sequence<kRow...>) {
  ((kRows[kRow].role == kRole ? check_pointer(kRows[kRow], p, args, float64, inner) : void()), ...);
}

/// Throws unless a run has the tensors that its problem needs, and no others: inputs, outputs, or
/// both. Row by row in line, too.
template <const auto& kRows, class Problem>
void check_inputs(const Problem& p, const void* args, bool float64, Inner inner = {}) {
  constexpr std::make_index_sequence<std::size(kRows)> kAll;
  check_rows<kRows, Role::kInput>(p, args, float64, inner, kAll);
}
template <const auto& kRows, class Problem>
void check_outputs(const Problem& p, const void* args, bool float64, Inner inner = {}) {
  constexpr std::make_index_sequence<std::size(kRows)> kAll;
  check_rows<kRows, Role::kOutput>(p, args, float64, inner, kAll);
}
template <const auto& kRows, class Problem>
void check_pointers(const Problem& p, const void* args, bool float64, Inner inner = {}) {
  check_inputs<kRows>(p, args, float64, inner);
  check_outputs<kRows>(p, args, float64, inner);
}

}  // namespace heed
