# What api/python/CMakeLists.txt asks of CMake, answered for a Python that cannot run here. CMake's own
# module asks the interpreter; this one is told, by wheels.py:
#   HEED_PYTHON_VERSION  as in 3.13
#   HEED_PYTHON_ABI      its part of the name of a module, as in cpython-313-x86_64-linux-gnu; with a t
#                        after the version of a free-threaded one
#   HEED_PYTHON_HEADERS  folders
# and Python_EXECUTABLE, a Python of this system, imports the module to describe it, where it can.
set(Python_VERSION ${HEED_PYTHON_VERSION})
string(REPLACE "." ";" version ${HEED_PYTHON_VERSION})
list(GET version 0 Python_VERSION_MAJOR)
list(GET version 1 Python_VERSION_MINOR)
set(Python_INTERPRETER_ID Python)
set(Python_SOABI ${HEED_PYTHON_ABI})
set(Python_SOSABI abi3)
set(Python_INCLUDE_DIRS ${HEED_PYTHON_HEADERS})
foreach(component Module SABIModule)
  if(NOT TARGET Python::${component})
    add_library(Python::${component} INTERFACE IMPORTED)
    target_include_directories(Python::${component} INTERFACE ${HEED_PYTHON_HEADERS})
  endif()
endforeach()
if(NOT TARGET Python::Interpreter)
  add_executable(Python::Interpreter IMPORTED)
  set_target_properties(Python::Interpreter PROPERTIES IMPORTED_LOCATION ${Python_EXECUTABLE})
endif()
if(HEED_PYTHON_ABI MATCHES "^cpython-[0-9]+t-")
  add_compile_definitions(Py_GIL_DISABLED=1)
endif()
# nanobind 3.1 takes it for granted, but neither the stable ABI nor Clang's C++ library brings it.
add_compile_options("SHELL:-include stdio.h")
set(Python_FOUND TRUE)
