// Linear layers for heed.torch: y = x W + b by the product that multi-head blocks are made of,
// which heed.h does not offer alone.
#include <algorithm>
#include <memory>
#include <new>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/weights.hpp"
#include "api/shim.hpp"
#include "engine/projection/matmul.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed::python {
namespace {

/// So many tasks per thread even out threads that come late.
constexpr std::int64_t kTasksPerThread = 4;

/// What the slabs of a thread's calls lie in, kept for the next one: its pages are mapped.
class Slabs {
 public:
  std::byte* take(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(static_cast<std::byte*>(
          ::operator new (bytes, std::align_val_t{HEED_WORKSPACE_ALIGNMENT})));
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{HEED_WORKSPACE_ALIGNMENT});
    }
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::size_t bytes_ = 0;
};
thread_local Slabs slabs;

Layout rows_of(const Array& array) {
  const Form& form = array.form;
  return {ElementType::kF32, bytes_of(form.element), {0, 0, form.stride(2), form.stride(1)}};
}

void check_rows(const char* name, const Array& array, std::int64_t columns) {
  const Form& form = array.form;
  if (form.element != Element::kF32 || form.axes != 2 || form.size(1) != columns)
    refuse("%s is %s; it must be float32 [rows, %lld]", name, text(form).c_str(),
           static_cast<long long>(columns));
}

void multiply(const heed_context& context, const heed_weights& weights, const Array& x,
              const Array& out) {
  const std::int64_t rows = x.form.size(2);
  const MatmulSize size = {false, rows, weights.in, weights.out};
  const MatmulPlan plan =
      plan_matmul(context, "weights", size, kTasksPerThread * context.threads.count);
  const auto workers = static_cast<std::uint32_t>(
      std::clamp<double>(flops_of(size) / kFlopsPerClaim, 1, context.threads.count));
  const Matmul matmul = {&plan, rows, InputRows{x.data, rows_of(x), rows},
                         MatrixArgument{&weights, nullptr, nullptr, nullptr, Layout{}},
                         OutputRows{out.data, rows_of(out), rows, weights.out}};
  run_matmuls(context, &matmul, 1, workers, slabs.take(workers * plan.slab.bytes), plan.slab.bytes);
}

void linear(nb::handle x, const Weights& prepared, nb::handle out, nb::handle context) {
  const heed_weights& weights = *prepared.get();
  const HeldContext held = hold_context(context);
  const Array from = read_array("x", x);
  const Array to = read_output("out", out);
  if (weights.float64 || weights.backend != held.context->backend)
    refuse("weights are prepared for %s; they must be float32 and of the context's product",
           weights.float64 ? "float64" : "another product");
  check_rows("x", from, weights.in);
  check_rows("out", to, weights.out);
  if (from.form.size(2) != to.form.size(2))
    refuse("x has %lld rows, out has %lld; they must have the same",
           static_cast<long long>(from.form.size(2)), static_cast<long long>(to.form.size(2)));
  if (from.form.size(2) == 0) return;
  const double flops = 2.0 * static_cast<double>(from.form.size(2) * weights.in * weights.out);
  check(without_gil(flops, {},
                    [&] { return guarded([&] { multiply(*held.context, weights, from, to); }); }));
}

}  // namespace

void bind_linear(nb::module_& module) {
  module.def(
      "linear", &linear, nb::arg("x"), nb::arg("weights"), nb::arg("out"),
      nb::arg("context").none(),
      nb::sig("def linear(x: object, weights: Weights, out: object, context: Context | None) "
              "-> None"),
      "Writes x times a prepared matrix, plus its bias, to out.");
}

}  // namespace heed::python
