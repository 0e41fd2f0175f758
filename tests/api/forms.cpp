#include "tests/api/forms.hpp"

#include <algorithm>

namespace api_test {

using heed_test::kByte;

/// Of tensors that are not placed.
constexpr std::size_t kOwnBytes = 8192;

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    if (to > from) parts.push_back(text.substr(from, to - from));
    from = to + separator.size();
  }
  return parts;
}

namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

/// The names of fields before "=".
std::vector<std::string> names_of(std::string fields) {
  for (std::size_t open = 0; (open = fields.find('(')) != std::string::npos;) {
    const std::size_t begin = fields.rfind(' ', open) + 1;  // 0 where nothing stands before
    const std::size_t close = fields.find(')', open);
    const std::size_t end = std::min(fields.find(' ', close), fields.size());
    std::string all;
    for (const std::string& one : split(fields.substr(open + 1, close - open - 1), " "))
      all += (all.empty() ? "" : " ") + fields.substr(begin, open - begin) + one +
             fields.substr(close + 1, end - close - 1);
    fields.replace(begin, end - begin, all);
  }
  std::vector<std::string> names;
  bool goes_on = false;  // "desc.attention: desc.batch" is one name
  for (const std::string& word : split(fields, " ")) {
    if (goes_on)
      names.back() += ' ' + word;
    else
      names.push_back(word);
    goes_on = word.back() == ':';
  }
  return names;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& table) {
  std::vector<std::string> lines;
  std::size_t indented = std::string::npos;
  for (const std::string& line : split(table, "\n")) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    indented = std::min(indented, begin);
    if (begin > indented)
      lines.back() += ' ' + trimmed(line);
    else
      lines.push_back(trimmed(line));
  }
  return lines;
}

// ---- Tensors -----------------------------------------------------------------------------------

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements) *
         static_cast<std::size_t>(heed_test::format_of(dtype).bytes);
}

bool Tensor::is_one_of(const std::string& names) const {
  const std::string last = name.substr(name.find_last_of(".:") + 1);
  return (' ' + names + ' ').find(' ' + last + ' ') != std::string::npos;
}

void Tensor::set(std::int64_t index, const Value& value) const {
  const bool whole = content == kGiven;
  heed_test::store_bits(
      dtype, memory(), index,
      whole ? static_cast<std::uint64_t>(value.whole()) : heed_test::encode(dtype, value.real()));
}

void fill(const Tensor& tensor, void* memory, std::uint32_t seed) {
  std::int64_t i = 0;
  for (const float x : numbers(static_cast<std::size_t>(tensor.elements), seed))
    heed_test::store_bits(tensor.dtype, memory, i++,
                          heed_test::encode(tensor.dtype, tensor.dtype == kByte ? x > -1 : x));
}

std::array<std::int64_t*, 4> Tensor::strides() const {
  if (kind == 'L') {
    auto* const l = static_cast<heed_layout*>(at);
    return {&l->stride_batch, &l->stride_head, &l->stride_row, &l->stride_feature};
  }
  if (kind == 'S') {
    auto* const l = static_cast<heed_score_layout*>(at);
    return {&l->stride_batch, &l->stride_head, &l->stride_row, &l->stride_key};
  }
  auto* const l = static_cast<heed_matrix_layout*>(at);
  return {&l->stride_matrix, nullptr, &l->stride_in, &l->stride_out};
}

// ---- Structs -----------------------------------------------------------------------------------

Form::Form(const Operation& described, const std::string& changes) : of(described) {
  constexpr std::size_t kBehind = 8192;  // zeros: a struct_size may reach past the struct
  for (const StructOf& one : of.structs) {
    Struct& made = structs_.emplace_back();
    static_cast<StructOf&>(made) = one;
    made.memory = std::shared_ptr<void>(std::calloc(1, size_of(one.schema) + kBehind), std::free);
    if (one.is_of_api()) *static_cast<std::uint32_t*>(made.memory.get()) = size_of(one.schema);
    made.given = made.memory.get();
    const Member* const pointer = find(one.called);
    made.pointer =
        pointer == nullptr ? &made.given : reinterpret_cast<const void**>(address(*pointer));
    *made.pointer = made.given;
  }
  for (const Tensor& tensor : tensors())
    if (tensor.content != Tensor::kGiven && !tensor.is_one_of(of.lacks))
      tensor.point_at(own(tensor.name));
  apply("begin");  // sizes say how many elements there are
  for (const Tensor& tensor : tensors()) {
    if (tensor.dtype == kByte) std::memset(own(tensor.name), 1, kOwnBytes);
    if (tensor.content != Tensor::kResult) continue;
    results_.push_back(tensor.name);
    std::memset(own(tensor.name), kPattern, kOwnBytes);
  }
  if (of.start != nullptr) of.start(*this);
  apply(changes);
}

