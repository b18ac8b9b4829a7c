// include/fovea/hub.hpp over src/hub.
#include "fovea/hub.hpp"

#include "hub/pull.hpp"
#include "hub/resolve.hpp"

namespace fovea {

std::filesystem::path pull(const PullOptions& options,
                           const std::function<void(const PullProgress&)>& progress) {
  return hub::pull_model(options, progress);
}

std::filesystem::path find_model(const std::string& name_or_folder, const std::string& revision) {
  return hub::resolve_model(name_or_folder, revision);
}

}  // namespace fovea
