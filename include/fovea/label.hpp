// Options and results of Encoder::label: how well each of several texts fits an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "fovea/job.hpp"

namespace [[gnu::visibility("default")]] fovea {

/// The sentence that stands for a label, as in transformers' zero-shot pipeline; {} is the label.
constexpr const char* kLabelTemplate = "This is a photo of {}.";

struct LabelOptions {
  InputOptions input;
  std::vector<std::string> labels;
  /// See Encoder::embed_labels.
  std::vector<std::string> templates{kLabelTemplate};
  TextClean clean = TextClean::kAuto;
  int batch_size = 0;               ///< as in EmbedOptions
  int decode_threads = 0;           ///< as in EmbedOptions
  std::uint64_t decode_memory = 0;  ///< as in EmbedOptions
  std::optional<std::uint64_t> max_errors;
  JobControl control;
  /// Called from any thread, never from two at once, while the sentences of the labels are
  /// embedded.
  std::function<void(std::size_t done, std::size_t total)> on_labels;
};

/// An image and its cosines to the labels.
struct LabelledImage {
  std::string source;           ///< as in index files: UTF-8, escaped
  std::vector<double> cosines;  ///< one per label, in their order
  LogitScale scale;             ///< converts them to logits and probabilities
};

}  // namespace fovea
