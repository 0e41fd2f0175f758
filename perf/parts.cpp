#include "perf/parts.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "api/heed.h"

namespace heed::perf {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;

}  // namespace

Parts::Parts(const Grammar& grammar, const std::string& name) : grammar_(grammar), name_(name) {
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '_');) add(part);
  for (const auto& choices : grammar.exclusive)
    for (const char* const a : choices)
      for (const char* const b : choices)
        if (a != b && has(a) && has(b)) reject(std::string(a) + " excludes " + b);
}

void Parts::reject(const std::string& why) const {
  throw std::invalid_argument("shape \"" + name_ + "\": " + why +
                              "; expected parts, in any order:\n  " + grammar_.text);
}

std::int64_t Parts::number(const std::string& letters, std::int64_t otherwise) const {
  const auto found = numbers_.find(letters);
  return found == numbers_.end() ? otherwise : found->second;
}

template <class Wanted>
std::string Parts::joined(Wanted&& wanted) const {
  std::string name;
  for (const auto& [letters, part] : order_)
    if (wanted(letters)) name += (name.empty() ? "" : "_") + part;
  return name;
}

std::string Parts::sizes() const {
  return joined([this](const std::string& letters) { return grammar_.sizes.count(letters) != 0; });
}

std::string Parts::without(const std::set<std::string>& left_out) const {
  return joined([&](const std::string& letters) { return left_out.count(letters) == 0; });
}

std::uint32_t Parts::type() const {
  return has("bf16")  ? HEED_DTYPE_BF16
         : has("f16") ? HEED_DTYPE_F16
         : has("f64") ? HEED_DTYPE_F64
                      : HEED_DTYPE_F32;
}

std::uint32_t Parts::key_type() const {
  if (has("i8")) return HEED_DTYPE_I8;
  return has("f8") ? std::uint32_t{HEED_DTYPE_F8_E4M3} : type();
}

void Parts::add(const std::string& part) {
  if (grammar_.words.count(part) != 0) {
    if (!words_.insert(part).second) reject(part + " is given twice");
    order_.emplace_back(part, part);
    return;
  }
  const std::size_t digits = std::min(part.find_first_of("0123456789"), part.size());
  const std::string letters = part.substr(0, digits);
  if (grammar_.sizes.count(letters) == 0 && grammar_.amounts.count(letters) == 0)
    reject("\"" + part + "\" is not understood");
  const std::int64_t least = letters == "left" || letters == "right" ? 0 : 1;
  const std::int64_t number = parse_number(part, part.substr(digits), least);
  if (!numbers_.emplace(letters, number).second) reject(letters + " is given twice");
  order_.emplace_back(letters, part);
}

std::int64_t Parts::parse_number(const std::string& part, const std::string& digits,
                                 std::int64_t least) const {
  std::int64_t number = digits.empty() ? -1 : 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') reject("\"" + part + "\" is not letters and a number");
    number = std::min(number * 10 + (digit - '0'), kLargestSize + 1);
  }
  if (number < least || number > kLargestSize)
    reject("\"" + part + "\" is outside " + std::to_string(least) + " ... " +
           std::to_string(kLargestSize));
  return number;
}

}  // namespace heed::perf
