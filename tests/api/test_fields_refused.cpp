// What is refused of the fields and tensors of one kind alike, whatever the operation: reserved
// words, types, strides and pointers. No field is left out.
#include <algorithm>

#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* one) { return name == one; });
}

/// Calls rows(form, bytes) for every variant of every operation, and checks the rows that it gives;
/// `except` operations that have none.
template <class RowsOf>
void check_variants(std::initializer_list<const char*> except, const RowsOf& rows_of) {
  for (const Operation& of : operations()) {
    if (is_one_of(of.name, except) || of.name == "context") continue;
    std::string table;
    bool any = false;
    for (const Variant& variant : of.variants) {
      Form form(of, variant.changes);
      const std::string rows = rows_of(form, variant.bytes);
      any = any || !rows.empty();
      table += "with " + (variant.changes.empty() ? "as it is" : variant.changes) + ":\n" + rows;
    }
    check_refused(of.name.c_str(), table);
    CAPTURE(of.name);
    CHECK(any);
  }
}

/// The same of every field that there is.
template <class RowsOf>
void check_fields(std::initializer_list<const char*> except, const RowsOf& rows_of) {
  check_variants(except, [&](Form& form, int bytes) {
    const std::vector<Tensor> all = form.tensors();
    const bool biases = std::any_of(all.begin(), all.end(), [](const Tensor& tensor) {
      return tensor.memory() != nullptr && tensor.is_one_of("b_query bias");
    });
    std::string rows;
    for (const Member& field : form.fields())
      if (biases || !field.ends_with("bias_dtype")) rows += rows_of(form.of.name, field, bytes);
    return rows;
  });
}

/// And of every tensor that is given.
template <class RowsOf>
void check_tensors(std::initializer_list<const char*> except, const RowsOf& rows_of) {
  check_variants(except, [&](Form& form, int) {
    std::string rows;
    for (const Tensor& tensor : form.tensors())
      if (tensor.memory() != nullptr) rows += rows_of(tensor);
    return rows;
  });
}

/// Whether its elements must lie apart: gradients want so of what attention wrote, too.
bool is_written(const Tensor& tensor) {
  return tensor.content == Tensor::kResult || tensor.is_one_of("out lse");
}

/// Whether a type depends on the arithmetic, without being the one that says which it is.
bool is_free(const std::string& operation, const std::string& name) {
  const std::string tensor = name.substr(0, name.rfind('.'));
  return is_one_of(tensor.substr(tensor.find_last_of(".:") + 1),
                   {"lse", "weights", "edge_bias", "grad_lse", "grad_bias"}) ||
         name == (operation == "graph attention" ? "desc.out.dtype" : "desc.input_query.dtype") ||
         name.find("desc.attention: ") != std::string::npos ||
         name == "desc.block: desc.input_query.dtype";
}

}  // namespace

TEST_CASE("every reserved word is 0, or says how strides are meant", "[refused]") {
  check_fields({"graph", "cache"}, [](const std::string&, const Member& field, int) {
    if (!field.ends_with(".reserved")) return std::string();
    const bool own = field.ends_with("desc.reserved") || field.ends_with("args.reserved") ||
                     field.ends_with("rotary.reserved");
    return field.name + " = " +
           (own ? "1 | 2 | 9 | 4294967295 => must be 0\n"
                : "2 | 9 | 4294967295 => must be 0 or HEED_STRIDES_EXPLICIT (1)\n");
  });
}

TEST_CASE("every type is one of its names", "[refused]") {
  check_fields({"graph", "cache", "append", "cache attention"}, [](const std::string& operation,
                                                                   const Member& field, int bytes) {
    const std::string is = field.name + " = ";
    if (!field.ends_with("dtype") || field.ends_with("scales.dtype") || bytes == 8)
      return std::string();
    if (field.ends_with("mask.dtype"))
      return is +
             "f32 | 5 | 6 | 7 | 4294967295 => "
             "must be 0: a mask is made of bytes\n";
    const bool stored = (operation == "dense" || operation == "backward") &&
                        (field.ends_with("desc.key.dtype") || field.ends_with("desc.value.dtype"));
    std::string rows = is + (stored ? "7 | 4294967295 => must be a heed_dtype, 0 to 6\n"
                                    : "5 | 6 | 7 | 4294967295 => "
                                      "must be a heed_dtype, 0 to 4\n");
    if (field.ends_with("lse.dtype"))
      rows += is +
              "bf16 | f16 => "
              "must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)\n";
    return rows;
  });
}

