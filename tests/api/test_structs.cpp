// struct_size: how programs and libraries of different versions meet, for every struct of the API.
#include <algorithm>

#include "tests/api/caches.hpp"
#include "tests/api/forms.hpp"

using namespace api_test;

namespace {

using StructBytes = std::vector<unsigned char>;

void set_size(StructBytes& given, std::uint32_t size) {
  std::memcpy(given.data(), &size, sizeof size);
}

/// Where the members of a struct end.
std::vector<std::uint32_t> ends_of(Schema schema) {
  std::vector<std::uint32_t> ends;
  each_member(schema, [&](const std::string&, char, std::uint32_t end) { ends.push_back(end); });
  ends.erase(ends.begin(), ends.begin() + 2);  // struct_size alone is no struct
  ends.push_back(size_of(schema));
  return ends;
}

/// A struct that a call takes or fills.
struct Given {
  std::string called;  ///< in messages
  Schema schema;
  StructBytes good;
  std::function<heed_status(void*)> call;
  std::function<StructBytes()> outputs = nullptr;
};

/// Calls check(size, words) with the words of a refusal, none if it is accepted, for every size up
/// to the struct's own and for some that are absurd. Those that end where no field does are
/// refused, with the nearest that do.
template <class Check>
void each_size(const Given& s, Check check) {
  const std::vector<std::uint32_t> ends = ends_of(s.schema);
  REQUIRE(ends.back() == s.good.size());
  for (const std::uint32_t size : {0U, 1U, 4U, 7U, 4097U, 0x7fffffffU, 0xffffffffU})
    check(size, std::string("initialise the struct with its _INIT macro"));
  auto next = ends.begin();
  for (std::uint32_t size = ends.front(); size <= ends.back(); ++size) {
    if (size > *next) ++next;
    check(size, size == *next ? std::string()
                              : "the nearest where one ends are " + std::to_string(next[-1]) +
                                    " and " + std::to_string(*next));
  }
}

void check_size_refused(const Given& s, heed_status status, std::uint32_t size,
                        const std::string& words) {
  check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                s.called + ".struct_size is " + std::to_string(size) + " ... " + words);
}

/// As a program built against a later header would have it: 16 bytes more.
StructBytes longer(const Given& s, unsigned char last) {
  StructBytes bytes = s.good;
  bytes.resize(bytes.size() + 16, 0);
  bytes.back() = last;
  set_size(bytes, static_cast<std::uint32_t>(bytes.size()));
  return bytes;
}

/// A shorter struct is the whole one with defaults for what it lacks, whatever lies behind it.
void check_taken(const Given& s) {
  CAPTURE(s.called);
  each_size(s, [&](std::uint32_t size, const std::string& refused) {
    CAPTURE(size);
    StructBytes shorter = s.good;
    set_size(shorter, size);
    if (!refused.empty()) {
      check_size_refused(s, s.call(shorter.data()), size, refused);
      return;
    }
    StructBytes whole = s.good;
    std::fill(shorter.begin() + size, shorter.end(), 0xee);
    std::fill(whole.begin() + size, whole.end(), 0);
    const heed_status want = s.call(whole.data());
    const StructBytes outputs = s.outputs();
    const std::string message = want == HEED_STATUS_OK ? "" : heed_last_error();
    CHECK(message.find("struct_size") == std::string::npos);
    check_refusal(s.call(shorter.data()), want, message);
    CHECK((s.outputs() == outputs));
  });
  const heed_status quiet = s.call(longer(s, 0).data());
  INFO(heed_last_error());
  CHECK(quiet == HEED_STATUS_OK);
  StructBytes asks = longer(s, 1);
  const std::string size = std::to_string(asks.size());
  const std::string byte = std::to_string(asks.size() - 1);
  const std::string bound = std::to_string(s.good.size());
  check_refusal(s.call(asks.data()), HEED_STATUS_UNSUPPORTED,
                s.called + ".struct_size is " + size + " and byte " + byte +
                    " is not 0; this library knows " + bound + " bytes");
}

