# What `cmake --install` puts under the prefix: library, headers, CMake package, pkg-config file.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
set(generated_dir ${PROJECT_BINARY_DIR}/package)

install(TARGETS tessera tessera_c EXPORT tesseraTargets FILE_SET HEADERS)
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${package_dir})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tesseraConfig.cmake.in ${generated_dir}/tesseraConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${generated_dir}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated_dir}/tesseraConfig.cmake ${generated_dir}/tesseraConfigVersion.cmake
        DESTINATION ${package_dir})

# The .pc file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
foreach(package IN ITEMS tessera tessera-c)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in ${generated_dir}/${package}.pc @ONLY)
  install(FILES ${generated_dir}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
