// Every refusal of a descriptor of attention over a graph.
#include <cmath>
#include <limits>

#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMost = std::int64_t{1} << 40;

using Desc = heed_graph_attention_desc;

struct NamedLayout {
  const char* name;
  heed_layout Desc::*layout;
};
constexpr NamedLayout kInputs[] = {{"desc.query", &Desc::query},
                                   {"desc.key", &Desc::key},
                                   {"desc.value", &Desc::value},
                                   {"desc.data", &Desc::data},
                                   {"desc.edge_data", &Desc::edge_data}};
constexpr NamedLayout kOthers[] = {{"desc.edge_bias", &Desc::edge_bias},
                                   {"desc.out", &Desc::out},
                                   {"desc.lse", &Desc::lse},
                                   {"desc.weights", &Desc::weights}};

struct NamedMatrix {
  const char* name;
  heed_matrix_layout Desc::*layout;
};
constexpr NamedMatrix kNodeMatrices[] = {{"desc.w_query", &Desc::w_query},
                                         {"desc.w_key", &Desc::w_key},
                                         {"desc.w_value", &Desc::w_value}};
constexpr NamedMatrix kEdgeMatrices[] = {{"desc.w_edge_key", &Desc::w_edge_key},
                                         {"desc.w_edge_value", &Desc::w_edge_value}};

void share(GraphForm& form) { form.share(); }
void per_node(GraphForm& form) { form.per_node(); }

std::string joined(const char* name, const char* rest) { return std::string(name) + rest; }

}  // namespace

TEST_CASE("what is refused of attention over graphs is refused for one reason", "[graph]") {
  check_graph_accepted([](GraphForm&) {});
  check_graph_accepted(share);
  check_graph_accepted(per_node);
  check_graph_accepted([](GraphForm& form) { form.no_residual(); });
  check_graph_accepted([](GraphForm& form) { form.no_edge_data(); });
  check_graph_accepted([](GraphForm& form) { form.be_hard(); });
  check_graph_accepted([](GraphForm& form) { form.all_float64(); });
  check_graph_accepted([](GraphForm& form) { form.graph.by_rows(); });
  for (const heed_combine how : {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    check_graph_accepted([&](GraphForm& form) { form.combine(how); });
  check_graph_accepted([](GraphForm& form) {
    form.share();
    form.all_float64();
    form.desc.steps = 3;
  });
}

TEST_CASE("sizes of attention over graphs", "[graph]") {
  struct Field {
    const char* name;
    std::int64_t Desc::*field;
    std::int64_t low;
  };
  for (const Field& f :
       {Field{"heads", &Desc::heads, 1}, Field{"features", &Desc::features, 1},
        Field{"value_features", &Desc::value_features, 1}, Field{"width", &Desc::width, 0},
        Field{"steps", &Desc::steps, 1}, Field{"edge_width", &Desc::edge_width, 0}})
    for (const std::int64_t value :
         {std::int64_t{-1}, -kMost, kMost + 1, std::numeric_limits<std::int64_t>::max(),
          std::numeric_limits<std::int64_t>::min()}) {
      const std::string is = std::string("desc.") + f.name + " is " + std::to_string(value);
      const std::string bound = std::to_string(f.low) + " to " + std::to_string(kMost);
      check_graph_desc_refused([&](GraphForm& form) { form.desc.*f.field = value; },
                               {is.c_str(), bound.c_str()});
    }
  check_graph_desc_refused([](GraphForm& form) { form.desc.heads = 0; }, {"desc.heads is 0", "1"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.features = 0; },
                           {"desc.features is 0", "1"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.heads = form.desc.features = kMost; },
                           {"desc.heads", "desc.features"});
}

TEST_CASE("choices of attention over graphs", "[graph]") {
  struct Field {
    const char* name;
    std::uint32_t Desc::*field;
    std::uint32_t most;
  };
  for (const Field& f : {Field{"inputs", &Desc::inputs, 2}, Field{"combine", &Desc::combine, 3},
                         Field{"residual", &Desc::residual, 1}, Field{"hard", &Desc::hard, 1}})
    for (const std::uint32_t value : {f.most + 1, 99U, 0xffffffffU}) {
      const std::string is = std::string("desc.") + f.name + " is " + std::to_string(value);
      const std::string bound = "0 to " + std::to_string(f.most);
      check_graph_desc_refused([&](GraphForm& form) { form.desc.*f.field = value; },
                               {is.c_str(), f.most == 1 ? "1" : bound.c_str()});
    }
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.share();
        form.desc.bias_dtype = 5;
      },
      {"desc.bias_dtype is 5", "0 to 4"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.bias_dtype = HEED_DTYPE_F16; },
                           {"desc.bias_dtype is 4", "HEED_GRAPH_SHARED"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.per_node();
        form.desc.bias_dtype = HEED_DTYPE_F32;
      },
      {"desc.bias_dtype is 1", "HEED_GRAPH_SHARED"});
}

