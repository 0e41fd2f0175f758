// Strides that are all 0 and mean it.
#include "tests/api/fenced.hpp"
#include "tests/api/filled_forms.hpp"

using namespace api_test;

namespace {

/// The bytes of a number, or of an element of a mask, all alike.
constexpr unsigned char kByte = 0x3f;

/// An input of one element, repeated by explicit strides of 0, gives what a contiguous tensor full
/// of it does; no other element is read.
template <class AForm, class Desc, class Layout, class Args, class Element, class Prepare>
void check_repeats(Layout Desc::*layout, const Element* Args::*pointer, Prepare&& prepare) {
  const Fenced one(std::is_same_v<Element, std::uint8_t> ? 1 : sizeof(float), End::kLast);
  one.fill(kByte);
  Bytes full(kByte);
  const auto want = outputs_of<AForm>([&](AForm& form) {
    prepare(form);
    form.args.*pointer = static_cast<const Element*>(full.at());
  });
  const auto got = outputs_of<AForm>([&](AForm& form) {
    prepare(form);
    form.args.*pointer = static_cast<const Element*>(one.get());
    (form.desc.*layout).reserved = HEED_STRIDES_EXPLICIT;
  });
  CHECK(got == want);
}

template <class AForm>
void as_it_is(AForm&) {}

/// Inputs of a form: where the layout is, and the pointer.
template <class Layout, class Desc, class Args>
struct Input {
  Layout Desc::*layout;
  const void* Args::*pointer;
};

template <class AForm, class Inputs, class Prepare>
void check_all_repeat(const Inputs& inputs, Prepare&& prepare) {
  for (const auto& input : inputs) {
    CAPTURE(&input - inputs);
    check_repeats<AForm>(input.layout, input.pointer, prepare);
  }
}

using Desc = heed_attention_desc;
using Args = heed_attention_args;
constexpr Input<heed_layout, Desc, Args> kTensors[] = {
    {&Desc::query, &Args::query}, {&Desc::key, &Args::key}, {&Desc::value, &Args::value}};

using BlockDesc = heed_multihead_desc;
using BlockArgs = heed_multihead_args;
constexpr Input<heed_layout, BlockDesc, BlockArgs> kBlockTensors[] = {
    {&BlockDesc::input_query, &BlockArgs::input_query},
    {&BlockDesc::input_key, &BlockArgs::input_key}};
constexpr Input<heed_matrix_layout, BlockDesc, BlockArgs> kBlockMatrices[] = {
    {&BlockDesc::w_query, &BlockArgs::w_query},
    {&BlockDesc::w_key, &BlockArgs::w_key},
    {&BlockDesc::w_value, &BlockArgs::w_value},
    {&BlockDesc::w_out, &BlockArgs::w_out}};

using GraphDesc = heed_graph_attention_desc;
using GraphArgs = heed_graph_attention_args;
constexpr Input<heed_layout, GraphDesc, GraphArgs> kNodeTensors[] = {
    {&GraphDesc::query, &GraphArgs::query},
    {&GraphDesc::key, &GraphArgs::key},
    {&GraphDesc::value, &GraphArgs::value}};
constexpr Input<heed_layout, GraphDesc, GraphArgs> kFurtherTensors[] = {
    {&GraphDesc::data, &GraphArgs::data},
    {&GraphDesc::edge_data, &GraphArgs::edge_data},
    {&GraphDesc::edge_bias, &GraphArgs::edge_bias}};
constexpr Input<heed_matrix_layout, GraphDesc, GraphArgs> kGraphMatrices[] = {
    {&GraphDesc::w_query, &GraphArgs::w_query},
    {&GraphDesc::w_key, &GraphArgs::w_key},
    {&GraphDesc::w_value, &GraphArgs::w_value},
    {&GraphDesc::w_edge_key, &GraphArgs::w_edge_key},
    {&GraphDesc::w_edge_value, &GraphArgs::w_edge_value}};

}  // namespace

TEST_CASE("explicit strides of 0 repeat one element", "[strides]") {
  for (const auto& prepare : {Change(as_it_is<Form>), Change(&Form::pack_keys)}) {
    check_all_repeat<Form>(kTensors, prepare);
    check_repeats<Form>(&Desc::mask, &Args::mask, prepare);
    check_repeats<Form>(&Desc::bias, &Args::bias, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element for a block", "[strides][multihead]") {
  const auto tensor = [](BlockForm& form) { form.desc.combine = HEED_COMBINE_TENSOR; };
  for (const auto& prepare : {BlockChange(as_it_is<BlockForm>), BlockChange(tensor)}) {
    check_all_repeat<BlockForm>(kBlockTensors, prepare);
    check_all_repeat<BlockForm>(kBlockMatrices, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element over a graph", "[strides][graph]") {
  check_all_repeat<GraphForm>(kNodeTensors, as_it_is<GraphForm>);
  for (const auto& prepare : {GraphChange(&GraphForm::share), GraphChange(&GraphForm::per_node)}) {
    check_all_repeat<GraphForm>(kFurtherTensors, prepare);
    check_all_repeat<GraphForm>(kGraphMatrices, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element in a merge", "[strides][merge]") {
  const Context context = serial();
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = desc.heads = desc.rows = desc.features = 3;
  desc.part_out.reserved = desc.part_lse.reserved = HEED_STRIDES_EXPLICIT;
  const void* const parts[] = {one.get()};
  std::vector<float> out(81);
  CHECK(heed_merge(context.get(), &desc, 1, parts, parts, out.data(), nullptr) == HEED_STATUS_OK);
  float element = 0;
  std::memcpy(&element, one.get(), sizeof element);
  CHECK(same_bits(out, std::vector<float>(81, element)));
}

TEST_CASE("explicit strides of a prepared matrix", "[strides][weights]") {
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = 5;
  desc.out = 21;
  desc.layout.reserved = HEED_STRIDES_EXPLICIT;
  heed_weights* made = nullptr;
  const heed_status status = heed_weights_create(serial().get(), &desc, one.get(), nullptr, &made);
  const Weights weights(made);
  CHECK(status == HEED_STATUS_OK);
}
