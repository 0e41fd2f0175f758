// How much of a sweep to run: everything, or with HEED_TEST_SIZE=small about a twentieth, or with
// HEED_TEST_SIZE=brief about a hundredth. Sweeps over random problems of every form are eight times
// as long with HEED_TEST_SIZE=full.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace heed_test {

inline bool size_is(const char* name) {
  const char* const size = std::getenv("HEED_TEST_SIZE");
  return size != nullptr && std::strcmp(size, name) == 0;
}

inline bool brief() { return size_is("brief"); }

/// What is brief is small, too.
inline bool small() { return size_is("small") || brief(); }

/// Whether tests use this instruction set: any, or the one that HEED_TEST_ISA names, where the
/// others have their turn elsewhere and the processor is an emulated one.
inline bool wanted(const char* isa) {
  const char* const name = std::getenv("HEED_TEST_ISA");
  return name == nullptr || std::strcmp(name, isa) == 0;
}

/// Whether a sweep keeps its case number `index`. A small one keeps every 19th, a brief one every
/// 97th: primes that divide no sweep's dimension, so all values of every dimension still come up in
/// turn.
inline bool keep(std::size_t index) { return !small() || index % (brief() ? 97 : 19) == 0; }

/// Whether a few cases that are slow to emulate keep number `index`: of brief ones every fifth.
inline bool keep_of_few(std::size_t index) { return !brief() || index % 5 == 0; }

/// A number of random cases.
inline std::size_t count(std::size_t full) {
  const std::size_t part = brief() ? 100 : small() ? 20 : 1;
  return (full + part - 1) / part;
}

/// A number of random problems of every form.
inline std::size_t count_forms(std::size_t full) {
  return size_is("full") || small() ? count(full) : (full + 7) / 8;
}

/// Prints how close an error came to its bound, if HEED_TEST_REPORT is set.
inline void report(const char* what, const char* isa, double ratio) {
  if (std::getenv("HEED_TEST_REPORT") != nullptr)
    std::printf("%-28s %-8s worst error / bound %.3f\n", what, isa, ratio);
}

}  // namespace heed_test
