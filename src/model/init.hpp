// Writes a checkpoint of random weights in Hugging Face's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "fovea/model.hpp"

namespace fovea::model {

/// The tokenizer of a new model's text tower.
struct NewTokenizer {
  std::int64_t vocabulary = 0;  // rows of the tower's token table
  std::span<const std::string_view> files{};
  std::function<void(const std::filesystem::path& folder)> write{};  // writes the tokenizer's files
};

/// See fovea::init_checkpoint. Without a tokenizer there is no text tower.
void write_checkpoint(const InitOptions& options,
                      const std::optional<NewTokenizer>& tokenizer = std::nullopt);

}  // namespace fovea::model
