// Strides that reach no element, along axes of one element and of empty tensors, and strides that
// are all 0 and mean it.
#include "tests/api/forms.hpp"
#include "tests/support/fenced.hpp"

using namespace api_test;
using heed_test::End;
using heed_test::Fenced;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 62;
constexpr std::int64_t kStrides[] = {INT64_MIN, INT64_MAX, kFar, -kFar, std::int64_t{1} << 40};

/// Contiguous strides, but `any` along axes of one element.
void spell(const Tensor& tensor, std::int64_t any) {
  const std::array<std::int64_t*, 4> strides = tensor.strides();
  std::int64_t elements = 1;
  const std::size_t rows = tensor.rows_first ? 1 : 2;  // or heads, whichever are closer together
  for (const std::size_t axis : {std::size_t{3}, rows, 3 - rows, std::size_t{0}}) {
    if (strides[axis] != nullptr) *strides[axis] = tensor.axes[axis] == 1 ? any : elements;
    elements *= tensor.axes[axis];
  }
}

/// What the one call of a form gives, of numbers that are the same every time.
std::vector<Bytes> outputs_of(Form& form) {
  std::uint32_t seed = 0;
  for (const Tensor& tensor : form.tensors())
    if (tensor.content == Tensor::kNumbers && tensor.memory() == tensor.own->at())
      fill(tensor, tensor.own->at(), ++seed);
  const heed_status status = form.call(serial());
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  return form.outputs();
}

void check_same(Form& form, const std::vector<Bytes>& got, const std::vector<Bytes>& want) {
  std::size_t i = 0;
  for (const Tensor& tensor : form.tensors()) {
    if (tensor.content != Tensor::kResult) continue;
    INFO(tensor.name);
    CHECK((got[i] == want[i]));
    ++i;
  }
}

/// Any stride along axes of one element, of all tensors that the changed form has, gives the same.
void check_any(const char* of, const std::string& changes) {
  CAPTURE(of, changes);
  Form plain(of, changes);
  const std::vector<Bytes> want = outputs_of(plain);
  for (const std::int64_t any : kStrides) {
    CAPTURE(any);
    Form form(of, changes);
    for (const Tensor& tensor : form.tensors())
      if (tensor.kind != 0 && tensor.memory() != nullptr) spell(tensor, any);
    check_same(form, outputs_of(form), want);
  }
}

/// Of the others random problems have such strides.
constexpr const char* kOfCaches[] = {"append", "cache attention"};

}  // namespace

TEST_CASE("any stride does along an axis of one element", "[strides]") {
  for (const std::string rows : {"1", "3"}) {
    check_any("append", "desc.rows = " + rows);
    for (const std::string batch : {"1", "2"})
      check_any("cache attention",
                "desc.attention->batch = " + batch + ", desc.attention->query_length = " + rows);
  }
}

TEST_CASE("no stride is taken to where empty packed sequences begin", "[strides]") {
  check_any("dense",  // past the only row there is
            "desc.packed_queries desc.packed_keys = 1, args.key_lengths = NULL, "
            "args.cu_seqlens_q args.cu_seqlens_k = {0 1 1}");
  for (const std::int64_t any : kStrides) {
    const std::string strides = std::to_string(any) + " 0 " + std::to_string(any) + " 1";
    Form form("block",
              "desc.attention->weights_point = 0, desc.attention->packed_queries = 1, "
              "desc.attention->packed_keys = 1, args.attention->weights args.attention->mask "
              "args.attention->key_lengths args.attention->lse = NULL, "
              "args.attention->cu_seqlens_q args.attention->cu_seqlens_k = {1 1 1}, "
              "desc.input_query desc.input_key desc.out = [" +
                  strides + "]");
    CHECK(form.call(serial()) == HEED_STATUS_OK);
    CHECK(form.untouched());
  }
}

TEST_CASE("strides of empty tensors are never taken", "[strides]") {
  for (const std::int64_t any : kStrides)
    for (const char* const empty : {"desc.query_length = 0", "desc.key_length = 0"}) {
      Form form("dense",
                "desc.weight_rows = 0, desc.weights_point = 3, "
                "args.weight_rows args.key_lengths = NULL, " +
                    std::string(empty));
      form.set("desc.mask.stride_head", any);
      form.set("desc.bias.stride_key", any);
      for (const Tensor& tensor : form.tensors()) {
        if (tensor.elements > 0 || tensor.kind != 'L') continue;
        for (std::int64_t* const stride : tensor.strides()) *stride = any;
        tensor.point_at(nullptr);
      }
      const heed_status status = form.call(serial());
      INFO(heed_last_error());
      CHECK(status == HEED_STATUS_OK);
    }
}

/// An input of one element, repeated by explicit strides of 0, gives what a contiguous tensor full
/// of it does; no other element is read.
TEST_CASE("explicit strides of 0 repeat one element", "[strides]") {
  constexpr unsigned char kByte = 0x3f;  // of a number, or of an element of a mask, all alike
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  Bytes full(kByte);
  for (const char* const operation : kOfCaches) {
    Form probe(operation);
    for (const Tensor& of : probe.tensors()) {
      if (of.kind == 0 || of.content == Tensor::kResult || of.memory() == nullptr) continue;
      CAPTURE(operation, of.layout);
      const auto outputs = [&](bool repeated) {
        Form form(operation);
        if (repeated) form.set(of.layout + ".reserved", HEED_STRIDES_EXPLICIT);
        for (const Tensor& tensor : form.tensors()) {
          if (tensor.layout != of.layout) continue;
          const std::size_t bytes = of.bytes() / static_cast<std::size_t>(of.elements);
          const auto* const end = static_cast<const unsigned char*>(one.get()) + one.bytes();
          tensor.point_at(repeated ? end - bytes : full.at());
        }
        return outputs_of(form);
      };
      const std::vector<Bytes> want = outputs(false);
      check_same(probe, outputs(true), want);
    }
  }
}
