# Debian's cross compiler for 64-bit Arm; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)

# The header-only packages of the build machine serve the target too, but its /usr/include as a
# whole must stay out: each is reached through a folder that holds nothing else.
set(heed_headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${heed_headers})
foreach(package xsimd catch2)
  if(EXISTS /usr/include/${package})
    file(CREATE_LINK /usr/include/${package} ${heed_headers}/${package} SYMBOLIC)
  endif()
endforeach()
set(HEED_XSIMD_INCLUDE_DIR ${heed_headers} CACHE PATH "Folder that holds xsimd/xsimd.hpp")
set(HEED_CATCH2_INCLUDE_DIR ${heed_headers} CACHE PATH "Folder that holds catch2/catch.hpp")
