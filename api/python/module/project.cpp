// heed.project.
#include <algorithm>

#include "api/python/module/bind.hpp"
#include "api/python/module/blocks.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {
namespace {

const Weights& weights_of(nb::handle given) {
  if (!nb::isinstance<Weights>(given))
    refuse_type("weights must be heed.Weights, not %s", type_text(given).c_str());
  return *nb::inst_ptr<Weights>(given);
}

nb::object project(nb::handle x, nb::handle weights, nb::handle out, nb::handle context) {
  const Weights& prepared = weights_of(weights);
  const heed_weights_info& info = prepared.info();
  const Array from = read_input("x", x, false);
  const Form& form = from.form;
  if (form.size(1) != info.in)
    refuse("x is %s; it must have %lld features, as weights have", text(form).c_str(),
           static_cast<long long>(info.in));
  check_arithmetic("x", form, "weights", info.arithmetic == HEED_DTYPE_F64);
  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  desc.batch = form.size(3);
  desc.rows = form.size(2);
  desc.x = rows_layout(form);
  std::int64_t shape[kMaxAxes];
  std::copy_n(form.shape, form.axes, shape);
  shape[form.axes - 1] = info.out;
  Made made;
  Array to;
  if (out.is_none()) {
    made = make_array(from.kind, form.element, shape, form.axes);
    desc.y.dtype = dtype_of(form.element);
  } else {
    to = take_out(out, shape, form.axes, "x", form.element);
    desc.y = rows_layout(to.form);
    made = {nb::borrow(out), address_of(to)};
  }
  const HeldContext held = hold_context(context);
  const double flops = 2.0 * static_cast<double>(form.elements()) * static_cast<double>(info.out);
  check(without_gil(flops, {}, [&] {
    return heed_project(held.context, &desc, prepared.get(), address_of(from), made.data);
  }));
  return out.is_none() ? as_kind_of(from.kind, x, made.object) : made.object;
}

}  // namespace

void bind_project(nb::module_& module) {
  module.def("project", &project, nb::arg("x").none(), nb::arg("weights").none(),
             nb::arg("out").none(), nb::arg("context").none(),
             nb::sig("def project(x: object, weights: object, out: object, "
                     "context: Context | None) -> typing.Any"));
}

}  // namespace heed::python
