# Zig's compiler, which is Clang with the C libraries of other systems: the package ziglang of PyPI.
# HEED_ZIG is its program, HEED_ZIG_TARGET a system and, of glibc, the oldest version that shall do:
# x86_64-linux-gnu.2.28, aarch64-linux-musl, aarch64-macos, x86_64-freebsd.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEED_ZIG HEED_ZIG_TARGET)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${HEED_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
if(HEED_ZIG_TARGET MATCHES "-freebsd")
  set(CMAKE_SYSTEM_NAME FreeBSD)
elseif(HEED_ZIG_TARGET MATCHES "-macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_OSX_SYSROOT "")
  set(CMAKE_INSTALL_NAME_TOOL /bin/true)  # nothing is installed
endif()

# It adds what debuggers read unless told not to.
set(CMAKE_C_COMPILER ${HEED_ZIG} cc -target ${HEED_ZIG_TARGET} -g0)
set(CMAKE_CXX_COMPILER ${HEED_ZIG} c++ -target ${HEED_ZIG_TARGET} -g0)
set(CMAKE_AR ${HEED_ZIG})
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_AR> ranlib <TARGET>")
endforeach()

# A program that is linked to try the compiler would have a C++ library compiled for it alone.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# This system's headers and libraries are not the target's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
