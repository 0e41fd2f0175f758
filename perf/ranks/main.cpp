// heed_perf_mpi: what heed_perf --ranks starts, on every rank the same. The first one speaks.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "perf/catalogue.hpp"
#include "perf/ranks/world.hpp"

namespace {

using namespace heed::perf;

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.ranks.empty())
    throw std::runtime_error("heed_perf_mpi is started by heed_perf --ranks");
  const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
  if (most > World::size())
    throw std::runtime_error("--ranks has " + std::to_string(most) + ", but mpiexec started " +
                             std::to_string(World::size()));
  add_rank_rows(options);
  return run_rows(argv[0], options, World::rank() == 0);
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int status = run_guarded([&] { return run(argc, argv); });
  // Statuses of all ranks are the same, but for what the first alone looks at.
  int most = 0;
  MPI_Allreduce(&status, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return most;
}
