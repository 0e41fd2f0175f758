vcpkg_download_distfile(archive
  URLS "@HEED_URL@"
  FILENAME "heed-@HEED_VERSION@.tar.xz"
  SHA512 @HEED_SHA512@)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES tbb HEED_TBB)
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS ${features}
  "-DHEED_XSIMD_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include"
  -DHEED_OPENMP=OFF -DHEED_CBLAS=OFF -DHEED_MPI=OFF -DHEED_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/heed)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
