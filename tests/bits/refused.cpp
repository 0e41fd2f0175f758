// Calls with something wrong in them, of every operation. What was damaged and is accepted
// nevertheless is planned, but not run where it could reach past the tensors.
#include <cstring>
#include <limits>
#include <memory>

#include "tests/api/operations.hpp"
#include "tests/bits/areas.hpp"
#include "tests/support/random.hpp"

namespace heed_test {
namespace {

using api_test::Value;

/// One call that goes wrong, and where it is told.
struct Case {
  Random random;
  const Context& context;
  Record& record;

  bool one_in(std::int64_t n) { return random.integer(0, n - 1) == 0; }
};

/// Mostly near a power of two of either sign: 2^31, 2^32, 2^40, 2^63 and so on; or small.
std::int64_t hostile_number(Random& random) {
  if (random.integer(0, 2) == 0) return random.integer(-2, 10);
  const std::uint64_t near = (std::uint64_t{1} << random.integer(0, 63)) +
                             static_cast<std::uint64_t>(random.integer(-2, 2));
  return static_cast<std::int64_t>(random.integer(0, 2) == 0 ? ~near + 1 : near);
}

Value hostile(Case& c, char type) {
  if (type == 's') return c.random.pick<const char*>({"avx9", "", "AVX2", "0", "-1", "1x", "tbb"});
  if (type == 'p') {
    const std::int64_t kind = c.random.integer(0, 2);
    return kind == 0 ? api_test::kNull : kind == 1 ? api_test::kGiven : api_test::moved(1);
  }
  if (type == 'f')
    return c.random.pick<double>({-1, 0.5, -0.0, 5e-324, 1e-310, 1e300, kInfinity, -kInfinity,
                                  std::numeric_limits<double>::quiet_NaN()});
  return hostile_number(c.random);
}

/// Pointers that are followed before anything can be refused, or whatever they point at.
bool is_followed(const std::string& name) {
  for (const char* const part : {"p_query", "p_key", "p_value", "p_out", "score_", "attention",
                                 "block", "sequences", "kept", "executor", "allocator"})
    if (name.size() >= std::strlen(part) &&
        name.find(part, name.find_last_of(".:") + 1) != std::string::npos)
      return true;
  return false;
}

/// Overwrites a field or two, of arguments or of everything else; whether of arguments.
template <class AForm>
bool damage(Case& c, AForm& form, std::string& line) {
  std::vector<api_test::Field> of_args, others;
  for (const api_test::Field& field : fields_of(form))
    if (field.type != 'p' || !is_followed(field.name))
      (field.name.rfind("args", 0) == 0 ? of_args : others).push_back(field);
  const bool args = !of_args.empty() && (others.empty() || c.one_in(2));
  const std::vector<api_test::Field>& fields = args ? of_args : others;
  for (std::int64_t n = c.random.integer(1, 2); n > 0; --n) {
    const api_test::Field& field = fields[c.random.bits() % fields.size()];
    const Value value = hostile(c, field.type);
    line += ", " + field.name + " = " + value.is();
    field.write(value);
  }
  return args;
}

template <class AForm>
void call(Case& c, const char* name) {
  // A struct_size may reach past the form.
  struct Padded {
    AForm form;
    unsigned char more[8192] = {};
  };
  const auto padded = std::make_unique<Padded>();
  AForm& form = padded->form;
  std::string line = name;
  const bool args = damage(c, form, line);
  c.record.describe(line);
  if constexpr (api_test::kHasPlans<AForm>) {
    using Api = api_test::Functions<AForm>;
    const Graph graph = graph_of(c.context, form);
    typename Api::Plan* made = nullptr;
    c.record.add("plan", Api::create(c.context.get(), graph.get(), form.given_desc, &made));
    const std::unique_ptr<typename Api::Plan, Destroy> plan(made);
    if (plan == nullptr || !args) return;
    std::size_t bytes = 0;
    (void)Api::workspace(plan.get(), &bytes);
    const api_test::Workspace space(bytes);
    if (bytes > 0 && c.one_in(5)) bytes -= static_cast<std::size_t>(c.random.integer(1, 64));
    c.record.add(
        "run", Api::run(plan.get(), form.given_args, c.one_in(10) ? nullptr : space.get(), bytes));
  } else {
    // What is accepted has nothing to compute, or just what it had before.
    if (!args)
      for (const api_test::Tensor& tensor : tensors_of(form)) tensor.point_at(nullptr);
    c.record.add("call", one_call(c.context, form));
  }
  for (const api_test::Tensor& tensor : tensors_of(form))
    if (tensor.content == api_test::Tensor::kResult)
      c.record.add(tensor.name.c_str(), std::string(static_cast<const char*>(tensor.own->at()),
                                                    sizeof(api_test::Bytes)));
}

/// Options, or a variable of the environment.
void choose(Case& c) {
  api_test::ContextForm form;
  std::string line = "a context";
  std::vector<api_test::Field> fields;
  for (const api_test::Field& field : fields_of(form))
    if (field.type != 'p') fields.push_back(field);
  const api_test::Field& field = fields[c.random.bits() % fields.size()];
  const Value value = hostile(c, field.type);
  field.write(value);
  c.record.describe(line + ", " + field.name + " = " + value.is());
  if (field.name.rfind("HEED_", 0) == 0) choose_nothing(form);
  heed_context* made = nullptr;
  c.record.add("context", heed_context_create(form.given, &made));
  Context(made).reset();
}

}  // namespace

void run_refused(std::uint64_t seed, Contexts& contexts, Record& record) {
  constexpr struct {
    void (*run)(Case&, const char*);
    const char* name;
  } kCases[] = {{call<api_test::Form>, "attention"},
                {call<api_test::BackwardForm>, "gradients"},
                {call<api_test::BlockForm>, "a block"},
                {call<api_test::BlockBackwardForm>, "gradients of a block"},
                {call<api_test::SmallGraph>, "a graph"},
                {call<api_test::GraphForm>, "attention over a graph"},
                {call<api_test::GraphBackwardForm>, "gradients over a graph"},
                {call<api_test::MergeForm>, "a merge"},
                {call<api_test::RotateForm>, "a rotation"},
                {call<api_test::MatrixForm>, "a matrix"},
                {call<api_test::ProjectForm>, "a projection"},
                {call<api_test::CacheForm>, "a cache"},
                {[](Case& c, const char*) { choose(c); }, "a context"}};
  Case c{Random(seed ^ 0xdead), contexts.get(isa_names().back(), {}), record};
  record.begin_run("call");
  const auto& chosen = kCases[seed % std::size(kCases)];
  chosen.run(c, chosen.name);
}

}  // namespace heed_test
