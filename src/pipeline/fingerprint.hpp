// Fingerprints, which distinguish the outputs of different jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"

namespace fovea::pipeline {

/// A hash over a sequence of names, which can be continued from its value (64-bit FNV-1a, each name
/// followed by a NUL byte). It detects changes, but does not withstand an adversary.
class NameHash {
 public:
  NameHash() = default;
  explicit NameHash(std::uint64_t value) : value_(value) {}
  void add(std::string_view name);
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// SHA-256, in hexadecimal, of the architecture and the weights of a model folder: config.json
/// whole; then for each weight file (model.safetensors, or the shards in byte-wise order of their
/// names, and last the calibration that is used with them, if there is one) its size, its first
/// MiB, and the first 4 KiB of every 256 KiB. Reading a sample keeps the start-up time of a large
/// model short; it notices other weights, other shapes and every fine-tuning, but not a change
/// confined to the bytes between the samples. Throws fovea::Error when a file cannot be read;
/// Interrupted when `stop` is set.
[[nodiscard]] std::string model_fingerprint(const std::filesystem::path& folder,
                                            const std::filesystem::path& calibration = {},
                                            StopFlag stop = {});

/// Returns the SHA-256, in hexadecimal, of a text with all parameters that determine the pixels.
[[nodiscard]] std::string preprocessing_fingerprint(const Preprocessing& preprocessing);

}  // namespace fovea::pipeline