Form::Struct& Form::struct_of(const std::string& called) {
  for (Struct& one : structs_)
    if (one.called == called) return one;
  throw std::invalid_argument(of.name + " has no struct " + called);
}

bool Form::has(const std::string& called) const {
  return std::any_of(structs_.begin(), structs_.end(),
                     [&](const Struct& one) { return one.called == called; });
}

const Member* Form::find(const std::string& name) const {
  const auto found = of.places.find(name);
  return found == of.places.end() ? nullptr : &of.members[found->second];
}

std::vector<Member> Form::fields() {
  std::vector<Member> fields;
  const std::vector<Tensor> all = tensors();
  for (const Member& member : of.members) {
    const bool inside =
        member.layout.empty() || std::any_of(all.begin(), all.end(), [&](const Tensor& tensor) {
          return tensor.layout == member.layout && tensor.memory() != nullptr;
        });
    const bool plain = inside_of(member.type) == nullptr;
    if (plain && inside && structs_[member.of].part != Part::kTests) fields.push_back(member);
  }
  return fields;
}

// ---- Changes -----------------------------------------------------------------------------------

void Form::apply(const std::string& changes) {
  for (const std::string& change : split(changes, ", ")) {
    const std::size_t equals = change.find(" = ");
    if (equals == std::string::npos) {
      const auto named = of.changes.find(change);
      if (named == of.changes.end()) throw std::invalid_argument("there is no change " + change);
      apply(named->second);
      continue;
    }
    for (const std::string& name : names_of(change.substr(0, equals)))
      set(name, change.substr(equals + 3));
  }
}

void Form::set(const std::string& given_name, const Value& value) {
  std::string name = given_name;
  for (std::size_t arrow = name.find("->"); arrow != std::string::npos; arrow = name.find("->"))
    name.replace(arrow, 2, ": " + name.substr(0, 4) + ".");
  if (name.rfind("HEED_", 0) == 0) {
    setenv(name.c_str(), value.quoted().c_str(), 1);
    return;
  }
  const Member* const member = find(name);
  if (member == nullptr && has(name)) {
    *struct_of(name).pointer = nullptr;
  } else if (member == nullptr) {
    const std::size_t bracket = name.rfind('[');
    if (bracket == std::string::npos) throw std::invalid_argument("there is no field " + name);
    tensor(name.substr(0, bracket)).set(std::stoll(name.substr(bracket + 1)), value);
  } else if (value.text()[0] == '{') {
    set_list(name, value);
  } else if (inside_of(member->type) != nullptr) {
    set_strides(*member, value);
  } else if (member->type == 'p') {
    set_pointer(*member, value);
  } else if (member->type == 's') {
    const char* const text =
        value.text() == "NULL" ? nullptr : texts_.emplace_back(value.quoted()).c_str();
    std::memcpy(address(*member), &text, sizeof text);
  } else if (member->type == 'f') {
    const double real = value.real();
    std::memcpy(address(*member), &real, sizeof real);
  } else {
    const std::int64_t whole = value.whole();
    std::memcpy(address(*member), &whole, member->type == '4' ? 4 : 8);
  }
}

