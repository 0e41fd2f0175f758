// How many CPUs' worth of time control groups leave a process, read from files as Linux has them.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "engine/context/isa.hpp"
#include "tests/catch.hpp"

namespace {

using Files = std::map<std::string, std::string>;

/// A folder with those files, for as long as this lives.
struct System {
  explicit System(const Files& files) {
    for (const auto& [path, text] : files) {
      const auto full = root / path;
      std::filesystem::create_directories(full.parent_path());
      std::ofstream(full) << text;
    }
  }
  ~System() { std::filesystem::remove_all(root); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  std::filesystem::path root = std::filesystem::temp_directory_path() /
                               ("heed_quota_" + std::to_string(std::random_device{}()));
};

struct Case {
  const char* name;
  Files files;
  std::uint32_t cpus;
};

const std::string kProcess = "proc/self/cgroup";
const std::string kGroups = "sys/fs/cgroup/";

const Case kCases[] = {
    {"no files", {}, UINT32_MAX},
    {"no limit", {{kProcess, "0::/a\n"}, {kGroups + "a/cpu.max", "max 100000\n"}}, UINT32_MAX},
    {"two CPUs", {{kProcess, "0::/a\n"}, {kGroups + "a/cpu.max", "200000 100000\n"}}, 2},
    {"one and a half", {{kProcess, "0::/a\n"}, {kGroups + "a/cpu.max", "150000 100000\n"}}, 2},
    {"a tenth", {{kProcess, "0::/a\n"}, {kGroups + "a/cpu.max", "1000 10000\n"}}, 1},
    {"the group above limits more",
     {{kProcess, "0::/a/b\n"},
      {kGroups + "a/cpu.max", "300000 100000\n"},
      {kGroups + "a/b/cpu.max", "800000 100000\n"}},
     3},
    {"a container sees its own group as the topmost",
     {{kProcess, "0::/\n"}, {kGroups + "cpu.max", "400000 100000\n"}},
     4},
    {"a path that only the host has",
     {{kProcess, "0::/docker/0123\n"}, {kGroups + "cpu.max", "400000 100000\n"}},
     4},
    {"version 1 beside others",
     {{kProcess, "9:cpuset:/x\n4:cpuacct,cpu:/a\n1:name=systemd:/x\n0::/x\n"},
      {kGroups + "cpu/a/cpu.cfs_quota_us", "500000\n"},
      {kGroups + "cpu/a/cpu.cfs_period_us", "100000\n"},
      {kGroups + "cpu/x/cpu.cfs_quota_us", "100000\n"},
      {kGroups + "cpu/x/cpu.cfs_period_us", "100000\n"}},
     5},
    {"version 1 without a limit",
     {{kProcess, "1:cpu:/\n"},
      {kGroups + "cpu/cpu.cfs_quota_us", "-1\n"},
      {kGroups + "cpu/cpu.cfs_period_us", "100000\n"}},
     UINT32_MAX},
    {"malformed lines", {{kProcess, "\n:\ncpu\n1:cpu\n::\n0:"}}, UINT32_MAX},
    {"malformed limits",
     {{kProcess, "0::/a/b/c\n"},
      {kGroups + "a/cpu.max", "100000"},
      {kGroups + "a/b/cpu.max", "100000 0"},
      {kGroups + "a/b/c/cpu.max", "-5 100000"}},
     UINT32_MAX},
    {"more than there can be",
     {{kProcess, "0::/\n"}, {kGroups + "cpu.max", "1e300 1"}},
     1000000000},
};

}  // namespace

TEST_CASE("a process has the CPUs that its control groups pay for", "[context][files]") {
  for (const Case& given : kCases) {
    CAPTURE(given.name);
    const System system(given.files);
    CHECK(heed::quota_cpus(system.root.c_str()) == given.cpus);
  }
}

TEST_CASE("a process may use at least one CPU, and no more than its quota", "[context]") {
  CHECK(heed::usable_cpus() >= 1);
  CHECK(heed::usable_cpus() <= heed::quota_cpus());
}
