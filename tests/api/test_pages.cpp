// Nothing is read or written past either end of a tensor, an array of indices or a workspace: each
// lies against a page that may not be touched, where a stray access ends the program.
#include "tests/api/problems.hpp"
#include "tests/oracle/dtype.hpp"
#include "tests/problem/merge.hpp"
#include "tests/problem/projection.hpp"
#include "tests/problem/random_problems.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/size.hpp"

using namespace api_test;

namespace {

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                     HEED_DTYPE_F16, HEED_DTYPE_I8,  HEED_DTYPE_F8_E4M3};

/// Calls function(context) on every instruction set, with memory that begins at a forbidden page
/// and that ends at one.
template <class Function>
void each_isa_and_end(Function&& function) {
  for (std::size_t n = 0; n < heed_test::plain_contexts().size(); ++n)
    for (const End end : {End::kFirst, End::kLast}) {
      CAPTURE(heed_test::IsaContexts::name(n), end == End::kLast);
      const FencedTensors fence(end);
      function(heed_test::plain_contexts()[n]);
    }
}

void check_runs(const Context& context, Form& form) {
  Object plan;
  const bool made = form.prepare_and_create(context, plan);
  INFO(heed_last_error());
  REQUIRE(made);
  CHECK(form.run(plan) == HEED_STATUS_OK);
}

/// Heads of 5 features, values of 7.
void shape(Form& form, std::uint32_t dtype, std::int64_t queries, std::int64_t keys) {
  form.apply(
      "desc.batch = 1, desc.query_heads desc.key_heads = 2, desc.features = 5, "
      "desc.value_features = 7, desc.weight_rows = 0, desc.lse.dtype = f64, "
      "args.weight_rows args.key_lengths = NULL");
  auto& d = form.at<heed_attention_desc>("desc");
  d.query_length = queries;
  d.key_length = keys;
  d.key.dtype = d.value.dtype = dtype;
  if (heed_test::is_scaled(dtype))
    form.apply("args.key_scales args.value_scales = own");
  else
    d.query.dtype = d.out.dtype = dtype;
}

/// Runs what draw(seed) gives on every instruction set, its tensors against a forbidden page.
template <class Draw, class Run>
void check_drawn(std::size_t problems, const Draw& draw, const Run& run) {
  for (std::uint64_t seed = 1; seed <= heed_test::count(problems); ++seed) {
    INFO("seed " << seed);
    const FencedTensors fence(seed % 2 == 0 ? End::kLast : End::kFirst);
    auto problem = draw(seed);
    for (std::size_t n = 0; n < heed_test::plain_contexts().size(); ++n)
      run(problem, heed_test::plain_contexts()[n]);
  }
}

}  // namespace

TEST_CASE("random problems touch no page beyond their tensors", "[pages]") {
  using heed_test::Graphs;
  using heed_test::Lengths;
  const auto run_all = [](auto& p, const Context& context) { p.run_all(context); };
  const auto run = [](auto& p, const Context& context) { p.run(context); };
  for (const auto& [lengths, problems] :
       {std::pair(Lengths::kAny, 1000), {Lengths::kFew, 200}, {Lengths::kLong, 20}}) {
    const auto draw = [l = lengths](std::uint64_t s) { return heed_test::draw_problem(s, {l}); };
    check_drawn(static_cast<std::size_t>(problems), draw, run_all);
  }
  check_drawn(
      300, [](std::uint64_t s) { return heed_test::draw_backward(s); },
      [](auto& p, const Context& context) {
        p.attend(context);
        p.run(context);
      });
  check_drawn(300, heed_test::draw_block, run_all);
  check_drawn(150, heed_test::draw_block_backward, run);
  check_drawn(200, heed_test::draw_merge, run_all);
  check_drawn(200, heed_test::draw_projection, run_all);
  for (const auto& [graphs, problems] : {std::pair(Graphs::kAny, 400), {Graphs::kHub, 6}}) {
    const auto forward = [g = graphs](std::uint64_t s) {
      return heed_test::draw_graph_problem(s, g);
    };
    const auto backward = [g = graphs](std::uint64_t s) {
      return heed_test::draw_graph_backward(s, g);
    };
    check_drawn(static_cast<std::size_t>(problems), forward, run);
    check_drawn(static_cast<std::size_t>(problems) / 2, backward, run);
  }
}

