// What a plan of gradients says about itself: useful operations, tiles and workspace.
#include "tests/dense/gradients.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

heed_attention_info describe(const Context& context, const heed_attention_desc& attention) {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &attention;
  const BackwardPlan plan = make_plan(context, desc);
  std::size_t bytes = 0;
  require_ok(heed_attention_backward_plan_workspace(plan.get(), &bytes));
  const heed_attention_info info = heed_test::describe(plan);
  CHECK(info.precision == HEED_PRECISION_EXACT);
  CHECK(info.workspace_bytes == bytes);
  return info;
}

}  // namespace

TEST_CASE("flops of gradients are those of five products, of attended pairs", "[backward][plan]") {
  const Context context = make_context("scalar");
  heed_attention_desc desc = desc_of(1, 1, 5, 7);
  desc.batch = 3;
  desc.query_heads = 6;
  desc.key_heads = 2;
  for (const Index queries : {0, 1, 7, 16})
    for (const Index keys : {0, 1, 7, 20})
      for (std::uint32_t causal = 0; causal <= HEED_CAUSAL_OFFSET; ++causal) {
        desc.query_length = queries;
        desc.key_length = keys;
        desc.causal = causal;
        desc.causal_offset = causal == HEED_CAUSAL_OFFSET ? 2 : 0;
        double pairs = 0;
        for (Index i = 0; i < queries; ++i) pairs += static_cast<double>(attended(desc, i));
        INFO(line_of(desc));
        CHECK(describe(context, desc).flops == 18 * (4 * (5 + 7) + 2 * 5) * pairs);
      }
}

TEST_CASE("a plan of gradients says what it chose", "[backward][plan]") {
  for (const Table<float>* const isa : usable_isas())
    for (const Index length : {0, 1, 23, 197, 1000, 100000}) {
      const heed_attention_info info =
          describe(make_context(isa->isa), desc_of(length, length, 64, 80));
      INFO(isa->isa << ": length " << length);
      CHECK(std::string(info.strategy) == "backward");
      CHECK(std::string(info.isa) == isa->isa);
      CHECK(std::string(info.executor) == "serial");
      CHECK(info.threads == 1);
      CHECK(info.tile_q > 0);
      CHECK(info.tile_q % (isa->panels.lanes * isa->panels.max_vectors) == 0);
      CHECK(info.tile_kv > 0);
      CHECK(info.tile_kv % isa->panels.key_block == 0);
    }
}

TEST_CASE("one long sequence with one head has tasks for several threads", "[backward][plan]") {
  const Context context = make_context(isa_names()[0], {heed_executor_name(0), 1});
  const heed_attention_info info = describe(context, desc_of(8192, 8192, 64, 64));
  CHECK(info.tasks >= 4);
}

TEST_CASE("the workspace of gradients grows with lengths times features", "[backward][plan]") {
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    for (const Index features : {16, 128}) {
      const auto bytes = [&](Index length, Index heads) {
        heed_attention_desc desc = desc_of(length, length, features, features);
        desc.query_heads = desc.key_heads = heads;
        return static_cast<double>(describe(context, desc).workspace_bytes);
      };
      INFO(isa << ", " << features << " features");
      for (const double length : {4096.0, 65536.0}) {
        const double more =
            bytes(static_cast<Index>(2 * length), 1) - bytes(static_cast<Index>(length), 1);
        // Sums of eight splits, 4 bytes each, some numbers a row, and totals over many keys.
        CHECK(more <= 8 * length * 2 * static_cast<double>(features) * 4 + 64 * length + 0x1p20);
      }
      // Heads beyond those in work leave a few numbers per row.
      CHECK(bytes(4096, 64) - bytes(4096, 32) <= 32 * 4096 * 64);
    }
  }
}