void Form::set_pointer(const Member& member, const Value& value) {
  alignas(64) static unsigned char some[8192];
  const void* pointer = nullptr;
  std::memcpy(&pointer, address(member), sizeof pointer);
  if (value.text() == "NULL") pointer = nullptr;
  if (value.text() == "given") pointer = some;
  if (value.text() == "own")
    pointer = has(member.name) ? struct_of(member.name).memory.get() : own(member.name);
  if (value.is_moved()) pointer = static_cast<const char*>(pointer) + value.whole();
  const std::vector<std::string> place = split(value.text(), "+");
  if (own_.count(place[0]) > 0)
    pointer = own(place[0]) + (place.size() > 1 ? std::stoul(place[1]) : 0);
  std::memcpy(address(member), &pointer, sizeof pointer);
  if (value.text() != "function") return;
  void (*const score)(void*, const heed_score_tile*) = [](void*, const heed_score_tile*) {};
  void (*const gradient)(void*, const heed_score_tile*, void*) = [](void*, const heed_score_tile*,
                                                                    void*) {};
  std::memcpy(address(member),
              member.ends_with("gradient") ? static_cast<const void*>(&gradient) : &score,
              sizeof score);
}

void Form::set_list(const std::string& name, const Value& value) {
  set(name, "own");
  const Tensor list = tensor(name);
  std::int64_t i = 0;
  for (const std::string& number : split(value.quoted(), " ")) list.set(i++, number);
}

void Form::set_strides(const Member& member, const Value& value) {
  auto* stride = reinterpret_cast<std::int64_t*>(address(member));
  stride += member.type == 'S' ? 5 : 1;  // past the type, and sizes
  for (const std::string& number : split(value.quoted(), " ")) *stride++ = Value(number).whole();
}

// ---- Calls -------------------------------------------------------------------------------------

std::vector<Tensor> Form::tensors() {
  std::vector<Tensor> all;
  of.tensors(*this, all);
  return all;
}

Tensor Form::tensor(const std::string& name) {
  for (const std::vector<Tensor>& all : {tensors(), edges_of(*this)})
    for (const Tensor& tensor : all)
      if (tensor.name == name) return tensor;
  throw std::invalid_argument("there is no tensor " + name);
}

std::vector<Tensor> Form::given_tensors() {
  std::vector<Tensor> all;
  for (Tensor tensor : tensors()) {
    if (tensor.memory() == nullptr) continue;
    const std::string within = ": args.";
    while (tensor.name.find(within) != std::string::npos)
      tensor.name.replace(tensor.name.find(within), within.size(), "->");
    all.push_back(tensor);
  }
  return all;
}

unsigned char* Form::own(const std::string& name) {
  const auto [place, is_new] = own_.try_emplace(name, kByte, kOwnBytes, 0);
  if (is_new) std::memset(place->second.data(), 0, kOwnBytes);
  return place->second.data();
}

void Form::place(const Tensor& tensor) {
  if (tensor.memory() == nullptr) return;
  heed_test::Memory exact(kByte, tensor.bytes(), 0, heed_test::FencedTensors::fence());
  if (tensor.content == Tensor::kGiven)
    std::memcpy(exact.data(), tensor.memory(), tensor.bytes());
  else if (tensor.content == Tensor::kResult)
    std::memset(exact.data(), kPattern, tensor.bytes());
  else
    fill(tensor, exact.data(), ++placed_);
  tensor.point_at(exact.data());
  own_.insert_or_assign(tensor.name, std::move(exact));
}

void Form::place(bool prepared) {
  for (const std::vector<Tensor>& all : {tensors(), edges_of(*this)})
    for (const Tensor& tensor : all) place(tensor);
  for (const Tensor& tensor : tensors()) {
    if (!prepared || tensor.prepared == nullptr) continue;
    std::string bias = tensor.name;
    bias.replace(bias.rfind("w_"), 2, "b_");
    const Tensor of_bias = this->tensor(bias);
    to_prepare_.push_back({tensor, of_bias, tensor.memory(), of_bias.memory()});
    tensor.point_at(nullptr);
    of_bias.point_at(nullptr);
  }
  matrices.resize(to_prepare_.size());
}

std::vector<unsigned char> Form::outputs() const {
  std::vector<unsigned char> all;
  for (const std::string& name : results_) {
    const heed_test::Memory& memory = own_.at(name);
    all.insert(all.end(), memory.data(), memory.data() + memory.size());
  }
  return all;
}

bool Form::untouched() const {
  const std::vector<unsigned char> all = outputs();
  return !made &&
         std::all_of(all.begin(), all.end(), [](unsigned char byte) { return byte == kPattern; });
}

