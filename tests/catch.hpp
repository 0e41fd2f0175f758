// Catch2, version 2.13 (Debian 12) or 3. Include this, never Catch2 itself.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#if defined(__clang__)
#if __has_warning("-Wc2y-extensions")
#pragma clang diagnostic ignored "-Wc2y-extensions"  // version 2's macros count with __COUNTER__
#endif
#endif
#endif
