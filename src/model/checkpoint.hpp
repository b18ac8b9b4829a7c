// Checkpoint: the tensors of a model folder, memory-mapped and looked up by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/tensor_view.hpp"
#include "io/mapped_file.hpp"
#include "model/config.hpp"

namespace fovea::model {

/// A folder with config.json, preprocessor_config.json and model.safetensors, or
/// model.safetensors.index.json with its shards. Opening checks that every tensor of the vision
/// tower is there with its exact shape; the text tower is ignored.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }

  /// A vision tensor converted to float32, e.g. load("vision_model.head.probe"). Afterwards the
  /// mapped pages are released, so that a whole model is never resident twice.
  /// Throws fovea::Error when the tensor is missing or holds NaN or infinity (names both).
  [[nodiscard]] AlignedBuffer<float> load(std::string_view name) const;

  /// Names of vision tensors in the files that the model does not use.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }

 private:
  std::filesystem::path folder_;
  ModelConfig config_;
  std::vector<io::MappedFile> files_;
  std::map<std::string, ConstTensorView, std::less<>> tensors_;
  std::vector<std::string> unused_;
};

}  // namespace fovea::model
