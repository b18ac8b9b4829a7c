// fovea_features over the public Encoder, and its export as DLPack tensors.
#include "fovea/c/features.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "c/embed_run.hpp"
#include "c/encoder_handle.hpp"
#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/features.hpp"
#include "fovea/heat.hpp"

// The tensor struct of DLPack, in the binary interface of version 0.8 (dmlc.github.io/dlpack),
// which later versions still read.
namespace fovea::c::dlpack {

enum class DeviceType : std::int32_t { kCpu = 1, kCuda = 2 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int32_t id = 0;
};

struct DataType {
  std::uint8_t code = 2;  // floating-point
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // null: row-major without gaps
  std::uint64_t byte_offset = 0;
};

struct ManagedTensor {
  Tensor tensor;
  void* owner = nullptr;
  void (*deleter)(ManagedTensor* self) = nullptr;
};

}  // namespace fovea::c::dlpack

struct fovea_features {
  /// The result of the run, which may be read once `is_complete` is set.
  struct Result {
    fovea::Features value;
    std::atomic<bool> is_complete = false;
  };

  std::shared_ptr<Result> result = std::make_shared<Result>();
  fovea::c::Process process;

  /// Returns the features, or null before the run has ended and after it has failed.
  [[nodiscard]] const fovea::Features* value() const {
    return result->is_complete ? &result->value : nullptr;
  }
};

namespace fovea::c {
namespace {

/// The data that an exported tensor points to.
struct ExportedTensor {
  dlpack::ManagedTensor managed;
  std::vector<std::int64_t> shape;
  Features features;
  Process process;
};

void free_exported_tensor(dlpack::ManagedTensor* managed) {
  free_here(static_cast<ExportedTensor*>(managed->owner));
}

OutputDType feature_type(std::int32_t type) {
  if (type != FOVEA_FEATURES_F32 && type != FOVEA_FEATURES_F16) {
    fail("invalid fovea_feature_type {}", type);
  }
  return type == FOVEA_FEATURES_F32 ? OutputDType::kF32 : OutputDType::kF16;
}

/// Returns the features of a finished run. Throws fovea::Error when there are none, or when they
/// belong to another process.
const Features& finished_features(const fovea_features& features) {
  require_this_process(features.process, "these features", kLoadThere);
  if (features.value() == nullptr) {
    fail("there are no features: their run has not ended, or it has failed");
  }
  return *features.value();
}

/// Returns query(features), or `fallback` while there are no features, for functions that return no
/// status.
template <typename Query>
auto query_features(const fovea_features* features,
                    std::invoke_result_t<Query, const Features&> fallback, Query&& query) {
  return query_or(features == nullptr ? nullptr : features->value(), fallback, query);
}

}  // namespace
}  // namespace fovea::c

using fovea::c::guarded;
using fovea::c::query_features;
using fovea::c::query_or;
using fovea::c::require_pointer;
using fovea::c::require_pointers;

int64_t fovea_encoder_patches(const fovea_encoder* encoder) {
  return query_or(encoder, 0, [](auto& object) { return object.encoder->patches(); });
}

fovea_status fovea_features_start(fovea_encoder* encoder, const fovea_image* images, size_t count,
                                  const char* layer, const fovea_features_options* options,
                                  fovea_features** features, fovea_embedding** run) {
  return guarded([&] {
    fovea::c::require_here(encoder);
    require_pointers(
        {{layer, "layer"}, {options, "options"}, {features, "features"}, {run, "run"}});
    std::vector<fovea::ImageInput> inputs = fovea::c::image_inputs(images, count);
    fovea::FeaturesOptions features_options;
    features_options.layer = fovea::parse_feature_layer(layer);
    features_options.dtype = fovea::c::feature_type(options->type);
    features_options.batch_size = options->batch_size;
    features_options.decode_threads = options->decode_threads;
    features_options.decode_memory = options->decode_memory;
    features_options.max_pixels = options->max_pixels;
    auto handle = std::make_unique<fovea_features>();
    auto started = std::make_unique<fovea_embedding>(
        count, [shared = encoder->encoder, inputs = std::move(inputs), features_options,
                result = handle->result](const fovea_embedding::Control& control) {
          fovea::FeaturesOptions run_options = features_options;
          run_options.stop = control.stop;
          run_options.on_progress = control.on_progress;
          run_options.on_note = control.on_note;
          std::optional<fovea::ImageFailure> failure;
          result->value = shared->features(inputs, run_options, failure);
          result->is_complete = !failure;
          return failure ? std::vector{*std::move(failure)} : std::vector<fovea::ImageFailure>();
        });
    *features = handle.release();
    *run = started.release();
  });
}

