# One source, many instruction sets: a family of kernels is compiled for each with its own flags,
# everything else for the plainest CPU of the architecture.

find_path(HEED_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp DOC "Folder that holds xsimd/xsimd.hpp (8.1 or later)")
if(NOT HEED_XSIMD_INCLUDE_DIR AND HEED_FETCH_XSIMD)
  # Its headers alone: nothing of its CMake project runs.
  include(FetchContent)
  FetchContent_Declare(xsimd
    URL https://github.com/xtensor-stack/xsimd/archive/refs/tags/13.2.0.tar.gz
    URL_HASH SHA256=edd8cd3d548c185adc70321c53c36df41abe64c1fe2c67bc6d93c3ecda82447a
    DOWNLOAD_EXTRACT_TIMESTAMP ON
    SOURCE_SUBDIR include)
  FetchContent_MakeAvailable(xsimd)
  set(HEED_XSIMD_INCLUDE_DIR ${xsimd_SOURCE_DIR}/include)
endif()
if(NOT HEED_XSIMD_INCLUDE_DIR)
  message(FATAL_ERROR "xsimd (8.1 or later) is needed to build heed: install libxsimd-dev, set HEED_XSIMD_INCLUDE_DIR, or have one downloaded by HEED_FETCH_XSIMD=ON")
endif()

# Optimised in every build type: at -O0 the inline functions of xsimd would be emitted as weak
# symbols, compiled for one CPU and linked for all. -O2, because loops are unrolled by hand where
# that pays: -O3 is no faster and a third larger. No contraction: what is fused is written so.
set(HEED_KERNEL_FLAGS -O2 -DNDEBUG -ffp-contract=off -fno-exceptions -fno-rtti)
if(HEED_SANITIZE)
  # As optimised and instrumented, a kernel file takes minutes to compile. So: -O1, of vector
  # kernels memory and thread errors only (their arithmetic is covered by their tests), and no
  # poisoning of the thousands of registers that unrolled lambdas pass by reference. That takes
  # seconds.
  list(APPEND HEED_KERNEL_FLAGS -O1)
  if(HEED_SANITIZE MATCHES "address")
    list(APPEND HEED_KERNEL_FLAGS -fno-sanitize-address-use-after-scope)
  endif()
endif()

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" heed_processor)
if(heed_processor MATCHES "x86_64|amd64")
  set(heed_known_isas scalar sse2 avx2 avx512 avx512bf16 amx)
elseif(heed_processor MATCHES "aarch64|arm64")
  set(heed_known_isas scalar neon neonbf16)
else()
  set(heed_known_isas scalar)
endif()
set(HEED_ISAS "ALL" CACHE STRING "Instruction sets to compile in: ALL, NATIVE (this CPU's fastest), or a list of ${heed_known_isas}; scalar always is")
set(heed_isas ${HEED_ISAS})
if(HEED_ISAS STREQUAL "NATIVE")
  include(cmake/native.cmake)
  heed_native_isas(heed_isas)
endif()
if(heed_isas STREQUAL "ALL")
  set(heed_isas ${heed_known_isas})
else()
  list(PREPEND heed_isas scalar)
  # Each of these has but what it adds to the one before it.
  if("amx" IN_LIST heed_isas)
    list(APPEND heed_isas avx512bf16)
  endif()
  if("avx512bf16" IN_LIST heed_isas)
    list(APPEND heed_isas avx512)
  endif()
  if("neonbf16" IN_LIST heed_isas)
    list(APPEND heed_isas neon)
  endif()
  list(REMOVE_DUPLICATES heed_isas)
  foreach(isa ${heed_isas})
    if(NOT isa IN_LIST heed_known_isas)
      message(FATAL_ERROR "HEED_ISAS names ${isa}; for ${CMAKE_SYSTEM_PROCESSOR} it may name ${heed_known_isas}")
    endif()
  endforeach()
endif()
set(HEED_FLAGS_scalar "")
if(heed_isas MATCHES "sse2|neon" AND NOT HEED_SANITIZE)
  set(HEED_FLAGS_scalar -Os)  # every CPU has faster ones, which these are compared with