TEST_CASE("scale, softcap and temperature over graphs", "[graph]") {
  for (const double bad : {std::nan(""), kInfinity, -kInfinity})
    check_graph_desc_refused([&](GraphForm& form) { form.desc.scale = bad; }, {"desc.scale is"});
  for (const double bad : {-1.0, std::nan(""), kInfinity})
    check_graph_desc_refused([&](GraphForm& form) { form.desc.softcap = bad; },
                             {"desc.softcap is"});
  for (const double bad : {-1.0, std::nan(""), -kInfinity})
    check_graph_desc_refused([&](GraphForm& form) { form.desc.temperature = bad; },
                             {"desc.temperature is"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.be_hard();
        form.desc.temperature = 2;
      },
      {"desc.temperature is 2", "desc.hard"});
}

TEST_CASE("the width of data", "[graph]") {
  for (const auto& change : {share, per_node})
    check_graph_desc_refused(
        [&](GraphForm& form) {
          change(form);
          form.no_residual();
        },
        {"desc.width is 0"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.width = 0; }, {"desc.width is 0"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.no_residual();
        form.desc.width = 10;
      },
      {"desc.width is 10", "must be 0"});
  for (const std::int64_t width : {1, 5, 9, 11})
    for (const bool shared : {false, true})
      check_graph_desc_refused(
          [&](GraphForm& form) {
            if (shared) form.share();
            form.desc.width = width;
          },
          {"desc.width is", "desc.residual", "10"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.combine(HEED_COMBINE_MEAN);
        form.desc.width = 10;
      },
      {"desc.width is 10", "desc.residual", "5"});
  for (const auto& change : {share, per_node})
    check_graph_desc_refused(
        [&](GraphForm& form) {
          change(form);
          form.desc.residual = 0;
          form.desc.width = 4;
          form.desc.steps = 2;
        },
        {"desc.width is 4", "desc.steps", "10"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.steps = 2; }, {"desc.steps is 2"});
}

TEST_CASE("float64 over graphs goes with float64 only", "[graph]") {
  constexpr const char* kIsFloat64 = ".dtype is HEED_DTYPE_F64 (2)";
  for (const NamedLayout& given : kInputs) {
    check_graph_desc_refused(
        [&](GraphForm& form) {
          form.all_float64();
          (form.desc.*given.layout).dtype = HEED_DTYPE_F32;
        },
        {joined(given.name, ".dtype is 1").c_str(), "HEED_DTYPE_F64 (2)"});
    check_graph_desc_refused(
        [&](GraphForm& form) { (form.desc.*given.layout).dtype = HEED_DTYPE_F64; },
        {joined(given.name, kIsFloat64).c_str(), "float32"});
  }
  for (const NamedMatrix& matrix : kNodeMatrices)
    for (const bool wide : {false, true}) {
      const std::string is = joined(matrix.name, wide ? ".dtype is 1" : kIsFloat64);
      for (const auto& change : {share, per_node})
        check_graph_desc_refused(
            [&](GraphForm& form) {
              change(form);
              if (wide) form.all_float64();
              (form.desc.*matrix.layout).dtype = wide ? HEED_DTYPE_F32 : HEED_DTYPE_F64;
            },
            {is.c_str(), "HEED_DTYPE_F64 (2)"});
    }
  for (const NamedMatrix& matrix : kEdgeMatrices)
    check_graph_desc_refused(
        [&](GraphForm& form) { (form.desc.*matrix.layout).dtype = HEED_DTYPE_F64; },
        {joined(matrix.name, kIsFloat64).c_str(), "float32"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.share();
        form.desc.bias_dtype = HEED_DTYPE_F64;
      },
      {"desc.bias_dtype is 2", "HEED_DTYPE_F64 (2)"});
}

TEST_CASE("types and reserved fields of all layouts over graphs", "[graph]") {
  const auto check = [](const char* name, const auto& layout_of, const GraphChange& first) {
    check_graph_desc_refused(
        [&](GraphForm& form) {
          first(form);
          layout_of(form).dtype = 5;
        },
        {joined(name, ".dtype is 5").c_str(), "0 to 4"});
    check_graph_desc_refused(
        [&](GraphForm& form) {
          first(form);
          layout_of(form).reserved = 3;
        },
        {joined(name, ".reserved is 3").c_str(), "must be 0"});
  };
  const auto nothing = [](GraphForm&) {};
  for (const NamedLayout& l : kInputs)
    check(
        l.name, [&](GraphForm & form) -> auto& { return form.desc.*l.layout; }, nothing);
  for (const NamedLayout& l : kOthers)
    check(
        l.name, [&](GraphForm & form) -> auto& { return form.desc.*l.layout; }, nothing);
  for (const NamedMatrix& l : kEdgeMatrices)
    check(
        l.name, [&](GraphForm & form) -> auto& { return form.desc.*l.layout; }, nothing);
  for (const auto& change : {share, per_node})
    for (const NamedMatrix& l : kNodeMatrices)
      check(
          l.name, [&](GraphForm & form) -> auto& { return form.desc.*l.layout; }, change);
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16})
    check_graph_desc_refused([&](GraphForm& form) { form.desc.lse.dtype = dtype; },
                             {"desc.lse.dtype is", "HEED_DTYPE_F32"});
}

