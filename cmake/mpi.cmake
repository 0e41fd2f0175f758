# heed_mpi: attention over MPI, a library beside heed. It knows heed by its C API; heed knows neither
# it nor MPI.

set(HEED_MPI_SOURCES
  api/heed_mpi.cpp
  engine/mpi/backward.cpp
  engine/mpi/choice.cpp
  engine/mpi/communicator.cpp
  engine/mpi/descriptor.cpp
  engine/mpi/forward.cpp
  engine/mpi/graph/edges.cpp
  engine/mpi/graph/graph.cpp
  engine/mpi/graph/plan.cpp
  engine/mpi/graph/run.cpp
  engine/mpi/plan.cpp
  engine/mpi/problem.cpp
  engine/mpi/spans.cpp
  engine/mpi/tensor.cpp)
# What a shared heed keeps to itself.
set(HEED_MPI_OWN_RUNTIME
  engine/runtime/error.cpp
  engine/tensor/dropout.cpp
  engine/tensor/layout.cpp)

set_source_files_properties(engine/mpi/tensor.cpp PROPERTIES
  COMPILE_OPTIONS "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fvect-cost-model=dynamic>")

# heed_add_mpi_library(<name> <mpi>): linked to the imported library <mpi>.
function(heed_add_mpi_library name mpi)
  list(TRANSFORM HEED_MPI_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
  list(TRANSFORM HEED_MPI_OWN_RUNTIME PREPEND ${PROJECT_SOURCE_DIR}/)
  add_library(${name} ${HEED_MPI_SOURCES} $<$<BOOL:${BUILD_SHARED_LIBS}>:${HEED_MPI_OWN_RUNTIME}>)
  heed_compile_options(${name})
  # As heed is: what takes time here are copies, and sums of gradients.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  # MPI's bindings for C++, where it still has any, would want a library of their own.
  target_compile_definitions(${name} PRIVATE HEED_BUILDING OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/api>
    PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC heed ${mpi})
  if(BUILD_SHARED_LIBS AND NOT APPLE)
    # What is compiled from the C++ library's templates stays inside, too; what nobody calls, outside.
    target_compile_options(${name} PRIVATE -ffunction-sections)
    target_link_options(${name} PRIVATE
      LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/heed_mpi.map LINKER:--gc-sections)
  endif()
  # libheed.so lies beside it, in the build as where it is installed. (Some MPIs name folders of their
  # own in the flags they want, which CMake cannot take out again.)
  set_target_properties(${name} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN"
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

# A cross compiler would be given the MPI of the machine that compiles.
if(HEED_MPI AND NOT (CMAKE_CROSSCOMPILING AND HEED_MPI STREQUAL "AUTO"))
  heed_find(HEED_MPI "libopenmpi-dev and openmpi-bin, or libmpich-dev and mpich" MPI)
  if(NOT heed_missing)
    heed_add_mpi_library(heed_mpi MPI::MPI_C)
    set_target_properties(heed_mpi PROPERTIES EXPORT_NAME mpi)
    add_library(heed::mpi ALIAS heed_mpi)
  endif()
endif()
