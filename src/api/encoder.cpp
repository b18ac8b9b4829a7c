// The public Encoder: decodes, resizes, encodes and normalises, one call at a time.
#include "fovea/encoder.hpp"

#include <utility>

#include "api/encoder_impl.hpp"
#include "backends.hpp"
#include "core/error.hpp"
#include "hub/resolve.hpp"
#include "image/decode.hpp"
#include "image/resize.hpp"
#include "io/system_error.hpp"
#include "model/checkpoint.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/run.hpp"

namespace fovea {
Encoder::Impl::Impl(const std::string& model, const EncoderOptions& options) {
  auto backend = make_backend(options);
  const model::Checkpoint checkpoint(hub::resolve_model(model));
  encoder = std::make_unique<model::Encoder>(checkpoint, std::move(backend));
}

Encoder::Encoder(const std::string& model, const EncoderOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

std::int64_t Encoder::dimension() const {
  return impl_->encoder->config().vision.hidden;
}

const Preprocessing& Encoder::preprocessing() const {
  return impl_->preprocessing();
}

std::string Encoder::device() const {
  return impl_->encoder->description();
}

Precision Encoder::precision() const {
  return impl_->encoder->backend().precision();
}

std::int64_t Encoder::preferred_batch() const {
  return impl_->encoder->backend().preferred_batch();
}

std::vector<float> Encoder::embed(std::span<const std::byte> image, bool normalize) {
  const image::Image decoded = image::decode(image);
  const Preprocessing& want = preprocessing();
  std::vector<std::uint8_t> pixels(impl_->pixel_bytes());
  image::resize(decoded, want.height, want.width, want.resample, pixels);
  return embed_pixels(pixels, normalize);
}

std::vector<float> Encoder::embed_file(const std::filesystem::path& path, bool normalize) {
  return io::with_path(path, [&] {
    std::vector<std::byte> bytes;
    const MemoryPool::Lease lease = pipeline::read_file(path.native(), bytes);
    return embed(bytes, normalize);
  });
}

std::vector<float> Encoder::embed_pixels(std::span<const std::uint8_t> pixels, bool normalize) {
  const model::VisionConfig& vision = impl_->encoder->config().vision;
  const Preprocessing& want = preprocessing();
  const std::size_t pixel_bytes = impl_->pixel_bytes();
  if (pixels.size() % pixel_bytes != 0) {
    fail("{} bytes of pixels are not a whole number of images of {} x {} x {}", pixels.size(),
         want.height, want.width, image::kChannels);
  }
  const std::size_t images = pixels.size() / pixel_bytes;
  const auto patch_bytes = static_cast<std::size_t>(vision.patches() * vision.patch_elements());
  std::vector<std::uint8_t> patches(images * patch_bytes);
  for (std::size_t i = 0; i < images; ++i) {
    image::patchify(pixels.subspan(i * pixel_bytes, pixel_bytes), want.height, want.width,
                    static_cast<int>(vision.patch),
                    std::span(patches).subspan(i * patch_bytes, patch_bytes));
  }
  const auto width = static_cast<std::size_t>(vision.hidden);
  std::vector<float> embeddings(images * width);
  impl_->encoder->encode(patches, static_cast<std::int64_t>(images), embeddings);
  for (std::size_t i = 0; i < images; ++i) {
    const std::span row = std::span(embeddings).subspan(i * width, width);
    if (!pipeline::store_embedding(row, normalize, OutputDType::kF32,
                                   std::as_writable_bytes(row).data())) {
      fail("image {}: its embedding is not finite", i);
    }
  }
  return embeddings;
}

}  // namespace fovea
