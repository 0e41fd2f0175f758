# cmake -DPROGRAM=... [-DNAME=...] [-DARGUMENTS=...] -P check_output.cmake: the program prints what
# README.md shows below the line "$ NAME" (by default its own name), up to the end of the block.
cmake_minimum_required(VERSION 3.25)

if(NOT NAME)
  get_filename_component(NAME ${PROGRAM} NAME_WE)
endif()
file(READ ${CMAKE_CURRENT_LIST_DIR}/README.md readme)
string(FIND "${readme}" "\n$ ${NAME}\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not show what ${NAME} prints")
endif()
string(LENGTH "\n$ ${NAME}\n" title)
math(EXPR at "${at} + ${title}")
string(SUBSTRING "${readme}" ${at} -1 rest)
string(FIND "${rest}" "```" end)
string(SUBSTRING "${rest}" 0 ${end} expected)

separate_arguments(ARGUMENTS UNIX_COMMAND "${ARGUMENTS}")
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "${NAME} prints\n${output}\nREADME.md shows\n${expected}")
endif()
