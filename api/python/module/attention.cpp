// heed.attention.
#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {
namespace {

nb::object attention(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                     nb::handle context, nb::handle given) {
  const Options options = read_options("attention", given);
  Call call;
  read_lengths(call, options);
  read_tensors(call, query, key, value, options);
  read_scores(call, options);
  const Outputs outputs = make_outputs(call, options, out.is_none() ? nb::handle() : out);
  const HeldContext held = hold_context(context);
  check(without_gil(flops_of(call.desc), call.score_function,
                    [&] { return heed_attention(held.context, &call.desc, &call.args); }));
  call.score_function.raise();
  return outputs.result(call.kind, call.out_given, query);
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention", &attention, nb::arg("query").none(), nb::arg("key").none(),
             nb::arg("value").none(), nb::arg("out").none(), nb::arg("context").none(),
             nb::arg("options"),
             nb::sig("def attention(query: object, key: object, value: object, out: object, "
                     "context: Context | None, options: object) -> typing.Any"));
}

}  // namespace heed::python
