// Catch2's main program, for builds that cannot link the one installed on this machine because it
// is for another processor. Only version 2 is header-only; see tests/CMakeLists.txt.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
