// Access to fields of Hugging Face's JSON files: fills in defaults and checks values; messages name
// the file and the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "fovea/preprocessing.hpp"
#include "model/config.hpp"

namespace fovea::model {

// Limits far above every published model (giant: 1536, 6144, 40, 16, 384), but low enough that
// their products do not overflow and a wrong file cannot cause huge allocations.
inline constexpr std::int64_t kMaxHidden = 1 << 14;
inline constexpr std::int64_t kMaxMlp = 1 << 17;
inline constexpr std::int64_t kMaxLayers = 512;
inline constexpr std::int64_t kMaxImageSize = 1 << 13;
inline constexpr std::int64_t kMaxPatch = 512;
inline constexpr std::int64_t kMaxPatches = 1 << 16;
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxTokens = 1 << 13;

/// The fields of a JSON object, which must outlive this view.
class Fields {
 public:
  using json = nlohmann::json;

  Fields(const json& object, std::string_view file, std::string prefix)
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  /// Returns the field's value; nullptr if it is absent or null, which mean the same in Hugging
  /// Face's files.
  [[nodiscard]] const json* find(const char* name) const;

  [[nodiscard]] std::int64_t integer(const char* name, std::int64_t fallback,
                                     std::int64_t max) const;
  /// Reads an integer, or a list of two equal integers (height and width).
  [[nodiscard]] std::int64_t square(const char* name, std::int64_t fallback,
                                    std::int64_t max) const;
  [[nodiscard]] double number(const char* name, double fallback) const;
  [[nodiscard]] bool boolean(const char* name, bool fallback) const;
  [[nodiscard]] std::string string(const char* name, std::string fallback) const;
  /// Returns the fields of a nested object; nothing if it is absent.
  [[nodiscard]] std::optional<Fields> object(const char* name) const;

  [[noreturn]] void refuse(const char* name, std::string_view reason) const {
    refuse(name, *find(name), reason);
  }
  [[noreturn]] void refuse(const char* name, const json& value, std::string_view reason) const;
  /// Throws "FILE: vision_config.hidden_size 770 ..."; `message` begins with a field's name.
  template <typename... Args>
  [[noreturn]] void refuse_value(fmt::format_string<Args...> message, Args&&... args) const {
    fail("{}: {}{}", file_, prefix_, fmt::format(message, std::forward<Args>(args)...));
  }

  [[nodiscard]] std::int64_t checked_integer(const json& value, const char* name,
                                             std::int64_t max) const;
  [[nodiscard]] std::string_view file() const { return file_; }

 private:
  template <typename T>
  [[nodiscard]] T typed(const char* name, T fallback, bool (json::*is_right)() const noexcept,
                        std::string_view reason) const;

  const json& object_;
  std::string_view file_;
  std::string prefix_;
};

/// Reads the fields common to all towers of transformers into a VisionConfig or a TextConfig;
/// absent fields keep their values. `activation`: the only supported hidden_act, and its default.
template <typename Config>
void read_layers(const Fields& fields, std::string_view activation, Config& config);
/// Reads the sizes of images and patches, and checks that they are compatible.
void read_grid(const Fields& fields, VisionConfig& config);

/// Returns the fields of a tower in config.json for a family whose model_type is `model` or, in a
/// file with only this tower, `tower`. Returns nothing for another model_type. Throws fovea::Error
/// when the model has no such tower, or one of another family.
[[nodiscard]] std::optional<Fields> vision_fields(const Fields& config, std::string_view model,
                                                  const std::string& tower);

/// Reads the scale, mean, std and resampling filter from preprocessor_config.json; throws when a
/// step is disabled.
[[nodiscard]] Preprocessing read_pixels(const Fields& fields, Resample default_filter);
/// Reads `size`, to which images are resized without keeping their aspect ratio.
void read_size(const Fields& fields, Preprocessing& result);

}  // namespace fovea::model