endif()
set(HEED_FLAGS_sse2 -msse2)
set(HEED_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(HEED_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512cd -mavx512dq -mavx512bw)
# xsimd wants IFMA where VBMI is; processors have them together.
set(HEED_FLAGS_avx512bf16 ${HEED_FLAGS_avx512} -mavx512bf16 -mavx512vnni -mavx512ifma -mavx512vbmi)
set(HEED_FLAGS_amx ${HEED_FLAGS_avx512bf16})  # its own instructions are written by name
set(HEED_FLAGS_neon "")
set(HEED_FLAGS_neonbf16 -mcpu=generic+bf16)  # for Clang, and zig, which knows no -march of Arm
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(HEED_FLAGS_neonbf16 -march=armv8.2-a+bf16)  # arm_neon.h of g++ wants it so
  # g++ 12 finds its own _mm512_undefined_ps() uninitialised (GCC bug 105593).
  list(APPEND HEED_FLAGS_avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
  list(APPEND HEED_FLAGS_avx512bf16 -Wno-uninitialized -Wno-maybe-uninitialized)
  list(APPEND HEED_FLAGS_amx -Wno-uninitialized -Wno-maybe-uninitialized)
endif()

if(HEED_SANITIZE)
  foreach(isa sse2 avx2 avx512 avx512bf16 amx neon neonbf16)
    list(APPEND HEED_FLAGS_${isa} -fno-sanitize=undefined)
    if(HEED_SANITIZE MATCHES "fuzzer")  # which looks at the ways through the scalar ones
      list(APPEND HEED_FLAGS_${isa} -fno-sanitize=fuzzer-no-link)
    endif()
  endforeach()
endif()

# heed_add_kernel(<target> <isa> <source>): compiles the source with the instruction set's flags.
function(heed_add_kernel target isa source)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS "${HEED_KERNEL_FLAGS};${HEED_FLAGS_${isa}}")
  string(TOUPPER ${isa} upper)
  target_compile_definitions(${target} PRIVATE HEED_ISA_${upper})
endfunction()

# heed_add_families(<target> <isa> <type>): compiles the families for an instruction set and a type,
# F32 or F64. Whoever links to the target gets the objects too.
function(heed_add_families target isa type)
  string(TOLOWER kernels_${isa}_${type} objects)
  add_library(${objects} OBJECT
    engine/kernels/numbers.cpp engine/kernels/panels.cpp engine/kernels/rows.cpp)
  heed_compile_options(${objects})
  target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${objects} SYSTEM PRIVATE ${HEED_XSIMD_INCLUDE_DIR})
  target_compile_options(${objects} PRIVATE ${HEED_KERNEL_FLAGS} ${HEED_FLAGS_${isa}})
  string(SUBSTRING ${isa} 0 1 initial)
  string(SUBSTRING ${isa} 1 -1 rest)
  string(TOUPPER ${initial} initial)
  target_compile_definitions(${objects} PRIVATE
    HEED_KERNEL_ISA=${initial}${rest} HEED_KERNEL_TYPE=${type})
  target_sources(${target} INTERFACE $<TARGET_OBJECTS:${objects}>)
endfunction()

# heed_add_kernels(<target>): all kernels. HEED_KERNEL_OBJECTS becomes the objects that are compiled
# for one instruction set each.
function(heed_add_kernels target)
  target_include_directories(${target} SYSTEM PRIVATE ${HEED_XSIMD_INCLUDE_DIR})
  foreach(isa ${heed_isas})
    if(EXISTS ${PROJECT_SOURCE_DIR}/engine/kernels/${isa}.cpp) # scalar, and those that add products
      heed_add_kernel(${target} ${isa} ${PROJECT_SOURCE_DIR}/engine/kernels/${isa}.cpp)
      continue()
    endif()
    heed_add_families(${target} ${isa} F32)
    heed_add_families(${target} ${isa} F64)
    string(TOUPPER ${isa} upper)
    target_compile_definitions(${target} PRIVATE HEED_ISA_${upper})
  endforeach()
  set(HEED_KERNEL_OBJECTS
    "$<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,/engine/kernels/>"
    $<TARGET_PROPERTY:${target},INTERFACE_SOURCES>
    PARENT_SCOPE)
endfunction()

# Executors that are wanted and found, compiled in side by side and chosen at run time.
function(heed_add_executors target)
  set(libraries "")
  if(HEED_TBB)
    heed_find(HEED_TBB libtbb-dev TBB)
    if(TBB_FOUND)
      target_sources(${target} PRIVATE
        ${PROJECT_SOURCE_DIR}/engine/parallel/tbb.cpp)
      target_compile_definitions(${target} PRIVATE HEED_WITH_TBB)
      target_link_libraries(${target} PRIVATE TBB::tbb)
      list(APPEND libraries TBB::tbb)
    endif()
  endif()
  if(HEED_OPENMP)
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/engine/parallel/openmp.cpp)
      target_compile_definitions(${target} PRIVATE HEED_WITH_OPENMP)
      target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
      list(APPEND libraries OpenMP::OpenMP_CXX)
      # g++ finds its own by name, whatever its version; others' lie where only they look.
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        set(HEED_OPENMP_RUNTIMES ${OpenMP_CXX_LIB_NAMES} PARENT_SCOPE)
      else()
        set(HEED_OPENMP_RUNTIMES ${OpenMP_CXX_LIBRARIES} PARENT_SCOPE)
      endif()
    elseif(NOT HEED_OPENMP STREQUAL "AUTO")
      message(FATAL_ERROR "HEED_OPENMP is ${HEED_OPENMP} but the compiler has no OpenMP")
    endif()
  endif()
  set(HEED_EXECUTOR_LIBRARIES ${libraries} PARENT_SCOPE)
  list(JOIN heed_isas " " isas)
  message(STATUS "heed: ISAs ${isas}; executors: serial threads ${libraries}")
endfunction()
