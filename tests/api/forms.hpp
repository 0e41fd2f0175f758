// A call of the C API as its structs and tensors, changed by the names that messages call them: an
// operation describes a valid one with one of everything, of which tests change one thing or two.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/api/fields.hpp"
#include "tests/api/support.hpp"
#include "tests/oracle/dtype.hpp"

namespace api_test {

/// Bytes in an output that no run writes.
inline constexpr unsigned char kPattern = 0x5c;

/// Whole numbers, by a type as wide.
constexpr std::uint32_t kI32 = HEED_DTYPE_F32;
constexpr std::uint32_t kI64 = HEED_DTYPE_F64;

/// [batch or matrix][head][row or feature in][feature, key or feature out]
using Axes = std::array<std::int64_t, 4>;

/// What a pointer of the arguments points at.
struct Tensor {
  enum Content { kNumbers, kGiven, kResult };  ///< given: what lies there before it is placed
  std::string name;                            ///< in messages
  void* field;                                 ///< the pointer
  std::int64_t elements;
  std::uint32_t dtype;
  Content content = kNumbers;

  // Of the tensors of forms:
  bool needed = false;      ///< where the problem has it
  std::string layout = {};  ///< in messages
  char kind = 0;            ///< of the layout, as in a Schema; 0: none
  void* at = nullptr;       ///< the layout
  Axes axes = {};
  bool rows_first = false;  ///< contiguous is [row][head][feature]
  const heed_weights** prepared = nullptr;

  std::size_t bytes() const;
  void* memory() const {
    void* memory = nullptr;
    std::memcpy(&memory, field, sizeof memory);
    return memory;
  }
  void point_at(const void* memory) const { std::memcpy(field, &memory, sizeof memory); }
  /// Writes an element, rounded to its type.
  void set(std::int64_t index, const Value& value) const;
  /// Of the layout, nullptr where it has none along an axis.
  std::array<std::int64_t*, 4> strides() const;
  /// Whether it is one of these, whichever struct its field is in.
  bool is_one_of(const std::string& names) const;
};

/// Numbers of the tensor's type, the same for a seed; in a mask mostly 1.
void fill(const Tensor& tensor, void* memory, std::uint32_t seed);

class Form;

struct PlanInfo {
  std::string executor;
  std::size_t workspace_bytes;
  std::uint32_t threads;
};

/// The functions of an operation with plans, whatever the types of its structs. A graph is for
/// those over graphs alone.
struct Planned {
  heed_status (*create)(const heed_context*, const heed_graph*, const void* desc, void** plan);
  void (*destroy)(void* plan);
  heed_status (*describe)(const void* plan, void* info);
  PlanInfo (*info_of)(const void* plan);
  std::size_t info_bytes;
  heed_status (*workspace)(const void* plan, std::size_t* bytes);
  heed_status (*run)(void* plan, const void* args, void* workspace, std::size_t bytes);
  heed_status (*call)(const heed_context*, const heed_graph*, const void* desc, const void* args);
};

/// Whether a call takes a struct, or the test alone does: its graph, its cache, its few arguments.
enum class Part { kHandedIn, kOptional, kTests };

struct StructOf {
  std::string called;  ///< where messages speak of the struct
  Schema schema;
  Part part = Part::kHandedIn;

  /// Arguments of a function that takes no struct of them are none of the API's.
  bool is_of_api() const { return std::strncmp(schema, "struct_size", 11) == 0; }
  /// How messages begin that speak of its fields.
  std::string within() const {
    if (!is_of_api() && part == Part::kHandedIn) return "";
    const bool outer = called.find('.') == std::string::npos || called[0] == 'o';
    return called + (outer ? "." : ": " + called.substr(0, 4) + ".");
  }
};

/// A valid problem, and the bytes of a number of its arithmetic.
struct Variant {
  std::string changes;
  int bytes = 4;
};

struct Member {
  std::string name;
  char type;  ///< as in a Schema
  std::size_t of;
  std::uint32_t offset;
  std::string layout = {};  ///< that it is inside of

  bool ends_with(const std::string& end) const {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  }
};

struct Operation {
  std::string name;
  std::vector<StructOf> structs;
  void (*tensors)(Form& form, std::vector<Tensor>& all);
  /// Lines "NAME: CHANGES". Those of `begin` make it valid, without the tensors that it lacks; each
  /// of those that are valid is a problem of its own, (8) where numbers have 8 bytes.
  std::string text;
  heed_status (*call)(const Context& context, Form& form);
  const Planned* planned = nullptr;
  void (*start)(Form& form) = nullptr;

  std::string lacks = "";
  std::map<std::string, std::string> changes = {};
  std::vector<Variant> variants = {};
  std::vector<Member> members = {};
  std::map<std::string, std::size_t> places = {};  ///< among the members
};

/// The arrays of the graph that a form is over, if it is.
std::vector<Tensor> edges_of(Form& form);

/// All of them.
const std::vector<Operation>& operations();
const Operation& operation(const char* name);

class Form {
 public:
  explicit Form(const Operation& of, const std::string& changes = "");
  explicit Form(const char* of, const std::string& changes = "") : Form(operation(of), changes) {}
  Form(const Form&) = delete;  // arguments point into it
  Form& operator=(const Form&) = delete;

