// calibration.json: {"images": 64, "layers": [{"attended": 5.1, "inner": 9.7}, ...]}
#include "model/calibration.hpp"

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "model/json.hpp"

namespace fovea::model {
namespace {

double read_peak(const nlohmann::json& layer, const char* name, const std::string& file) {
  const auto found = layer.find(name);
  if (found == layer.end() || !found->is_number() || !(found->get<double>() > 0) ||
      !std::isfinite(found->get<double>())) {
    fail("{}: a layer's '{}' is no positive number; make the file anew with fovea calibrate", file,
         name);
  }
  return found->get<double>();
}

}  // namespace

std::optional<Calibration> read_calibration(const std::filesystem::path& folder,
                                            std::int64_t layers) {
  const std::filesystem::path path = folder / kCalibrationFile;
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const std::string file = io::escape(path.native());
  const nlohmann::json root = parse_json_object(read_json_file(path), file);
  const auto list = root.find("layers");
  if (list == root.end() || !list->is_array() ||
      static_cast<std::int64_t>(list->size()) != layers) {
    fail("{} does not hold the model's {} layers; make it anew with fovea calibrate", file, layers);
  }
  Calibration calibration;
  calibration.images = root.value("images", std::int64_t{0});
  for (const nlohmann::json& layer : *list) {
    calibration.layers.push_back(
        {.attended = read_peak(layer, "attended", file), .inner = read_peak(layer, "inner", file)});
  }
  return calibration;
}

void write_calibration(const std::filesystem::path& folder, const Calibration& calibration) {
  nlohmann::ordered_json root = {{"images", calibration.images},
                                 {"layers", nlohmann::ordered_json::array()}};
  for (const LayerPeaks& layer : calibration.layers) {
    root["layers"].push_back({{"attended", layer.attended}, {"inner", layer.inner}});
  }
  io::write_file_atomically(folder / kCalibrationFile, root.dump(1) + "\n");
}

}  // namespace fovea::model
