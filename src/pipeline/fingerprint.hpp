// Fingerprints, which distinguish the outputs of different jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"

namespace fovea::pipeline {

/// A hash over a sequence of names: 64-bit FNV-1a, with a NUL byte after each name. It can be
/// continued from its value. It detects accidental changes, but is not cryptographic.
class NameHash {
 public:
  NameHash() = default;
  explicit NameHash(std::uint64_t value) : value_(value) {}
  void add(std::string_view name);
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// Returns the SHA-256, in hexadecimal, of the architecture and a sample of the weights of a model
/// folder: all of config.json; then for each weight file its size, its first MiB, and the first
/// 4 KiB of every 256 KiB. The weight files are model.safetensors, or else the shards in byte-wise
/// order of their names, followed by `calibration` if it is not empty. Sampling keeps the start-up
/// time of a large model short. It detects other weights, other shapes and any fine-tuning, but not
/// a change confined to the bytes between the samples. Throws fovea::Error when a file cannot be
/// read; Interrupted when `stop` is set.
[[nodiscard]] std::string model_fingerprint(const std::filesystem::path& folder,
                                            const std::filesystem::path& calibration = {},
                                            StopFlag stop = {});

/// Returns the SHA-256, in hexadecimal, of a text with all parameters that determine the pixels.
[[nodiscard]] std::string preprocessing_fingerprint(const Preprocessing& preprocessing);

}  // namespace fovea::pipeline
