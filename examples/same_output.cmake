# cmake -DPROGRAM=… [-DARGUMENT=…] -DDEVICE=… [-DDIFFERS=regex] -DFOLDER=… -P same_output.cmake
# The program must print the same on the device as on the CPU, except for lines that match DIFFERS, which mention the
# device or times.
function(run device result)
  # A separate folder for the files it writes.
  file(MAKE_DIRECTORY ${FOLDER}/${device})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TESSERA_DEVICE=${device} ${PROGRAM} ${ARGUMENT}
    WORKING_DIRECTORY ${FOLDER}/${device}
    OUTPUT_VARIABLE output
    RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "On ${device} it ended with ${code}:\n${output}")
  endif()
  if(DIFFERS)
    string(REGEX REPLACE "[^\n]*(${DIFFERS})[^\n]*\n" "" output "${output}")
  endif()
  if(output STREQUAL "")
    message(FATAL_ERROR "On ${device} it printed nothing that could be compared.")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

run(cpu expected)
run(${DEVICE} output)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "On cpu it printed\n${expected}\nand on ${DEVICE}\n${output}")
endif()
