# cmake -DCOMPILER=… -DINCLUDE=… -DHEADERS=… -DSOURCE=… -P check.cmake
# The source must not compile, and the first error that the user sees must be its line "// Error: …". As a control, it
# must compile with -DFIXED.
file(STRINGS ${SOURCE} expected REGEX "^// Error: " LIMIT_COUNT 1)
if(NOT expected)
  message(FATAL_ERROR "${SOURCE} has no line \"// Error: …\"")
endif()
string(REPLACE "// Error: " "" expected "${expected}")
set(command ${COMPILER} -std=c++20 -fsyntax-only -fdiagnostics-color=never -I${HEADERS} -I${INCLUDE} ${SOURCE})

execute_process(COMMAND ${command} -DFIXED RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "The control does not compile:\n${output}")
endif()

execute_process(COMMAND ${command} RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "It compiles, and should not.")
endif()
string(REGEX MATCH "[^\n]*error:[^\n]*" first "${output}")
string(FIND "${first}" "${expected}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "The first error should say\n  ${expected}\nand is\n  ${first}\nof\n${output}")
endif()
