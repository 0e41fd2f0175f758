// Checked mode over multi-head blocks, prepared matrices and merges.
#include <limits>

#include "tests/api/blocks.hpp"
#include "tests/api/checked.hpp"

using namespace api_test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Call block(const BlockChange& change) {
  return [change](const Context& context) {
    BlockForm f;
    change(f);
    return heed_multihead(context.get(), &f.desc, &f.args);
  };
}

void set(Bytes& at, std::size_t index, float x) {
  std::memcpy(at.at(index * sizeof x), &x, sizeof x);
}

/// Two parts [1, 2, 3, 4] and what they are merged into.
struct Parts2 {
  Parts2() {
    desc.batch = 1;
    desc.heads = 2;
    desc.rows = 3;
    desc.features = 4;
  }
  Parts2(const Parts2&) = delete;  // its pointers point into it
  Parts2& operator=(const Parts2&) = delete;

  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  std::vector<float> outs[2] = {numbers(64, 1), numbers(64, 2)};
  std::vector<float> lses[2] = {numbers(64, 3), numbers(64, 4)};
  std::vector<float> more = numbers(64, 5), more_lse = numbers(64, 6);
  void* out = more.data();
  void* lse = more_lse.data();
};

Call merge(const std::function<void(Parts2&)>& change) {
  return [change](const Context& context) {
    Parts2 p;
    change(p);
    const void* const outs[] = {p.outs[0].data(), p.outs[1].data()};
    const void* const lses[] = {p.lses[0].data(), p.lses[1].data()};
    return heed_merge(context.get(), &p.desc, 2, outs, lses, p.out, p.lse);
  };
}

Call prepare(std::size_t nan_at) {
  return [nan_at](const Context& context) {
    std::vector<float> matrix = numbers(15, 1);
    std::vector<float> bias = numbers(5, 2);
    if (nan_at < 15) matrix[nan_at] = kNan;
    if (nan_at >= 15 && nan_at < 20) bias[nan_at - 15] = kNan;
    heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
    desc.in = 3;
    desc.out = 5;
    heed_weights* weights = nullptr;
    const heed_status status =
        heed_weights_create(context.get(), &desc, matrix.data(), bias.data(), &weights);
    heed_weights_destroy(weights);
    return status;
  };
}

}  // namespace

TEST_CASE("checked: blocks", "[check][multihead][files]") {
  check_traps({
      refused("out is input_query", block([](BlockForm& f) { f.args.out = f.input_query.at(); }),
              {"args.out, 0x", "overlaps args.input_query, 0x"}),
      refused("out over a matrix", block([](BlockForm& f) { f.args.out = f.w_key.at(8); }),
              {"args.out", "overlaps args.w_key"}),
      refused("lse over the lengths' mask", block([](BlockForm& f) { f.inner.lse = f.mask.at(); }),
              {"args.attention->lse", "overlaps args.attention->mask"}),
      told("rows forgotten", block([](BlockForm& f) { f.attention.query_length = 0; }),
           {"desc.attention->query_length is 0"}),
      told("NaN in a matrix and an input", block([](BlockForm& f) {
             set(f.w_value, 12 * 3 + 2, kNan);
             set(f.input_key, 9 * 2 + 1, kNan);
           }),
           {"args.w_value holds 1 NaN and 0 inf among 108 numbers, the first at matrix 0, in 3, "
            "out 2",
            "args.input_key holds 1 NaN", "batch 0, head 0, row 2, feature 1", "args.out holds"}),
      fine("NaN past a sequence's end", block([](BlockForm& f) {
             f.key_lengths[0] = f.key_lengths[1] = 4;
             set(f.input_key, 9 * 4 + 1, kNan);
           })),
      told("int64 lengths", block([](BlockForm& f) {
             f.key_lengths[0] = 4;
             f.key_lengths[1] = 0;
           }),
           {"every second number of args.attention->key_lengths is 0"}),
  });
}

TEST_CASE("checked: merges", "[check][merge][files]") {
  check_traps({
      fine("nothing odd", merge([](Parts2&) {})),
      fine("into a part", merge([](Parts2& p) {
             p.out = p.outs[1].data();
             p.lse = p.lses[1].data();
           })),
      refused("into a part, a row further", merge([](Parts2& p) { p.out = p.outs[1].data() + 4; }),
              {"out, 0x", "overlaps part_outs[1], 0x"}),
      refused("into a part of another layout", merge([](Parts2& p) {
                p.out = p.outs[0].data();
                p.desc.out = {0, 0, 0, 4, 8, 1};
              }),
              {"out", "overlaps part_outs[0]"}),
      refused("lse into the out of a part", merge([](Parts2& p) { p.lse = p.outs[0].data(); }),
              {"lse, 0x", "overlaps part_outs[0]"}),
      refused("lse into out", merge([](Parts2& p) { p.lse = p.more.data() + 2; }),
              {"out, 0x", "overlaps lse"}),
      told("rows forgotten", merge([](Parts2& p) { p.desc.rows = 0; }), {"desc.rows is 0"}),
      told("NaN in a part", merge([](Parts2& p) { p.outs[1][13] = kNan; }),
           {"part_outs[1] holds 1 NaN", "head 1, row 0, feature 1"}),
      fine("NaN in an empty part", merge([](Parts2& p) {
             p.outs[1][13] = kNan;
             p.lses[1][3] = -kInf;
           })),
      told("NaN in a log-sum-exp", merge([](Parts2& p) { p.lses[0][4] = kNan; }),
           {"part_lses[0] holds 1 NaN", "head 1, row 1"}),
  });
}

TEST_CASE("checked: matrices that are prepared", "[check][weights][files]") {
  check_traps({
      fine("nothing odd", prepare(100)),
      told("NaN in the matrix", prepare(7), {"matrix holds 1 NaN", "in 1, out 2"}),
      told("NaN in the bias", prepare(17), {"bias holds 1 NaN", "element 2"}),
  });
}
