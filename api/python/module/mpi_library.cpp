#include "api/python/module/mpi_library.hpp"

#include <dlfcn.h>

#include <cstring>

namespace heed::python {
namespace {

/// Calls `function` without the GIL. The handle lies at `communicator`, and is of so many bytes: an
/// int, as MPICH has it, or a pointer.
template <class... Arguments>
heed_status collective(void* function, const void* communicator, std::size_t bytes,
                       Arguments... arguments) {
  const nb::gil_scoped_release released;
  const auto call = [&](auto handle) {
    std::memcpy(&handle, communicator, sizeof handle);
    return reinterpret_cast<heed_status (*)(decltype(handle), Arguments...)>(function)(
        handle, arguments...);
  };
  return bytes == sizeof(int) ? call(0) : call(MPI_Comm{});
}

}  // namespace

MpiLibrary::MpiLibrary(const char* path) : path_(path), handle_(dlopen(path, RTLD_NOW)) {
  if (handle_ == nullptr) refuse_unsupported("%s", dlerror());
  find("heed_mpi_place", place);
  find("heed_mpi_attention_plan_create", create_);
  find("heed_mpi_attention_plan_destroy", destroy);
  find("heed_mpi_attention_plan_describe", describe);
  find("heed_mpi_attention_plan_choice", choice);
  find("heed_mpi_attention_plan_times", times);
  find("heed_mpi_attention_plan_run", run);
  find("heed_mpi_attention_backward", backward_);
  find("heed_mpi_graph_create", graph_create_);
  find("heed_mpi_graph_destroy", graph_destroy);
  find("heed_mpi_graph_describe", graph_describe);
  find("heed_mpi_graph_nodes", graph_nodes);
  find("heed_mpi_graph_edges", graph_edges);
  find("heed_mpi_graph_attention", graph_attention);
  find("heed_mpi_last_error", mpi_error_);
  find("heed_context_create", context_create_);
  find("heed_context_destroy", context_destroy_);
  find("heed_last_error", heed_error_);
  find("heed_version_string", version_);
  find("MPI_Get_library_version", library_version_);
  if (std::strcmp(version_(), heed_version_string()) != 0)
    refuse_unsupported("%s is of heed %s; this package is of heed %s", path, version_(),
                       heed_version_string());
}

/// In the library, or in what it is linked to.
template <class Function>
void MpiLibrary::find(const char* name, Function& function) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) refuse_unsupported("%s has no %s", path_.c_str(), name);
  function = reinterpret_cast<Function>(found);
}

std::string MpiLibrary::mpi() const {
  std::string text(8192, '\0');  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI has 256
  int length = 0;
  library_version_(text.data(), &length);
  return text.c_str();
}

void MpiLibrary::check(heed_status status) const { python::check(status, mpi_error_()); }

std::shared_ptr<heed_context> MpiLibrary::make_context(const heed_context_options& options) const {
  heed_context* context = nullptr;
  python::check(context_create_(&options, &context), heed_error_());
  return {context, context_destroy_};
}

heed_mpi_attention_plan* MpiLibrary::make_plan(const void* communicator, std::size_t bytes,
                                               const heed_context* context,
                                               const heed_mpi_attention_desc& desc) const {
  heed_mpi_attention_plan* plan = nullptr;
  check(collective(create_, communicator, bytes, context, &desc, &plan));
  return plan;
}

void MpiLibrary::attention_backward(const void* communicator, std::size_t bytes,
                                    const heed_context* context,
                                    const heed_mpi_attention_backward_desc& desc,
                                    const heed_attention_backward_args& args) const {
  check(collective(backward_, communicator, bytes, context, &desc, &args));
}

heed_mpi_graph* MpiLibrary::make_graph(const void* communicator, std::size_t bytes,
                                       const heed_context* context,
                                       const heed_mpi_graph_desc& desc) const {
  heed_mpi_graph* graph = nullptr;
  check(collective(graph_create_, communicator, bytes, context, &desc, &graph));
  return graph;
}

}  // namespace heed::python
