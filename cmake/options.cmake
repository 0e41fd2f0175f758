# What a user may choose, and what every heed target is compiled with.

# In another's build these are the other's to choose: nothing but HEED_... is set in its cache.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
  option(BUILD_SHARED_LIBS "Build libheed as a shared library" ON)
  set(heed_mpi AUTO)
else()
  set(heed_mpi OFF)
endif()

option(HEED_BUILD_EXAMPLES "Build the programs in api/examples" ${PROJECT_IS_TOP_LEVEL})
option(HEED_BUILD_PYTHON "Build the Python module in api/python, which needs Python and nanobind" OFF)
option(HEED_BUILD_TESTS "Build the tests, which need Catch2" OFF)
option(HEED_BUILD_PERF "Build the perf harness, which needs Google Benchmark and CLI11" OFF)
option(HEED_INSTALL "Install headers, library and CMake package" ${PROJECT_IS_TOP_LEVEL})
option(HEED_FETCH_XSIMD "Download a release of xsimd where none is found" OFF)
option(HEED_WERROR "Treat warnings as errors" OFF)
set(HEED_TBB AUTO CACHE STRING "oneTBB executor: AUTO takes it where found, ON requires it, OFF")
set(HEED_OPENMP AUTO CACHE STRING "OpenMP executor: AUTO takes it where found, ON requires it, OFF")
set(HEED_CBLAS AUTO CACHE STRING "A CBLAS library as another way to compute projections: AUTO takes it where found, ON requires it, OFF")
set(HEED_MPI ${heed_mpi} CACHE STRING "libheed_mpi, attention over MPI: AUTO builds it where MPI is found, ON requires it, OFF")
set(HEED_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
set_property(CACHE HEED_TBB HEED_OPENMP HEED_CBLAS HEED_MPI PROPERTY STRINGS AUTO ON OFF)

# heed_find(<wanted> <hint> <package>...): finds what the option named <wanted> is about. What lacks
# is named in heed_missing; AUTO then says what is left out, anything else is an error.
macro(heed_find wanted hint)
  set(heed_missing "")
  foreach(package ${ARGN})
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      list(APPEND heed_missing ${package})
    endif()
  endforeach()
  list(JOIN heed_missing " and " heed_missing)
  if(heed_missing AND NOT ${wanted} STREQUAL "AUTO")
    message(FATAL_ERROR "${wanted} is ${${wanted}} but ${heed_missing} was not found: install ${hint}, or set ${wanted}=OFF")
  elseif(heed_missing)
    message(STATUS "heed: no ${heed_missing} (${hint}), so ${wanted} is off")
  endif()
endmacro()

find_package(Threads REQUIRED)

if(HEED_SANITIZE)
  add_compile_options(-fsanitize=${HEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEED_SANITIZE})
  add_compile_definitions(HEED_CHECKS_CONTRACTS)  # of kernels, which otherwise trust their callers
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
  if(MINGW)
    # It takes printf's formats for Microsoft's, which they are not. Vectors on the stack are not
    # aligned as the compiler thinks (GCC's bug 54412), so the assembler lets moves not rely on it.
    # A DLL must not need the compiler's own.
    target_compile_options(${target} PRIVATE -Wno-format -Wno-format-extra-args
      $<$<CXX_COMPILER_ID:GNU>:-Wa,-muse-unaligned-vector-move>)
    target_link_options(${target} PRIVATE -static)
  endif()
endfunction()
