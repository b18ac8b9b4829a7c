// Checkpoint: the tensors of a model folder, looked up by name and read when asked for.
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
/// compared with what a tower needs; the other tower is ignored. Throws fovea::Error when a file is
/// missing, malformed, or not what the index says; Interrupted when `stop` is set. Tensors that are
/// missing, unusable or unused are listed, not thrown.
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
/// model.safetensors.index.json with its shards. Opening checks that every tensor of the tower is
/// there with its exact shape as F32, F16 or BF16; the other tower is ignored.
/// Names of a vision tower may lack their prefix, "vision_model." of SigLIP, as in what
/// transformers 5 saves of a SiglipVisionModel. Safe to use from several threads. Setting `stop`
/// ends reads of the weights: opening and load() then throw Interrupted.
class Checkpoint {
 public:
  /// `calibrations`: the folder of the model's calibrations, if specified by the user
  /// (model/calibration.hpp). `among`: the supported families.
  explicit Checkpoint(const std::filesystem::path& folder, StopFlag stop = {},
                      Tower tower = Tower::kVision, std::filesystem::path calibrations = {},
                      Families among = families());

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

  /// A tensor converted to float32, e.g. load("vision_model.head.probe"). Throws fovea::Error when
  /// the tensor is missing, holds NaN or infinity (names both), or cannot be read.
  [[nodiscard]] AlignedBuffer<float> load(std::string_view name) const;

  /// One row of a matrix, likewise: float32 [columns]. The others are not read.
  void load_row(std::string_view name, std::int64_t row, std::span<float> values) const;

  /// A fingerprint of the checkpoint: a hash over names, types, shapes, and the first and last 4
  /// KiB of every tensor of the tower. Fast, not cryptographic.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  [[nodiscard]] const WeightFiles::Tensor& find(std::string_view name) const;
  /// Elements [begin, begin + values.size()) of a tensor.
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
