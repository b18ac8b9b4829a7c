# Puts kernels/records, what GPUs were measured to reach of their gates, into the program.

# fovea_embed_records(<variable>): a source with all of them, its path in the variable.
function(fovea_embed_records result)
  file(GLOB records CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/records/*.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${records})
  set(texts "")
  foreach(record ${records})
    file(READ ${record} text)
    string(APPEND texts "    R\"record(${text})record\",\n")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/kernels/gate_records.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [=[
#include <span>
#include <string_view>

namespace fovea::gpu {
std::span<const std::string_view> built_in_gate_records();
std::span<const std::string_view> built_in_gate_records() {
  static constexpr std::string_view kRecords[] = {
@texts@    std::string_view(),
  };
  return std::span(kRecords).first(std::size(kRecords) - 1);
}
}  // namespace fovea::gpu
]=])
  set(${result} ${source} PARENT_SCOPE)
endfunction()
