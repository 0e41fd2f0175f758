// Whole calls through the C API, described, run on every instruction set, compared with the oracle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/catch.hpp"
#include "tests/reference.hpp"
#include "tests/support/isas.hpp"
#include "tests/support/random.hpp"
#include "tests/support/size.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

inline void require_ok(heed_status status) {
  if (status != HEED_STATUS_OK)
    throw std::runtime_error(std::string(heed_status_name(status)) + ": " + heed_last_error());
}

struct Destroy {
  void operator()(heed_context* context) const { heed_context_destroy(context); }
  void operator()(heed_attention_plan* plan) const { heed_attention_plan_destroy(plan); }
};
using Context = std::unique_ptr<heed_context, Destroy>;
using Plan = std::unique_ptr<heed_attention_plan, Destroy>;

struct Choices {
  const char* executor = "serial";
  std::uint32_t threads = 1;
  std::uint32_t tile_q = 0;
  std::uint32_t tile_kv = 0;
};

inline Context make_context(const char* isa, const Choices& choices = {}) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  options.executor_name = choices.executor;
  options.threads = choices.threads;
  options.tile_q = choices.tile_q;
  options.tile_kv = choices.tile_kv;
  heed_context* context = nullptr;
  require_ok(heed_context_create(&options, &context));
  return Context(context);
}

inline Plan make_plan(const Context& context, const heed_attention_desc& desc) {
  heed_attention_plan* plan = nullptr;
  require_ok(heed_attention_plan_create(context.get(), &desc, &plan));
  return Plan(plan);
}

inline heed_attention_info describe(const Plan& plan) {
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  require_ok(heed_attention_plan_describe(plan.get(), &info));
  return info;
}

/// A workspace full of NaN, so that whoever reads before writing spoils the result, with
/// canaries after it.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : bytes_(bytes), buffer_(bytes / sizeof(float)) {}
  void* get() { return buffer_.data(); }
  std::size_t bytes() const { return bytes_; }
  bool intact() const { return buffer_.intact(); }

 private:
  std::size_t bytes_;
  Buffer buffer_;
};

/// Everything about a problem but its numbers.
struct Sizes {
  std::int64_t query_length;
  std::int64_t key_length;
  std::int64_t features;
  std::int64_t value_features;
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t key_heads = 1;
  std::uint32_t causal = HEED_CAUSAL_NONE;
  std::int64_t causal_offset = 0;
  double scale = 0;
};

/// Where the four tensors lie.
struct Layouts {
  Arrangement query = Arrangement::kDefault;
  Arrangement key = Arrangement::kDefault;
  Arrangement value = Arrangement::kDefault;
  Arrangement out = Arrangement::kDefault;
  std::size_t misalign = 0;
};

/// An attention problem with its tensors.
class Problem {
 public:
  explicit Problem(const Sizes& s, const Layouts& layouts = {})
      : query(make({s.batch, s.query_heads, s.query_length, s.features}, layouts.query,
                   layouts.misalign)),
        key(make({s.batch, s.key_heads, s.key_length, s.features}, layouts.key,
                 layouts.misalign * 2 % 4)),
        value(make({s.batch, s.key_heads, s.key_length, s.value_features}, layouts.value,
                   layouts.misalign * 3 % 4)),
        out(make({s.batch, s.query_heads, s.query_length, s.value_features}, layouts.out,
                 layouts.misalign)) {
    desc.causal = s.causal;
    desc.batch = s.batch;
    desc.query_heads = s.query_heads;
    desc.key_heads = s.key_heads;
    desc.query_length = s.query_length;
    desc.key_length = s.key_length;
    desc.features = s.features;
    desc.value_features = s.value_features;
    desc.scale = s.scale;
    desc.causal_offset = s.causal_offset;
    desc.query = layout(query, layouts.query);
    desc.key = layout(key, layouts.key);
    desc.value = layout(value, layouts.value);
    desc.out = layout(out, layouts.out);
  }

  /// Normally distributed numbers; scores then have a standard deviation of scale sqrt(D)
  /// amplitude^2.
  void fill(std::uint64_t seed, float amplitude = 1) {
    Random random(seed);
    const auto next = [&] { return random.normal() * amplitude; };
    query.fill(next);
    key.fill(next);
    value.fill(next);
  }

