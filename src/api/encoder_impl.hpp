// The implementation behind the public Encoder: two towers, each loaded on first use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "api/input_buffers.hpp"
#include "fovea/encoder.hpp"
#include "model/encoder.hpp"
#include "model/text_encoder.hpp"
#include "pipeline/run.hpp"
#include "text/tokenizer.hpp"

namespace fovea {

/// The text tower and its tokenizer.
struct TextTower {
  text::Tokenizer tokenizer;
  model::TextEncoder encoder;

  TextTower(const std::filesystem::path& folder, const EncoderOptions& options);
};

/// An object that is loaded on first use. If loading fails, each call tries again and throws.
template <typename T>
class Lazy {
 public:
  explicit Lazy(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  T& get() {
    const std::lock_guard lock(mutex_);
    if (!value_) {
      value_ = make_();
    }
    return *value_;
  }
  /// Returns the object, or null before it is loaded.
  [[nodiscard]] T* peek() {
    const std::lock_guard lock(mutex_);
    return value_.get();
  }

 private:
  std::mutex mutex_;
  std::function<std::unique_ptr<T>()> make_;
  std::unique_ptr<T> value_;
};

struct Encoder::Impl {
  std::filesystem::path folder;
  EncoderOptions options;
  model::ModelConfig config;
  Lazy<model::Encoder> images;
  Lazy<TextTower> texts;
  InputBuffers buffers{[this](std::size_t bytes) { return images.get().allocate_input(bytes); }};

  Impl(const std::string& model, const EncoderOptions& requested);

  [[nodiscard]] const Preprocessing& preprocessing() const { return config.preprocessing; }
  /// Runs the inputs through the encoder into `output`. Fills in the fields of `run.loader` that
  /// depend on the model.
  JobReport run(pipeline::RunOptions run, pipeline::InputStream& inputs, pipeline::Output& output);
  /// The same, but with the results of `encode`: `run.loader.row_bytes` bytes per image.
  JobReport run(pipeline::RunOptions run, pipeline::InputStream& inputs, pipeline::Output& output,
                const pipeline::Encode& encode);
  /// The backend of the tower that the constructor loaded.
  [[nodiscard]] const ops::Backend& backend();
};

}  // namespace fovea
