# `cmake --install` and find_package(heed).

if(NOT HEED_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

install(FILES api/heed.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS heed EXPORT heedTargets)
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
configure_package_config_file(cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
