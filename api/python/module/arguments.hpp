// The arguments of everything that attends, by their names in Python: one table.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "api/python/module/signature.hpp"

namespace heed::python {

/// Which operations take an argument by its name, and what it is.
enum Use : unsigned {
  kOfAttention = 1,
  kOfBlocks = 2,
  kOfGraphs = 4,
  kOfAny = kOfAttention | kOfBlocks | kOfGraphs,
  kOfRanks = 8,  // of attention over ranks alone

  kTensor = 16,   // given anew in every call of a plan
  kSetting = 32,  // kept by plans, as parameters of a model are
  kAsked = 64,    // the same, of results beside out
  kOut = 128,
  kWhere = 256,     // the context
  kGradient = 512,  // of gradients alone
  kKeep = 1024,     // for them
  kAlone = 2048,    // not supported over ranks
};
constexpr unsigned kOptions = kTensor | kSetting | kAsked;
constexpr unsigned kForward = kOptions | kOut | kWhere;
constexpr unsigned kBackward = kOptions | kWhere | kGradient;

#define HEED_ATTENDS (kOfAttention | kOfBlocks)
/// Lists of int32, a number for each sequence: what Python calls them, C does too.
#define HEED_PER_SEQUENCE(ARGUMENT)             \
  ARGUMENT(key_lengths, HEED_ATTENDS | kTensor) \
  ARGUMENT(first_keys, HEED_ATTENDS | kTensor | kAlone)
#define HEED_PROJECTS (kOfBlocks | kOfGraphs)
/// Those of DIFFERENTIABLE have gradients, grad_ and their name, of the same operations.
#define HEED_ARGUMENTS(ARGUMENT, DIFFERENTIABLE)               \
  DIFFERENTIABLE(query, kOfAny | kTensor)                      \
  DIFFERENTIABLE(key, kOfAny | kTensor)                        \
  DIFFERENTIABLE(value, (kOfAttention | kOfGraphs) | kTensor)  \
  DIFFERENTIABLE(out, kOfAny | kOut)                           \
  ARGUMENT(context, kOfAny | kWhere)                           \
  ARGUMENT(attn_mask, HEED_ATTENDS | kTensor)                  \
  DIFFERENTIABLE(bias, HEED_ATTENDS | kTensor)                 \
  ARGUMENT(causal, HEED_ATTENDS | kSetting)                    \
  ARGUMENT(window, HEED_ATTENDS | kSetting)                    \
  ARGUMENT(alignment, HEED_ATTENDS | kSetting)                 \
  ARGUMENT(scale, kOfAny | kSetting)                           \
  ARGUMENT(softcap, kOfAny | kSetting)                         \
  DIFFERENTIABLE(alibi_slopes, HEED_ATTENDS | kTensor)         \
  DIFFERENTIABLE(sinks, HEED_ATTENDS | kTensor)                \
  ARGUMENT(temperature, kOfAny | kSetting)                     \
  ARGUMENT(hard, kOfAny | kSetting | kAlone)                   \
  ARGUMENT(dropout, kOfAny | kSetting)                         \
  ARGUMENT(seed, kOfAny | kTensor)                             \
  HEED_PER_SEQUENCE(ARGUMENT)                                  \
  ARGUMENT(cu_seqlens_q, HEED_ATTENDS | kTensor)               \
  ARGUMENT(cu_seqlens_k, HEED_ATTENDS | kTensor)               \
  ARGUMENT(max_seqlen_q, HEED_ATTENDS | kSetting | kAlone)     \
  ARGUMENT(max_seqlen_k, HEED_ATTENDS | kSetting | kAlone)     \
  ARGUMENT(block_table, HEED_ATTENDS | kTensor | kAlone)       \
  ARGUMENT(key_scales, HEED_ATTENDS | kTensor | kAlone)        \
  ARGUMENT(value_scales, HEED_ATTENDS | kTensor | kAlone)      \
  ARGUMENT(score_function, HEED_ATTENDS | kSetting | kAlone)   \
  ARGUMENT(return_lse, kOfAny | kAsked)                        \
  ARGUMENT(return_weights, kOfAny | kAsked | kAlone)           \
  ARGUMENT(weight_rows, HEED_ATTENDS | kAsked)                 \
  ARGUMENT(return_column_sums, HEED_ATTENDS | kAsked | kAlone) \
  ARGUMENT(keep, kOfBlocks | kKeep)                            \
  ARGUMENT(head_ranks, kOfRanks | kSetting)                    \
  ARGUMENT(flops_per_byte, kOfRanks | kSetting)                \
                                                               \
  DIFFERENTIABLE(w_query, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(w_key, HEED_PROJECTS | kSetting)              \
  DIFFERENTIABLE(w_value, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(w_out, kOfBlocks | kSetting)                  \
  DIFFERENTIABLE(w_edge_key, kOfGraphs | kSetting)             \
  DIFFERENTIABLE(w_edge_value, kOfGraphs | kSetting)           \
  DIFFERENTIABLE(b_query, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(b_key, HEED_PROJECTS | kSetting)              \
  DIFFERENTIABLE(b_value, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(b_out, kOfBlocks | kSetting)                  \
  ARGUMENT(heads, HEED_PROJECTS | kSetting)                    \
  ARGUMENT(key_heads, kOfBlocks | kSetting)                    \
  ARGUMENT(combine, HEED_PROJECTS | kSetting)                  \
  DIFFERENTIABLE(head_weights, HEED_PROJECTS | kSetting)       \
  DIFFERENTIABLE(edge_data, kOfGraphs | kTensor)               \
  DIFFERENTIABLE(edge_bias, kOfGraphs | kTensor)               \
  ARGUMENT(score, kOfAny | kSetting)                           \
  ARGUMENT(activation, kOfAny | kSetting)                      \
  ARGUMENT(slope, kOfAny | kSetting)                           \
  DIFFERENTIABLE(score_weights, kOfAny | kSetting)             \
  ARGUMENT(residual, kOfGraphs | kSetting)                     \
  ARGUMENT(steps, kOfGraphs | kSetting)                        \
                                                               \
  ARGUMENT(graph, kOfGraphs | kSetting)                        \
  DIFFERENTIABLE(data, kOfGraphs | kTensor)                    \
                                                               \
  ARGUMENT(lse, kOfAttention | kGradient)                      \
  ARGUMENT(grad_lse, kOfAny | kGradient)                       \
  ARGUMENT(grad_scale, HEED_ATTENDS | kGradient)               \
  ARGUMENT(grad_temperature, HEED_ATTENDS | kGradient)         \
  ARGUMENT(accumulate, kOfAny | kGradient)                     \
  ARGUMENT(score_gradient, HEED_ATTENDS | kGradient)

/// As they came, the caller holding them; null where one was not given, or None.
struct Arguments {
#define HEED_MEMBER(name, uses) nb::handle name;
#define HEED_MEMBERS(name, uses) HEED_MEMBER(name, uses) HEED_MEMBER(grad_##name, uses)
  HEED_ARGUMENTS(HEED_MEMBER, HEED_MEMBERS)
#undef HEED_MEMBERS
#undef HEED_MEMBER
};

struct Argument {
  const char* name;
  nb::handle Arguments::*place;
  unsigned uses;
};

constexpr Argument kArguments[] = {
#define HEED_ROW(name, uses) {#name, &Arguments::name, uses},
#define HEED_ROWS(name, uses) \
  HEED_ROW(name, uses) HEED_ROW(grad_##name, ((uses)&kOfAny) | kGradient)
    HEED_ARGUMENTS(HEED_ROW, HEED_ROWS)
#undef HEED_ROWS
#undef HEED_ROW
};

inline nb::handle unless_none(nb::handle given) { return given.is_none() ? nb::handle() : given; }

/// Reads the dict `given`; TypeError names what `function` does not know: arguments that are not of
/// its operation, or not of these uses.
Arguments read_arguments(const char* function, nb::handle given, unsigned operation, unsigned uses);

/// The same of a method; what it has by name, and the options behind **, which are of these.
Arguments read_arguments(const Given& given, unsigned operation);

// ---- Operands: where a tensor stands in Python's arguments and in the structs of C ----

/// A tensor and its gradient. Offsets are of a descriptor and of arguments, forward and backward;
/// 0, where every struct has its size, stands for no such member.
struct Operand {
  const char* name;
  nb::handle Arguments::*given;
  std::size_t layout, data;
  const char* gradient;
  nb::handle Arguments::*wanted;
  std::size_t grad_layout, grad_data;
};

/// Of the structs of Api, whose members are called `field`, and of what Python calls `name`.
#define HEED_OPERAND(Api, name, field)                                                     \
  {                                                                                        \
#name, &Arguments::name, offsetof(Api::Desc, field), offsetof(Api::Args, field),       \
        "grad_" #name, &Arguments::grad_##name, offsetof(Api::BackwardDesc, grad_##field), \
        offsetof(Api::BackwardArgs, grad_##field)                                          \
  }
/// Of numbers side by side, whose places arguments alone have; and of a gradient alone.
#define HEED_VECTOR(Api, name)                                                                     \
  {                                                                                                \
#name, &Arguments::name, 0, offsetof(Api::Args, name), "grad_" #name, &Arguments::grad_##name, \
        0, offsetof(Api::BackwardArgs, grad_##name)                                                \
  }
#define HEED_GRADIENT(Api, name)                                              \
  {                                                                           \
#name, &Arguments::name, 0, 0, "grad_" #name, &Arguments::grad_##name, 0, \
        offsetof(Api::BackwardArgs, grad_##name)                              \
  }

/// Writes the member that lies so many bytes after the beginning of a struct.
template <class Member>
void set_member(void* of, std::size_t offset, const Member& value) {
  std::memcpy(static_cast<char*>(of) + offset, &value, sizeof value);
}

// ---- Plans ----

/// What a plan keeps of the arguments that it was made with: settings, and which tensors calls must
/// give.
class KeptArguments {
 public:
  /// `maker` made the plan.
  KeptArguments(const char* maker, const Arguments& made);

  /// A setting that was not given, but is known now.
  void settle(nb::handle Arguments::*setting, std::int64_t value);

  /// The settings, and what a call gives anew: exactly the tensors that the plan was made with.
  Arguments with(const Arguments& now) const;

  bool has_out() const { return out_given_; }

 private:
  const char* maker_;
  bool out_given_;
  bool given_[std::size(kArguments)] = {};
  Arguments settings_;
  std::vector<nb::object> held_;
};

}  // namespace heed::python
