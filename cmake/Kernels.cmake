# Compiles device code: the units that kernels/variants.py lists, each for its targets, and embeds the machine code and
# PTX in a library.
#
# The compiler is nvcc on the PATH, or CUDA's wheels in build/cuda, which scripts/setup installs. Without a compiler the
# program is built without kernels, and reports this when a GPU is requested.

option(FOVEA_BUILD_KERNELS "Compile the GPU kernels if there is a CUDA compiler" ON)
set(FOVEA_ONLY_KERNELS "" CACHE STRING "Compile only kernel units whose names match this pattern; empty: all")
set(FOVEA_KERNEL_PACKING 17 CACHE STRING "zstd's level for PTX; 12 takes a ninth of the time, and 0.4 MB more space")
option(FOVEA_KERNEL_LINES "Keep line information in the kernels, for debuggers" OFF)
find_program(FOVEA_NVCC nvcc HINTS ${PROJECT_SOURCE_DIR}/build/cuda/bin)
find_program(FOVEA_ZSTD zstd)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(kernel_folder ${PROJECT_BINARY_DIR}/kernels)
set(kernel_list ${PROJECT_SOURCE_DIR}/kernels/variants.py)
set(kernel_list_parts ${kernel_list} ${PROJECT_SOURCE_DIR}/kernels/gemm_variants.py
                      ${PROJECT_SOURCE_DIR}/kernels/kernel_entry.py ${PROJECT_SOURCE_DIR}/kernels/archs.py)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_list_parts})
execute_process(COMMAND ${Python3_EXECUTABLE} ${kernel_list} ${kernel_folder}
                COMMAND_ERROR_IS_FATAL ANY)
include(${kernel_folder}/units.cmake)
file(MAKE_DIRECTORY ${kernel_folder}/plain)

# fovea_kernel_list: headers with the tables of architectures and kernels.
add_library(fovea_kernel_list INTERFACE)
target_include_directories(fovea_kernel_list INTERFACE ${kernel_folder}/include)

# fovea_run_nvcc(<output> <log> ARGUMENTS... [DEPENDS ...] [DEPFILE ...]): runs nvcc. ccache only caches results of
# calls with -c, so it is added to -cubin and -ptx.
function(fovea_run_nvcc output log)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "DEPFILE" "DEPENDS")
  set(depfile "")
  if(arg_DEPFILE)
    set(depfile DEPFILE ${arg_DEPFILE})
  endif()
  cmake_path(GET output FILENAME name)
  add_custom_command(
    OUTPUT ${output} ${log}
    COMMAND sh -c "${CCACHE_PROGRAM} '${FOVEA_NVCC}' \"$@\" > '${log}' 2>&1 || ( cat '${log}' && false )" nvcc -c
            --Werror all-warnings ${arg_UNPARSED_ARGUMENTS} -o ${output}
    DEPENDS ${arg_DEPENDS} ${depfile}
    COMMENT "kernels ${name}" VERBATIM)
endfunction()

# fovea_compile_unit(<result> <unit> <target> <from>): compiles a unit for a target, and sets <result> to the file: its
# PTX if <from> is "cu", or else machine code, made from the PTX for the target <from>, with ptxas's log next to it. PTX
# has line information for the emulator, machine code only with FOVEA_KERNEL_LINES. The assembler must not fuse
# multiplications and additions, so that machine code rounds exactly like the PTX in the emulator.
function(fovea_compile_unit result unit target from)
  set(stem ${kernel_folder}/${unit}.${target})
  if(from STREQUAL cu)
    set(code ${stem}.ptx)
    set(source ${kernel_folder}/units/${unit}.cu)
    fovea_run_nvcc(${stem}.nvcc ${stem}.log -ptx -lineinfo -arch=${target} -std=c++20 -O3 -I${PROJECT_SOURCE_DIR} -MD
                   -MF ${stem}.d ${source} DEPENDS ${source} DEPFILE ${stem}.d)
    set(tidy ${PROJECT_SOURCE_DIR}/kernels/tidy_ptx.py)
    add_custom_command(OUTPUT ${code} ${kernel_folder}/plain/${unit}.${target}.ptx
                       COMMAND Python3::Interpreter ${tidy} ${stem}.nvcc ${PROJECT_SOURCE_DIR} ${code}
                               ${kernel_folder}/plain/${unit}.${target}.ptx
                       DEPENDS ${tidy} ${stem}.nvcc VERBATIM)
  else()
    set(code ${stem}.cubin)
    set(source ${kernel_folder}/plain/${unit}.${from}.ptx)
    set(lines "")
    if(FOVEA_KERNEL_LINES)
      set(source ${kernel_folder}/${unit}.${from}.ptx)
      set(lines -lineinfo)
    endif()
    fovea_run_nvcc(${code} ${stem}.log -cubin -Xptxas -v -Xptxas -fmad=false ${lines} -arch=${target} ${source} DEPENDS ${source})
  endif()
  add_custom_command(OUTPUT ${code}.zst COMMAND ${FOVEA_ZSTD} -19 -q -f -o ${code}.zst ${code}
                     DEPENDS ${code} ${stem}.log VERBATIM)
  set(${result} ${code} PARENT_SCOPE)
