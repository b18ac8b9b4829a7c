// Model folders: inspecting them, and writing random ones to try everything offline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/preprocessing.hpp"

namespace [[gnu::visibility("default")]] fovea {

/// The result of inspect_model().
struct ModelInfo {
  std::filesystem::path folder;
  std::int64_t hidden = 0;  // dimension of the embeddings
  std::int64_t mlp = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t image_size = 0;  // pixels; 0 for a NaFlex model
  std::int64_t patch = 0;       // pixels
  std::int64_t patches = 0;     // tokens per image; for a NaFlex model, the maximum
  double layer_norm_eps = 0.0;
  std::int64_t parameters = 0;  // of the vision tower
  /// 10^9 floating-point operations per image: twice the multiply-accumulates of the network's
  /// matrix products, convolution and attention, as transformers computes it.
  double gflop_per_image = 0.0;
  std::vector<std::string> dtypes;                  // of the vision tower's tensors: "F32", ...
  std::vector<std::filesystem::path> files;         // weight files that hold them
  std::uint64_t weight_bytes = 0;                   // size of those files
  std::vector<std::filesystem::path> calibrations;  // of both towers
  std::vector<std::string> missing;                 // required tensors that no file contains
  std::vector<std::string> unusable;  // tensors of a wrong shape or dtype, with the reason
  std::vector<std::string> unused;    // vision tensors that the model does not need
  Preprocessing preprocessing;

  /// True when an Encoder can load the model.
  [[nodiscard]] bool usable() const { return missing.empty() && unusable.empty(); }
};

/// Reads a model's JSON files and the headers of its weights, not the weights themselves.
/// `model`: a folder or the name of a model in the local Hugging Face cache, as for Encoder.
/// Throws fovea::Error when a file is missing or malformed or the architecture is not supported;
/// tensors that are missing or unusable are listed in the result. `calibration`: as in
/// EncoderOptions.
[[nodiscard]] ModelInfo inspect_model(const std::string& model,
                                      const std::filesystem::path& calibration = {});

/// The GPUs of this machine by index: "NVIDIA H200 (sm_90, 139.8 GiB)", or the reason why one is
/// unusable. Empty when there are none; then `why`, unless it is null, gets the reason.
[[nodiscard]] std::vector<std::string> list_gpus(std::string* why = nullptr);

/// Names of the published SigLIP 2 architectures, as on the hub without "google/siglip2-", and
/// "tiny" and "tiny-naflex" (small ones for tests).
[[nodiscard]] std::span<const std::string_view> preset_names();

enum class WeightType : std::uint8_t { kF32, kBF16, kF16 };

struct InitOptions {
  std::string preset = "base-patch16-224";
  std::filesystem::path folder{};  // created when it does not exist
  std::uint64_t seed = 0;
  std::int64_t layers = 0;  // of each tower; 0: as many as the preset has
  WeightType dtype = WeightType::kF32;
  /// Also write the text tower, with a small tokenizer.
  bool texts = true;
  /// Rows of the text tower's token table; 0: as many as the tokenizer has pieces. The published
  /// models have 256,000.
  std::int64_t vocabulary = 0;
  /// Weights of more bytes than this are split into shards with an index.
  std::uint64_t max_shard_bytes = 5'000'000'000;
  /// Replace the model files in a folder that is not empty.
  bool overwrite = false;
  int threads = 0;  // 0: one per CPU that this process may use
};

/// Writes a checkpoint of random weights in Hugging Face's layout: the same bytes for the same
/// preset, seed, layers, vocabulary and dtype, whatever the number of threads. Weights have the
/// scales of a trained network, so different images and texts get different embeddings, but these
/// are meaningless. Throws fovea::Error when the preset is unknown or the folder cannot be written
/// or is not empty.
void init_checkpoint(const InitOptions& options);

}  // namespace fovea
