// What every call must keep to, and what happens where one does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/element.hpp"
#include "tests/problem/draw.hpp"
#include "tests/problem/laid_out.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Says what is wrong and ends the process, for libFuzzer to keep the case.
[[noreturn]] void finding(const std::string& what);
void demand(bool right, const char* what);

/// A call that did not succeed: a status that says so, and a message that names one of the fields,
/// given as their beginnings ("desc.").
void check_refused(heed_status status, std::initializer_list<const char*> fields);

/// A valid call succeeds, but that memory may not be had.
void check_accepted(heed_status status);

/// Of what heed has accepted: demands that there are such tensors and that addresses reach them.
/// Whether it is worth allocating here.
bool check_extent(const Extent& extent);
/// The same for keys or values, which may be of 8 bits.
bool check_stored(const Extent& extent);

/// Nobody has written any of it.
void check_untouched(const Tensor& tensor);
/// Elements within the oracle's bounds, and nothing else written.
void check_equal(const char* what, const Tensor& tensor, const std::vector<Element>& want);
/// Of an output that there may be memory for: untouched where `pointer` does not ask for it.
void check_wanted(const char* what, const std::optional<Tensor>& tensor, const void* pointer,
                  const std::vector<Element>& want);

/// The scalar instruction set, one thread, and an allocator that keeps to what it is asked for,
/// with redzones around it, and has little.
const Context& fuzz_context();

/// So many cases more; the process says at its end how many there were.
void count_cases(int cases);

/// How often the one case that the fuzzer's bytes make is damaged, each time in another way.
inline constexpr int kVariants = 63;

/// Calls once(draw, damaged): with the fuzzer's bytes and nothing damaged, and then with random
/// numbers that follow from them.
template <class Once>
void each_variant(Draw& draw, Once&& once) {
  const std::uint64_t seed = draw.bits();
  count_cases(1 + kVariants);
  once(draw, false);
  for (int n = 0; n < kVariants; ++n) {
    Draw random(seed + static_cast<std::uint64_t>(n));
    once(random, true);
  }
}

/// Planning takes microseconds, a run beside the oracle hundreds: not every variant is run.
inline bool worth_running(Draw& draw, bool damaged) { return !damaged || draw.one_in(12); }

/// A struct as callers hand it in: just struct_size bytes, seldom of another version or size.
template <class T>
class Versioned {
 public:
  Versioned(Draw& draw, const T& fields) : size_(sizeof(T)) {
    if (draw.one_in(16)) {
      size_ = draw.one_in(4) ? static_cast<std::uint32_t>(draw.hostile())
                             : static_cast<std::uint32_t>(draw.integer(0, sizeof(T) + 24));
      odd_ = true;
    }
    // Of what claims to be larger than this no library reads more than struct_size.
    bytes_.resize(size_ < 4 ? 4 : size_ > 4096 ? 4 : size_);
    bytes_.shrink_to_fit();
    std::memcpy(bytes_.data(), &fields, std::min(bytes_.size(), sizeof(T)));
    std::memcpy(bytes_.data(), &size_, sizeof size_);
    if (bytes_.size() > sizeof(T) && draw.one_in(2))
      bytes_[sizeof(T) + draw.bits() % (bytes_.size() - sizeof(T))] = 1;
  }

  T* get() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* get() const { return reinterpret_cast<const T*>(bytes_.data()); }

  /// Of another size, so that it may be refused for that.
  bool odd() const { return odd_; }

  /// What it says to a library that knows T: what is not there is 0.
  T known() const {
    T fields;
    std::memset(&fields, 0, sizeof fields);
    std::memcpy(&fields, bytes_.data(), std::min(bytes_.size(), sizeof(T)));
    return fields;
  }

 private:
  std::uint32_t size_;
  bool odd_ = false;
  std::vector<unsigned char> bytes_;
};

// ---- Objects and runs of any kind ----

/// An object made of these, or none. If it is refused, that was as it should be, and there was a
/// reason: it is `damaged`.
template <class Object, class... Given>
Owned<Object> made(bool damaged, std::initializer_list<const char*> fields, Given... given) {
  Object* object = nullptr;
  const heed_status status = Functions<Object>::create(given..., &object);
  demand((status == HEED_STATUS_OK) == (object != nullptr), "made or refused, but not both");
  if (status == HEED_STATUS_OK) return Owned<Object>(object);
  if (!damaged) check_accepted(status);
  check_refused(status, fields);
  return nullptr;
}
template <class Desc>
auto planned(bool damaged, const Desc* desc) {
  return made<typename PlanOf<Desc>::Plan>(damaged, {"desc."}, fuzz_context().get(), desc);
}

/// The workspace of a run, seldom too small, missing or misaligned.
class RunSpace {
 public:
  RunSpace(Draw& draw, std::size_t needed) : memory_(needed) {
    bytes_ = needed;
    pointer_ = memory_.get();
    if (!draw.one_in(16) || needed == 0) return;
    const std::uint32_t kind = draw.choice(2);
    if (kind == 0)
      bytes_ -= static_cast<std::size_t>(draw.integer(1, static_cast<std::int64_t>(needed)));
    if (kind == 1) pointer_ = nullptr;
    if (kind == 2) pointer_ = static_cast<unsigned char*>(pointer_) + draw.integer(1, 63);
    enough_ = false;
  }

  void* get() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether a run has to take it.
  bool enough() const { return enough_; }

 private:
  Workspace memory_;
  std::size_t bytes_;
  void* pointer_;
  bool enough_ = true;
};

/// Whether a run is accepted. If not, the refusal was as it should be, and there was a reason:
/// something in the run that is not `valid`, or its workspace.
template <class Plan, class Args>
bool ran(Draw& draw, const Plan* plan, const Args* args, bool valid) {
  std::size_t needed = 0;
  require_ok(Functions<Plan>::workspace(plan, &needed));
  const RunSpace space(draw, needed);
  const heed_status status = Functions<Plan>::run(plan, args, space.get(), space.bytes());
  if (status == HEED_STATUS_OK) {
    demand(space.enough(), "a workspace that is too small is accepted");
    return true;
  }
  if (valid && space.enough()) check_accepted(status);
  check_refused(status, {"args.", "workspace"});
  return false;
}

// ---- What heed reads and prints, without a disk or a screen ----

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(const std::string& bytes);
  const char* path() const { return path_.c_str(); }

 private:
  int file_;
  std::string path_;
};

/// Other bytes, or some inserted, removed or replaced: mostly among the first `often`, and where
/// there are `words` some of these too.
void damage(Draw& draw, std::string& bytes, std::size_t often,
            const std::vector<const char*>& words = {});

/// Takes what is printed on stderr while it lives. (Sanitizers print beside it.)
class PrintedErrors {
 public:
  PrintedErrors();
  ~PrintedErrors();
  PrintedErrors(const PrintedErrors&) = delete;
  PrintedErrors& operator=(const PrintedErrors&) = delete;

  std::string text();

 private:
  std::FILE* before_;
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// One line of a message, which nothing from a file may turn into something that steers a terminal.
void check_message(const std::string& text, const char* begins);

}  // namespace heed_test
