// The implementation behind the public Encoder: two towers, each loaded when it is first needed.
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

/// The text tower and what cuts texts into its tokens.
struct TextSide {
  text::Tokenizer tokenizer;
  model::TextEncoder encoder;

  TextSide(const std::filesystem::path& folder, const EncoderOptions& options);
};

/// Made when it is first asked for; a failure is told each time.
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
  /// Null before it is made.
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
  Lazy<TextSide> texts;
  InputBuffers buffers{[this](std::size_t bytes) { return images.get().allocate_input(bytes); }};

  Impl(const std::string& model, const EncoderOptions& asked);

  [[nodiscard]] const Preprocessing& preprocessing() const { return config.preprocessing; }
  /// Passes inputs through the encoder to `output`. The rest of `run.loader` is filled in.
  JobReport run(pipeline::RunOptions run, pipeline::InputStream& inputs, pipeline::Output& output);
  /// The same with what `encode` makes of them, and `run.loader.row_bytes` of each.
  JobReport run(pipeline::RunOptions run, pipeline::InputStream& inputs, pipeline::Output& output,
                const pipeline::Encode& encode);
  /// The backend of the tower that the constructor loaded.
  [[nodiscard]] const ops::Backend& backend();
};

}  // namespace fovea
