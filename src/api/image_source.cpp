// Turns the arguments of Encoder::embed_images and Encoder::features into the items of a run.
#include "api/image_source.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/thread_pool.hpp"
#include "image/image.hpp"

namespace fovea {
namespace {

class ImageSource final : public pipeline::Source {
 public:
  explicit ImageSource(std::span<const ImageInput> images) : images_(images) {}

 private:
  bool do_next(pipeline::Item& item, StopFlag /*stop*/) override {
    if (next_ == images_.size()) {
      return false;
    }
    const ImageInput& image = images_[next_++];
    item = pipeline::Item{};
    switch (image.kind) {
      case ImageInput::Kind::kFile:
        item.kind = pipeline::Item::Kind::kFile;
        item.name = image.path;
        break;
      case ImageInput::Kind::kEncoded:
        item.kind = pipeline::Item::Kind::kEncoded;
        item.encoded = image.data;
        break;
      case ImageInput::Kind::kPixels:
        set_pixels(item, image);
        break;
    }
    return true;
  }

  static void set_pixels(pipeline::Item& item, const ImageInput& image) {
    if (image.width < 1 || image.height < 1 ||
        image.data.size() / image::kChannels / static_cast<std::size_t>(image.width) !=
            static_cast<std::size_t>(image.height) ||
        image.data.size() % (image::kChannels * static_cast<std::size_t>(image.width)) != 0) {
      item.kind = pipeline::Item::Kind::kFailed;
      item.error = fmt::format("{} bytes are not {}x{} RGB pixels", image.data.size(), image.width,
                               image.height);
      return;
    }
    item.kind = pipeline::Item::Kind::kImage;
    item.width = image.width;
    item.height = image.height;
    item.pixels = {reinterpret_cast<const std::uint8_t*>(image.data.data()), image.data.size()};
  }

  std::span<const ImageInput> images_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<pipeline::Source> image_source(std::span<const ImageInput> images) {
  return std::make_unique<ImageSource>(images);
}

pipeline::LoaderOptions loader_for(std::size_t images, std::size_t batch_size, int decode_threads,
                                   std::uint64_t decode_memory, std::int64_t max_pixels) {
  const auto threads =
      static_cast<std::size_t>(decode_threads > 0 ? decode_threads : available_threads());
  pipeline::LoaderOptions options;
  options.batch_size = std::min(batch_size, images);
  options.batches = std::min(options.batches, (images - 1) / batch_size + 1);
  options.threads = static_cast<int>(std::min(threads, images));
  options.decode_memory = decode_memory;
  options.max_pixels = max_pixels;
  return options;
}

}  // namespace fovea
