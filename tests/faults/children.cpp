#include "tests/faults/children.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace heed_test {
namespace {

constexpr int kFirstCode = 10;  // what functions return begins here

[[noreturn]] void be_child(const std::function<int()>& function, Leave leave, unsigned seconds,
                           int said) {
  (void)dup2(said, STDERR_FILENO);
  (void)close(said);
  (void)alarm(seconds);
  const int code = kFirstCode + function();
  if (leave == Leave::kByExit) std::exit(code);
  (void)std::fflush(nullptr);
  _exit(code);
}

std::string cause_of(int status) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM ? "hung"
                                       : "killed by signal " + std::to_string(WTERMSIG(status));
  return "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Ending in_child(const std::function<int()>& function, Leave leave, unsigned seconds) {
  int said[2];
  if (pipe(said) != 0) return {-1, "", "no pipe"};
  (void)std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    (void)close(said[0]);
    be_child(function, leave, seconds, said[1]);
  }
  (void)close(said[1]);
  Ending ending{-1, "", ""};
  char text[512];
  for (ssize_t size = 0; (size = read(said[0], text, sizeof text)) > 0;)
    ending.said.append(text, static_cast<std::size_t>(size));
  (void)close(said[0]);
  int status = 0;
  (void)waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) >= kFirstCode) {
    ending.code = WEXITSTATUS(status) - kFirstCode;
  } else {
    ending.cause = cause_of(status);
  }
  return ending;
}

}  // namespace heed_test
