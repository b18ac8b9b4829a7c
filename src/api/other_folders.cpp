// Public functions that only forward to src/hub, src/collection, src/pipeline or src/image.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "collection/merge.hpp"
#include "core/error.hpp"
#include "fovea/hub.hpp"
#include "fovea/job.hpp"
#include "fovea/merge.hpp"
#include "hub/pull.hpp"
#include "hub/resolve.hpp"
#include "image/formats.hpp"
#include "pipeline/file_kinds.hpp"

namespace fovea {

std::filesystem::path pull(const PullOptions& options,
                           const std::function<void(const PullProgress&)>& progress) {
  return hub::pull_model(options, progress);
}

std::filesystem::path find_model(const std::string& name_or_folder, const std::string& revision) {
  return hub::resolve_model(name_or_folder, revision);
}

MergeReport merge_outputs(const MergeOptions& options) {
  try {
    return collection::merge(options);
  } catch (const Interrupted&) {
    return {.interrupted = true};
  }
}

std::string_view kind_by_name(std::string_view name) {
  return pipeline::file_kind(name);
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
