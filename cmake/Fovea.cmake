# Settings of all targets of the project, and functions for the folders' CMakeLists.txt. They do not affect an enclosing
# project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)  # unoptimised builds would be far too slow
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

# fovea_options: warnings, include roots and sanitizers, linked by every target.
add_library(fovea_options INTERFACE)
target_include_directories(fovea_options INTERFACE ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_SOURCE_DIR}/src
                                                   ${PROJECT_SOURCE_DIR})
option(FOVEA_WARNINGS "Compile with warnings, which are errors" ${PROJECT_IS_TOP_LEVEL})
if(FOVEA_WARNINGS)
  # In unity builds GCC's -Wshadow would also report names of other sources.
  set(as_one $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
  target_compile_options(fovea_options INTERFACE
                         -Wall -Wextra -Wpedantic
                         $<$<NOT:$<AND:$<CXX_COMPILER_ID:GNU>,${as_one}>>:-Wshadow>
                         -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
endif()
# GCC collects its garbage above 512 MiB rather than above a few MiB, which takes a twentieth of its time.
target_compile_options(fovea_options INTERFACE
                       $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
target_compile_definitions(fovea_options INTERFACE FOVEA_VERSION="${PROJECT_VERSION}")
set(FOVEA_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
if(FOVEA_SANITIZE)
  target_compile_options(fovea_options INTERFACE -fsanitize=${FOVEA_SANITIZE}
                                                 -fno-sanitize-recover=all
                                                 -fno-omit-frame-pointer)
  target_link_options(fovea_options INTERFACE -fsanitize=${FOVEA_SANITIZE})
endif()
# CPUs before AVX2 multiply with generic code, so they gain nothing from more instruction sets elsewhere.
target_compile_definitions(fovea_options INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")

# Hardening, because the program parses untrusted files. Options that the compiler or linker lacks are left out.
# tests/cli/test_hardening.py checks the binaries.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
foreach(flag -fstack-protector-strong -fcf-protection)
  string(MAKE_C_IDENTIFIER "FOVEA_HAS${flag}" has)
  check_cxx_compiler_flag(${flag} ${has})
  if(${has})
    target_compile_options(fovea_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endif()
endforeach()
target_link_options(fovea_options INTERFACE -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
if(NOT FOVEA_SANITIZE)  # sanitizers replace the functions that _FORTIFY_SOURCE checks
  # The C library warns about an unknown level, and compilers that define a level warn about a redefinition.
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("#include <cstring>\nint main() { return 0; }" FOVEA_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(level $<IF:$<BOOL:${FOVEA_HAS_FORTIFY_3}>,3,2>)
  # _FORTIFY_SOURCE needs optimised code, and some tests are not optimised.
  set(optimised $<AND:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>,$<NOT:$<BOOL:$<TARGET_PROPERTY:FOVEA_IS_PLAIN>>>>)
  target_compile_options(
    fovea_options INTERFACE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,${optimised}>:\
-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>")
endif()
# Folders that parse files and replies, in which an index out of bounds aborts the program. Folders of inner loops are
# left out: their sizes are checked by the callers.
set(FOVEA_PARSING_FOLDERS io image text model pipeline collection hub search)

# Builds with sanitizers, and those of scripts/test, precompile the headers that most sources include. Builds for
# development do not, because a source with a missing include must not compile there.
option(FOVEA_PRECOMPILE "Precompile the headers that most sources include (GCC; clang for sanitizers)" OFF)
if(FOVEA_PRECOMPILE AND (FOVEA_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL GNU))
  if(FOVEA_SANITIZE)
    target_compile_definitions(fovea_options INTERFACE _GLIBCXX_ASSERTIONS)  # must be the same for all targets
    # In precompiled headers clang also reports libstdc++'s own uses of deprecated functions (std::stable_sort).
    target_compile_options(fovea_options INTERFACE -Wno-deprecated-declarations)
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
  # fovea_precompiled(<kind> HEADERS... OPTIONS...): precompiles headers for targets with the same options.
  function(fovea_precompiled kind)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;OPTIONS")
    set(name fovea_precompiled_${kind})
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(${name} PRIVATE fovea_options fmt::fmt)
    target_compile_options(${name} PRIVATE ${arg_OPTIONS})
    target_precompile_headers(
      ${name} PRIVATE
      <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <fstream> <functional> <iostream> <map>
      <memory> <mutex> <optional> <random> <set> <string> <string_view> <thread> <vector> <fmt/format.h>
      <fmt/ranges.h> <nlohmann/json.hpp> ${arg_HEADERS})
  endfunction()
  if(FOVEA_SANITIZE)
    fovea_precompiled(all)
    fovea_precompiled(fuzzed OPTIONS -fsanitize=fuzzer-no-link)
    set(FOVEA_NOT_PRECOMPILED fake_driver)
  else()
    # GCC accepts headers that were precompiled at another optimisation level (other than -O0), but not with other
    # macros, or with -fPIC instead of -fPIE.
    fovea_precompiled(parsing)
    target_compile_definitions(fovea_precompiled_parsing PRIVATE _GLIBCXX_ASSERTIONS)
    fovea_precompiled(library)
    set_target_properties(fovea_precompiled_parsing fovea_precompiled_library
                          PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    fovea_precompiled(visible)
    fovea_precompiled(test HEADERS <gtest/gtest.h> OPTIONS -fPIE -DGTEST_HAS_PTHREAD=1)
    fovea_precompiled(plain_test HEADERS <gtest/gtest.h> OPTIONS -fPIE -DGTEST_HAS_PTHREAD=1 -O0)
    set_target_properties(fovea_precompiled_plain_test PROPERTIES FOVEA_IS_PLAIN ON)
    set_target_properties(fovea_precompiled_test fovea_precompiled_plain_test
                          PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    # The fake driver and torch's operators do not use the libraries of the precompiled headers.
    set(FOVEA_NOT_PRECOMPILED fake_driver fovea_torch)
  endif()
  # Sets <result> to the kind of precompiled headers for a target, or to "" for none.
  function(fovea_precompiled_kind result target)
    get_target_property(type ${target} TYPE)
    get_target_property(options ${target} COMPILE_OPTIONS)
    get_target_property(definitions ${target} COMPILE_DEFINITIONS)
    get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(plain ${target} FOVEA_IS_PLAIN)
    set(kind "")
    if(target IN_LIST FOVEA_NOT_PRECOMPILED OR NOT type MATCHES "STATIC|SHARED|MODULE|EXECUTABLE"
       OR NOT "${libraries}" MATCHES "fovea_options")
    elseif(FOVEA_SANITIZE)  # clang rejects headers that were precompiled at another optimisation level
      if(NOT "${options}" MATCHES "-O1")
        set(kind all)
        if("${options}" MATCHES "fuzzer-no-link")
          set(kind fuzzed)
        endif()
      endif()
    elseif(type STREQUAL EXECUTABLE)
      set(kind library)
      if(plain)
        set(kind plain_test)
      elseif(target MATCHES "_test$")
        set(kind test)
      endif()
    elseif("${definitions}" MATCHES "_GLIBCXX_ASSERTIONS")
      if(visibility STREQUAL hidden)
        set(kind parsing)
      endif()
    elseif(visibility STREQUAL hidden)
      set(kind library)
    else()
      set(kind visible)
    endif()
    set(${result} "${kind}" PARENT_SCOPE)
  endfunction()
  # Applies precompiled headers to all targets below a folder; called after all targets are defined.
  function(fovea_use_precompiled folder)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      fovea_precompiled_kind(kind ${target})
      if(kind)
        target_link_libraries(${target} PRIVATE fmt::fmt)
        get_target_property(type ${target} TYPE)
        if(FOVEA_SANITIZE)
          target_compile_options(${target} PRIVATE -fPIC)
        elseif(type STREQUAL EXECUTABLE AND kind STREQUAL library)  # so that programs need no headers of their own
          target_compile_options(${target} PRIVATE -fPIC)
          set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
        endif()
        target_precompile_headers(${target} REUSE_FROM fovea_precompiled_${kind})
      endif()
    endforeach()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(below ${folders})
      fovea_use_precompiled(${below})
    endforeach()
  endfunction()
  cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL fovea_use_precompiled ${PROJECT_SOURCE_DIR})
endif()

# fovea_library(<folder> [libraries...]): adds a static library fovea_<folder> of the .cpp files in the current folder.
function(fovea_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(fovea_${name} STATIC ${sources})
  target_link_libraries(fovea_${name} PUBLIC fovea_options ${ARGN})
  if(name IN_LIST FOVEA_PARSING_FOLDERS)
    target_compile_definitions(fovea_${name} PRIVATE _GLIBCXX_ASSERTIONS)
  endif()
  # With sanitizers, only the libraries that compute are optimised, and without them, those that call others are less:
  # for these, optimisation takes longer than it saves.
  set(little "api|pipeline|collection|hub|model|io")
  if(FOVEA_SANITIZE)
    set(little "core|text|ops|image|cpu|quantize|search")
  endif()
  if(name MATCHES "^(${little})$")
    target_compile_options(fovea_${name} PRIVATE -O1)
  endif()
endfunction()

# fovea_plain(<target>): compiles a target without optimisation.
function(fovea_plain target)
  if(NOT FOVEA_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
    set_target_properties(${target} PROPERTIES FOVEA_IS_PLAIN ON)
  endif()
endfunction()

# fovea_test(<folder> [libraries...] [ASAN <filter>] [TSAN <filter>]): adds a GoogleTest program <folder>_test of
# tests/<folder>/*.cpp. Builds with a sanitizer run the tests that match the filter ("*": all). The default of ASAN is
# all tests, and that of TSAN none, for programs without threads, which the target `unit_tests` then leaves out.
function(fovea_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ASAN;TSAN" "")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE fovea_options ${arg_UNPARSED_ARGUMENTS} GTest::gtest
                                             GTest::gtest_main)
  # This warning is for GCC, because clang does not give it in unity builds, such as those of asan and tsan.
  target_compile_options(${name}_test PRIVATE
                         $<$<CXX_COMPILER_ID:GNU>:-Wunused-const-variable=1>)
  # Optimising tests takes longer than it saves, except for some that compute a lot.
  if(name MATCHES "^(ops|image|search)$" OR (name MATCHES "^(cpu|emulator|gpu)$" AND NOT FOVEA_SANITIZE))
    target_compile_options(${name}_test PRIVATE -O1)
  else()
    fovea_plain(${name}_test)
  endif()
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # Most of the compilation time of tests is spent on includes, so several sources are compiled as one.
  if(NOT CMAKE_UNITY_BUILD)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if(FOVEA_SANITIZE MATCHES thread AND NOT arg_TSAN)
    return()
  endif()
  set(filter "")
  if(FOVEA_SANITIZE MATCHES thread AND NOT arg_TSAN STREQUAL "*")
    set(filter FILTER "${arg_TSAN}")
  elseif(FOVEA_SANITIZE MATCHES address AND arg_ASAN)
    set(filter FILTER "${arg_ASAN}")
  endif()
  add_dependencies(unit_tests ${name}_test)
  fovea_discover_tests(${name} SHARDS 4 ${filter})
endfunction()

# fovea_discover_tests(<name> [FROM <folder>] [FILTER <pattern>] [SEED <number>] [SHARDS <count>] [ENVIRONMENT <x=y>]):
# registers each test of the program <folder>_test (default: <name>_test) in ctest as <name>/<test>. Because most tests
# take less time than the start of a process, `ctest -C whole -L whole` instead runs the programs in <count> shards, in
# which the environment variable GTEST_FILTER can exclude tests.
function(fovea_discover_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FROM;FILTER;SEED;SHARDS;ENVIRONMENT" "")
  set(program ${name}_test)
  set(arguments "")
  set(filter "")
  set(own "")
  if(arg_FROM)
    set(program ${arg_FROM}_test)
  endif()
  if(arg_SEED)
    set(arguments --gtest_random_seed=${arg_SEED})
  endif()
  if(arg_FILTER)
    set(filter TEST_FILTER "${arg_FILTER}")
  endif()
  if(arg_ENVIRONMENT)
    set(own ENVIRONMENT ${arg_ENVIRONMENT})
  endif()
  gtest_discover_tests(${program} TEST_PREFIX "${name}/" ${filter} EXTRA_ARGS ${arguments} DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 300 ${own})
  if(arg_FILTER)
    list(APPEND arguments "--gtest_filter=${arg_FILTER}")
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    set(test ${name}/${shard}_of_${arg_SHARDS})
    add_test(NAME ${test} COMMAND ${program} --gtest_brief=1 ${arguments} CONFIGURATIONS whole)
    set(environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index} ${arg_ENVIRONMENT})
    set_tests_properties(${test} PROPERTIES LABELS whole TIMEOUT 900 ENVIRONMENT "${environment}")
  endforeach()
endfunction()
