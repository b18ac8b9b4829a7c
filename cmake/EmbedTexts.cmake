# Embeds texts, such as records of measurements, in a program.

# fovea_embed_texts(<variable> <function> FILES...): generates sources that contain the files, and sets the variable to
# their paths. The function, such as "fovea::gpu::built_in_gate_records", returns a std::span<const std::string_view>.
function(fovea_embed_texts result function)
  string(REGEX REPLACE "::[a-z_]+$" "" namespace ${function})
  string(REGEX REPLACE "^.*::" "" function ${function})
  set(assembly "")
  set(declarations "")
  set(views "")
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    string(MAKE_C_IDENTIFIER ${function}_${name} label)
    string(APPEND assembly "  .global ${label}, ${label}_end\n  .hidden ${label}, ${label}_end\n\
${label}:\n  .incbin \"${file}\"\n${label}_end:\n")
    string(APPEND declarations "extern const char ${label}[], ${label}_end[];\n")
    string(APPEND views "    std::string_view(${label}, ${label}_end - ${label}),\n")
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${function})
  file(CONFIGURE OUTPUT ${out}.S @ONLY CONTENT [=[
  .section .rodata
@assembly@  .section .note.GNU-stack,"",@progbits
]=])
  file(CONFIGURE OUTPUT ${out}.cpp @ONLY CONTENT [=[
#include <span>
#include <string_view>

extern "C" {
@declarations@}

namespace @namespace@ {
std::span<const std::string_view> @function@();
std::span<const std::string_view> @function@() {
  static const std::string_view kTexts[] = {
@views@    std::string_view(),
  };
  return std::span(kTexts).first(std::size(kTexts) - 1);
}
}  // namespace @namespace@
]=])
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS "${ARGN}")
  set(${result} ${out}.S ${out}.cpp PARENT_SCOPE)
endfunction()