TEST_CASE("no array of indices and no workspace is left at either end", "[pages]") {
  each_isa_and_end([](const Context& context) {
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name);
      check_runs(context, *kind.problem());
    }
  });
}

TEST_CASE("keys past a length are not read", "[pages]") {
  // The tensors have room for `length` keys of the one sequence; the descriptor says 130.
  const auto check = [](const Context& context, std::uint32_t dtype, std::int64_t length,
                        const std::string& option) {
    CAPTURE(dtype, length, option);
    Form form("dense");
    shape(form, dtype, 5, 130);
    form.apply("desc.query_heads desc.key_heads = 1, args.key_lengths = {" +
               std::to_string(length) + "}" + option);
    form.place();
    std::vector<const char*> names = {"args.key", "args.value"};
    if (dtype == HEED_DTYPE_I8) names.insert(names.end(), {"args.key_scales", "args.value_scales"});
    for (const char* const name : names) {
      Tensor tensor = form.tensor(name);
      tensor.elements = tensor.elements / 130 * length;
      form.place(tensor);
    }
    check_runs(context, form);
  };
  each_isa_and_end([&](const Context& context) {
    for (const std::uint32_t dtype : kDtypes)
      for (const std::int64_t length : {0, 1, 7, 64, 129})
        for (const char* const option : {"", ", args.mask args.bias args.alibi_slopes = NULL"})
          check(context, dtype, length, option);
  });
}

TEST_CASE("keys that belong to no packed sequence are not read", "[pages]") {
  // Two sequences of 70 and 60 keys, 100 rows of nobody before them and 50 after.
  each_isa_and_end([](const Context& context) {
    for (const std::uint32_t dtype : kDtypes) {
      if (heed_test::is_scaled(dtype)) continue;
      CAPTURE(dtype);
      Form form("dense");
      shape(form, dtype, 3, 70);
      form.apply(
          "desc.batch = 2, desc.query_heads desc.key_heads = 1, pack_queries, "
          "desc.packed_keys = 280, args.cu_seqlens_k = {100 170 230}");
      form.place();
      for (const char* const name : {"args.key", "args.value"}) {
        Tensor tensor = form.tensor(name);
        const std::size_t row = tensor.bytes() / 280;
        tensor.elements = tensor.elements / 280 * 130;
        form.place(tensor);
        tensor.point_at(reinterpret_cast<const void*>(
            reinterpret_cast<std::uintptr_t>(tensor.memory()) - 100 * row));
      }
      check_runs(context, form);
    }
  });
}

TEST_CASE("no tensor of a call without a plan is left at either end", "[pages]") {
  const std::pair<const char*, std::vector<std::string>> problems[] = {
      {"rotate",
       {"positions, tables", "float64, tables", "desc.(from to).dtype = bf16, positions",
        "desc.(from to).dtype = f16, desc.features = 300",
        "desc.rotary.pairs = 2, desc.features = 66", "desc.features = 2",
        "desc.features = 7, desc.rotary.features = 6"}},
      {"graph", {"rows", "wide", "wide rows"}},
      {"append", {"positions", "tables", "cache.dtype = i8", "desc.key.dtype = f16"}},
      {"cache attention", {"positions", "pack_queries", "args.mask = own"}}};
  each_isa_and_end([&](const Context& context) {
    for (const auto& [of, all] : problems)
      for (const std::string& changes : all) {
        CAPTURE(of, changes);
        Form form(of, changes);
        form.place();
        const heed_status status = form.call(context);
        INFO(heed_last_error());
        CHECK(status == HEED_STATUS_OK);
      }
  });
}