  std::vector<Element> expected() const {
    return attention(desc, query.data(), key.data(), value.data());
  }

  /// The result, [B, H, L, Dv]; throws unless all of it, and nothing else, was written.
  std::vector<float> run(const Context& context) {
    out.fill(canary);
    const Plan plan = make_plan(context, desc);
    Workspace workspace(describe(plan).workspace_bytes);
    heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.out = out.data();
    require_ok(heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()));
    if (!out.padding_intact()) throw std::runtime_error("wrote outside out");
    if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
    std::vector<float> result = out.elements();
    if (std::any_of(result.begin(), result.end(), is_canary))
      throw std::runtime_error("left an element of out unwritten");
    return result;
  }
  std::vector<float> run(const char* isa) { return run(make_context(isa)); }

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  Tensor query, key, value, out;

 private:
  static Tensor make(const Axes& shape, Arrangement arrangement, std::size_t misalign) {
    return Tensor(shape, strides_of(arrangement, shape), misalign);
  }
  static heed_layout layout(const Tensor& tensor, Arrangement arrangement) {
    return arrangement == Arrangement::kDefault ? heed_layout{} : tensor.layout();
  }
};

/// One line that identifies a problem.
inline std::string line_of(const heed_attention_desc& d) {
  std::ostringstream line;
  line << "B" << d.batch << " Hq" << d.query_heads << " Hkv" << d.key_heads << " Lq"
       << d.query_length << " Lkv" << d.key_length << " D" << d.features << " Dv"
       << d.value_features << " causal " << d.causal << " offset " << d.causal_offset << " scale "
       << d.scale;
  return line.str();
}

/// Which element of a result, as [b, h, i, x].
inline std::string element_name(const heed_attention_desc& d, std::size_t at) {
  const auto index = static_cast<std::int64_t>(at);
  const std::int64_t row = index / d.value_features;
  std::ostringstream name;
  name << "[" << row / d.query_length / d.query_heads << "," << row / d.query_length % d.query_heads
       << "," << row % d.query_length << "," << index % d.value_features << "]";
  return name.str();
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The worst error / bound of a whole test, per instruction set.
class Report {
 public:
  explicit Report(const char* what) : what_(what), worst_(usable_isas().size(), 0.0) {}
  ~Report() {
    for (std::size_t i = 0; i < worst_.size(); ++i) report(what_, usable_isas()[i]->isa, worst_[i]);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  void add(std::size_t isa, double ratio) { worst_[isa] = std::max(worst_[isa], ratio); }

 private:
  const char* what_;
  std::vector<double> worst_;
};

/// Compares a result with the oracle, element by element.
inline double check_result(const heed_attention_desc& desc, const char* isa,
                           const std::vector<float>& got, const std::vector<Element>& want) {
  const Verdict verdict = compare(got, want);
  const bool within = verdict.ratio <= 1 && verdict.unspecified == 0;
  if (!within || want.size() != got.size()) {
    INFO(isa << ": " << line_of(desc) << ", " << got.size() << " elements for " << want.size()
             << ", " << verdict.unspecified << " of them without a bound");
    if (want.empty() || got.size() != want.size())
      FAIL_CHECK("wrong size");
    else
      FAIL_CHECK("element " << element_name(desc, verdict.at) << " is " << got[verdict.at]
                            << ", expected " << want[verdict.at].value << " within "
                            << want[verdict.at].bound);
  }
  return verdict.ratio;
}

/// Runs a problem on every instruction set and compares it with the oracle.
inline void check_problem(Problem& problem, Report* report = nullptr) {
  const std::vector<Element> want = problem.expected();
  const auto isas = usable_isas();
  for (std::size_t i = 0; i < isas.size(); ++i) {
    INFO(isas[i]->isa << ": " << line_of(problem.desc));
    const double ratio = check_result(problem.desc, isas[i]->isa, problem.run(isas[i]->isa), want);
    if (report != nullptr) report->add(i, ratio);
  }
  SUCCEED();
}

}  // namespace heed_test
