# Installation of the libraries: headers, libfovea.so, libfovea_emulator.so, and relocatable files for CMake and
# pkg-config. Programs are installed by the folders that build them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)
set(emulator "")
if(FOVEA_LABORATORY)
  set(emulator fovea_emulator_shared)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/emulator/include/fovea_emulator DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(TARGETS fovea_c ${emulator} EXPORT fovea)
install(TARGETS fovea_codecs LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})  # libfovea.so opens it
# All targets that are installed, which must be built before an installation; scripts/build builds this target.
add_custom_target(installed)
add_dependencies(installed fovea fovea_c fovea_codecs ${emulator})
install(EXPORT fovea NAMESPACE fovea:: FILE foveaConfig.cmake DESTINATION ${package})
# Before version 1.0, any minor version may change the interfaces.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/foveaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/foveaConfigVersion.cmake DESTINATION ${package})

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE prefix_from_here)
configure_file(${PROJECT_SOURCE_DIR}/cmake/fovea.pc.in ${PROJECT_BINARY_DIR}/fovea.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fovea.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
