// Tables of refusals. A form is a valid problem; each row changes it and tells how the message
// names the field, its value and the bound. Outputs stay as they are.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/api/forms.hpp"

namespace api_test {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class AForm>
using ChangeOf = std::function<void(AForm&)>;

/// What is changed in a valid problem, the status, and the words of the message, where " ... " may
/// be anything.
template <class AForm>
struct Refusal {
  /// A field whose value breaks the bound: "must be ..." or other words.
  Refusal(const std::string& field, const Value& value, const std::string& bound,
          heed_status as = HEED_STATUS_INVALID_ARGUMENT)
      : change(with(field, value)),
        status(as),
        words(field + " is " + value.is() + " ... " +
              (bound.rfind("must be", 0) == 0 ? "; it " : "") + bound) {}
  /// Where the message names something else than what is changed.
  Refusal(ChangeOf<AForm> make, std::string said, heed_status as = HEED_STATUS_INVALID_ARGUMENT)
      : change(std::move(make)), status(as), words(std::move(said)) {}

  ChangeOf<AForm> change;
  heed_status status;
  std::string words;
};

template <class AForm>
void unchanged(AForm&) {}

/// Whether an operation has plans.
template <class AForm, class = void>
inline constexpr bool kHasPlans = false;
template <class AForm>
inline constexpr bool kHasPlans<AForm, std::void_t<typename AForm::Plan>> = true;

/// Hands the form in, in both ways that there are, to functions that refuse it: a plan, or where
/// `runs` the run of one, and the one call.
template <class AForm, class Check>
void hand_in(AForm& form, bool runs, const Check& check) {
  const Context context = serial();
  if constexpr (kHasPlans<AForm>) {
    using Api = Functions<AForm>;
    const Graph graph = graph_of(context, form);
    auto* made = untouched<typename Api::Plan>();
    forget_last_error();
    const heed_status status = Api::create(context.get(), graph.get(), form.given_desc, &made);
    const std::unique_ptr<typename Api::Plan, Destroy> plan(status == HEED_STATUS_OK ? made
                                                                                     : nullptr);
    if (!runs || plan == nullptr) {
      check(status);
      if (plan != nullptr) return;  // nor may it run: its tensors may be too small
      CHECK(made == untouched<typename Api::Plan>());
    } else {
      const Workspace workspace(describe(plan).workspace_bytes);
      forget_last_error();
      check(Api::run(plan.get(), form.given_args, workspace.get(), workspace.bytes()));
    }
  }
  check(one_call(context, form));
}

/// On threads too.
template <class Check>
void hand_in(SmallGraph& form, bool, const Check& check) {
  for (const char* const executor : {"serial", heed_executor_name(heed_executor_count() - 1)})
    check(one_call(make_context(nullptr, executor, executor[0] == 's' ? 1 : 2), form));
}

template <class AForm>
void check_accepted(const ChangeOf<AForm>& change) {
  AForm form;
  change(form);
  hand_in(form, true, [](heed_status status) {
    INFO(heed_last_error());
    CHECK(status == HEED_STATUS_OK);
  });
  CHECK_FALSE(form.outputs_untouched());
}

/// Every row changes the problem that `make` makes, which is accepted.
template <class AForm>
void check_refused(const ChangeOf<AForm>& make, const std::vector<Refusal<AForm>>& rows) {
  check_accepted<AForm>(make);
  for (const Refusal<AForm>& row : rows) {
    INFO("the row that says: " << row.words);
    AForm form;
    make(form);
    row.change(form);
    // A plan knows nothing of arguments.
    hand_in(form, row.words.rfind("args.", 0) == 0,
            [&](heed_status status) { check_refusal(status, row.status, row.words); });
    CHECK(form.outputs_untouched());
  }
}

template <class AForm>
void check_refused(const std::vector<Refusal<AForm>>& rows) {
  check_refused<AForm>(unchanged<AForm>, rows);
}

}  // namespace api_test