int32_t fovea_features_shape(const fovea_features* features, int64_t* shape) {
  return shape == nullptr ? 0 : query_features(features, 0, [=](const fovea::Features& value) {
    std::ranges::copy(value.shape(), shape);
    return static_cast<int32_t>(value.shape().size());
  });
}

int32_t fovea_features_type(const fovea_features* features) {
  return query_features(features, FOVEA_FEATURES_F32, [](const fovea::Features& value) {
    return value.dtype() == fovea::OutputDType::kF32 ? FOVEA_FEATURES_F32 : FOVEA_FEATURES_F16;
  });
}

int32_t fovea_features_cuda_device(const fovea_features* features) {
  return query_features(
      features, -1, [](const fovea::Features& value) { return value.cuda_device().value_or(-1); });
}

void* fovea_features_data(const fovea_features* features) {
  return query_features(features, nullptr,
                        [](const fovea::Features& value) { return value.data(); });
}

size_t fovea_features_bytes(const fovea_features* features) {
  return query_features(features, 0, [](const fovea::Features& value) { return value.bytes(); });
}

fovea_status fovea_features_copy(const fovea_features* features, void* host, size_t size) {
  return guarded([&] {
    require_pointer(features, "features");
    const fovea::Features& value = fovea::c::finished_features(*features);
    const auto bytes = fovea::c::checked_span(static_cast<std::byte*>(host), size, "host");
    const fovea::c::Activity activity;
    value.copy_to(bytes);
  });
}

fovea_status fovea_features_dlpack(const fovea_features* features, void** managed) {
  namespace dlpack = fovea::c::dlpack;
  return guarded([&] {
    require_pointers({{features, "features"}, {managed, "managed"}});
    const fovea::Features& value = fovea::c::finished_features(*features);
    auto exported = std::make_unique<fovea::c::ExportedTensor>();
    exported->shape = value.shape();
    exported->features = value;
    constexpr std::uint8_t kByteBits = 8;
    const std::optional<int> device = value.cuda_device();
    exported->managed = {
        .tensor = {.data = value.data(),
                   .device = {.type = device ? dlpack::DeviceType::kCuda : dlpack::DeviceType::kCpu,
                              .id = device.value_or(0)},
                   .ndim = static_cast<std::int32_t>(exported->shape.size()),
                   .dtype = {.bits = static_cast<std::uint8_t>(
                                 value.dtype() == fovea::OutputDType::kF32 ? 4 * kByteBits
                                                                           : 2 * kByteBits)},
                   .shape = exported->shape.data()},
        .owner = exported.get(),
        .deleter = fovea::c::free_exported_tensor};
    *managed = &exported.release()->managed;
  });
}

void fovea_features_free(fovea_features* features) {
  fovea::c::free_here(features);
}

fovea_status fovea_heat(fovea_encoder* encoder, const fovea_text* text, const fovea_image* image,
                        int32_t clean, float* values, size_t capacity, int64_t* rows,
                        int64_t* columns) {
  return guarded([&] {
    fovea::c::require_here(encoder);
    require_pointers({{text, "text"},
                      {image, "image"},
                      {values, "values"},
                      {rows, "rows"},
                      {columns, "columns"}});
    if (text->size > 0) {
      require_pointer(text->data, "the data of the text");
    }
    if (std::cmp_less(capacity, encoder->encoder->patches())) {
      fovea::fail("a capacity of {} values is too small: the image may have {} patches", capacity,
                  encoder->encoder->patches());
    }
    const fovea::c::Activity activity;
    const fovea::HeatMap map =
        encoder->encoder->heat(std::string(text->data, text->size),
                               fovea::c::image_input(*image, 0), fovea::c::text_clean(clean));
    std::ranges::copy(map.values, values);
    *rows = map.rows;
    *columns = map.columns;
  });
}
