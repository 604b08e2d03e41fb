# cmake -DCOMPILER=… -DINCLUDE=… -DHEADERS=… -DHEADER=… -P precompile.cmake
# Compiles a header beforehand, with the options of check.cmake, where g++ finds it in the place of the header itself.
set(compiled ${HEADERS}/${HEADER}.gch)
cmake_path(GET compiled PARENT_PATH folder)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${COMPILER} -std=c++20 -w -x c++-header -I${INCLUDE} ${INCLUDE}/${HEADER} -o ${compiled}
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${HEADER} does not compile")
endif()
