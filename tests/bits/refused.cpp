// Calls with something wrong in them, of every operation. What was damaged and is accepted
// nevertheless is planned, but not run where it could reach past the tensors.
#include <cstring>
#include <limits>
#include <memory>

#include "tests/api/forms.hpp"
#include "tests/bits/areas.hpp"
#include "tests/problem/draw.hpp"

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

Value hostile(Case& c, char type) {
  if (type == 's')
    return c.random.pick<const char*>(
        {"\"avx9\"", "\"\"", "\"AVX2\"", "\"0\"", "\"-1\"", "\"1x\"", "\"tbb\""});
  if (type == 'p') {
    const std::int64_t kind = c.random.integer(0, 2);
    return kind == 0 ? "NULL" : kind == 1 ? "given" : "+1";
  }
  if (type == 'f')
    return c.random.pick<const char*>(
        {"-1", "0.5", "-0.0", "5e-324", "1e-310", "1e300", "inf", "-inf", "nan"});
  Draw draw(c.random.bits());
  return draw.one_in(3) ? draw.integer(-2, 10) : draw.hostile();
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
bool damage(Case& c, api_test::Form& form, std::string& line) {
  std::vector<api_test::Member> of_args, others;
  for (const api_test::Member& field : form.fields())
    if (field.type != 'p' || !is_followed(field.name))
      (field.name.rfind("args", 0) == 0 ? of_args : others).push_back(field);
  const bool args = !of_args.empty() && (others.empty() || c.one_in(2));
  const std::vector<api_test::Member>& fields = args ? of_args : others;
  for (std::int64_t n = c.random.integer(1, 2); n > 0; --n) {
    const api_test::Member& field = fields[c.random.bits() % fields.size()];
    const Value value = hostile(c, field.type);
    line += ", " + field.name + " = " + value.text();
    form.set(field.name, value);
  }
  return args;
}

void call(Case& c, const api_test::Operation& of) {
  api_test::Form form(of);
  std::string line = of.name;
  const bool args = damage(c, form, line);
  c.record.describe(line);
  if (of.planned != nullptr) {
    const api_test::Object graph = form.graph_of(c.context);
    void* made = nullptr;
    c.record.add("plan", of.planned->create(c.context.get(), static_cast<heed_graph*>(graph.get()),
                                            form.given("desc"), &made));
    const api_test::Object plan(made, of.planned->destroy);
    if (plan == nullptr || !args) return;
    std::size_t bytes = 0;
    (void)of.planned->workspace(plan.get(), &bytes);
    const api_test::Workspace space(bytes);
    if (bytes > 0 && c.one_in(5)) bytes -= static_cast<std::size_t>(c.random.integer(1, 64));
    c.record.add("run", of.planned->run(plan.get(), form.given("args"),
                                        c.one_in(10) ? nullptr : space.get(), bytes));
  } else {
    // What is accepted has nothing to compute, or just what it had before.
    if (!args)
      for (const api_test::Tensor& tensor : form.tensors()) tensor.point_at(nullptr);
    c.record.add("call", form.call(c.context));
  }
  const std::vector<unsigned char> outputs = form.outputs();
  c.record.add("outputs", std::string(outputs.begin(), outputs.end()));
}

/// Options, or a variable of the environment.
void choose(Case& c, const api_test::Operation& of) {
  api_test::Form form(of);
  std::vector<std::pair<std::string, char>> fields;
  for (const api_test::Member& field : form.fields())
    if (field.type != 'p') fields.emplace_back(field.name, field.type);
  for (const char* const variable : api_test::kVariables) fields.emplace_back(variable, 's');
  const auto& [name, type] = fields[c.random.bits() % fields.size()];
  const Value value = hostile(c, type);
  if (type == 's' && name[0] == 'H') form.apply("nothing chosen");
  form.set(name, value);
  c.record.describe("a context, " + name + " = " + value.text());
  c.record.add("context", form.call(nullptr));
}

}  // namespace

void run_refused(std::uint64_t seed, Contexts& contexts, Record& record) {
  Case c{Random(seed ^ 0xdead), contexts.get(isa_names().back(), {}), record};
  record.begin_run("call");
  const auto& all = api_test::operations();
  const api_test::Operation& chosen = all[seed % all.size()];
  if (chosen.name == "context")
    choose(c, chosen);
  else
    call(c, chosen);
}

}  // namespace heed_test
