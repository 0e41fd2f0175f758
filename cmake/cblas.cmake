# A BLAS library with the C interface, wanted and found, which a context may choose for projections.

# heed_add_cblas(<target>): sets HEED_CBLAS_LIBRARIES, empty where there is none.
function(heed_add_cblas target)
  set(HEED_CBLAS_LIBRARIES "" PARENT_SCOPE)
  if(NOT HEED_CBLAS)
    return()
  endif()
  find_path(HEED_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas DOC "Folder that holds cblas.h")
  find_library(HEED_CBLAS_LIBRARY NAMES openblas blis mkl_rt cblas
    DOC "Library with cblas_sgemm and cblas_dgemm")
  if(HEED_CBLAS_INCLUDE_DIR AND HEED_CBLAS_LIBRARY)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/engine/projection/cblas.cpp)
    target_compile_definitions(${target} PRIVATE HEED_WITH_CBLAS)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/engine/projection/cblas.cpp
      TARGET_DIRECTORY ${target} PROPERTIES INCLUDE_DIRECTORIES ${HEED_CBLAS_INCLUDE_DIR})
    target_link_libraries(${target} PRIVATE ${HEED_CBLAS_LIBRARY})
    set(HEED_CBLAS_LIBRARIES ${HEED_CBLAS_LIBRARY} PARENT_SCOPE)
    message(STATUS "heed: CBLAS ${HEED_CBLAS_LIBRARY}")
  elseif(NOT HEED_CBLAS STREQUAL "AUTO")
    message(FATAL_ERROR "HEED_CBLAS is ${HEED_CBLAS} but no CBLAS library was found: install libopenblas-dev, or set HEED_CBLAS_INCLUDE_DIR and HEED_CBLAS_LIBRARY")
  endif()
endfunction()
