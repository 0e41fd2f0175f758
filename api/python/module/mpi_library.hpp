// libheed_mpi, loaded while the program runs: the module is linked to no MPI.
//
// It has an engine of its own, that of the libheed which it is linked to. So contexts are made
// there, from what the caller's was asked for.
#pragma once

#include <memory>
#include <string>

#include "api/heed_mpi.h"
#include "api/python/module/context.hpp"

namespace heed::python {

class MpiLibrary {
 public:
  /// Raises heed.UnsupportedError where it cannot be loaded, or is of another version.
  explicit MpiLibrary(const char* path);

  const std::string& path() const { return path_; }
  /// What its MPI says of itself.
  std::string mpi() const;

  /// Raises what stands for the status, with the message of the library.
  void check(heed_status status) const;
  /// A context of this engine.
  std::shared_ptr<heed_context> make_context(const heed_context_options& options) const;
  /// Collective. `communicator` is where its handle lies, which is of so many bytes.
  heed_mpi_attention_plan* make_plan(const void* communicator, std::size_t bytes,
                                     const heed_context* context,
                                     const heed_mpi_attention_desc& desc) const;

  /// Likewise.
  void attention_backward(const void* communicator, std::size_t bytes, const heed_context* context,
                          const heed_mpi_attention_backward_desc& desc,
                          const heed_attention_backward_args& args) const;
  heed_mpi_graph* make_graph(const void* communicator, std::size_t bytes,
                             const heed_context* context, const heed_mpi_graph_desc& desc) const;

  decltype(&heed_mpi_graph_destroy) graph_destroy = nullptr;
  decltype(&heed_mpi_graph_describe) graph_describe = nullptr;
  decltype(&heed_mpi_graph_nodes) graph_nodes = nullptr;
  decltype(&heed_mpi_graph_edges) graph_edges = nullptr;
  decltype(&heed_mpi_graph_attention) graph_attention = nullptr;
  decltype(&heed_mpi_place) place = nullptr;
  decltype(&heed_mpi_attention_plan_destroy) destroy = nullptr;
  decltype(&heed_mpi_attention_plan_describe) describe = nullptr;
  decltype(&heed_mpi_attention_plan_choice) choice = nullptr;
  decltype(&heed_mpi_attention_plan_times) times = nullptr;
  decltype(&heed_mpi_attention_plan_run) run = nullptr;

 private:
  template <class Function>
  void find(const char* name, Function& function) const;

  std::string path_;
  void* handle_;  // never closed: threads and MPI outlive it
  decltype(&heed_version_string) version_ = nullptr;
  decltype(&heed_context_create) context_create_ = nullptr;
  decltype(&heed_context_destroy) context_destroy_ = nullptr;
  decltype(&heed_last_error) heed_error_ = nullptr;
  decltype(&heed_mpi_last_error) mpi_error_ = nullptr;
  void *create_ = nullptr, *backward_ = nullptr;  // which functions depends on the MPI
  void* graph_create_ = nullptr;
  int (*library_version_)(char*, int*) = nullptr;
};

}  // namespace heed::python