TEST_CASE("float64 goes with float64 only", "[refused]") {
  check_fields(
      {"dense", "backward", "graph backward", "merge", "rotate", "graph", "cache", "append",
       "cache attention"},
      [](const std::string& operation, const Member& field, int bytes) {
        const std::string is = field.name + " = ";
        if (!field.ends_with("dtype") || is_free(operation, field.name)) return std::string();
        const bool bias = field.ends_with("bias_dtype") || field.ends_with("grad_b_dtype");
        if (bytes == 8)
          return is + "f32 | bf16 | f16 => must be HEED_DTYPE_F64 (2) " +
                 (bias ? "where the arithmetic is float64\n"
                       : "or 0, as the arithmetic is float64\n");
        return is + "f64 => " +
               (bias
                    ? "must be another than HEED_DTYPE_F64 (2) where the arithmetic is float32\n"
                    : field.name +
                          " is HEED_DTYPE_F64 (2); the arithmetic is float32, so it must not be\n");
      });
}

TEST_CASE("gradients are float64 where their tensors are, and nowhere else", "[refused]") {
  const auto rows = [](const std::string& operation, const Member& field, int bytes) {
    const std::string is = field.name + " = ";
    if (!field.ends_with(".dtype") || field.name.rfind("desc.grad_", 0) != 0) return std::string();
    if (is_free(operation, field.name) || field.name.find("_w_") != std::string::npos ||
        field.name.find("_edge_bias") != std::string::npos)
      return std::string();
    const std::string as = operation == "backward" ? ", as query is\n" : ", as out is\n";
    return bytes == 8 ? is + "f32 | bf16 | f16 => must be HEED_DTYPE_F64 (2)" + as
                      : is + "f64 => must not be HEED_DTYPE_F64 (2)" + as + is + "bf16 => ok\n";
  };
  check_fields({"dense", "block", "block backward", "graph attention", "merge", "rotate", "matrix",
                "project", "graph", "cache", "append", "cache attention"},
               rows);
}

TEST_CASE("every stride that leaves the addresses is refused", "[refused]") {
  check_fields({"graph", "cache"}, [](const std::string&, const Member& field, int) {
    if (!field.ends_with(".stride_row") && !field.ends_with(".stride_in")) return std::string();
    std::string rows;
    for (const std::int64_t stride :
         {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 4, INT64_MAX / 2, -INT64_MAX / 4})
      rows += field.name + " = " + std::to_string(stride) + " => " + field.layout +
              " steps ... stride of " + std::to_string(stride) +
              " elements; that overflows an address\n";
    return rows;
  });
}

TEST_CASE("a layout that is half given is refused", "[refused]") {
  check_tensors({"graph", "cache"}, [](const Tensor& tensor) {
    std::string rows;
    for (const std::string stride : {"batch", "row", "feature", "in", "out"}) {
      if (tensor.kind == 0 || is_written(tensor)) continue;
      if ((tensor.kind == 'M') != (stride == "in" || stride == "out")) continue;
      if (tensor.kind == 'S' && stride == "feature") continue;
      if (tensor.axes[3] == 1 && (stride == "row" || stride == "feature")) continue;  // one number
      rows += tensor.layout + ".stride_" + stride + " = 1000 => " + tensor.layout +
              ".stride_ ... is 0 beside other strides; it must be given with them, unless " +
              tensor.layout.substr(tensor.layout.rfind("desc.")) +
              ".reserved is HEED_STRIDES_EXPLICIT (1), which lets it repeat elements\n";
    }
    return rows;
  });
}

TEST_CASE("outputs whose elements lie in one place are refused", "[refused]") {
  check_tensors({"matrix", "graph", "cache", "append"}, [](const Tensor& tensor) {
    if (tensor.kind == 0 || tensor.content != Tensor::kResult) return std::string();
    return tensor.layout + ".reserved = explicit => " + tensor.layout +
           ".stride_ ... is 0; it must exceed 0, or elements of the output overlap\n";
  });
}

TEST_CASE("every tensor that the problem has is given", "[refused]") {
  check_tensors({"graph", "cache"}, [](const Tensor& tensor) {
    return tensor.needed ? tensor.name + " = NULL => ; its tensor has elements\n" : std::string();
  });
}

TEST_CASE("every pointer is aligned to its type", "[refused]") {
  check_tensors({}, [](const Tensor& tensor) {
    const auto bytes = static_cast<int>(heed_test::format_of(tensor.dtype).bytes);
    std::string rows;
    for (int off = 1; off < bytes; ++off)
      rows += tensor.name + " = +" + std::to_string(off) + " => must be a multiple of " +
              std::to_string(bytes) + "\n";
    return rows;
  });
}

namespace {

/// With a size of 0 the tensors that it leaves no element must be NULL: those that the problem
/// needs and those named. One of them alone is refused, none is an empty problem.
void check_empty(const char* of, const std::string& size, const std::string& make,
                 const std::string& named = "-") {
  Form probe(of, make);
  std::vector<std::string> names;
  for (const Tensor& tensor : probe.tensors())
    if (tensor.elements == 0 && tensor.memory() != nullptr &&
        (tensor.needed || tensor.is_one_of(named)))
      names.push_back(tensor.name);
  CHECK_FALSE(names.empty());
  names.emplace_back();
  for (const std::string& given : names) {
    INFO(of << ": " << given << " is given with " << size << " 0");
    Form form(of, make);
    for (const std::string& name : names)
      if (name != given && !name.empty()) form.set(name, "NULL");
    hand_in(form, given.empty() || given.rfind("args.", 0) == 0, [&](heed_status status) {
      if (given.empty())
        CHECK(status == HEED_STATUS_OK);
      else
        check_refusal(
            status, HEED_STATUS_INVALID_ARGUMENT,
            given + " is given, but " + size + " is 0; a tensor without elements must be NULL");
    });
  }
}

}  // namespace

