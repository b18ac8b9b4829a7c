# Compiles device code: the units that kernels/variants.py lists, each for its architectures, into the
# library that holds the machine code.
#
# The compiler is nvcc on the PATH, or CUDA's wheels in build/cuda (scripts/setup brings them). Without
# either the program is built without kernels and says so when a GPU is asked for.

option(FOVEA_BUILD_KERNELS "Compile the GPU's kernels, where there is a CUDA compiler" ON)
option(FOVEA_KERNEL_LINES "Keep the lines of the sources in the kernels, for `fovea kernel profile`" OFF)
find_program(FOVEA_NVCC nvcc HINTS ${PROJECT_SOURCE_DIR}/build/cuda/bin)
find_program(FOVEA_ZSTD zstd)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(kernel_folder ${CMAKE_BINARY_DIR}/kernels)
set(kernel_list ${PROJECT_SOURCE_DIR}/kernels/variants.py)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_list})
execute_process(COMMAND ${Python3_EXECUTABLE} ${kernel_list} ${kernel_folder}
                COMMAND_ERROR_IS_FATAL ANY)
include(${kernel_folder}/units.cmake)

# fovea_kernel_list: the tables of kernels, for those who plan with them.
add_library(fovea_kernel_list INTERFACE)
target_include_directories(fovea_kernel_list INTERFACE ${kernel_folder}/include)

# fovea_compile_unit(<unit> <arch>): machine code and the compiler's notes of one unit.
function(fovea_compile_unit unit arch)
  set(stem ${kernel_folder}/${unit}.sm_${arch})
  set(lines $<$<BOOL:${FOVEA_KERNEL_LINES}>:-lineinfo>)
  # -c beside -cubin is what lets ccache keep the result.
  add_custom_command(
    OUTPUT ${stem}.cubin ${stem}.log
    COMMAND sh -c "${CCACHE_PROGRAM} '${FOVEA_NVCC}' \"$@\" > '${stem}.log' 2>&1 || \
( cat '${stem}.log' && false )" nvcc -c -cubin -std=c++20 -O3 ${lines} -arch=sm_${arch}
            -I${PROJECT_SOURCE_DIR} -Xptxas -v --Werror all-warnings -MD -MF ${stem}.d
            -o ${stem}.cubin ${kernel_folder}/units/${unit}.cu
    DEPENDS ${kernel_folder}/units/${unit}.cu
    DEPFILE ${stem}.d
    COMMENT "kernels ${unit} for sm_${arch}" VERBATIM COMMAND_EXPAND_LISTS)
  add_custom_command(OUTPUT ${stem}.cubin.zst
                     COMMAND ${FOVEA_ZSTD} -19 -q -f -o ${stem}.cubin.zst ${stem}.cubin
                     DEPENDS ${stem}.cubin VERBATIM)
endfunction()

# fovea_embed_kernels(<target> <function> [LAB]): a library whose <function>() gives the compiled
# kernels: those of the product, or with LAB those of the laboratory alone.
function(fovea_embed_kernels target function)
  cmake_parse_arguments(PARSE_ARGV 2 arg "LAB" "" "")
  set(stems "")
  set(kind product)
  if(arg_LAB)
    set(kind lab)
  endif()
  if(FOVEA_NVCC AND FOVEA_BUILD_KERNELS)
    if(NOT FOVEA_ZSTD)
      message(FATAL_ERROR "zstd, which packs the kernels, is not here: scripts/setup installs it")
    endif()
    foreach(line ${FOVEA_KERNEL_UNITS})
      string(REPLACE "|" ";" fields ${line})
      list(GET fields 0 unit)
      list(GET fields 1 archs)
      list(GET fields 2 where)
      string(REPLACE "," ";" archs ${archs})
      if(where STREQUAL kind)
        foreach(arch ${archs})
          fovea_compile_unit(${unit} ${arch})
          list(APPEND stems ${kernel_folder}/${unit}.sm_${arch})
        endforeach()
      endif()
    endforeach()
  endif()
  list(TRANSFORM stems APPEND .cubin.zst OUTPUT_VARIABLE packed)
  list(TRANSFORM stems APPEND .log OUTPUT_VARIABLE logs)
  set(out ${kernel_folder}/${target})
  add_custom_command(
    OUTPUT ${out}.S ${out}.cpp
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/kernels/embed.py ${function} ${out} ${stems}
    DEPENDS ${PROJECT_SOURCE_DIR}/kernels/embed.py ${kernel_list} ${packed} ${logs} VERBATIM)
  add_library(${target} STATIC ${out}.S ${out}.cpp)
  target_link_libraries(${target} PUBLIC fovea_options fovea_kernel_list)
  # .incbin is invisible to dependency scanners: assemble again when a kernel changed.
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS "${packed}")
endfunction()
