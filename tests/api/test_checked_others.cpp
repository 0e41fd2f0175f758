// Checked mode over multi-head blocks, prepared matrices and products with them, merges, rotations
// and caches.
#include "tests/api/cache_forms.hpp"
#include "tests/api/checked.hpp"
#include "tests/api/other_forms.hpp"

using namespace api_test;

TEST_CASE("checked: blocks", "[check][multihead][files]") {
  check_traps({
      told("NaN in a matrix and an input",
           [](BlockForm& f) {
             f.w_value.set(12 * 3 + 2, kNan);
             f.input_key.set(9 * 2 + 1, kNan);
           },
           {"args.w_value holds 1 NaN and 0 inf among 108 numbers, the first at matrix 0, in 3, "
            "out 2",
            "args.input_key holds 1 NaN", "batch 0, head 0, row 2, feature 1", "args.out holds"}),
      fine("NaN past a sequence's end",
           [](BlockForm& f) {
             f.key_lengths[0] = f.key_lengths[1] = 4;
             f.input_key.set(9 * 4 + 1, kNan);
           }),
      told("int64 lengths",
           [](BlockForm& f) {
             f.key_lengths[0] = 4;
             f.key_lengths[1] = 0;
           },
           {"every second number of args.attention->key_lengths is 0"}),
  });
}

TEST_CASE("checked: merges", "[check][merge][files]") {
  check_traps({
      fine("nothing odd", [](MergeForm&) {}),
      fine("into a part",
           [](MergeForm& f) {
             f.to_out = f.part_out[1].at();
             f.to_lse = f.part_lse[1].at();
           }),
      refused("into a part, a row further", [](MergeForm& f) { f.to_out = f.part_out[1].at(20); },
              {"out, 0x", "overlaps part_outs[1], 0x"}),
      refused("into a part of another layout",
              [](MergeForm& f) {
                f.to_out = f.part_out[0].at();
                f.desc.out = {0, 0, 60, 5, 15, 1};
              },
              {"out", "overlaps part_outs[0]"}),
      refused("lse into the out of a part", [](MergeForm& f) { f.to_lse = f.part_out[0].at(); },
              {"lse, 0x", "overlaps part_outs[0]"}),
      refused("lse into out", [](MergeForm& f) { f.to_lse = f.out.at(8); },
              {"out, 0x", "overlaps lse"}),
      told("NaN in a part", [](MergeForm& f) { f.part_out[1].set(21, kNan); },
           {"part_outs[1] holds 1 NaN", "head 1, row 0, feature 1"}),
      fine("NaN in an empty part",
           [](MergeForm& f) {
             f.part_out[1].set(21, kNan);
             f.part_lse[1].set(4, -kInf);
           }),
      told("NaN in a log-sum-exp", [](MergeForm& f) { f.part_lse[0].set(5, kNan); },
           {"part_lses[0] holds 1 NaN", "head 1, row 1"}),
  });
}

TEST_CASE("checked: rotations", "[check][rotate][files]") {
  check_traps({
      fine("nothing odd", [](RotateForm&) {}),
      fine("in place", [](RotateForm& f) { f.to = f.in.at(); }),
      refused("in place, a row further", [](RotateForm& f) { f.to = f.in.at(24); },
              {"to, 0x", "overlaps from, 0x"}),
      refused("in place, in another layout",
              [](RotateForm& f) {
                f.to = f.in.at();
                f.desc.to = {0, 0, 72, 6, 18, 1};
              },
              {"to", "overlaps from"}),
      refused("in place, as another type",
              [](RotateForm& f) {
                f.to = f.in.at();
                f.desc.to.dtype = HEED_DTYPE_BF16;
              },
              {"to", "overlaps from"}),
      refused("over the positions",
              [](RotateForm& f) {
                f.give_positions();
                f.to = f.given_positions;
                f.desc.batch = f.desc.heads = 1;
                f.desc.rows = 2;
              },
              {"to, 0x", "overlaps positions"}),
      refused("over the table of sines",
              [](RotateForm& f) {
                f.give_tables();
                f.to = f.tables + 30;
                f.desc.batch = f.desc.heads = f.desc.rows = 1;
              },
              {"to, 0x", "overlaps desc.rotary.sines"}),
      told("NaN in a row", [](RotateForm& f) { f.in.set(31, kNan); },
           {"from holds 1 NaN", "head 1, row 1, feature 1"}),
  });
}

TEST_CASE("checked: projections", "[check][weights][files]") {
  check_traps({
      fine("nothing odd", [](ProjectForm&) {}),
      refused("y is x", [](ProjectForm& f) { f.y = f.in.at(); }, {"y, 0x", "overlaps x, 0x"}),
      refused("y begins where x ends", [](ProjectForm& f) { f.y = f.in.at(4 * 39); },
              {"y, 0x", "overlaps x"}),
      fine("y after x", [](ProjectForm& f) { f.y = f.in.at(4 * 40); }),
      told("NaN in a row", [](ProjectForm& f) { f.in.set(23, kNan); },
           {"x holds 1 NaN", "batch 1, head 0, row 0, feature 3"}),
      told("strides of NumPy", [](ProjectForm& f) { f.desc.x = {0, 0, 80, 0, 20, 4}; },
           {"the strides of x are multiples of the 4 bytes"}),
  });
}

TEST_CASE("checked: caches", "[check][cache][files]") {
  check_traps({
      fine("nothing odd", [](AppendForm&) {}),
      told("NaN in a key", [](AppendForm& f) { f.key_rows.set(13, kNan); },
           {"key holds 1 NaN", "at head 1, row 1, feature 1"}),
      told("NaN in a value", [](AppendForm& f) { f.value_rows.set(35, kNan); },
           {"value holds 1 NaN", "at head 1, row 2, feature 5"}),
      told("strides of NumPy", [](AppendForm& f) { f.append.key = {0, 0, 0, 16, 32, 4}; },
           {"the strides of key are multiples of the 4 bytes"}),
      fine("nothing odd to attend", [](CacheAttentionForm&) {}),
      told("a prompt without causal",
           [](CacheAttentionForm& f) { f.attention.causal = HEED_CAUSAL_NONE; },
           {"the 3 query rows of desc.sequences[0] attend all of its keys, later ones too"}),
      fine("a prompt with a mask instead",
           [](CacheAttentionForm& f) {
             static const std::vector<std::uint8_t> ones(2 * 4 * 3 * 20, 1);
             f.attention.causal = HEED_CAUSAL_NONE;
             f.args.mask = ones.data();
           }),
      fine("a row without causal",
           [](CacheAttentionForm& f) {
             f.attention.causal = HEED_CAUSAL_NONE;
             f.attention.query_length = 1;
           }),
      told("NaN in a query", [](CacheAttentionForm& f) { f.query.set(3, kNan); },
           {"args.query holds 1 NaN"}),
      refused("over the queries", [](CacheAttentionForm& f) { f.args.out = f.query.at(); },
              {"args.out", "overlaps args.query"}),
  });
}

TEST_CASE("checked: matrices that are prepared", "[check][weights][files]") {
  check_traps({
      fine("nothing odd", [](MatrixForm&) {}),
      told("NaN in the matrix", [](MatrixForm& f) { f.numbers.set(8, kNan); },
           {"matrix holds 1 NaN", "in 1, out 2"}),
      told("NaN in the bias", [](MatrixForm& f) { f.more.set(2, kNan); },
           {"bias holds 1 NaN", "element 2"}),
  });
}
