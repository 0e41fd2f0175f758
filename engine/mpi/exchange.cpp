#include "engine/mpi/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "engine/runtime/workspace.hpp"

namespace heed::mpi {
namespace {

/// The rows of each rank's own queries travel to where the heads are.
SplitRows rows_of(const WholeScores& scores, std::uint32_t dtype) {
  return {false, dtype, scores.by_rows ? scores.keys : 0, scores.batch == 1, scores.heads == 1};
}

}  // namespace

RowsList inputs_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  RowsList list = {{false, d.query.dtype, d.features},
                   {true, d.key.dtype, d.features},
                   {true, d.value.dtype, d.value_features},
                   rows_of(p.mask, HEED_DTYPE_I8),
                   rows_of(p.bias, d.bias.dtype)};
  if (p.gradients != 0)
    list.insert(list.end(), {{false, d.out.dtype, d.value_features},
                             {false, d.lse.dtype, 1},
                             {false, p.backward.grad_out.dtype, d.value_features},
                             {false, p.backward.grad_lse.dtype, 1}});
  return list;
}

RowsList results_of(const Problem& p) {
  const heed_attention_desc& d = p.desc;
  if (p.gradients == 0) return {{false, d.out.dtype, d.value_features}, {false, HEED_DTYPE_F64, 1}};
  RowsList list = gradients_of_keys(p);
  list.insert(list.begin(), {false, p.real(), p.wants(HEED_MPI_GRAD_QUERY) ? d.features : 0});
  if (p.wants(HEED_MPI_GRAD_BIAS)) list.push_back(rows_of(p.bias, p.real()));
  return list;
}

RowsList gradients_of_keys(const Problem& p) {
  return {{true, p.real(), p.wants(HEED_MPI_GRAD_KEY) ? p.desc.features : 0},
          {true, p.real(), p.wants(HEED_MPI_GRAD_VALUE) ? p.desc.value_features : 0}};
}

Tensors inputs_of(const Problem& p, const heed_attention_args& args,
                  const heed_attention_backward_args* backward) {
  Tensors inputs = {tensor_of(args.query, p.desc.query), tensor_of(args.key, p.desc.key),
                    tensor_of(args.value, p.desc.value)};
  inputs[kMask] = tensor_of(args.mask, p.desc.mask);
  inputs[kMask].layout.dtype = HEED_DTYPE_I8;
  inputs[kBias] = tensor_of(args.bias, p.desc.bias);
  if (backward == nullptr) return inputs;
  inputs[kOut] = tensor_of(args.out, p.desc.out);
  inputs[kLse] = tensor_of(args.lse, p.desc.lse);
  inputs[kGradOut] = tensor_of(backward->grad_out, p.backward.grad_out);
  inputs[kGradLse] = tensor_of(backward->grad_lse, p.backward.grad_lse);
  return inputs;
}

}  // namespace heed::mpi
