// Prints what one library makes of random problems, a line each: run by run.py, for two libraries.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "tests/bits/areas.hpp"

using namespace heed_test;

namespace {

const char kUsage[] =
    "usage: heed_bits LIBRARY AREA FIRST LAST   a line per problem: area, seed, a hash per run\n"
    "       heed_bits LIBRARY AREA SEED         one problem with every number that comes out\n"
    "       heed_bits --areas                   the areas, and how many problems are usual\n"
    "\n"
    "LIBRARY is a libheed.so. HEED_TEST_ISA chooses an instruction set.\n";

int refuse(const std::string& what) {
  std::fprintf(stderr, "heed_bits: %s\n%s", what.c_str(), kUsage);
  return 2;
}

const Area* find_area(const char* name) {
  for (const Area& area : areas())
    if (std::strcmp(area.name, name) == 0) return &area;
  return nullptr;
}

/// 0: no seed.
std::uint64_t seed_of(const char* text) {
  char* end = nullptr;
  errno = 0;
  const std::uint64_t seed = std::strtoull(text, &end, 10);
  return *end != '\0' || errno != 0 || text[0] == '-' ? 0 : seed;
}

void print_areas() {
  for (const Area& area : areas())
    std::printf("%s %llu %s\n", area.name, static_cast<unsigned long long>(area.problems),
                area.what);
}

void print_problem(const Area& area, std::uint64_t seed, Contexts& contexts, bool numbers) {
  Record record(numbers);
  area.run(seed, contexts, record);
  std::printf("%s %llu %s\n%s", area.name, static_cast<unsigned long long>(seed),
              record.line().c_str(), record.numbers().c_str());
}

/// Begins again with the library before that which this program is linked to, of the same name.
/// Whether it is there now.
bool load_library(const char* path, char** argv) {
  constexpr const char* kBegun = "HEED_BITS_LIBRARY";
  Dl_info found = {};
  if (std::getenv(kBegun) != nullptr)
    return dladdr(dlsym(RTLD_DEFAULT, "heed_version_string"), &found) != 0 &&
           std::strcmp(found.dli_fname, path) == 0;
  setenv(kBegun, path, 1);
  setenv("LD_PRELOAD", path, 1);
  execv("/proc/self/exe", argv);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--areas") == 0) return print_areas(), 0;
  if (argc != 4 && argc != 5) return refuse("a library, an area and seeds are needed");
  const Area* const area = find_area(argv[2]);
  if (area == nullptr) return refuse(std::string("there is no area \"") + argv[2] + "\"");
  const std::uint64_t first = seed_of(argv[3]);
  const std::uint64_t last = seed_of(argv[argc - 1]);
  if (first == 0 || last < first)
    return refuse("seeds are numbers from 1 on, the last no less than the first");
  if (!load_library(argv[1], argv)) {
    std::fprintf(stderr, "heed_bits: %s cannot be loaded\n", argv[1]);
    return 1;
  }
  try {
    Contexts contexts;
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      print_problem(*area, seed, contexts, argc == 4);
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heed_bits: %s\n", error.what());
    return 1;
  }
  return 0;
}
