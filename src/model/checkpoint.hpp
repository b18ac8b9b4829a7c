// Checkpoint: the tensors of a model folder, looked up by name and read on demand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "core/stop.hpp"
#include "model/architecture.hpp"
#include "model/config.hpp"
#include "model/safetensors.hpp"

namespace fovea::model {

/// The weight files of a folder, model.safetensors or the shards of model.safetensors.index.json,
/// compared with the tensors that a tower needs; the other tower is ignored. Throws fovea::Error if
/// a file is missing, malformed or contradicts the index, and Interrupted if `stop` is set.
/// Missing, unusable and unused tensors are not errors but listed.
class WeightFiles {
 public:
  WeightFiles(const std::filesystem::path& folder, const VisionConfig& config, StopFlag stop = {});
  WeightFiles(const std::filesystem::path& folder, const TextConfig& config, StopFlag stop = {});

  struct Tensor {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* stored = nullptr;
    DType dtype = DType::kF32;
  };
  /// Usable tensors of the tower, by their names including the tower's prefix.
  [[nodiscard]] const std::map<std::string, Tensor, std::less<>>& tensors() const {
    return tensors_;
  }
  /// Names of tensors that the tower needs but no file contains.
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }
  /// Reasons such as "NAME has shape [2], expected [3]", one per tensor.
  [[nodiscard]] const std::vector<std::string>& unusable() const { return unusable_; }
  /// Names (as in the files) of the tower's tensors that the model does not use.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  using Inventory = std::map<std::string, Tensor, std::less<>>;

  WeightFiles(const std::filesystem::path& folder, const TowerSpec& tower,
              const std::vector<TensorSpec>& wanted, StopFlag stop);
  Inventory open_single(const std::filesystem::path& path, StopFlag stop);
  Inventory open_shards(const std::filesystem::path& index, StopFlag stop);
  void match(const Inventory& stored, const std::vector<TensorSpec>& wanted);
  /// Whether a tensor belongs to the tower; `bare`: names lack the tower's prefix.
  [[nodiscard]] bool belongs(std::string_view name, bool bare) const;

  TowerSpec tower_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::vector<std::string> missing_;
  std::vector<std::string> unusable_;
  std::vector<std::string> unused_;
};

/// One tower of a folder with config.json, preprocessor_config.json and model.safetensors, or
/// model.safetensors.index.json with its shards. Opening checks that the files contain every tensor
/// of the tower with its exact shape as F32, F16 or BF16; the other tower is ignored. Names of a
/// vision tower may lack their prefix ("vision_model." for SigLIP), as in files that transformers 5
/// saves for a SiglipVisionModel. Thread-safe. Setting `stop` ends reads of the weights: opening
/// and load() then throw Interrupted.
class Checkpoint {
 public:
  /// `calibrations`: the folder of the model's calibrations, if specified by the user
  /// (model/calibration.hpp). `supported`: the supported families.
  explicit Checkpoint(const std::filesystem::path& folder, StopFlag stop = {},
                      Tower tower = Tower::kVision, std::filesystem::path calibrations = {},
                      Families supported = families());

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::filesystem::path& calibrations() const { return calibrations_; }
  /// Default values if this is not the text tower.
  [[nodiscard]] const TextConfig& text() const { return text_; }
  /// The sizes and tensor names of the tower.
  [[nodiscard]] TowerSpec tower() const {
    return tower_ == Tower::kVision ? config_.vision.tower() : text_.tower();
  }
  [[nodiscard]] StopFlag stop() const { return stop_; }

  /// Returns a tensor converted to float32, e.g. load("vision_model.head.probe"). Throws
  /// fovea::Error if the tensor is missing, contains NaN or infinity, or cannot be read.
  [[nodiscard]] AlignedBuffer<float> load(std::string_view name) const;

  /// Reads one row of a matrix, converted to float32, into `values` [columns].
  void load_row(std::string_view name, std::int64_t row, std::span<float> values) const;

  /// Returns a fingerprint of the checkpoint: a hash of the names, types, shapes, and the first and
  /// last 4 KiB of every tensor of the tower. Fast, not cryptographic.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  [[nodiscard]] const WeightFiles::Tensor& find(std::string_view name) const;
  /// Reads elements [begin, begin + values.size()) of a tensor.
  void read(std::string_view name, const WeightFiles::Tensor& tensor, std::size_t begin,
            std::span<float> values) const;

  std::filesystem::path folder_;
  std::filesystem::path calibrations_;
  Tower tower_;
  ModelConfig config_;
  TextConfig text_;
  StopFlag stop_;
  WeightFiles weights_;
};

}  // namespace fovea::model
