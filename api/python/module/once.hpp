// What is made when it is first needed, and never destroyed: the interpreter ends before this
// library does.
#pragma once

#include <atomic>

namespace heed::python {

/// Not a static variable of a function: a thread would wait for its end with the GIL, which the one
/// that makes it may need.
template <class T>
const T& once() {
  static std::atomic<const T*> one = nullptr;
  const T* known = one.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  const T* made = new T;
  if (one.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was faster
  return *known;
}

}  // namespace heed::python
