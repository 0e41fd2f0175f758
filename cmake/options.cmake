# What a user may choose, and what every heed target is compiled with.

include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

option(BUILD_SHARED_LIBS "Build libheed as a shared library" ON)
option(HEED_BUILD_EXAMPLES "Build the programs in api/examples" ${PROJECT_IS_TOP_LEVEL})
option(HEED_BUILD_TESTS "Build the tests (needs Catch2)" ${PROJECT_IS_TOP_LEVEL})
option(HEED_BUILD_PERF "Build the perf harness (needs Google Benchmark)" ${PROJECT_IS_TOP_LEVEL})
option(HEED_INSTALL "Install headers, library and CMake package" ${PROJECT_IS_TOP_LEVEL})
option(HEED_WERROR "Treat warnings as errors" OFF)
set(HEED_TBB AUTO CACHE STRING "oneTBB executor: AUTO takes it where found, ON requires it, OFF")
set(HEED_OPENMP AUTO CACHE STRING "OpenMP executor: AUTO takes it where found, ON requires it, OFF")
set(HEED_CBLAS AUTO CACHE STRING "A CBLAS library as another way to compute projections: AUTO takes it where found, ON requires it, OFF")
set(HEED_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
set_property(CACHE HEED_TBB HEED_OPENMP HEED_CBLAS PROPERTY STRINGS AUTO ON OFF)

find_package(Threads REQUIRED)

if(HEED_SANITIZE)
  add_compile_options(-fsanitize=${HEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEED_SANITIZE})
endif()

function(heed_compile_options target)
  target_compile_features(${target} PRIVATE cxx_std_17 c_std_99)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    C_EXTENSIONS OFF
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion
    $<$<BOOL:${HEED_WERROR}>:-Werror>)
endfunction()
