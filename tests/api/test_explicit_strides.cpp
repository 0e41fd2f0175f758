// Strides that are all 0 and mean it.
#include "tests/api/problems.hpp"

using namespace api_test;

namespace {

/// The bytes of a number, or of an element of a mask, all alike.
constexpr unsigned char kByte = 0x3f;

/// An input of one element, repeated by explicit strides of 0, gives what a contiguous tensor full
/// of it does; no other element is read.
template <class AForm, class Layout, class Desc>
void check_repeats(const char* name, Layout Desc::*layout,
                   const std::function<void(AForm&)>& prepare) {
  CAPTURE(name);
  std::unique_ptr<Fenced> one;
  const auto want = outputs_of<AForm>(prepare, [&](Problem& problem) {
    const Tensor& full = problem.tensor(name);
    std::memset(full.memory(), kByte, full.bytes());
    one = std::make_unique<Fenced>(full.bytes() / static_cast<std::size_t>(full.elements),
                                   End::kLast);
    one->fill(kByte);
  });
  const auto explicitly = [&](AForm& form) {
    prepare(form);
    (form.desc.*layout).reserved = HEED_STRIDES_EXPLICIT;
  };
  CHECK(outputs_of<AForm>(explicitly, [&](Problem& problem) {
          problem.tensor(name).point_at(one->get());
        }) == want);
}

template <class AForm>
void as_it_is(AForm&) {}

/// Inputs of a form: the pointer, and where the layout is.
template <class Layout, class Desc>
struct Input {
  const char* name;
  Layout Desc::*layout;
};

template <class AForm, class Layout, class Desc>
void check_all_repeat(const std::vector<Input<Layout, Desc>>& inputs,
                      const std::function<void(AForm&)>& prepare) {
  for (const auto& input : inputs) check_repeats<AForm>(input.name, input.layout, prepare);
}

using Desc = heed_attention_desc;
using BlockDesc = heed_multihead_desc;
using GraphDesc = heed_graph_attention_desc;

}  // namespace

TEST_CASE("explicit strides of 0 repeat one element", "[strides]") {
  for (const auto& prepare : {Change(as_it_is<Form>), Change(&Form::pack_keys)}) {
    check_all_repeat<Form, heed_layout, Desc>(
        {{"args.query", &Desc::query}, {"args.key", &Desc::key}, {"args.value", &Desc::value}},
        prepare);
    check_all_repeat<Form, heed_score_layout, Desc>(
        {{"args.mask", &Desc::mask}, {"args.bias", &Desc::bias}}, prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element for a block", "[strides][multihead]") {
  const auto tensor = [](BlockForm& form) { form.desc.combine = HEED_COMBINE_TENSOR; };
  for (const auto& prepare : {BlockChange(as_it_is<BlockForm>), BlockChange(tensor)}) {
    check_all_repeat<BlockForm, heed_layout, BlockDesc>(
        {{"args.input_query", &BlockDesc::input_query}, {"args.input_key", &BlockDesc::input_key}},
        prepare);
    check_all_repeat<BlockForm, heed_matrix_layout, BlockDesc>(
        {{"args.w_query", &BlockDesc::w_query},
         {"args.w_key", &BlockDesc::w_key},
         {"args.w_value", &BlockDesc::w_value},
         {"args.w_out", &BlockDesc::w_out}},
        prepare);
  }
}

TEST_CASE("explicit strides of 0 repeat one element over a graph", "[strides][graph]") {
  check_all_repeat<GraphForm, heed_layout, GraphDesc>({{"args.query", &GraphDesc::query},
                                                       {"args.key", &GraphDesc::key},
                                                       {"args.value", &GraphDesc::value}},
                                                      as_it_is<GraphForm>);
  for (const auto& prepare : {GraphChange(&GraphForm::share), GraphChange(&GraphForm::per_node)}) {
    check_all_repeat<GraphForm, heed_layout, GraphDesc>({{"args.data", &GraphDesc::data},
                                                         {"args.edge_data", &GraphDesc::edge_data},
                                                         {"args.edge_bias", &GraphDesc::edge_bias}},
                                                        prepare);
    check_all_repeat<GraphForm, heed_matrix_layout, GraphDesc>(
        {{"args.w_query", &GraphDesc::w_query},
         {"args.w_key", &GraphDesc::w_key},
         {"args.w_value", &GraphDesc::w_value},
         {"args.w_edge_key", &GraphDesc::w_edge_key},
         {"args.w_edge_value", &GraphDesc::w_edge_value}},
        prepare);
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

TEST_CASE("explicit strides of 0 repeat one element in a rotation", "[strides][rotate]") {
  const Context context = serial();
  const Fenced one(sizeof(float), End::kLast);
  one.fill(kByte);
  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  desc.batch = desc.heads = 2;
  desc.rows = 1;
  desc.features = 4;
  desc.rotary.pairs = HEED_ROTARY_HALVES;
  desc.from.reserved = HEED_STRIDES_EXPLICIT;
  std::vector<float> to(16);
  CHECK(heed_rotate(context.get(), &desc, one.get(), nullptr, to.data()) == HEED_STATUS_OK);
  float element = 0;
  std::memcpy(&element, one.get(), sizeof element);
  CHECK(same_bits(to, std::vector<float>(16, element)));  // position 0 turns nothing
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