  /// "field = value" of one field or several, or names of the operation's changes; commas between.
  /// "desc.(query key).dtype" are two fields.
  /// A value may also be {all numbers} of a list or the [strides] of a layout; a struct may be
  /// NULL.
  void apply(const std::string& changes);
  void set(const std::string& name, const Value& value);

  struct Struct : StructOf {
    std::shared_ptr<void> memory;
    const void** pointer;  ///< where it is handed in
    const void* given;     ///< there, if no other struct points at it
  };
  std::deque<Struct>& structs() { return structs_; }
  template <class T>
  T& at(const std::string& called) {
    return *static_cast<T*>(struct_of(called).memory.get());
  }
  const void* given(const std::string& called) { return struct_of(called).given; }
  bool has(const std::string& called) const;

  /// The members of all structs that a call takes, but those of layouts of tensors that the problem
  /// has not.
  std::vector<Member> fields();
  const Member* find(const std::string& name) const;
  char* address(const Member& member) {
    return static_cast<char*>(structs_[member.of].memory.get()) + member.offset;
  }

  /// Every tensor that it may have, contiguous.
  std::vector<Tensor> tensors();
  /// Those that it has, by the names that messages about memory write.
  std::vector<Tensor> given_tensors();
  Tensor tensor(const std::string& name);
  /// Where a tensor or a list lies, of zeros at first: for any small one, with room for a
  /// misaligned pointer.
  unsigned char* own(const std::string& name);
  /// Takes a tensor that it has to memory of exactly its size, between forbidden pages where there
  /// are FencedTensors, with other numbers in it if it is an input.
  void place(const Tensor& tensor);
  /// All of them. Prepared: matrices are.
  void place(bool prepared = false);

  std::vector<unsigned char> outputs() const;
  bool untouched() const;
  void forget_outputs();

  /// Makes what a plan or a call needs besides: `graph`, `weights` and `matrices`, if there are
  /// any. What they are made from is gone afterwards.
  heed_status prepare(const Context& context);
  /// With what another has prepared.
  void share(const Form& other);
  /// The graph that it is over, if it is: the one that it has, or a new one.
  Object graph_of(const Context& context);

  /// Makes a plan from copies of the descriptors, of which that needs nothing afterwards.
  heed_status create(const Context& context, Object& plan);
  bool prepare_and_create(const Context& context, Object& plan) {
    return prepare(context) == HEED_STATUS_OK && create(context, plan) == HEED_STATUS_OK;
  }
  PlanInfo describe(const Object& plan) const { return of.planned->info_of(plan.get()); }
  /// Asks for no memory itself: tests count what the library asks for.
  heed_status run(const Object& plan, void* workspace, std::size_t bytes);
  /// In a workspace of its own, past which to write is an internal error.
  heed_status run(const Object& plan);
  /// Whether a run succeeds and gives these outputs.
  bool gives(const Object& plan, const std::vector<unsigned char>& expected) {
    forget_outputs();
    return run(plan) == HEED_STATUS_OK && outputs() == expected;
  }
  /// Through the call that needs no plan.
  heed_status call(const Context& context) {
    forget_last_error();
    return of.call(context, *this);
  }

  const Operation& of;
  bool made = false;  ///< the last call made or changed an object
  Object graph;
  Weights weights;  ///< that a projection multiplies by, of zeros; made by a call if there are none
  std::vector<Object> matrices;
  std::shared_ptr<void> keeps;

 private:
  /// A matrix to prepare, and where it is handed in.
  struct Matrix {
    Tensor matrix, bias;
    const void* numbers;
    const void* bias_numbers;
  };

  heed_status prepare(const Matrix& matrix, const Context& context, Object& made) const;
  heed_status make_graph(const Context& context, Object& over);
  void hand_in_matrices();
  Struct& struct_of(const std::string& called);
  void set_pointer(const Member& member, const Value& value);
  void set_list(const std::string& name, const Value& value);
  void set_strides(const Member& member, const Value& value);

  std::deque<Struct> structs_;
  std::map<std::string, heed_test::Memory> own_;
  std::vector<std::string> results_;  ///< whose memory holds outputs
  std::vector<Matrix> to_prepare_;
  std::uint32_t placed_ = 0;
  std::deque<std::string> texts_;
};

/// The parts of a text that stand between separators.
std::vector<std::string> split(const std::string& text, const std::string& separator);
/// Lines without their indentation; those that are indented further go on with the one before.
std::vector<std::string> lines_of(const std::string& text);

/// What a projection's matrix is made of.
struct PreparedSizes {
  std::int64_t arithmetic, in, out;
};

/// What merges get beside their descriptor; the schema has the names.
struct MergeArgs {
  const void *part_outs[3], *part_lses[3];
  std::int64_t parts;
  void *out, *lse;
  const void *const *outs, *const *lses;  ///< of which no message tells where they point
};

/// A matrix prepared from zeros.
inline Weights prepared(const Context& context, std::int64_t in, std::int64_t out,
                        std::uint32_t arithmetic = HEED_DTYPE_F32, std::int64_t matrices = 1) {
  const std::int64_t all = matrices > 0 ? matrices : 1;
  const std::vector<double> numbers(static_cast<std::size_t>(all * in * out), 0);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = arithmetic;
  desc.matrices = matrices;
  desc.in = in;
  desc.out = out;
  return heed_test::create<heed_weights>(context.get(), &desc, numbers.data(), nullptr);
}

}  // namespace api_test
