// heed_perf: the perf harness. README.md has the protocol, the names and the counters.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "perf/catalogue.hpp"

namespace {

using namespace heed::perf;

void add_rows(const Options& options) {
  if (options.forms) return add_form_rows(options);
  if (options.backward) {
    add_backward_rows(options);
    return add_graph_rows(options);
  }
  add_append_rows(options);
  if (options.decode) return add_decode_rows(options);
  add_block_rows(options);
  add_graph_rows(options);
  if (options.shapes.empty()) return;
  if (!options.no_stages) add_peak_rows(options);
  add_attention_rows(options);
  if (!options.no_stages) add_stage_rows(options);
}

/// Becomes mpiexec, which runs heed_perf_mpi with the same arguments. This program knows no MPI.
[[noreturn]] void become_ranks(int argc, char** argv, const Options& options) {
  char path[PATH_MAX] = "";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program =
      std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0) + "_mpi";
  if (access(program.c_str(), X_OK) != 0)
    throw std::runtime_error("--ranks needs " + program +
                             ", which is built with it where MPI is found");
  // More ranks than processors, threads beside the first of each, and waiting without taking a
  // processor from who computes; also as root, who may run what this starts. What the user has set
  // stays. Open MPI 4 and 5.
  for (const char* const name :
       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
        "OMPI_MCA_mpi_yield_when_idle=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy=none"}) {
    const std::string variable(name, std::strchr(name, '='));
    setenv(variable.c_str(), name + variable.size() + 1, 0);
  }
  const char* const given = std::getenv("HEED_PERF_MPIEXEC");
  const std::string mpiexec = given != nullptr ? given : HEED_MPIEXEC;
  std::vector<std::string> words = {
      mpiexec, "-n", std::to_string(*std::max_element(options.ranks.begin(), options.ranks.end())),
      program};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw std::runtime_error(mpiexec + ": " + std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  return run_guarded([&] {
    const Options options = parse_options(argc, argv);
    if (!options.ranks.empty() && !options.help) become_ranks(argc, argv, options);
    add_rows(options);
    return run_rows(argv[0], options);
  });
}
