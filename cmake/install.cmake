# `cmake --install`, whole or by component (runtime, development), for find_package(heed) and for
# pkg-config.

if(NOT HEED_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# A static library leaves its own libraries to those who link it. A C compiler knows neither the C++
# runtime nor OpenMP's, so both are named; CMake projects and pkg-config find the rest.
set(heed_requires "")
set(heed_cflags "")
if(NOT BUILD_SHARED_LIBS)
  set(heed_library_component development)
  set(heed_cflags " -DHEED_STATIC")
  if("OpenMP::OpenMP_CXX" IN_LIST HEED_EXECUTOR_LIBRARIES)
    list(PREPEND heed_runtimes ${HEED_OPENMP_RUNTIMES})
  endif()
  set(heed_linked ${heed_runtimes})
  if("TBB::tbb" IN_LIST HEED_EXECUTOR_LIBRARIES)
    set(heed_requires tbb)
    list(PREPEND heed_linked TBB::tbb)
  endif()
  target_link_libraries(heed PRIVATE "$<INSTALL_INTERFACE:${heed_linked}>")
else()
  set(heed_library_component runtime)
endif()

install(TARGETS heed EXPORT heedTargets
  RUNTIME COMPONENT runtime
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/heed
  COMPONENT ${heed_library_component})
install(FILES api/heed.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

# heed_mpi, by targets of its own: who does not ask for it needs no MPI.
if(TARGET heed_mpi)
  install(TARGETS heed_mpi EXPORT heedMpiTargets
    RUNTIME COMPONENT mpi
    LIBRARY COMPONENT mpi NAMELINK_COMPONENT mpi-development
    ARCHIVE COMPONENT mpi-development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(FILES api/heed_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mpi-development)
endif()

# ---- find_package(heed) --------------------------------------------------------------------

set(heed_package ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${heed_package} COMPONENT development)
configure_package_config_file(cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${heed_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
if(TARGET heed_mpi)
  install(EXPORT heedMpiTargets NAMESPACE heed:: DESTINATION ${heed_package}
    COMPONENT mpi-development)
endif()
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${heed_package} COMPONENT development)

# ---- pkg-config heed -----------------------------------------------------------------------

set(heed_private "")
if(NOT BUILD_SHARED_LIBS)
  foreach(library ${heed_runtimes} ${HEED_CBLAS_LIBRARIES})
    if(IS_ABSOLUTE ${library})
      string(APPEND heed_private " ${library}")
    else()
      string(APPEND heed_private " -l${library}")
    endif()
  endforeach()
  string(APPEND heed_private " -pthread")
endif()
# Found from where the file lies, so that an installed heed can be moved.
set(heed_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH heed_prefix ${heed_pkgconfig} ${CMAKE_INSTALL_PREFIX})
set(heed_libdir "\${prefix}")
set(heed_includedir "\${prefix}")
cmake_path(APPEND heed_libdir ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND heed_includedir ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/heed.pc.in ${PROJECT_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
if(TARGET heed_mpi)
  # Without MPI's own flags: each MPI has another name there, and mpicc adds them anyway.
  configure_file(cmake/heed-mpi.pc.in ${PROJECT_BINARY_DIR}/heed-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/heed-mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT mpi-development)
endif()
