#include "tests/bits/record.hpp"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <regex>

namespace heed_test {
namespace {

/// A NaN that stands for all of them.
std::uint64_t canonical_bits(const Numbers& numbers, std::size_t i) {
  if (!numbers.written(i) || !std::isnan(numbers[i])) return numbers.bits[i];
  return encode(numbers.dtype, std::numeric_limits<double>::quiet_NaN());
}

std::string line_of(const Numbers& numbers, std::size_t i) {
  char line[80];
  if (!numbers.written(i)) {
    std::snprintf(line, sizeof line, "    [%zu] not written\n", i);
  } else {
    std::snprintf(line, sizeof line, "    [%zu] %.17g  0x%" PRIx64 "\n", i, numbers[i],
                  canonical_bits(numbers, i));
  }
  return line;
}

}  // namespace

void Record::begin_run(const std::string& name) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325U;
  runs_.push_back({name, kBasis, true});
  if (keeps_) text_ += name + "\n";
}

void Record::add(const char* name, const Numbers& numbers) {
  mix(name);
  mix(numbers.dtype);
  mix(numbers.size());
  if (keeps_) text_ += std::string("  ") + name + "\n";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    mix(canonical_bits(numbers, i));
    if (keeps_) text_ += line_of(numbers, i);
  }
}

void Record::add(const char* name, const std::string& words) {
  // Of a field that came after it, an older library can only say that it does not know it.
  if (words.find("; this library knows ") != std::string::npos) runs_.back().known = false;
  mix(name);
  mix(words);
  if (keeps_) text_ += std::string("  ") + name + ": " + words + "\n";
}

void Record::add(const char* call, heed_status status) {
  static const std::regex address("0x[0-9a-f]+");
  std::string words = heed_status_name(status);
  if (status != HEED_STATUS_OK)
    words += std::string(": ") + std::regex_replace(heed_last_error(), address, "0x...");
  add(call, words);
}

std::string Record::line() const {
  std::string line;
  for (const Run& run : runs_) {
    char hash[24];
    std::snprintf(hash, sizeof hash, "=%016" PRIx64 " ", run.hash);
    line += run.name + (run.known ? hash : "=unknown ");
  }
  return line + "| " + description_;
}

/// FNV-1a, eight bytes at a time, turned so that high bits reach low ones.
void Record::mix(std::uint64_t bits) {
  constexpr std::uint64_t kPrime = 0x100000001b3U;
  std::uint64_t& hash = runs_.back().hash;
  hash = (hash ^ bits) * kPrime;
  hash ^= hash >> 32;
}

void Record::mix(const std::string& words) {
  mix(words.size());
  for (const char c : words) mix(static_cast<unsigned char>(c));
}

}  // namespace heed_test
