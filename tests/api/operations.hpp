// The list of operations of the C API, each by its form: what holds for all is tested over it.
#pragma once

#include <tuple>

#include "tests/api/cache_forms.hpp"
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

namespace api_test {

/// Those that have plans.
using Planned =
    std::tuple<Form, BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm>;
/// Those that have tensors with layouts; without caches, whose types are others.
using Laid = std::tuple<Form, BackwardForm, BlockForm, BlockBackwardForm, GraphForm,
                        GraphBackwardForm, MergeForm, RotateForm, MatrixForm, ProjectForm>;
using LaidOrCached =
    std::tuple<Form, BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm,
               MergeForm, RotateForm, MatrixForm, ProjectForm, AppendForm, CacheAttentionForm>;
using All = std::tuple<Form, BackwardForm, BlockForm, BlockBackwardForm, GraphForm,
                       GraphBackwardForm, MergeForm, RotateForm, MatrixForm, ProjectForm,
                       SmallGraph, CacheForm, AppendForm, CacheAttentionForm>;

}  // namespace api_test
