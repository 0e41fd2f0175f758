#include "tests/api/forms.hpp"

#include <algorithm>

namespace api_test {

using heed_test::kByte;

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
  for (const bool lists : {false, true}) {  // sizes say how many elements there are
    if (lists) apply("begin");
    for (const Tensor& tensor : tensors()) {
      if (lists) {
        const bool mask = tensor.dtype == kByte;
        *tensor.own =
            tensor.content == Tensor::kGiven
                ? *tensor.own
                : Bytes(tensor.content == Tensor::kResult ? kPattern
                                                          : static_cast<unsigned char>(mask));
      } else if (tensor.content != Tensor::kGiven && !tensor.is_one_of(of.lacks)) {
        tensor.point_at(tensor.own->at());
      }
    }
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
    pointer = has(member.name) ? struct_of(member.name).memory.get() : own(member.name).at();
  if (value.is_moved()) pointer = static_cast<const char*>(pointer) + value.whole();
  const std::vector<std::string> place = split(value.text(), "+");
  if (own_.count(place[0]) > 0)
    pointer = own(place[0]).at(place.size() > 1 ? std::stoul(place[1]) : 0);
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

std::vector<Bytes> Form::outputs() {
  std::vector<Bytes> all;
  for (const Tensor& tensor : tensors())
    if (tensor.content == Tensor::kResult) all.push_back(*tensor.own);
  return all;
}

bool Form::untouched() {
  const std::vector<Bytes> all = outputs();
  return !made && std::all_of(all.begin(), all.end(),
                              [](const Bytes& bytes) { return bytes.all_are(kPattern); });
}

void Form::forget_outputs() {
  made = false;
  for (const Tensor& tensor : tensors())
    if (tensor.content == Tensor::kResult) *tensor.own = Bytes(kPattern);
}

void Form::prepare(const Context& context) {
  const auto& sizes = at<PreparedSizes>("prepared");
  weights = prepared(context, sizes.in, sizes.out, static_cast<std::uint32_t>(sizes.arithmetic));
}

Graph Form::graph(const Context& context) {
  if (!has("graph")) return nullptr;
  return heed_test::create<heed_graph>(context.get(), &at<heed_graph_desc>("graph"));
}

}  // namespace api_test
