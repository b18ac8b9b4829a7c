// The images and options for Encoder::embed_images: many images from memory or files.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] fovea {

/// One image. The memory that it refers to must stay valid until embed_images returns.
struct ImageInput {
  enum class Kind : std::uint8_t {
    kFile,     ///< a file in a format that Encoder::embed reads, at `path`
    kEncoded,  ///< the bytes of such a file, `data`
    kPixels,   ///< uint8 [height, width, 3] in `data`: RGB, top row first, rows without padding
  };
  Kind kind = Kind::kFile;
  std::string path{};  ///< for kFile: the path as the operating system takes it
  std::span<const std::byte> data{};
  int width = 0;   ///< for kPixels, at least 1
  int height = 0;  ///< for kPixels, at least 1
};

/// An image without an embedding.
struct ImageFailure {
  std::size_t index = 0;  ///< among the inputs
  std::string error;      ///< without the path
};

struct EmbedImagesOptions {
  int batch_size = 0;      ///< images computed together; 0: Encoder::preferred_batch()
  int decode_threads = 0;  ///< 0: one per CPU that this process may use
  /// Bytes that the images being read and decoded may take together; see EmbedOptions.
  std::uint64_t decode_memory = 0;
  std::int64_t max_pixels = 0;  ///< larger images fail; see InputOptions
  bool normalize = true;        ///< scale every embedding to length 1
  /// End with the batch of the first image that fails, instead of continuing without it.
  bool stop_at_failure = false;
  /// Set to true to end within two seconds, without the batch being computed.
  const std::atomic<bool>* stop = nullptr;
  /// Called after each batch, from one of the call's threads, with the number of images done,
  /// including failed ones.
  std::function<void(std::size_t done)> on_progress;
  /// Called with notes for the user, for example that the memory of the device ran short.
  std::function<void(std::string_view)> on_note;
};

}  // namespace fovea
