// What a plan says about itself: useful operations, tiles, tasks and workspace.
#include "engine/dense/plan.hpp"
#include "engine/dense/totals.hpp"
#include "tests/dense/kinds.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

namespace {

heed_attention_info describe(const Context& context, const heed_attention_desc& desc) {
  return describe(make_plan(context, desc));
}

double counted_flops(const heed_attention_desc& desc) {
  double pairs = 0;
  for (std::int64_t i = 0; i < desc.query_length; ++i)
    pairs += static_cast<double>(attended(desc, i));
  return 2.0 * static_cast<double>(desc.features + desc.value_features) * pairs *
         static_cast<double>(desc.batch * desc.query_heads);
}

std::size_t workspace_of(const Context& context, std::int64_t query_length, std::int64_t key_length,
                         std::int64_t features, std::int64_t value_features) {
  return describe(context, desc_of(query_length, key_length, features, value_features))
      .workspace_bytes;
}

}  // namespace

TEST_CASE("flops count the attended pairs", "[plan]") {
  const Context context = make_context("scalar");
  heed_attention_desc desc = desc_of(1, 1, 5, 7);
  desc.batch = 3;
  desc.query_heads = 6;
  desc.key_heads = 2;
  for (const std::int64_t query_length : {0, 1, 2, 7, 16})
    for (const std::int64_t key_length : {0, 1, 3, 7, 20}) {
      desc.query_length = query_length;
      desc.key_length = key_length;
      for (std::uint32_t causal = 0; causal < HEED_CAUSAL_OFFSET; ++causal) {
        desc.causal = causal;
        desc.causal_offset = 0;
        INFO(line_of(desc));
        CHECK(describe(context, desc).flops == counted_flops(desc));
      }
      desc.causal = HEED_CAUSAL_OFFSET;
      for (std::int64_t offset = -query_length - 3; offset <= key_length + 3; ++offset) {
        desc.causal_offset = offset;
        INFO(line_of(desc));
        CHECK(describe(context, desc).flops == counted_flops(desc));
      }
    }
}

TEST_CASE("tiles are rounded up to panels and key steps", "[plan]") {
  const heed_attention_desc desc = desc_of(1000, 1000, 64, 64);
  for (const Table<float>* const isa : usable_isas()) {
    const std::uint32_t panel = isa->panels.lanes * isa->panels.max_vectors;
    for (const std::uint32_t tile : {1U, 7U, 24U, 64U, 100U, 128U, 129U, 5000U}) {
      Choices choices;
      choices.tile_q = choices.tile_kv = tile;
      const heed_attention_info info = describe(make_context(isa->isa, choices), desc);
      INFO(isa->isa << ": tile " << tile);
      CHECK(info.tile_q == (tile + panel - 1) / panel * panel);
      CHECK(info.tile_kv ==
            (tile + isa->panels.key_block - 1) / isa->panels.key_block * isa->panels.key_block);
      CHECK(info.tasks == (1000 + info.tile_q - 1) / info.tile_q);
    }
  }
}

TEST_CASE("automatic tiles are whole panels and key steps", "[plan]") {
  std::size_t index = 0;
  for (const Table<float>* const isa : usable_isas())
    for (const std::int64_t length : {0, 1, 23, 77, 197, 1000, 100000})
      for (const std::int64_t features : {1, 64, 256, 5000}) {
        if (!keep(index++)) continue;
        const heed_attention_info info =
            describe(make_context(isa->isa), desc_of(length, length, features, features));
        INFO(isa->isa << ": length " << length << " features " << features);
        CHECK(info.tile_q > 0);
        CHECK(info.tile_kv > 0);
        CHECK(info.tile_q % (isa->panels.lanes * isa->panels.max_vectors) == 0);
        CHECK(info.tile_kv % isa->panels.key_block == 0);
        CHECK(std::string(info.isa) == isa->isa);
        CHECK(std::string(info.executor) == "serial");
        CHECK(info.threads == 1);
      }
}

TEST_CASE("grouped heads are stacked into tasks", "[plan]") {
  Choices choices;
  choices.tile_q = 1;
  for (const Table<float>* const isa : usable_isas()) {
    heed_attention_desc desc = desc_of(10, 50, 16, 16);
    desc.batch = 3;
    desc.query_heads = 8;
    desc.key_heads = 2;
    const heed_attention_info info = describe(make_context(isa->isa, choices), desc);
    INFO(isa->isa);
    CHECK(info.tasks == 3 * 2 * ((40 + info.tile_q - 1) / info.tile_q));
  }
}

TEST_CASE("few rows for each key head are decoded, sequence by sequence", "[plan]") {
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    const auto strategy = [&](const heed_attention_desc& desc) {
      INFO(line_of(desc));
      return std::string(describe(context, desc).strategy);
    };
    const std::int64_t most = isa->rows.queries;
    INFO(isa->isa << ": " << most << " rows");
    CHECK(strategy(desc_of(1, 5000, 64, 64)) == "decode");
    CHECK(strategy(desc_of(most, 20, 64, 64)) == "decode");
    CHECK(strategy(desc_of(most + 1, 5000, 64, 64)) == "prefill");
    // Twice as many of wide rows whose keys and values, 4 MiB and more, lie in no cache.
    CHECK(strategy(desc_of(2 * most, 4095, 128, 128)) == "prefill");
    CHECK(strategy(desc_of(2 * most, 4096, 128, 128)) == "mixed");
    CHECK(strategy(desc_of(2 * most + 1, 4096, 128, 128)) == "prefill");
    CHECK(strategy(desc_of(2 * most, 1 << 20, 1, 1)) == "prefill");

    heed_attention_desc grouped = desc_of(1, 2000, 64, 64);
    grouped.query_heads = 2 * most;
    grouped.key_heads = 2;
    CHECK(strategy(grouped) == "decode");
    grouped.query_length = 2;
    CHECK(strategy(grouped) == "prefill");

    heed_attention_desc hard = desc_of(1, 5000, 64, 64);
    hard.hard = 1;
    CHECK(strategy(hard) == "prefill");

    heed_attention_desc packed = desc_of(most, 5000, 64, 64);
    packed.packed_queries = most + 500;
    CHECK(strategy(packed) == "decode");
    packed.query_length = most + 1;
    CHECK(strategy(packed) == "mixed");
  }
}

