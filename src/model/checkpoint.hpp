// Checkpoint: the tensors of a model folder, looked up by name and read when asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "core/stop.hpp"
#include "model/config.hpp"
#include "model/safetensors.hpp"

namespace fovea::model {

/// The weight files of a folder, model.safetensors or the shards of model.safetensors.index.json,
/// compared with what the architecture needs. The text tower is ignored. Throws fovea::Error when a
/// file is missing, malformed, or not what the index says; Interrupted when `stop` is set. Tensors
/// that are missing, unusable or unused are listed, not thrown.
class WeightFiles {
 public:
  WeightFiles(const std::filesystem::path& folder, const VisionConfig& config, StopFlag stop = {});

  struct Tensor {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* stored = nullptr;
    DType dtype = DType::kF32;
  };
  /// Usable tensors of the vision tower, by their names with the prefix "vision_model.".
  [[nodiscard]] const std::map<std::string, Tensor, std::less<>>& tensors() const {
    return tensors_;
  }
  /// Names of tensors that the vision tower needs and no file holds.
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }
  /// Reasons such as "NAME has shape [2], expected [3]", one per tensor.
  [[nodiscard]] const std::vector<std::string>& unusable() const { return unusable_; }
  /// Names (as in the files) of vision tensors that the model does not use.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  struct Located {
    const SafetensorsFile* file;
    const StoredTensor* stored;
  };
  using Inventory = std::map<std::string, Located, std::less<>>;

  Inventory open_single(const std::filesystem::path& path, StopFlag stop);
  Inventory open_shards(const std::filesystem::path& index, StopFlag stop);
  void match(const Inventory& stored, const VisionConfig& config);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::vector<std::string> missing_;
  std::vector<std::string> unusable_;
  std::vector<std::string> unused_;
};

/// A folder with config.json, preprocessor_config.json and model.safetensors, or
/// model.safetensors.index.json with its shards. Opening checks that every tensor of the vision
/// tower is there with its exact shape as F32, F16 or BF16; the text tower is ignored.
/// Names may lack the prefix "vision_model.", as in what transformers 5 saves of a
/// SiglipVisionModel. Safe to use from several threads.
/// Setting `stop` ends reads of the weights: opening and load() then throw Interrupted.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder, StopFlag stop = {});

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] StopFlag stop() const { return stop_; }

  /// A vision tensor converted to float32, e.g. load("vision_model.head.probe"). Throws
  /// fovea::Error when the tensor is missing, holds NaN or infinity (names both), or cannot be
  /// read.
  [[nodiscard]] AlignedBuffer<float> load(std::string_view name) const;

  /// Names of vision tensors in the files that the model does not use.
  [[nodiscard]] const std::vector<std::string>& unused() const { return weights_.unused(); }

  /// Tells checkpoints apart: a hash over names, types, shapes, and the first and last 4 KiB of
  /// every tensor of the vision tower. Quick, not cryptographic.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::filesystem::path folder_;
  ModelConfig config_;
  StopFlag stop_;
  WeightFiles weights_;
};

}  // namespace fovea::model