void Form::forget_outputs() {
  made = false;
  for (const std::string& name : results_) {
    heed_test::Memory& memory = own_.at(name);
    std::memset(memory.data(), kPattern, memory.size());
  }
}

heed_status Form::prepare(const Context& context) {
  if (has("prepared")) {
    const auto& sizes = at<PreparedSizes>("prepared");
    weights = prepared(context, sizes.in, sizes.out, static_cast<std::uint32_t>(sizes.arithmetic));
  }
  heed_status status = make_graph(context, graph);
  for (std::size_t i = 0; i < to_prepare_.size() && status == HEED_STATUS_OK; ++i)
    status = prepare(to_prepare_[i], context, matrices[i]);
  hand_in_matrices();
  return status;
}

heed_status Form::prepare(const Matrix& m, const Context& context, Object& made_matrix) const {
  const auto copied = [](const void* numbers, const Tensor& tensor) {
    heed_test::Memory copy(kByte, tensor.bytes(), 0, heed_test::FencedTensors::fence());
    std::memcpy(copy.data(), numbers, tensor.bytes());
    return copy;
  };
  const heed_test::Memory matrix = copied(m.numbers, m.matrix);
  const heed_test::Memory bias = copied(m.bias_numbers, m.bias);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = m.matrix.axes[2];
  desc.out = m.matrix.axes[3];
  desc.layout = *static_cast<const heed_matrix_layout*>(m.matrix.at);
  Weights prepared_matrix;
  const heed_status status = make_object(prepared_matrix, [&](heed_weights** result) {
    return heed_weights_create(context.get(), &desc, matrix.data(), bias.data(), result);
  });
  made_matrix = std::move(prepared_matrix);
  return status;
}

heed_status Form::make_graph(const Context& context, Object& over) {
  if (!has("graph")) return HEED_STATUS_OK;
  Graph made_graph;
  const heed_status status = make_object(made_graph, [&](heed_graph** result) {
    return heed_graph_create(context.get(), &at<heed_graph_desc>("graph"), result);
  });
  over = std::move(made_graph);
  return status;
}

Object Form::graph_of(const Context& context) {
  Object over = graph;
  if (over == nullptr) heed_test::require_ok(make_graph(context, over));
  return over;
}

void Form::share(const Form& other) {
  graph = other.graph;
  matrices = other.matrices;
  hand_in_matrices();
}

void Form::hand_in_matrices() {
  for (std::size_t i = 0; i < to_prepare_.size(); ++i)
    *to_prepare_[i].matrix.prepared = static_cast<heed_weights*>(matrices[i].get());
}

heed_status Form::create(const Context& context, Object& plan) {
  std::vector<std::pair<const void**, const void*>> before;
  std::vector<std::vector<unsigned char>> copies;
  for (auto one = structs_.rbegin(); one != structs_.rend(); ++one) {  // from the inside
    if (one->called.rfind("desc", 0) != 0 || *one->pointer == nullptr) continue;
    before.emplace_back(one->pointer, *one->pointer);
    const auto* const bytes = static_cast<const unsigned char*>(*one->pointer);
    copies.emplace_back(bytes, bytes + size_of(one->schema));
    *one->pointer = copies.back().data();
  }
  plan.reset();
  void* made_plan = api_test::untouched<void>();
  const Object over = graph_of(context);
  forget_last_error();
  heed_status status = of.planned->create(context.get(), static_cast<heed_graph*>(over.get()),
                                          given("desc"), &made_plan);
  for (const auto& [pointer, address] : before) *pointer = address;
  for (std::vector<unsigned char>& copy : copies) std::fill(copy.begin(), copy.end(), 0xff);
  if (status == HEED_STATUS_OK)
    plan = Object(made_plan, of.planned->destroy);
  else if (made_plan != api_test::untouched<void>())
    status = HEED_STATUS_INTERNAL;
  return status;
}

heed_status Form::run(const Object& plan) {
  const Workspace workspace(describe(plan).workspace_bytes);
  forget_last_error();
  const heed_status status = run(plan, workspace.get(), workspace.bytes());
  return workspace.intact() ? status : HEED_STATUS_INTERNAL;
}

heed_status Form::run(const Object& plan, void* workspace, std::size_t bytes) {
  return of.planned->run(plan.get(), given("args"), workspace, bytes);
}

}  // namespace api_test
