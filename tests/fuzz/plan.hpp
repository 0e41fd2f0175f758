// Objects and runs of any kind: whether they may have been made or run, and workspaces.
#pragma once

#include <initializer_list>

#include "tests/fuzz/check.hpp"

namespace heed_test {

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

}  // namespace heed_test