/// A struct is filled as far as both sides know it: a longer one ends in zeros, nothing is written
/// past the end of a shorter one or into one that is refused.
template <class Info, class Call>
void check_filled(Schema schema, const Info& init, const Call& call) {
  CAPTURE(schema);
  const auto* const begin = reinterpret_cast<const unsigned char*>(&init);
  const Given s = {"info", schema, {begin, begin + sizeof init}, [&](void* info) {
                     forget_last_error();
                     return call(static_cast<Info*>(info));
                   }};
  StructBytes known = s.good;
  REQUIRE(s.call(known.data()) == HEED_STATUS_OK);
  each_size(s, [&](std::uint32_t size, const std::string& refused) {
    CAPTURE(size);
    StructBytes info(s.good.size(), 0xee);
    set_size(info, size);
    StructBytes want = info;
    if (!refused.empty())
      check_size_refused(s, s.call(info.data()), size, refused);
    else
      CHECK(s.call(info.data()) == HEED_STATUS_OK);
    if (refused.empty()) std::copy(known.begin() + 4, known.begin() + size, want.begin() + 4);
    CHECK(info == want);
  });
  StructBytes big = longer(s, 0xee);
  StructBytes want = longer(s, 0);
  std::copy(known.begin() + 4, known.end(), want.begin() + 4);
  CHECK(s.call(big.data()) == HEED_STATUS_OK);
  CHECK(big == want);
}

}  // namespace

TEST_CASE("struct_size of every struct of an operation", "[struct_size]") {
  const Context context = serial();
  for (const Operation& of : operations()) {
    CAPTURE(of.name);
    Form form(of);
    for (Form::Struct& one : form.structs()) {
      if (one.part == Part::kTests || !one.is_of_api()) continue;
      const void* const own = *one.pointer == nullptr ? one.memory.get() : *one.pointer;
      const auto* const bytes = static_cast<const unsigned char*>(own);
      const auto call = [&](void* taken) {
        const void* const before = *one.pointer;
        *one.pointer = taken;
        if (one.called == "options.executor") form.apply("options.executor_name = NULL");
        form.forget_outputs();
        const heed_status status = form.call(context);
        CHECK((status == HEED_STATUS_OK || form.untouched()));
        if (one.called == "options.executor") form.apply("options.executor_name = \"serial\"");
        *one.pointer = before;
        return status;
      };
      const auto outputs = [&] { return form.outputs(); };
      check_taken({one.called, one.schema, {bytes, bytes + size_of(one.schema)}, call, outputs});
    }
  }
}

TEST_CASE("struct_size of what the library fills", "[struct_size]") {
  const Context context = serial();
  Form of_graph("graph attention"), of_block("block");
  const auto graph =
      heed_test::create<heed_graph>(context.get(), &of_graph.at<heed_graph_desc>("graph"));
  const auto check = [](Schema schema, const auto& object) {
    using Of = heed_test::Functions<typename std::decay_t<decltype(object)>::element_type>;
    const auto init = heed_test::sized<typename Of::Info>();
    check_filled(schema, init, [&](auto* info) { return Of::describe(object.get(), info); });
  };
  check_filled("struct_size/4 usable/4 name/p lanes/4 panel/4", heed_isa_info(HEED_ISA_INFO_INIT),
               [](heed_isa_info* info) { return heed_isa_get(0, info); });
  check(
      "struct_size/4 threads/4 isa/p executor/p l1_bytes l2_bytes product/p check/4 precision/4 "
      "cpu/p tuning_file/p",
      context);
  check(
      "struct_size/4 threads/4 isa/p executor/p tile_q/4 tile_kv/4 tasks workspace_bytes flops/f "
      "strategy/p tuning_line/4 precision/4",
      make_plan(context, small_desc()));
  check(
      "struct_size/4 threads/4 isa/p executor/p product/p workspace_bytes projection_flops/f "
      "attention_flops/f kept_bytes precision/4 reserved/4",
      make_plan(context, of_block.at<heed_multihead_desc>("desc")));
  check("struct_size/4 arithmetic/4 in out bytes", prepared(context, 3, 4));
  check("struct_size/4 reverse/4 nodes edges edges_given isolated most bytes source_nodes", graph);
  check("struct_size/4 dtype/4 pages pages_used pages_shared page_rows sequences bytes page_bytes",
        make_cache(context, two_layers()));
  check("struct_size/4 threads/4 isa/p executor/p tasks workspace_bytes gathered_bytes/f",
        make_plan(context, graph, of_graph.at<heed_graph_attention_desc>("desc")));
}