TEST_CASE("a size of 0 beside its tensor is refused", "[refused][empty]") {
  check_empty("dense", "batch", "desc.batch = 0", "weights column_sums");
  check_empty("dense", "query_heads", "desc.query_heads = 0", "weights column_sums");
  check_empty("dense", "query_length",
              "desc.query_length desc.weight_rows = 0, args.weight_rows = NULL", "weights");
  check_empty("dense", "key_length", "desc.key_length = 0, args.key_lengths = NULL",
              "weights column_sums");
  check_empty("block", "key_length",
              "desc.attention->key_length = 0, args.attention->key_lengths = NULL",
              "input_key weights");
  for (const std::string size : {"batch", "query_length"}) {
    const std::string none = "desc.attention->" + size + " = 0";
    check_empty("backward", size, none);
    check_empty("block", size, none, "input_key weights");
    check_empty("block backward", size,
                "desc.block->attention->" + size + " = 0" +
                    (size == "batch" ? ", args.grad_input_key = NULL" : ""),
                "input_key");
  }
  check_empty("graph attention", "nodes", "no nodes");
  check_empty("graph attention", "nodes", "per node, no nodes", "w_query w_key w_value");
  check_empty("graph attention", "edges", "no edges");
  check_empty("graph backward", "edges", "no edges");
  check_empty("graph backward", "nodes", "no nodes");
  check_empty("graph", "edges", "desc.edges = 0", "sources destinations");
  check_empty("merge", "features", "desc.features = 0");
  for (const std::string size : {"batch", "heads", "rows"}) {
    const std::string none = "desc." + size + " = 0";
    check_empty("merge", size, none);
    check_empty("rotate", size, none + ", positions = {-1}");  // at which nobody looks
    if (size != "heads") check_empty("project", size, none);
  }
  check_empty("append", "rows", "desc.rows = 0");
  check_empty("cache attention", "batch", "desc.attention->batch = 0");
}

TEST_CASE("every matrix is given once, as it is or prepared for the problem", "[refused]") {
  const Context context = serial();
  for (const std::string of : {"block", "graph attention"}) {
    const std::string share = of == "block" ? "float32" : "share";
    const std::string float64 = of == "block" ? "float64" : "share, float64 data";
    Form shared(of.c_str(), of == "block" ? "" : share);
    for (const Tensor& matrix : shared.tensors()) {
      if (matrix.prepared == nullptr) continue;
      const std::string which = matrix.name.substr(matrix.name.rfind("w_") + 2);
      const std::string w = "args.w_" + which, b = "args.b_" + which, p = "args.p_" + which;
      const std::string none = ", " + w + " " + b + " = NULL";
      const std::int64_t in = matrix.axes[2], out = matrix.axes[3];
      Changes more = {{"float32", [](Form&) {}}};
      std::vector<Weights> all;
      const auto prepare = [&](const std::string& name, std::int64_t from, std::int64_t to,
                               std::uint32_t real) {
        all.push_back(prepared(context, from, to, real));
        more[name] = [weights = all.back().get(), w](Form& form) {
          *form.tensor(w).prepared = weights;
        };
      };
      prepare("good", in, out, HEED_DTYPE_F32);
      prepare("wide", in, out, HEED_DTYPE_F64);
      std::string table = "with " + share + ":\n";
      table += "good => " + w + " and " + p + " are both given; give one of them\n";
      table += "with " + share + none + ", good:\n";
      table += b + " = given => must be NULL with " + p + ", which has its bias inside\n";
      table += p + " = NULL => " + w + " and " + p + " are both NULL; give one of them" +
               (which == "out" ? ", or heads stay as they are with desc.combine "
                                 "HEED_COMBINE_HEADS (5)\n"
                               : "\n");
      table += "wide => " + p + " is prepared for float64 arithmetic; this plan's is float32\n";
      for (const auto& [from, to] :
           {std::pair(in + 1, out), {in - 1, out}, {in, out + 1}, {in, out - 1}}) {
        const std::string sizes = std::to_string(from) + " to " + std::to_string(to);
        prepare(sizes, from, to, HEED_DTYPE_F32);
        table += sizes + " => " + p + " is prepared from " + std::to_string(from) +
                 " features to " + std::to_string(to) + "; it must be from " + std::to_string(in) +
                 " to " + std::to_string(out) + "\n";
      }
      table += "with " + float64 + none + ", wide:\n";
      table += "good => " + p + " is prepared for float32 arithmetic; this plan's is float64\n";
      check_refused(of.c_str(), table, more);
    }
  }
}
