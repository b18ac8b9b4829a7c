# Compiles device code: each kernel to PTX, from that PTX to a cubin, both embedded in the program.
#
# The compiler is nvcc on the PATH, or CUDA's wheels in build/cuda (scripts/setup brings them). Without
# either the program is built without kernels and says so when a GPU is asked for.

option(FOVEA_BUILD_KERNELS "Compile the GPU's kernels, where there is a CUDA compiler" ON)
find_program(FOVEA_NVCC nvcc HINTS ${PROJECT_SOURCE_DIR}/build/cuda/bin)
if(FOVEA_NVCC)
  get_filename_component(nvcc_folder ${FOVEA_NVCC} REALPATH)
  get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
  find_program(FOVEA_PTXAS ptxas HINTS ${nvcc_folder})
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(FOVEA_KERNEL_FOLDER ${CMAKE_BINARY_DIR}/kernels)

# fovea_kernel(<name> <source.cu> <arch...> [DEFINES <NAME=value>...]): the entry point <name> of
# <source.cu>, which sees it as FOVEA_ENTRY, for each architecture such as 90a.
function(fovea_kernel name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEFINES")
  foreach(arch ${arg_UNPARSED_ARGUMENTS})
    set_property(GLOBAL APPEND PROPERTY FOVEA_KERNELS "${name}|${source}|${arch}")
    if(NOT FOVEA_NVCC OR NOT FOVEA_BUILD_KERNELS)
      continue()
    endif()
    set(stem ${FOVEA_KERNEL_FOLDER}/${name}.sm_${arch})
    list(TRANSFORM arg_DEFINES PREPEND -D OUTPUT_VARIABLE defines)
    add_custom_command(
      OUTPUT ${stem}.ptx
      COMMAND ${FOVEA_NVCC} -ptx -std=c++20 -O3 -lineinfo -arch=compute_${arch}
              -I${PROJECT_SOURCE_DIR} -DFOVEA_ENTRY=${name} ${defines} --Werror all-warnings
              -MD -MF ${stem}.d -o ${stem}.ptx ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${stem}.d
      COMMENT "kernel ${name} for sm_${arch}" VERBATIM)
    add_custom_command(
      OUTPUT ${stem}.cubin ${stem}.resources
      COMMAND sh -c "'${FOVEA_PTXAS}' -v -O3 -lineinfo -arch=sm_${arch} -o '${stem}.cubin' \
'${stem}.ptx' > '${stem}.resources' 2>&1 || { cat '${stem}.resources'; false; }"
      DEPENDS ${stem}.ptx VERBATIM)
    # A target that owns the commands: without one, other folders do not see their rules.
    add_custom_target(kernel_${name}_${arch} DEPENDS ${stem}.cubin ${stem}.ptx ${stem}.resources)
    set_property(GLOBAL APPEND PROPERTY FOVEA_KERNEL_TARGETS kernel_${name}_${arch})
    set_property(GLOBAL APPEND PROPERTY FOVEA_KERNEL_FILES ${stem}.cubin ${stem}.ptx
                                                           ${stem}.resources)
  endforeach()
endfunction()

# fovea_embed_kernels(<target>): the library that holds what fovea_kernel compiled.
function(fovea_embed_kernels target)
  get_property(kernels GLOBAL PROPERTY FOVEA_KERNELS)
  get_property(files GLOBAL PROPERTY FOVEA_KERNEL_FILES)
  set(folder ${FOVEA_KERNEL_FOLDER})
  file(MAKE_DIRECTORY ${folder})
  if(NOT FOVEA_NVCC OR NOT FOVEA_BUILD_KERNELS)
    set(kernels "")
    message(STATUS "building without the GPU's kernels: no CUDA compiler, or not wanted")
  endif()
  string(REPLACE ";" "\n" lines "${kernels}")
  file(CONFIGURE OUTPUT ${folder}/kernels.txt CONTENT "${lines}\n" @ONLY)
  add_custom_command(
    OUTPUT ${folder}/images.S ${folder}/images.cpp
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/kernels/embed.py ${folder}
    DEPENDS ${PROJECT_SOURCE_DIR}/kernels/embed.py ${folder}/kernels.txt ${files} VERBATIM)
  add_library(${target} STATIC ${folder}/images.S ${folder}/images.cpp)
  target_link_libraries(${target} PUBLIC fovea_options)
  get_property(kernel_targets GLOBAL PROPERTY FOVEA_KERNEL_TARGETS)
  if(kernel_targets)
    add_dependencies(${target} ${kernel_targets})
  endif()
  # .incbin is invisible to dependency scanners: assemble again when a cubin changed.
  set_source_files_properties(${folder}/images.S PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()