endfunction()

# fovea_embed_kernels(<target> <function> [LAB]): adds a library whose <function>() returns the compiled kernels of the
# product, or, with LAB, those of the laboratory.
function(fovea_embed_kernels target function)
  cmake_parse_arguments(PARSE_ARGV 2 arg "LAB" "" "")
  set(files "")   # compiled files, which kernels/embed.py reads
  set(packed "")  # compressed files that are loaded by the driver
  set(kind product)
  if(arg_LAB)
    set(kind lab)
  endif()
  if(FOVEA_NVCC AND FOVEA_BUILD_KERNELS)
    if(NOT FOVEA_ZSTD)
      message(FATAL_ERROR "cannot find zstd, which compresses the kernels; scripts/setup installs it")
    endif()
    foreach(line ${FOVEA_KERNEL_UNITS})
      string(REPLACE "|" ";" fields ${line})
      list(GET fields 0 unit)
      list(GET fields 1 compiled_to)
      list(GET fields 2 from)
      list(GET fields 3 where)
      list(GET fields 4 driver)
      if(where STREQUAL kind AND (NOT FOVEA_ONLY_KERNELS OR unit MATCHES "${FOVEA_ONLY_KERNELS}"))
        fovea_compile_unit(file ${unit} ${compiled_to} ${from})
        list(APPEND files ${file})
        if(driver)
          list(APPEND packed ${file})
        endif()
      endif()
    endforeach()
  endif()
  set(out ${kernel_folder}/${target})
  set(embed ${PROJECT_SOURCE_DIR}/kernels/embed.py)
  list(TRANSFORM packed APPEND .zst)
  if(files)
    # All PTX is compressed as one text, because kernels of one operator are similar. The window of 32 MiB covers all of
    # it. Level 19 would take 19 s, and save 55 KB.
    add_custom_command(OUTPUT ${out}.ptx.zst
                       COMMAND Python3::Interpreter ${embed} --ptx ${out}.ptx ${files}
                       COMMAND ${FOVEA_ZSTD} -${FOVEA_KERNEL_PACKING} --long=25 -q -f -o ${out}.ptx.zst ${out}.ptx
                       DEPENDS ${embed} ${kernel_list_parts} ${files} VERBATIM)
    list(APPEND packed ${out}.ptx.zst)
  endif()
  add_custom_command(
    OUTPUT ${out}.S ${out}.cpp
    COMMAND Python3::Interpreter ${embed} ${function} ${out} ${files}
    DEPENDS ${embed} ${kernel_list_parts} ${packed} VERBATIM)
  add_library(${target} STATIC ${out}.S ${out}.cpp)
  target_link_libraries(${target} PUBLIC fovea_options fovea_kernel_list)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  # Dependency scanners do not see .incbin, so the assembly depends explicitly on the kernels.
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS "${packed}")
endfunction()

# fovea_embed_kernel_sources(<target>): adds a library with the kernels' sources and tuning parameters, from which the
# laboratory compiles candidates at run time.
function(fovea_embed_kernel_sources target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.cu ${PROJECT_SOURCE_DIR}/kernels/*.cuh
       ${PROJECT_SOURCE_DIR}/kernels/*.hpp)
  set(out ${kernel_folder}/${target})
  set(packer ${PROJECT_SOURCE_DIR}/kernels/pack_sources.py)
  add_custom_command(OUTPUT ${out}.json COMMAND Python3::Interpreter ${packer} ${out}.json
                     DEPENDS ${packer} ${kernel_list_parts} ${sources} VERBATIM)
  if(NOT FOVEA_ZSTD)
    message(FATAL_ERROR "cannot find zstd, which compresses the kernels' sources; scripts/setup installs it")
  endif()
  add_custom_command(OUTPUT ${out}.json.zst COMMAND ${FOVEA_ZSTD} -19 -q -f -o ${out}.json.zst ${out}.json
                     DEPENDS ${out}.json VERBATIM)
  file(CONFIGURE OUTPUT ${out}.S CONTENT "  .section .rodata
  .balign 64
  .global fovea_kernel_sources
  .hidden fovea_kernel_sources
fovea_kernel_sources:
  .incbin \"${out}.json.zst\"
  .global fovea_kernel_sources_end
  .hidden fovea_kernel_sources_end
fovea_kernel_sources_end:
  .section .note.GNU-stack,\"\",@progbits
" @ONLY)
  add_library(${target} STATIC ${out}.S)
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS ${out}.json.zst)
endfunction()
