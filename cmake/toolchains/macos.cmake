# zig as the compiler for macOS: HEED_MACOS is arm64 or x86_64, and HEED_ZIG a folder with the programs cc, c++,
# ar and ranlib, which `./dev macos` makes. It has the system's headers and the names of its libraries.
set(HEED_MACOS arm64 CACHE STRING "arm64 or x86_64")
set(HEED_ZIG "" CACHE PATH "Folder of cc, c++, ar and ranlib")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEED_MACOS HEED_ZIG)
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR ${HEED_MACOS})
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_C_COMPILER ${HEED_ZIG}/cc)
set(CMAKE_CXX_COMPILER ${HEED_ZIG}/c++)
set(CMAKE_AR ${HEED_ZIG}/ar)
set(CMAKE_RANLIB ${HEED_ZIG}/ranlib)
set(CMAKE_INSTALL_NAME_TOOL /bin/true)  # nothing is installed
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Headers alone, where `./dev macos` unpacks them.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../../build/macos-packages/usr)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
