#include "perf/workload.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>

namespace heed::perf {

const char* const kWorkloadGrammar =
    "B<batch>_H<query heads>[_Hkv<key heads>](_L<length>|_Lq<queries>_Lkv<keys>)_D<features>"
    "[_Dv<value features>][_causal|_causalTL|_causalBR]";

const std::vector<std::string> kStandardWorkloads = {
    "B1_H16_L1024_D64",        "B1_H8_L4096_D128",
    "B1_H8_L4096_D128_causal", "B32_H12_L128_D64",
    "B8_H12_L197_D64",         "B1_H8_L1024_D80",
    "B2_H8_Lq4096_Lkv77_D40",  "B1_H32_Hkv8_Lq1_Lkv8192_D128",
    "B1_H1_L10_D20",
};

namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
constexpr double kLargestTensor = 1U << 30;  // elements

[[noreturn]] void reject(const std::string& name, const std::string& why) {
  throw std::invalid_argument("shape \"" + name + "\": " + why +
                              "; expected parts, in any order: " + kWorkloadGrammar);
}

/// The sizes in a name by their letters, 0 where absent.
struct Sizes {
  struct Field {
    const char* letters;
    std::int64_t size;
  };
  std::array<Field, 8> fields = {
      {{"B", 0}, {"H", 0}, {"Hkv", 0}, {"L", 0}, {"Lq", 0}, {"Lkv", 0}, {"D", 0}, {"Dv", 0}}};

  std::int64_t& operator[](const std::string& letters) {
    for (Field& field : fields)
      if (letters == field.letters) return field.size;
    throw std::out_of_range(letters);
  }
  bool knows(const std::string& letters) const {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const Field& field) { return letters == field.letters; });
  }
};

std::int64_t parse_size(const std::string& name, const std::string& part,
                        const std::string& digits) {
  std::int64_t size = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') reject(name, "\"" + part + "\" is not letters and a number");
    size = std::min(size * 10 + (digit - '0'), kLargestSize + 1);
  }
  if (size < 1 || size > kLargestSize)
    reject(name, "\"" + part + "\" is outside 1 ... " + std::to_string(kLargestSize));
  return size;
}

std::uint32_t parse_causal(const std::string& part) {
  if (part == "causal" || part == "causalTL") return HEED_CAUSAL_TOP_LEFT;
  if (part == "causalBR") return HEED_CAUSAL_BOTTOM_RIGHT;
  return HEED_CAUSAL_NONE;
}

void require(const std::string& name, Sizes& sizes) {
  for (const char* letters : {"B", "H", "D"})
    if (sizes[letters] == 0) reject(name, std::string(letters) + " is missing");
  const bool pair = sizes["Lq"] != 0 && sizes["Lkv"] != 0;
  const bool any = sizes["Lq"] != 0 || sizes["Lkv"] != 0;
  if (sizes["L"] == 0 && !pair) reject(name, "L, or Lq and Lkv, is missing");
  if (sizes["L"] != 0 && any) reject(name, "L excludes Lq and Lkv");
  if (sizes["Hkv"] != 0 && sizes["H"] % sizes["Hkv"] != 0)
    reject(name, "H is not a multiple of Hkv");
}

double elements(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t features) {
  return static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(rows) *
         static_cast<double>(features);
}

heed_attention_desc describe(const std::string& name, Sizes& sizes, std::uint32_t causal) {
  const auto or_else = [](std::int64_t a, std::int64_t b) { return a != 0 ? a : b; };
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.causal = causal;
  desc.batch = sizes["B"];
  desc.query_heads = sizes["H"];
  desc.key_heads = or_else(sizes["Hkv"], sizes["H"]);
  desc.query_length = or_else(sizes["Lq"], sizes["L"]);
  desc.key_length = or_else(sizes["Lkv"], sizes["L"]);
  desc.features = sizes["D"];
  desc.value_features = or_else(sizes["Dv"], sizes["D"]);
  const std::int64_t widest = std::max(desc.features, desc.value_features);
  if (elements(desc.batch, desc.query_heads, desc.query_length, widest) > kLargestTensor ||
      elements(desc.batch, desc.key_heads, desc.key_length, widest) > kLargestTensor)
    reject(name, "a tensor of more than 2^30 elements is too large for this harness");
  return desc;
}

std::size_t count(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                  std::int64_t features) {
  return static_cast<std::size_t>(batch * heads * rows * features);
}

}  // namespace

Workload parse_workload(const std::string& name) {
  Sizes sizes;
  std::uint32_t causal = HEED_CAUSAL_NONE;
  bool aligned = true;  // "causal" alone says the alignment only where both are the same
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '_');) {
    if (const std::uint32_t kind = parse_causal(part); kind != HEED_CAUSAL_NONE) {
      if (causal != HEED_CAUSAL_NONE) reject(name, "causal is given twice");
      causal = kind;
      aligned = part != "causal";
      continue;
    }
    const std::size_t digits = std::min(part.find_first_of("0123456789"), part.size());
    const std::string letters = part.substr(0, digits);
    if (!sizes.knows(letters)) reject(name, "\"" + part + "\" is not understood");
    if (sizes[letters] != 0) reject(name, letters + " is given twice");
    sizes[letters] = parse_size(name, part, part.substr(digits));
  }
  require(name, sizes);
  const heed_attention_desc desc = describe(name, sizes, causal);
  if (!aligned && desc.query_length != desc.key_length)
    reject(name, "causal with Lq other than Lkv has to be causalTL or causalBR");
  return {name, desc};
}

double key_value_bytes(const Workload& workload) {
  const heed_attention_desc& d = workload.desc;
  return sizeof(float) * elements(d.batch, d.key_heads, d.key_length, d.features) +
         sizeof(float) * elements(d.batch, d.key_heads, d.key_length, d.value_features);
}

Buffer::Buffer(std::size_t count) : count_(count) {
  constexpr std::size_t line = 64;
  const std::size_t bytes = (count * sizeof(float) + line - 1) / line * line;
  data_.reset(static_cast<float*>(std::aligned_alloc(line, std::max(bytes, line))));
  if (data_ == nullptr) throw std::bad_alloc();
}

void Buffer::Free::operator()(float* memory) const { std::free(memory); }

void fill_random(Buffer& buffer, unsigned seed) {
  std::uint64_t state = seed;
  for (float& x : buffer) {
    // splitmix64; the sum of its four 16-bit parts is nearly normal.
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    const std::uint64_t sum =
        (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
    x = (static_cast<float>(sum) / 65535.0F - 2.0F) * 1.7320508F;
  }
}

Tensors::Tensors(const heed_attention_desc& d)
    : query(count(d.batch, d.query_heads, d.query_length, d.features)),
      key(count(d.batch, d.key_heads, d.key_length, d.features)),
      value(count(d.batch, d.key_heads, d.key_length, d.value_features)),
      out(count(d.batch, d.query_heads, d.query_length, d.value_features)) {
  fill_random(query, 1);
  fill_random(key, 2);
  fill_random(value, 3);
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
}

heed_attention_args Tensors::args() {
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.out = out.data();
  return args;
}

Tensors& tensors_of(const Workload& workload) {
  static std::string owner;
  static std::unique_ptr<Tensors> tensors;
  if (tensors == nullptr || owner != workload.name) {
    tensors.reset();
    tensors = std::make_unique<Tensors>(workload.desc);
    owner = workload.name;
  }
  return *tensors;
}

}  // namespace heed::perf
