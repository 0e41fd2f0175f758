// Strides that reach no element, along axes of one element and of empty tensors, and strides that
// are all 0 and mean it.
#include "tests/api/operations.hpp"
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
    const bool none = tensor.axes[axis] == 1 && (axis == 0 ? tensor.kind == 'M' : tensor.headless);
    if (strides[axis] != nullptr)
      *strides[axis] = none && axis < 2 ? 0 : tensor.axes[axis] == 1 ? any : elements;
    elements *= tensor.axes[axis];
  }
}

/// What the one call of a form gives, of numbers that are the same every time.
template <class AForm>
std::vector<Bytes> outputs_of(AForm& form) {
  std::uint32_t seed = 0;
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.content == Tensor::kNumbers && tensor.memory() == tensor.own->at())
      fill(tensor, tensor.own->at(), ++seed);
  const heed_status status = one_call(serial(), form);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  std::vector<Bytes> all;
  for (const Tensor& tensor : tensors_of(form))
    if (tensor.content == Tensor::kResult) all.push_back(*tensor.own);
  return all;
}

template <class AForm>
void check_same(AForm& form, const std::vector<Bytes>& got, const std::vector<Bytes>& want) {
  std::size_t i = 0;
  for (const Tensor& tensor : tensors_of(form)) {
    if (tensor.content != Tensor::kResult) continue;
    INFO(tensor.name);
    CHECK((got[i] == want[i]));
    ++i;
  }
}

/// Any stride along axes of one element, of all tensors that the changed form has, gives the same.
template <class AForm>
void check_any(const ChangeOf<AForm>& change) {
  AForm plain;
  change(plain);
  const std::vector<Bytes> want = outputs_of(plain);
  for (const std::int64_t any : kStrides) {
    CAPTURE(any);
    AForm form;
    change(form);
    for (const Tensor& tensor : tensors_of(form))
      if (tensor.kind != 0 && tensor.memory() != nullptr) spell(tensor, any);
    check_same(form, outputs_of(form), want);
  }
}

/// Sizes of which several are 1.
struct Small {
  std::int64_t batch, heads, rows, features;
};
constexpr Small kSmall[] = {{1, 1, 1, 1}, {1, 1, 3, 6}, {2, 2, 1, 1}, {1, 2, 1, 6}, {2, 1, 3, 4}};

void shrink(MergeForm& f, const Small& s) {
  f.desc.batch = s.batch;
  f.desc.heads = s.heads;
  f.desc.rows = s.rows;
  f.desc.features = s.features;
}
void shrink(RotateForm& f, const Small& s) {
  f.desc.batch = s.batch;
  f.desc.heads = s.heads;
  f.desc.rows = s.rows;
}
void shrink(MatrixForm& f, const Small& s) { f.desc.in = s.features, f.desc.out = s.rows; }
void shrink(ProjectForm& f, const Small& s) { f.desc.batch = s.batch, f.desc.rows = s.rows; }
void shrink(AppendForm& f, const Small& s) { f.append.rows = s.rows; }
void shrink(CacheAttentionForm& f, const Small& s) {
  f.attention.batch = s.batch;
  f.attention.query_length = s.rows;
}

/// Of the others random problems have such strides.
using Unplanned =
    std::tuple<MergeForm, RotateForm, MatrixForm, ProjectForm, AppendForm, CacheAttentionForm>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("any stride does along an axis of one element", "[strides]", Unplanned) {
  for (const Small& small : kSmall) {
    CAPTURE(&small - kSmall);
    check_any<TestType>([&](TestType& form) { shrink(form, small); });
  }
}

TEST_CASE("no stride is taken to where empty packed sequences begin", "[strides]") {
  check_any<Form>([](Form& form) {  // past the only row there is
    form.pack();
    form.desc.packed_queries = form.desc.packed_keys = 1;
    form.args.key_lengths = nullptr;
    for (std::int32_t* const offsets : {form.cu_seqlens_q, form.cu_seqlens_k}) {
      offsets[0] = 0;
      offsets[1] = offsets[2] = 1;
    }
  });
  for (const std::int64_t any : kStrides) {
    BlockForm form;
    const std::int32_t offsets[] = {1, 1, 1};
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    form.attention.packed_queries = form.attention.packed_keys = 1;
    form.inner = HEED_ATTENTION_ARGS_INIT;
    form.inner.cu_seqlens_q = form.inner.cu_seqlens_k = offsets;
    form.desc.input_query = form.desc.input_key = form.desc.out = {0, 0, any, 0, any, 1};
    CHECK(one_call(serial(), form) == HEED_STATUS_OK);
    CHECK(form.outputs_untouched());
  }
}

TEST_CASE("strides of empty tensors are never taken", "[strides]") {
  for (const std::int64_t any : kStrides)
    for (const bool keys : {false, true}) {
      Form form;
      heed_attention_desc& d = form.desc;
      (keys ? d.key_length : d.query_length) = 0;
      d.weight_rows = 0;
      d.weights_point = HEED_WEIGHTS_MASKED;
      d.mask.stride_head = d.bias.stride_key = any;
      form.args.weight_rows = nullptr;
      form.args.key_lengths = nullptr;
      for (const Tensor& tensor : tensors_of(form)) {
        if (tensor.elements > 0 || tensor.kind != 'L') continue;
        *static_cast<heed_layout*>(tensor.at) = {0, 0, any, any, any, any};
        tensor.point_at(nullptr);
      }
      CHECK(one_call(serial(), form) == HEED_STATUS_OK);
      INFO(heed_last_error());
    }
}

/// An input of one element, repeated by explicit strides of 0, gives what a contiguous tensor full
/// of it does; no other element is read.
TEMPLATE_LIST_TEST_CASE("explicit strides of 0 repeat one element", "[strides]", Unplanned) {
  constexpr unsigned char kByte = 0x3f;  // of a number, or of an element of a mask, all alike
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  TestType probe;
  for (const Tensor& of : tensors_of(probe)) {
    if (of.kind == 0 || of.content == Tensor::kResult || of.memory() == nullptr) continue;
    CAPTURE(of.layout);
    const auto outputs = [&](bool repeated) {
      TestType form;
      for (const Tensor& tensor : tensors_of(form)) {
        if (tensor.layout != of.layout) continue;
        const std::size_t bytes = of.bytes() / static_cast<std::size_t>(of.elements);
        const auto* const end = static_cast<const unsigned char*>(one.get()) + one.bytes();
        static Bytes full;
        full = Bytes(kByte);
        tensor.point_at(repeated ? end - bytes : full.at());
        if (repeated) tensor.reserved() = HEED_STRIDES_EXPLICIT;
      }
      return outputs_of(form);
    };
    const std::vector<Bytes> want = outputs(false);
    check_same(probe, outputs(true), want);
  }
}
