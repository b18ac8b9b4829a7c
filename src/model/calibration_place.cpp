// Finds calibrations, and places for new ones.
#include <cstdlib>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "model/calibration.hpp"

namespace fovea::model {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? "" : value;
}

/// Returns "" when the user has no home folder.
fs::path own_folder(const Checkpoint& checkpoint) {
  fs::path cache = from_environment("XDG_CACHE_HOME");
  if (!cache.is_absolute()) {  // as the XDG specification requires
    const fs::path home = from_environment("HOME");
    if (home.empty()) {
      return "";
    }
    cache = home / ".cache";
  }
  return cache / "fovea/calibrations" / fmt::format("{:016x}", checkpoint.fingerprint());
}

/// Whether the folder is in the Hugging Face cache: models--org--name/snapshots/<commit>.
bool is_of_hub_cache(const fs::path& folder) {
  std::error_code error;
  const fs::path snapshots = fs::weakly_canonical(folder, error).parent_path();
  return snapshots.filename() == "snapshots" &&
         snapshots.parent_path().filename().native().starts_with("models--");
}

/// Returns the folders to search; new calibrations go into the first.
std::vector<fs::path> places(const Checkpoint& checkpoint) {
  const fs::path named = checkpoint.calibrations().empty() ? from_environment("FOVEA_CALIBRATION")
                                                           : checkpoint.calibrations();
  if (!named.empty()) {
    return {named};
  }
  const fs::path& weights = checkpoint.folder();
  const fs::path users = own_folder(checkpoint);
  if (users.empty()) {
    return {weights};
  }
  const bool is_users = !is_of_hub_cache(weights) && ::access(weights.c_str(), W_OK) == 0;
  return is_users ? std::vector{weights, users} : std::vector{users, weights};
}

}  // namespace

std::string calibration_name(Precision precision, Tower tower) {
  return fmt::format("{}{}{}.safetensors", kCalibrationPrefix, to_string(precision),
                     tower == Tower::kVision ? "" : "-text");
}

fs::path find_calibration(const Checkpoint& checkpoint, Precision precision) {
  const std::string name = calibration_name(precision, checkpoint.tower().tower);
  const std::vector<fs::path> folders = places(checkpoint);
  for (const fs::path& folder : folders) {
    if (std::error_code error; fs::exists(folder / name, error)) {
      return folder / name;
    }
  }
  return folders.front() / name;
}

fs::path calibration_to_write(const Checkpoint& checkpoint, Precision precision) {
  const fs::path folder = places(checkpoint).front();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail("{}: cannot create the folder: {}", io::escape(folder.native()), error.message());
  }
  return folder / calibration_name(precision, checkpoint.tower().tower);
}

}  // namespace fovea::model
