// Encoder::features: runs the pipeline of jobs on images in memory, into memory of the device.
#include "api/features.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "api/encoder_impl.hpp"
#include "api/image_source.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "io/text.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/output.hpp"
#include "pipeline/run.hpp"

namespace fovea {
namespace {

constexpr std::string_view kLastName = "last";
constexpr std::string_view kPenultimateName = "penultimate";
constexpr std::string_view kPooledName = "pooled";

// Thrown to end a run at the first image that fails.
class ImageFailed : public Error {
 public:
  ImageFailed() : Error("an image failed") {}
};

// Counts the images and keeps the first failure; the results are already in device memory.
class CountingOutput final : public pipeline::Output {
 public:
  CountingOutput(const FeaturesOptions& options, std::optional<ImageFailure>& failure)
      : options_(options), failure_(failure) {}

  void append(const pipeline::Batch& batch, std::span<const std::byte> /*rows*/) override {
    for (const pipeline::Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (slot.failed()) {
        failure_ = ImageFailure{.index = done_, .error = slot.error};
        throw ImageFailed();
      }
      ++done_;
    }
    if (options_.on_progress) {
      options_.on_progress(done_);
    }
  }
  void checkpoint() override {}
  void finish() override {}

 private:
  const FeaturesOptions& options_;
  std::optional<ImageFailure>& failure_;
  std::size_t done_ = 0;
};

}  // namespace

FeatureLayer parse_feature_layer(std::string_view name) {
  if (name == kLastName) {
    return FeatureLayer::last();
  }
  if (name == kPenultimateName) {
    return FeatureLayer::penultimate();
  }
  if (name == kPooledName) {
    return FeatureLayer::pooled();
  }
  const std::optional<int> index = parse_number<int>(name);
  if (!index) {
    fail("unknown features \"{}\"; expected {}, {}, {}, or the number of a layer", io::escape(name),
         kLastName, kPenultimateName, kPooledName);
  }
  return {*index};
}

std::string to_string(const FeatureLayer& layer) {
  if (layer.kind() == FeatureLayer::Kind::kHidden) {
    return layer == FeatureLayer::penultimate() ? std::string(kPenultimateName)
                                                : std::to_string(layer.index());
  }
  return std::string(layer == FeatureLayer::pooled() ? kPooledName : kLastName);
}

model::Features to_model_features(const FeatureLayer& layer, const model::VisionConfig& vision) {
  model::Features features;
  switch (layer.kind()) {
    case FeatureLayer::Kind::kPooled:
      features.kind = model::Features::Kind::kPooled;
      break;
    case FeatureLayer::Kind::kLast:
      features.kind = model::Features::Kind::kLast;
      break;
    case FeatureLayer::Kind::kHidden: {
      const std::int64_t outputs = vision.layers + 1;
      if (layer.index() < -outputs || layer.index() >= outputs) {
        fail("there is no layer {}; the model has {} layers, so expected {} to {}", layer.index(),
             vision.layers, -outputs, vision.layers);
      }
      features.kind = model::Features::Kind::kHidden;
      features.layers = layer.index() < 0 ? outputs + layer.index() : layer.index();
      break;
    }
  }
  require(vision, features);
  if (vision.naflex && features.of_tokens()) {
    fail(
        "the images of a NaFlex model have different numbers of tokens, so their token features do "
        "not form one array; only \"{}\" features are supported",
        kPooledName);
  }
  return features;
}

std::size_t feature_bytes(const model::Features& features, const model::VisionConfig& vision,
                          OutputDType dtype) {
  return static_cast<std::size_t>((features.of_tokens() ? vision.tokens() : 1) * vision.hidden) *
         size_of(stored_type(dtype));
}

std::int64_t feature_batch(std::int64_t preferred, std::size_t bytes_per_image) {
  constexpr std::size_t kMaxBytes = std::size_t{128} << 20;
  constexpr std::int64_t kMultiple = 32;  // rows of a tile of the matrix products
  const auto limit = static_cast<std::int64_t>(kMaxBytes / bytes_per_image);
  if (preferred <= limit) {
    return preferred;
  }
  return std::max<std::int64_t>(1, limit > kMultiple ? limit / kMultiple * kMultiple : limit);
}

struct Features::Impl {
  std::vector<std::int64_t> shape;
  OutputDType dtype = OutputDType::kF16;
  std::size_t bytes = 0;
  std::shared_ptr<ops::OutputMemory> memory;  // null when there are no images
};

Features::Features() : impl_(std::make_shared<Impl>(Impl{.shape = {0, 0}, .memory = nullptr})) {}
Features::~Features() = default;
Features::Features(const Features&) = default;
Features::Features(Features&&) noexcept = default;
Features& Features::operator=(const Features&) = default;
Features& Features::operator=(Features&&) noexcept = default;

const std::vector<std::int64_t>& Features::shape() const {
  return impl_->shape;
}
OutputDType Features::dtype() const {
  return impl_->dtype;
}
std::size_t Features::bytes() const {
  return impl_->bytes;
}
std::optional<int> Features::cuda_device() const {
  if (impl_->memory == nullptr || impl_->memory->device() == ops::OutputMemory::kHost) {
    return std::nullopt;
  }
  return impl_->memory->device();
}
void* Features::data() const {
  return impl_->memory == nullptr ? nullptr : impl_->memory->bytes().data();
}
void Features::copy_to(std::span<std::byte> host) const {
  if (host.size() != impl_->bytes) {
    fail("features of {} bytes do not fit into {}", impl_->bytes, host.size());
  }
  if (impl_->memory != nullptr) {
    impl_->memory->copy_to(host);
  }
}

Features Encoder::features(std::span<const ImageInput> images, const FeaturesOptions& options,
                           std::optional<ImageFailure>& failure) {
  failure.reset();
  if (options.batch_size < 0 || options.decode_threads < 0) {
    fail("invalid batch size {} or number of decode threads {}; use 0 for the defaults",
         options.batch_size, options.decode_threads);
  }
  const model::VisionConfig& vision = impl_->config.vision;
  const model::Features model_features = to_model_features(options.layer, vision);
  const std::size_t image_bytes = feature_bytes(model_features, vision, options.dtype);
  auto result = std::make_shared<Features::Impl>();
  result->shape = {static_cast<std::int64_t>(images.size())};
  if (model_features.of_tokens()) {
    result->shape.push_back(vision.tokens());
  }
  result->shape.push_back(vision.hidden);
  result->dtype = options.dtype;
  result->bytes = images.size() * image_bytes;
  Features features;
  features.impl_ = result;
  if (images.empty()) {
    return features;
  }
  model::Encoder& encoder = impl_->images.get();
  try {
    result->memory = encoder.allocate_output(result->bytes);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("{}; pass fewer images at a time", error.what());
  }
  const auto batch =
      static_cast<std::size_t>(options.batch_size > 0 ? options.batch_size : preferred_batch());
  pipeline::RunOptions run;
  run.stores_results = true;
  run.control.stop = options.stop;
  run.control.on_note = options.on_note;
  run.loader = loader_for(images.size(), batch, options.decode_threads, options.decode_memory,
                          options.max_pixels);
  CountingOutput output(options, failure);
  std::size_t done = 0;
  const auto encode = [&](std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                          std::span<std::byte> /*rows*/, const pipeline::OnComputed& on_computed) {
    const auto part =
        result->memory->bytes().subspan(done * image_bytes, grids.size() * image_bytes);
    encoder.features(model_features, patches, grids,
                     {.type = stored_type(options.dtype), .bytes = part, .stays = true},
                     options.stop, on_computed);
    done += grids.size();
  };
  pipeline::InputStream inputs(image_source(images), 0, 1);
  try {
    if (impl_->run(run, inputs, output, encode).interrupted) {
      throw Interrupted();
    }
  } catch (const ImageFailed&) {
    return {};
  }
  return features;
}

Features Encoder::features(std::span<const ImageInput> images, const FeaturesOptions& options) {
  std::optional<ImageFailure> failure;
  Features features = this->features(images, options, failure);
  if (failure) {
    const ImageInput& image = images[failure->index];
    fail("{}: {}",
         image.kind == ImageInput::Kind::kFile ? io::escape(image.path)
                                               : fmt::format("image {}", failure->index),
         failure->error);
  }
  return features;
}

}  // namespace fovea
