// Memory that runs of a plan need, kept for the next ones.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace heed::python {

class Workspaces;

/// A workspace for the time of a run.
class Workspace {
 public:
  Workspace(Workspaces& from, void* memory) : from_(from), memory_(memory) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() const { return memory_; }

 private:
  Workspaces& from_;
  void* memory_;
};

/// As many workspaces as there are runs at once. Without a lock, which a fork could leave taken.
class Workspaces {
 public:
  explicit Workspaces(std::size_t bytes) : bytes_(bytes) {}
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// Raises heed.OutOfMemoryError where there is none.
  Workspace take();
  void give_back(void* memory);

 private:
  std::size_t bytes_;
  std::array<std::atomic<void*>, 8> spare_ = {};
};

}  // namespace heed::python
