// Where the system refuses the tiles of AMX, they are not usable, and nothing else changes.
#include "tests/api/support.hpp"

#if defined(__linux__) && defined(__x86_64__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>

using namespace api_test;

namespace {

/// From here on arch_prctl fails on this thread.
bool refuse_arch_prctl() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// What a thread finds that may not ask for tiles.
struct Found {
  bool refused = false;   ///< the filter is there, and refuses
  bool compiled = false;  ///< this build has amx
  std::vector<std::string> isas;
  std::string chosen;
  heed_status named = HEED_STATUS_OK;  ///< of a context with "amx"
  std::string message;
  heed_test::Numbers out;
};

}  // namespace

TEST_CASE("a system that refuses tiles leaves all other instruction sets", "[choices][threads]") {
  const Environment quiet;
  std::vector<std::string> others = usable_isas();
  if (others.back() == "amx") others.pop_back();
  Found found;
  std::thread([&] {
    found.refused = refuse_arch_prctl() && syscall(SYS_arch_prctl, 0x1023, 18) == -1;
    for (std::size_t i = 0; i < heed_isa_count(); ++i) {
      heed_isa_info info = HEED_ISA_INFO_INIT;
      if (heed_isa_get(i, &info) != HEED_STATUS_OK) continue;
      found.compiled = found.compiled || std::string(info.name) == "amx";
      if (info.usable == 1) found.isas.emplace_back(info.name);
    }
    heed_context_options options = serial_options();
    const Context context = make_context(&options);
    found.chosen = describe(context).isa;
    found.out = run(context);
    options.isa = "amx";
    heed_context* named = nullptr;
    found.named = heed_context_create(&options, &named);
    found.message = heed_last_error();
  }).join();
  REQUIRE(found.refused);
  CHECK(found.isas == others);
  CHECK(found.chosen != "amx");
  CHECK(found.named == (found.compiled ? HEED_STATUS_UNSUPPORTED : HEED_STATUS_INVALID_ARGUMENT));
  CHECK(says(found.message, found.compiled
                                ? "options.isa is \"amx\", which this CPU or operating system "
                                  "lacks; usable here: scalar"
                                : "options.isa is \"amx\", which this build does not know"));
  CHECK(same_bits(found.out, run(make_context(found.chosen.c_str()))));
}
#endif
