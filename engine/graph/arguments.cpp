// Checks the arguments of a run.
#include "engine/graph/operands.hpp"
#include "engine/projection/given.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

void check_matrices(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  const struct {
    GivenMatrix given;
    const Matrix& matrix;
  } all[] = {{HEED_GIVEN_MATRIX(args, query), p.w_query},
             {HEED_GIVEN_MATRIX(args, key), p.w_key},
             {HEED_GIVEN_MATRIX(args, value), p.w_value}};
  for (const auto& [given, matrix] : all) {
    if (p.shares_matrices()) {
      check_given(given, matrix, p.float64, {backend, false});
    } else if (given.p != nullptr) {
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL %s", given.p_field,
           kSharesMatrices.unless);
    } else if (!p.is_projected()) {
      check_tensor(given.w_field, given.w, matrix.layout, {{"nodes", p.nodes}});
    }
  }
}

}  // namespace

void validate_inputs(const GraphProblem& p, const heed_graph_attention_args& args,
                     Backend backend) {
  check_reserved("args.reserved", args.reserved);
  check_inputs<kGraphOperands>(p, &args, p.float64);
  check_matrices(p, args, backend);
  if (p.edge_width > 0 && args.w_edge_key == nullptr && args.w_edge_value == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is %lld",
         static_cast<long long>(p.edge_width));
}

void validate(const GraphProblem& p, const heed_graph_attention_args& args, Backend backend) {
  validate_inputs(p, args, backend);
  check_outputs<kGraphOperands>(p, &args, p.float64);
}

}  // namespace heed
