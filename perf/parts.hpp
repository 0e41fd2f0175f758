// Names of workloads, taken apart: B1_H8_L4096_D128_causal is sizes and options, joined by _.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace heed::perf {

/// What the parts of a kind of names are.
struct Grammar {
  const char* text;             ///< the grammar itself, for people
  std::set<std::string> sizes;  ///< letters before a number that the plain workload has too
  std::set<std::string> amounts;
  std::set<std::string> words;
  std::vector<std::vector<const char*>> exclusive;  ///< at most one of each of these is given
};

/// Numbers by the letters before them, and words. Keeps a reference to the grammar.
class Parts {
 public:
  /// Throws std::invalid_argument, as reject() does.
  Parts(const Grammar& grammar, const std::string& name);

  [[noreturn]] void reject(const std::string& why) const;

  bool has(const std::string& part) const {
    return numbers_.count(part) != 0 || words_.count(part) != 0;
  }
  std::int64_t number(const std::string& letters, std::int64_t otherwise) const;

  /// The name without all that is not a size, or without these letters and words.
  std::string sizes() const;
  std::string without(const std::set<std::string>& left_out) const;

  /// The heed_dtype that bf16, f16 or f64 ask for, else HEED_DTYPE_F32.
  std::uint32_t type() const;
  /// That of keys and values, which i8 and f8 ask for alone.
  std::uint32_t key_type() const;

 private:
  void add(const std::string& part);
  template <class Wanted>
  std::string joined(Wanted&& wanted) const;
  std::int64_t parse_number(const std::string& part, const std::string& digits,
                            std::int64_t least) const;

  const Grammar& grammar_;
  std::string name_;
  std::vector<std::pair<std::string, std::string>> order_;  ///< letters or a word, and the part
  std::map<std::string, std::int64_t> numbers_;
  std::set<std::string> words_;
};

/// How many elements a tensor of a workload may have.
constexpr double kLargestTensor = 1U << 30;

/// How many flops a run of a workload may have: some minutes of one thread.
constexpr double kMostFlops = 0x1p44;

}  // namespace heed::perf
