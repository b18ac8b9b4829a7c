// What a file holds, by its name and by its first bytes.
#include "pipeline/file_kinds.hpp"

#include <cstddef>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "fovea/job.hpp"
#include "image/formats.hpp"

namespace fovea {

std::string_view kind_by_name(std::string_view name) {
  return pipeline::kind_of(name);
}

bool begins_as_image(std::span<const std::byte> head) {
  try {
    (void)image::recognise(head);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace fovea
