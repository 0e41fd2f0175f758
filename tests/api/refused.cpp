#include "tests/api/refused.hpp"

#include <algorithm>
#include <cctype>

namespace api_test {
namespace {

/// The message of an accepted call that has nothing to compute.
constexpr const char* kNothing = "ok, nothing to do";

/// Takes "(status) " off the beginning of a message.
heed_status status_of(std::string& message) {
  const std::pair<const char*, heed_status> words[] = {
      {"(unsupported) ", HEED_STATUS_UNSUPPORTED},
      {"(environment) ", HEED_STATUS_INVALID_ENVIRONMENT},
      {"(out of memory) ", HEED_STATUS_OUT_OF_MEMORY},
      {"(io) ", HEED_STATUS_IO}};
  for (const auto& [word, status] : words) {
    if (message.rfind(word, 0) != 0) continue;
    message.erase(0, std::strlen(word));
    return status;
  }
  const bool accepted = message == "ok" || message == kNothing;
  return accepted ? HEED_STATUS_OK : HEED_STATUS_INVALID_ARGUMENT;
}

/// The type of a field, as values are printed; an element of a tensor is a number.
char type_of(const Operation& of, std::string name) {
  for (std::size_t arrow = name.find("->"); arrow != std::string::npos; arrow = name.find("->"))
    name.replace(arrow, 2, ": " + name.substr(0, 4) + ".");
  if (name.rfind("HEED_", 0) == 0) return 's';
  const auto found = of.places.find(name);
  return found == of.places.end() ? '8' : of.members[found->second].type;
}

/// Adds the rows that a line stands for.
void add_rows(const Operation& of, const std::string& line, std::vector<Refusal>& rows) {
  const std::size_t arrow = line.find(" => ");
  if (arrow == std::string::npos) throw std::invalid_argument("a row without a message: " + line);
  std::string message = line.substr(arrow + 4);
  if (message.size() > 4 && message.substr(message.size() - 4) == " ...") message += ' ';
  const heed_status status = status_of(message);
  const std::string changes = line.substr(0, arrow);
  const std::size_t comma = changes.rfind(", ");
  const std::string before = comma == std::string::npos ? "" : changes.substr(0, comma + 2);
  const std::string last = changes.substr(before.size());
  const std::size_t equals = last.find(" = ");
  if (equals == std::string::npos) {
    rows.push_back({changes, status, message});
    return;
  }
  const bool must = message.rfind("must ", 0) == 0;
  const bool goes_on = must || message[0] == ';' || message[0] == ',' ||
                       message.rfind("with ", 0) == 0 || message.rfind("and ", 0) == 0;
  for (const std::string& field : split(last.substr(0, equals), " | "))
    for (const std::string& value : split(last.substr(equals + 3), " | ")) {
      const std::string is = Value(value).is(type_of(of, field));
      rows.push_back({before + field + " = " + value, status,
                      !goes_on ? message
                               : field + " is " + is + (is == "0x" ? " ... " : "") +
                                     (must                       ? "; it "
                                      : std::ispunct(message[0]) ? ""
                                                                 : " ") +
                                     message});
    }
}

void hand_in(Form& form, bool runs, const Context& context,
             const std::function<void(heed_status)>& check) {
  if (form.of.planned != nullptr) {
    Object plan;
    const heed_status status = form.create(context, plan);
    const bool planned = status == HEED_STATUS_OK;
    check(planned && runs ? form.run(plan) : status);
    if (planned && !runs) return;  // nor may it run: its tensors may be too small
  }
  check(form.call(context));
}

}  // namespace

void change(Form& form, const std::string& changes, const Changes& more) {
  for (const std::string& one : split(changes, ", ")) {
    const auto found = more.find(one);
    if (found == more.end())
      form.apply(one);
    else
      found->second(form);
  }
}

void hand_in(Form& form, bool runs, const std::function<void(heed_status)>& check) {
  if (form.of.name == "context") return check(form.call(nullptr));
  std::vector<const char*> executors = {"serial"};
  if (form.of.name == "graph") executors.push_back(heed_executor_name(heed_executor_count() - 1));
  for (const char* const executor : executors) {
    CountingAllocator memory;
    heed_context_options options = memory.options();
    options.executor_name = executor;
    options.threads = executor[0] == 's' ? 1 : 2;
    hand_in(form, runs, make_context(&options), check);
    CHECK(memory.live() == 0);
  }
}

namespace {

void check_accepted(const Operation& of, const std::string& changes, const Changes& more,
                    bool writes) {
  CAPTURE(of.name, changes);
  Form form(of);
  change(form, changes, more);
  hand_in(form, true, [](heed_status status) {
    INFO(heed_last_error());
    CHECK(status == HEED_STATUS_OK);
  });
  CHECK(form.untouched() != writes);
}

/// Every row changes the problem that `make` makes, which is accepted.
void check_rows(const Operation& of, const std::string& make, const std::vector<Refusal>& rows,
                const Changes& more) {
  check_accepted(of, make, more, true);
  const std::string base = make.empty() ? "" : make + ", ";
  for (const Refusal& row : rows) {
    if (row.status == HEED_STATUS_OK) {
      check_accepted(of, base + row.change, more, row.message != kNothing);
      continue;
    }
    CAPTURE(of.name, make, row.change);
    Form form(of);
    change(form, base + row.change, more);
    // A plan knows nothing of arguments.
    hand_in(form, row.message.rfind("args.", 0) == 0, [&](heed_status status) {
      const std::string message = heed_last_error();
      CAPTURE(message, row.message);
      CHECK(std::string(heed_status_name(status)) == heed_status_name(row.status));
      CHECK(says(message, row.message, true));
    });
    CHECK(form.untouched());
  }
}

}  // namespace

void each_row(const Operation& of, const std::string& table,
              const std::function<void(const std::string& make, const Refusal& row)>& function) {
  std::vector<std::string> makes = {""};
  std::vector<Refusal> rows;
  const auto end_block = [&] {
    for (const std::string& make : makes)
      for (const Refusal& row : rows) function(make, row);
    rows.clear();
  };
  for (const std::string& line : lines_of(table)) {
    if (line.rfind("with ", 0) != 0) {
      add_rows(of, line, rows);
      continue;
    }
    end_block();
    makes = split(line.substr(5, line.size() - 6), " | ");
    std::replace(makes.begin(), makes.end(), std::string("as it is"), std::string());
  }
  end_block();
}

void check_accepted(const char* of, const std::string& changes, const Changes& more) {
  check_accepted(operation(of), changes, more, true);
}

void check_refused(const char* of, const std::string& table, const Changes& more) {
  const Operation& described = operation(of);
  std::string make;
  std::vector<Refusal> rows;
  each_row(described, table, [&](const std::string& other, const Refusal& row) {
    if (other != make) {
      check_rows(described, make, rows, more);
      rows.clear();
    }
    make = other;
    rows.push_back(row);
  });
  check_rows(described, make, rows, more);
}

}  // namespace api_test
