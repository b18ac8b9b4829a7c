// Encoder::heat: compares features of patches with vectors, and draws the result as a heat map.
#include "fovea/heat.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "api/encoder_impl.hpp"
#include "api/image_source.hpp"
#include "core/error.hpp"
#include "core/length.hpp"
#include "core/text.hpp"
#include "image/decode.hpp"
#include "image/png_writer.hpp"
#include "io/atomic_file.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/output.hpp"
#include "pipeline/read_file.hpp"
#include "search/heat_colours.hpp"

namespace fovea {
namespace {

// Throws the failure of the only image of a run.
class OneImage final : public pipeline::Output {
 public:
  explicit OneImage(const ImageInput& image) : image_(image) {}

  void append(const pipeline::Batch& batch, std::span<const std::byte> /*rows*/) override {
    const pipeline::Slot& slot = batch.slots.front();
    if (!slot.failed()) {
      return;
    }
    if (image_.kind == ImageInput::Kind::kFile) {
      fail("{}: {}", io::escape(image_.path), slot.error);
    }
    fail("{}", slot.error);
  }
  void checkpoint() override {}
  void finish() override {}

 private:
  const ImageInput& image_;
};

// The embedding of the image for each patch, as if the pooling head attended to this patch alone.
struct PatchEmbeddings {
  PatchGrid grid{};
  std::vector<float> values;  // [patches, dimension]
};

HeatMap heat_map(const PatchEmbeddings& patches, std::span<const float> vector) {
  const std::size_t width = vector.size();
  const double squares = squared_length(vector);
  if (!std::isfinite(squares) || squares == 0) {
    fail("a query vector has the invalid length {}", std::sqrt(squares));
  }
  HeatMap map{.rows = patches.grid.height, .columns = patches.grid.width, .values = {}};
  map.values.reserve(patches.values.size() / width);
  for (std::size_t offset = 0; offset < patches.values.size(); offset += width) {
    const auto patch = std::span(patches.values).subspan(offset, width);
    double dot = 0;
    for (std::size_t i = 0; i < width; ++i) {
      dot += double{patch[i]} * vector[i];
    }
    const double cosine = dot / std::sqrt(squares * squared_length(patch));
    if (!std::isfinite(cosine)) {
      fail("the embedding of patch {} is zero or not finite", offset / width);
    }
    map.values.push_back(static_cast<float>(cosine));
  }
  return map;
}

image::Image decode_image(const ImageInput& input, std::int64_t max_pixels) {
  const image::DecodeOptions options{.max_pixels = image::checked_max_pixels(max_pixels)};
  switch (input.kind) {
    case ImageInput::Kind::kFile: {
      std::vector<std::byte> bytes;
      const MemoryPool::Lease lease = pipeline::read_file(input.path, bytes);
      return image::decode(bytes, options);
    }
    case ImageInput::Kind::kEncoded:
      return image::decode(input.data, options);
    case ImageInput::Kind::kPixels:
      break;
  }
  image::Image pixels(input.width, input.height);
  if (input.data.size() != pixels.pixels.size()) {
    fail("{} bytes are not {}x{} RGB pixels", input.data.size(), input.width, input.height);
  }
  std::memcpy(pixels.pixels.data(), input.data.data(), input.data.size());
  return pixels;
}

}  // namespace

std::vector<HeatMap> Encoder::heat(std::span<const float> vectors, const ImageInput& image,
                                   std::int64_t max_pixels) {
  const auto width = static_cast<std::size_t>(dimension());
  if (vectors.size() % width != 0) {
    fail("{} numbers are not a whole number of vectors of {} numbers", vectors.size(), width);
  }
  constexpr model::Features kPatches{.kind = model::Features::Kind::kPatches};
  const model::VisionConfig& vision = impl_->config.vision;
  require(vision, kPatches);
  model::Encoder& encoder = impl_->images.get();
  PatchEmbeddings patches;
  const auto encode = [&](std::span<const std::uint8_t> pixels, std::span<const PatchGrid> grids,
                          std::span<std::byte> /*rows*/, const pipeline::OnComputed& on_computed) {
    const auto grid_size = static_cast<int>(vision.grid());
    patches.grid =
        vision.naflex ? grids.front() : PatchGrid{.height = grid_size, .width = grid_size};
    patches.values.resize(static_cast<std::size_t>(patches.grid.patches()) * width);
    encoder.features(
        kPatches, pixels, grids,
        {.type = DType::kF32, .bytes = std::as_writable_bytes(std::span(patches.values))}, {},
        on_computed);
  };
  pipeline::RunOptions run;
  run.stores_results = true;
  run.loader = loader_for(1, 1, 1, 0, max_pixels);
  OneImage output(image);
  pipeline::InputStream inputs(image_source(std::span(&image, 1)), 0, 1);
  (void)impl_->run(run, inputs, output, encode);
  std::vector<HeatMap> maps;
  for (std::size_t offset = 0; offset < vectors.size(); offset += width) {
    maps.push_back(heat_map(patches, vectors.subspan(offset, width)));
  }
  return maps;
}

HeatMap Encoder::heat(const std::string& text, const ImageInput& image, TextClean clean,
                      std::int64_t max_pixels) {
  require(impl_->config.vision, {.kind = model::Features::Kind::kPatches});
  EmbedTextsOptions options;
  options.clean = clean;
  return heat(embed_texts(std::span(&text, 1), options), image, max_pixels).front();
}

void write_heat(const ImageInput& image, const HeatMap& map, const std::filesystem::path& png,
                std::int64_t max_pixels) {
  const auto read = [&] { return decode_image(image, max_pixels); };
  image::Image photo =
      image.kind == ImageInput::Kind::kFile ? io::with_path(image.path, read) : read();
  search::draw_heat(map, photo.width, photo.height, photo.pixels.span());
  io::write_file_atomically(png, as_text(image::encode_png(photo)));
}

}  // namespace fovea
