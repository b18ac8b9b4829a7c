# Puts kernels/records, what GPUs were measured to reach of their gates, into the program.

# fovea_embed_records(<variable>): sources that hold all of them, their paths in the variable.
function(fovea_embed_records result)
  file(GLOB records CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/records/*.json)
  set(assembly "")
  set(declarations "")
  set(views "")
  foreach(record ${records})
    get_filename_component(name ${record} NAME_WE)
    string(MAKE_C_IDENTIFIER fovea_gate_record_${name} label)
    string(APPEND assembly "  .global ${label}, ${label}_end\n  .hidden ${label}, ${label}_end\n\
${label}:\n  .incbin \"${record}\"\n${label}_end:\n")
    string(APPEND declarations "extern const char ${label}[], ${label}_end[];\n")
    string(APPEND views "    std::string_view(${label}, ${label}_end - ${label}),\n")
  endforeach()
  set(out ${PROJECT_BINARY_DIR}/kernels/gate_records)
  file(CONFIGURE OUTPUT ${out}.S @ONLY CONTENT [=[
  .section .rodata
@assembly@  .section .note.GNU-stack,"",@progbits
]=])
  file(CONFIGURE OUTPUT ${out}.cpp @ONLY CONTENT [=[
#include <span>
#include <string_view>

extern "C" {
@declarations@}

namespace fovea::gpu {
std::span<const std::string_view> built_in_gate_records();
std::span<const std::string_view> built_in_gate_records() {
  static const std::string_view kRecords[] = {
@views@    std::string_view(),
  };
  return std::span(kRecords).first(std::size(kRecords) - 1);
}
}  // namespace fovea::gpu
]=])
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS "${records}")
  set(${result} ${out}.S ${out}.cpp PARENT_SCOPE)
endfunction()
