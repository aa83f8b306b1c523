# comera_room(NAME [TORCH | OWN_FLAGS] [APART] SOURCES a.cpp ... [DEPENDS comera::room ...] [PRIVATE_DEPENDS lib ...])
#   One static library comera_NAME (comera::NAME) with its own include folder. Only what DEPENDS names is visible.
#   OWN_FLAGS: compiled with options of its own, so without a precompiled header. APART: its files use the same names
#   for their own things, so each is compiled alone.
# comera_test(NAME [TORCH] [APART] SOURCES a_test.cpp ... DEPENDS lib ... [LABELS kernel|operator|parser ...])
#   One GoogleTest program, one ctest entry. Those with labels are what sanitizers run: target labelled_tests.
# comera_program_test(NAME script.py)   A Python test of the command line (tests/support/program.py).

# About half of what a file with torch takes goes into headers alone, so files are compiled several at a time; an edit
# then compiles its neighbours too.
option(COMERA_UNITY "Compile several files of a room together: clean builds take half as long" ON)
set(COMERA_UNITY_FILES 6)

add_custom_target(labelled_tests)
add_library(comera_options INTERFACE)
target_compile_options(comera_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare
  -Wno-missing-field-initializers)
if(COMERA_UNITY)  # GCC takes each file of several for a header, whose types others could see
  target_compile_options(comera_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(COMERA_SANITIZE)
  # The address sanitizer finds null pointers too; checks of every call's object would take a fifth of the build.
  add_compile_options(-fsanitize=${COMERA_SANITIZE} -fno-sanitize=null,vptr -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${COMERA_SANITIZE})
endif()

# Two precompiled headers, with torch and without, shared by all rooms and tests. A program must be compiled with the
# same flag as the libraries, or the compiler sets the header aside.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch.cpp CONTENT "// Only carries a precompiled header.\n")
add_library(comera_plain_pch STATIC ${CMAKE_BINARY_DIR}/pch.cpp)
target_link_libraries(comera_plain_pch PUBLIC comera_options fmt::fmt-header-only nlohmann_json::nlohmann_json)
target_precompile_headers(comera_plain_pch PRIVATE <algorithm> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <span> <string> <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
add_library(comera_torch_pch STATIC ${CMAKE_BINARY_DIR}/pch.cpp)
target_link_libraries(comera_torch_pch PUBLIC comera_options torch fmt::fmt-header-only nlohmann_json::nlohmann_json)
target_precompile_headers(comera_torch_pch PRIVATE <torch/autograd.h> <torch/library.h>
  <torch/nn/module.h> <torch/nn/pimpl.h> <torch/types.h> <torch/utils.h> <fmt/format.h> <nlohmann/json.hpp>)

function(comera_room name)
  cmake_parse_arguments(ROOM "TORCH;OWN_FLAGS;APART" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(comera_${name} STATIC ${ROOM_SOURCES})
  add_library(comera::${name} ALIAS comera_${name})
  set_target_properties(comera_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(comera_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(comera_${name} PUBLIC ${ROOM_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:comera_options> ${ROOM_PRIVATE_DEPENDS})
  if(ROOM_TORCH)
    target_link_libraries(comera_${name} PUBLIC torch)
    target_precompile_headers(comera_${name} REUSE_FROM comera_torch_pch)
  elseif(NOT ROOM_OWN_FLAGS)
    target_precompile_headers(comera_${name} REUSE_FROM comera_plain_pch)
  endif()
  if(NOT ROOM_OWN_FLAGS AND NOT ROOM_APART)
    set_target_properties(comera_${name} PROPERTIES UNITY_BUILD ${COMERA_UNITY} UNITY_BUILD_BATCH_SIZE ${COMERA_UNITY_FILES})
  endif()
  set_property(GLOBAL APPEND PROPERTY COMERA_ROOMS comera_${name})
  install(DIRECTORY include/ DESTINATION include)
endfunction()

function(comera_test name)
  cmake_parse_arguments(TEST "TORCH;APART" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(test_${name} ${TEST_SOURCES})
  target_link_libraries(test_${name} PRIVATE comera_options comera_test_support ${TEST_DEPENDS} GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # compiles a fifth faster
  if(TEST_TORCH)
    target_link_libraries(test_${name} PRIVATE torch)
    target_precompile_headers(test_${name} REUSE_FROM comera_torch_pch)
  else()
    target_precompile_headers(test_${name} REUSE_FROM comera_plain_pch)
  endif()
  if(NOT TEST_APART)
    set_target_properties(test_${name} PROPERTIES UNITY_BUILD ${COMERA_UNITY} UNITY_BUILD_BATCH_SIZE ${COMERA_UNITY_FILES})
  endif()
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${TEST_LABELS}")
  if(TEST_LABELS)
    add_dependencies(labelled_tests test_${name})
  endif()
endfunction()

function(comera_program_test name script)
  if(TARGET comera AND COMERA_PYTHON)
    add_test(NAME ${name} COMMAND ${COMERA_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${script} $<TARGET_FILE:comera>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 ENVIRONMENT "COMERA_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
  endif()
endfunction()