TEST_CASE("layouts of tensors that there are not", "[graph]") {
  for (std::size_t i = 0; i < 3; ++i)
    for (const auto& change : {share, per_node})
      check_graph_desc_refused(
          [&](GraphForm& form) {
            change(form);
            (form.desc.*kInputs[i].layout).stride_row = 8;
          },
          {kInputs[i].name, "HEED_GRAPH_PROJECTED"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.no_residual();
        form.desc.data.dtype = HEED_DTYPE_F32;
      },
      {"desc.data"});
  check_graph_desc_refused(
      [](GraphForm& form) {
        form.no_edge_data();
        form.desc.edge_data.stride_row = 2;
      },
      {"desc.edge_data", "desc.edge_width"});
  for (const NamedMatrix& matrix : kEdgeMatrices)
    check_graph_desc_refused(
        [&](GraphForm& form) {
          form.no_edge_data();
          (form.desc.*matrix.layout).stride_in = 2;
        },
        {matrix.name, "desc.edge_width"});
  for (const NamedMatrix& matrix : kNodeMatrices)
    check_graph_desc_refused([&](GraphForm& form) { (form.desc.*matrix.layout).stride_in = 2; },
                             {matrix.name, "desc.inputs"});
}

TEST_CASE("a matrix that is one of its kind has no stride to the next", "[graph]") {
  for (const NamedMatrix& matrix : kEdgeMatrices)
    check_graph_desc_refused(
        [&](GraphForm& form) {
          form.desc.*matrix.layout = {0, 0, 100, 10, 1};
        },
        {joined(matrix.name, ".stride_matrix is 100").c_str(), "must be 0"});
  for (const NamedMatrix& matrix : kNodeMatrices)
    check_graph_desc_refused(
        [&](GraphForm& form) {
          form.share();
          form.desc.*matrix.layout = {0, 0, 100, 10, 1};
        },
        {joined(matrix.name, ".stride_matrix is 100").c_str(), "must be 0"});
}

TEST_CASE("outputs over graphs whose elements overlap", "[graph]") {
  check_graph_desc_refused([](GraphForm& form) { form.desc.out = {0, 0, 0, 5, 9, 1}; },
                           {"desc.out.stride_row is 9", "exceed"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.out = {0, 0, 0, 0, 10, 1}; },
                           {"desc.out.stride_head is 0", "exceed"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.lse = {0, 0, 0, 0, 1, 0}; },
                           {"desc.lse.stride_head is 0", "exceed"});
  check_graph_desc_refused([](GraphForm& form) { form.desc.weights = {0, 0, 0, 1, 1, 0}; },
                           {"desc.weights.stride_", "exceed"});
}

TEST_CASE("layouts over graphs that reach past all addresses", "[graph]") {
  const std::int64_t far = std::numeric_limits<std::int64_t>::max() / 4;
  for (const NamedLayout& given : kInputs)
    check_graph_desc_refused(
        [&](GraphForm& form) { form.desc.*given.layout = {0, 0, 0, 1, far, 1}; },
        {given.name, "overflows an address"});
  for (const NamedLayout& given : kOthers)
    check_graph_desc_refused(
        [&](GraphForm& form) { form.desc.*given.layout = {0, 0, 0, 1, -far, 2}; },
        {given.name, "overflows an address"});
  for (const NamedMatrix& matrix : kEdgeMatrices)
    check_graph_desc_refused(
        [&](GraphForm& form) {
          form.desc.*matrix.layout = {0, 0, 0, far, 1};
        },
        {matrix.name, "overflows an address"});
}

TEST_CASE("sizes over graphs that no address space holds", "[graph]") {
  const auto huge = std::int64_t{1} << 38;
  check_graph_desc_refused(
      [&](GraphForm& form) {
        form.no_residual();
        form.desc.features = form.desc.value_features = huge;
        form.desc.heads = huge;
      },
      {"desc.heads"});
  check_graph_desc_refused(
      [&](GraphForm& form) {
        form.no_residual();
        form.no_edge_data();
        form.desc.heads = 1 << 20;
        form.desc.features = huge;
      },
      {"overflows"});
}