TEST_CASE("decoding has a task for every chunk of keys", "[plan]") {
  for (const Table<float>* const isa : usable_isas()) {
    heed_attention_desc desc = desc_of(1, 2 * heed::kDecodeChunk + 1, 64, 64);
    desc.batch = 3;
    desc.query_heads = desc.key_heads = 5;
    INFO(isa->isa);
    CHECK(describe(make_context(isa->isa), desc).tasks == 3 * 5 * 3);
  }
}

TEST_CASE("the workspace does not grow with the lengths, but for totals over many keys", "[plan]") {
  Choices fixed;
  fixed.tile_q = fixed.tile_kv = 256;
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa, fixed);
    const std::int64_t rows = 2 * isa->rows.queries + 1;
    const std::size_t few = workspace_of(context, rows, 1, 64, 80);
    const std::size_t many = workspace_of(context, rows, heed::kFoldKeys + 1, 64, 80);
    CHECK(many > few);
    for (const std::int64_t length : {std::int64_t{77}, heed::kFoldKeys, std::int64_t{1} << 20}) {
      INFO(isa->isa << ": length " << length);
      const std::size_t bytes = length > heed::kFoldKeys ? many : few;
      CHECK(workspace_of(context, length, length, 64, 80) == bytes);
      CHECK(workspace_of(context, rows, length, 64, 80) == bytes);
      CHECK(workspace_of(context, length, 1, 64, 80) == few);
    }
  }
}

TEST_CASE("weights of all rows are kept in 4 MiB and some, or computed again", "[plan]") {
  const auto workspace = [](const Context& context, std::int64_t keys, heed_weights_point point) {
    heed_attention_desc desc = desc_of(1000, keys, 64, 64);
    desc.weights_point = point;
    return describe(context, desc).workspace_bytes;
  };
  for (const Table<float>* const isa : usable_isas()) {
    Choices fixed;
    fixed.threads = 1;
    fixed.tile_q = fixed.tile_kv = 256;
    const Context context = make_context(isa->isa, fixed);
    const std::int64_t line = isa->panels.lanes * isa->panels.max_vectors * 4;  // bytes
    const std::int64_t most = (std::int64_t{4} << 20) / line;
    for (const std::int64_t keys : {std::int64_t{77}, std::int64_t{1024}, most, most + 1}) {
      INFO(isa->isa << ": " << keys << " keys");
      const auto none = static_cast<std::int64_t>(workspace(context, keys, HEED_WEIGHTS_NONE));
      const auto kept =
          static_cast<std::int64_t>(workspace(context, keys, HEED_WEIGHTS_PROBABILITIES));
      if (keys <= most) CHECK(kept - none >= keys * line);
      CHECK(kept - none < std::min(keys, most) * line / 16 * 17 + 256 * line);
      // How the softmax of 1000 rows ended.
      CHECK(static_cast<std::int64_t>(workspace(context, keys, HEED_WEIGHTS_MASKED)) - none <=
            8064);
    }
  }
}

TEST_CASE("the workspace of decoding grows by a row's sums for every chunk of keys", "[plan]") {
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    const auto workspace = [&](std::int64_t chunks) {
      return workspace_of(context, 1, chunks * heed::kDecodeChunk, 64, 80);
    };
    INFO(isa->isa);
    CHECK(workspace(9) - workspace(8) == (80 + 2) * sizeof(float));
    CHECK(workspace(1000) - workspace(999) == (80 + 2) * sizeof(float));
  }
}

TEST_CASE("the workspace of a thread stays below 2 MB", "[plan]") {
  const std::vector<std::int64_t> lengths = {1, 17, 197, 385, 1000, 4096, 1 << 24};
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    std::size_t most = 0;
    for (const std::int64_t features : {1, 16, 64, 128, 256})
      for (const std::int64_t value_features : {1, 64, 256})
        for (const std::int64_t query_length : lengths)
          for (const std::int64_t key_length : lengths)
            if (query_length > isa->rows.queries ||
                key_length < 100000)  // parts are not a thread's
              most = std::max(
                  most, workspace_of(context, query_length, key_length, features, value_features));
    INFO(isa->isa << ": " << most << " bytes");
    CHECK(most < 2000000);
    report("workspace, of 2 MB", isa->isa, static_cast<double>(most) / 2e6);
  }
}

TEST_CASE("the workspace is that of all threads together", "[plan][threads]") {
  for (const Table<float>* const isa : usable_isas()) {
    const heed_attention_desc desc = desc_of(5000, 5000, 64, 64);
    Choices four;
    four.threads = 4;
    four.tile_q = 96;
    Choices one = four;
    one.threads = 1;
    const heed_attention_info shared = describe(make_context(isa->isa, four), desc);
    const heed_attention_info alone = describe(make_context(isa->isa, one), desc);
    INFO(isa->isa);
    CHECK(shared.threads <= 4);
    CHECK(shared.workspace_bytes == shared.threads * alone.workspace_bytes);
  }
}
