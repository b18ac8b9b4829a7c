// Finds calibration files, and the folders for new ones.
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

/// Returns the user's folder for the model's calibrations; "" if the user has no home folder.
fs::path user_folder(const Checkpoint& checkpoint) {
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
bool is_in_hub_cache(const fs::path& folder) {
  std::error_code error;
  const fs::path snapshots = fs::weakly_canonical(folder, error).parent_path();
  return snapshots.filename() == "snapshots" &&
         snapshots.parent_path().filename().native().starts_with("models--");
}

/// Returns the folders to search; new calibrations go into the first.
std::vector<fs::path> calibration_folders(const Checkpoint& checkpoint) {
  const fs::path named = checkpoint.calibrations().empty() ? from_environment("FOVEA_CALIBRATION")
                                                           : checkpoint.calibrations();
  if (!named.empty()) {
    return {named};
  }
  const fs::path& weights = checkpoint.folder();
  const fs::path user = user_folder(checkpoint);
  if (user.empty()) {
    return {weights};
  }
  const bool can_write = !is_in_hub_cache(weights) && ::access(weights.c_str(), W_OK) == 0;
  return can_write ? std::vector{weights, user} : std::vector{user, weights};
}

}  // namespace

std::string calibration_name(Precision precision, Tower tower) {
  return fmt::format("{}{}{}.safetensors", kCalibrationPrefix, to_string(precision),
                     tower == Tower::kVision ? "" : "-text");
}

fs::path find_calibration(const Checkpoint& checkpoint, Precision precision) {
  const std::string name = calibration_name(precision, checkpoint.tower().tower);
  const std::vector<fs::path> folders = calibration_folders(checkpoint);
  for (const fs::path& folder : folders) {
    if (std::error_code error; fs::exists(folder / name, error)) {
      return folder / name;
    }
  }
  return folders.front() / name;
}

fs::path calibration_to_write(const Checkpoint& checkpoint, Precision precision) {
  const fs::path folder = calibration_folders(checkpoint).front();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail("{}: cannot create the folder: {}", io::escape(folder.native()), error.message());
  }
  return folder / calibration_name(precision, checkpoint.tower().tower);
}

}  // namespace fovea::model
