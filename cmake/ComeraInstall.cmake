# comera::comera: all rooms behind one target and one header, here and after `make install`.
include(CMakePackageConfigHelpers)

# comera/comera.h names every public header of every room.
get_property(rooms GLOBAL PROPERTY COMERA_ROOMS)
set(includes "")
foreach(room ${rooms})
  string(REPLACE comera_ "" folder ${room})
  file(GLOB headers RELATIVE ${CMAKE_SOURCE_DIR}/src/${folder}/include CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/src/${folder}/include/comera/${folder}/*.h)
  foreach(header ${headers})
    string(APPEND includes "#include <${header}>\n")
  endforeach()
endforeach()
set(umbrella ${CMAKE_BINARY_DIR}/umbrella)
file(CONFIGURE OUTPUT ${umbrella}/comera/comera.h
  CONTENT "// All of comera.\n#pragma once\n\n${includes}")

add_library(comera_umbrella INTERFACE)
add_library(comera::comera ALIAS comera_umbrella)
set_target_properties(comera_umbrella PROPERTIES EXPORT_NAME comera)
target_compile_features(comera_umbrella INTERFACE cxx_std_20)
target_include_directories(comera_umbrella INTERFACE
  $<BUILD_INTERFACE:${umbrella}> $<INSTALL_INTERFACE:include>)
target_link_libraries(comera_umbrella INTERFACE ${rooms})

set(package lib/cmake/comera)
install(FILES ${umbrella}/comera/comera.h DESTINATION include/comera)
install(TARGETS comera_umbrella ${rooms} EXPORT comera ARCHIVE DESTINATION lib)
install(EXPORT comera NAMESPACE comera:: FILE comeraTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/comeraConfig.cmake.in ${CMAKE_BINARY_DIR}/comeraConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/comeraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/comeraConfig.cmake ${CMAKE_BINARY_DIR}/comeraConfigVersion.cmake
  DESTINATION ${package})

# The installed program finds the torch it was built with.
if(TARGET comera)
  set_target_properties(comera PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
