// heed.mpi.attention_backward.
#include "api/python/module/bind.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/mpi_part.hpp"

namespace heed::python {
namespace {

/// Gradients of a part that is finished. Collective is `run` alone.
class MpiGradients {
 public:
  MpiGradients(MpiPart& part, nb::handle out, nb::handle lse, nb::handle grad_out,
               nb::handle grad_lse, nb::tuple wanted, nb::handle accumulate)
      : part_(part),
        held_(nb::make_tuple(out, lse, grad_out, grad_lse, wanted)),
        gradients_(checked(part), {out, lse, grad_out, grad_lse, wanted, accumulate}, dense_, args_,
                   part.all_keys) {
    desc_.attention = &part.desc;
    desc_.accumulate = dense_.accumulate;
    desc_.grad_out = dense_.grad_out;
    desc_.grad_lse = dense_.grad_lse;
    desc_.grad_query = dense_.grad_query;
    desc_.grad_key = dense_.grad_key;
    desc_.grad_value = dense_.grad_value;
    desc_.grad_bias = dense_.grad_bias;
    constexpr const char* kNames[] = {"grad_query", "grad_key",        "grad_value",
                                      "grad_bias",  "grad_sinks",      "grad_alibi_slopes",
                                      "grad_scale", "grad_temperature"};
    for (std::size_t i = 0; i < std::size(kNames); ++i)  // heed_mpi_gradients has their order
      if (is_wanted(kNames[i], wanted[i])) desc_.gradients |= 1U << i;
  }

  nb::object run(const MpiLibrary& library, std::uintptr_t communicator, std::size_t bytes) const {
    // Of nothing C would take the usual ones.
    if (desc_.gradients != 0)
      library.attention_backward(reinterpret_cast<const void*>(communicator), bytes,
                                 part_.context.get(), desc_, args_);
    return gradients_.named(part_.call, part_.query);
  }

 private:
  static Call& checked(MpiPart& part) {
    check_differentiable("heed.mpi.attention_backward", part.call, part.options);
    return part.call;
  }

  MpiPart& part_;
  nb::object held_;
  heed_attention_backward_desc dense_ = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_backward_args args_ = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  heed_mpi_attention_backward_desc desc_ = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
  AttentionGradients gradients_;
};

}  // namespace

void bind_mpi_backward(nb::module_& module) {
  nb::class_<MpiGradients>(module, "MpiGradients", "Gradients that a rank brings; see heed.mpi.")
      .def(nb::init<MpiPart&, nb::handle, nb::handle, nb::handle, nb::handle, nb::tuple,
                    nb::handle>(),
           nb::keep_alive<1, 2>(), nb::arg("part"), nb::arg("out").none(), nb::arg("lse").none(),
           nb::arg("grad_out").none(), nb::arg("grad_lse").none(), nb::arg("wanted"),
           nb::arg("accumulate").none(),
           nb::sig("def __init__(self, part: MpiPart, out: object, lse: object, grad_out: object, "
                   "grad_lse: object, wanted: tuple[object, ...], accumulate: object) -> None"))
      .def("run", &MpiGradients::run, nb::arg("library"), nb::arg("communicator"), nb::arg("bytes"),
           nb::sig("def run(self, library: MpiLibrary, communicator: int, bytes: int) -> "
                   "typing.Any"));
}

}  // namespace heed::python
