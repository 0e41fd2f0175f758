#include "api/python/module/mpi_library.hpp"

#include <dlfcn.h>

#include <cstring>

namespace heed::python {
namespace {

using CreateByPointer = decltype(&heed_mpi_attention_plan_create);
/// Where handles are ints, as MPICH has them.
using CreateByInt = heed_status (*)(int, const heed_context*, const heed_mpi_attention_desc*,
                                    heed_mpi_attention_plan**);

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
  heed_status status = HEED_STATUS_OK;
  {
    const nb::gil_scoped_release released;
    if (bytes == sizeof(int)) {
      int handle = 0;
      std::memcpy(&handle, communicator, sizeof handle);
      status = reinterpret_cast<CreateByInt>(create_)(handle, context, &desc, &plan);
    } else {
      MPI_Comm handle = nullptr;
      std::memcpy(&handle, communicator, sizeof handle);
      status = reinterpret_cast<CreateByPointer>(create_)(handle, context, &desc, &plan);
    }
  }
  check(status);
  return plan;
}

}  // namespace heed::python
