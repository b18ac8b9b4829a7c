// The public Encoder: decodes, resizes, encodes and normalises, one call at a time.
#include "fovea/encoder.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "api/encoder_impl.hpp"
#include "backends.hpp"
#include "core/error.hpp"
#include "hub/resolve.hpp"
#include "image/decode.hpp"
#include "image/resize.hpp"
#include "image/target_size.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "model/checkpoint.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/run.hpp"

namespace fovea {
namespace {

std::size_t pixel_bytes(int height, int width) {
  return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * image::kChannels;
}

}  // namespace

TextTower::TextTower(const std::filesystem::path& folder, const EncoderOptions& options)
    : tokenizer(folder),
      encoder(std::make_unique<model::Checkpoint>(folder, StopFlag{}, model::Tower::kText,
                                                  options.calibration),
              make_backend(options)) {
  if (tokenizer.vocabulary() > encoder.config().vocabulary) {
    fail("{}: the tokenizer has {} pieces, but the model has {} tokens; they do not match",
         io::escape(folder.native()), tokenizer.vocabulary(), encoder.config().vocabulary);
  }
}

Encoder::Impl::Impl(const std::string& model, const EncoderOptions& requested)
    : folder(hub::resolve_model(model)),
      options(requested),
      config(model::read_model_config(folder)),
      images([this] {
        auto backend = make_backend(options);
        return std::make_unique<model::Encoder>(
            model::Checkpoint(folder, {}, model::Tower::kVision, options.calibration),
            std::move(backend));
      }),
      texts([this] { return std::make_unique<TextTower>(folder, options); }) {
  if (requested.first == Tower::kImages) {
    images.get();
  } else {
    texts.get();
  }
}

const ops::Backend& Encoder::Impl::backend() {
  return options.first == Tower::kImages ? images.get().backend() : texts.get().encoder.backend();
}

Encoder::Encoder(const std::string& model, const EncoderOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

std::int64_t Encoder::dimension() const {
  return impl_->config.vision.hidden;
}

std::int64_t Encoder::patches() const {
  return impl_->config.vision.tokens();
}

const Preprocessing& Encoder::preprocessing() const {
  return impl_->preprocessing();
}

std::string Encoder::device() const {
  return impl_->options.first == Tower::kImages ? impl_->images.get().description()
                                                : impl_->texts.get().encoder.description();
}

Precision Encoder::precision() const {
  return impl_->backend().precision();
}

std::int64_t Encoder::preferred_batch() const {
  return impl_->backend().preferred_batch();
}

std::vector<float> Encoder::embed(std::span<const std::byte> image, bool normalize,
                                  std::int64_t max_pixels) {
  const image::Image decoded =
      image::decode(image, {.max_pixels = image::checked_max_pixels(max_pixels)});
  const Preprocessing& settings = preprocessing();
  const auto [height, width] = image::target_size(settings, decoded.height, decoded.width);
  std::vector<std::uint8_t> pixels(pixel_bytes(height, width));
  image::resize(decoded, height, width, settings.resample, pixels);
  return embed_pixels(pixels, height, width, normalize);
}

std::vector<float> Encoder::embed_file(const std::filesystem::path& path, bool normalize,
                                       std::int64_t max_pixels) {
  return io::with_path(path, [&] {
    std::vector<std::byte> bytes;
    const MemoryPool::Lease lease = pipeline::read_file(path.native(), bytes);
    return embed(bytes, normalize, max_pixels);
  });
}

std::vector<float> Encoder::embed_pixels(std::span<const std::uint8_t> pixels, bool normalize) {
  const Preprocessing& settings = preprocessing();
  if (settings.keeps_proportions()) {
    fail("images of a NaFlex model have different sizes: pass the height and the width");
  }
  return embed_pixels(pixels, settings.height, settings.width, normalize);
}

std::vector<float> Encoder::embed_pixels(std::span<const std::uint8_t> pixels, int height,
                                         int width_in_pixels, bool normalize) {
  const model::VisionConfig& vision = impl_->config.vision;
  const Preprocessing& settings = preprocessing();
  const auto patch = static_cast<int>(vision.patch);
  const PatchGrid grid{.height = height / patch, .width = width_in_pixels / patch};
  if (settings.keeps_proportions()
          ? height < 1 || width_in_pixels < 1 || height % patch != 0 ||
                width_in_pixels % patch != 0 || grid.patches() > settings.max_patches
          : height != settings.height || width_in_pixels != settings.width) {
    fail("unsupported size of {} x {} pixels; expected {}", height, width_in_pixels,
         settings.keeps_proportions()
             ? fmt::format("1 to {} patches of {} x {}", settings.max_patches, patch, patch)
             : fmt::format("{} x {}", settings.height, settings.width));
  }
  const std::size_t bytes = pixel_bytes(height, width_in_pixels);
  if (pixels.size() % bytes != 0) {
    fail("{} bytes of pixels are not a whole number of images of {} x {} x {}", pixels.size(),
         height, width_in_pixels, image::kChannels);
  }
  const std::size_t images = pixels.size() / bytes;
  const auto patch_bytes = static_cast<std::size_t>(grid.patches() * vision.patch_elements());
  std::vector<std::uint8_t> patches(images * patch_bytes);
  for (std::size_t i = 0; i < images; ++i) {
    image::patchify(pixels.subspan(i * bytes, bytes), height, width_in_pixels, patch,
                    std::span(patches).subspan(i * patch_bytes, patch_bytes));
  }
  const auto width = static_cast<std::size_t>(vision.hidden);
  std::vector<float> embeddings(images * width);
  impl_->images.get().encode(patches, std::vector(images, grid), embeddings);
  for (std::size_t i = 0; i < images; ++i) {
    const std::span row = std::span(embeddings).subspan(i * width, width);
    if (!pipeline::store_embedding(row, normalize, OutputDType::kF32,
                                   std::as_writable_bytes(row).data())) {
      fail("image {}: its embedding is not finite", i);
    }
  }
  return embeddings;
}

void Encoder::load_texts() {
  impl_->texts.get();
}

LogitScale Encoder::logit_scale() {
  const model::TextEncoder& encoder = impl_->texts.get().encoder;
  return {.factor = encoder.logit_factor(), .bias = encoder.logit_bias()};
}

std::vector<float> Encoder::embed_texts(std::span<const std::string> texts,
                                        const EmbedTextsOptions& options) {
  TextTower& text_tower = impl_->texts.get();
  const std::int64_t length = text_tower.encoder.config().tokens;
  const auto width = static_cast<std::size_t>(dimension());
  std::vector<float> embeddings(texts.size() * width);
  std::mutex mutex;
  std::size_t done = 0;
  const auto add_done = [&](std::int64_t count) {
    const std::lock_guard lock(mutex);
    done += static_cast<std::size_t>(count);
    if (options.on_progress) {
      options.on_progress(done);
    }
  };
  // Texts are tokenised in chunks: the tokens of millions of texts would take much memory, and much
  // time before the first text is embedded.
  constexpr std::size_t kTokenizedAtOnce = 4096;
  std::vector<std::int32_t> ids;
  for (std::size_t first = 0; first < texts.size(); first += kTokenizedAtOnce) {
    const std::size_t end = std::min(texts.size(), first + kTokenizedAtOnce);
    ids.clear();
    for (std::size_t i = first; i < end; ++i) {
      StopFlag(options.stop).poll();
      try {
        const std::vector<std::int32_t> tokens =
            text_tower.tokenizer.encode(texts[i], length, options.clean);
        ids.insert(ids.end(), tokens.begin(), tokens.end());
      } catch (const Error& error) {
        rethrow_unless_finding(error);
        fail("text {} of {}: {}", i + 1, texts.size(), error.what());
      }
    }
    text_tower.encoder.encode(ids, static_cast<std::int64_t>(end - first),
                              std::span(embeddings).subspan(first * width, (end - first) * width),
                              options.stop, add_done);
  }
  if (const std::string note = text_tower.encoder.take_note(); !note.empty() && options.on_note) {
    options.on_note(note);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span row = std::span(embeddings).subspan(i * width, width);
    if (!pipeline::store_embedding(row, options.normalize, OutputDType::kF32,
                                   std::as_writable_bytes(row).data())) {
      fail("text {} of {}: its embedding is not finite", i + 1, texts.size());
    }
  }
  return embeddings;
}

}  // namespace fovea
