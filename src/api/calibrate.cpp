// fovea::calibrate: runs photos through the fp32 encoder on the CPU, then rounds the weights.
#include "fovea/calibrate.hpp"

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "backends.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "hub/resolve.hpp"
#include "model/calibration.hpp"
#include "model/encoder.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/loader.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/source.hpp"
#include "quantize/calibrator.hpp"
#include "quantize/observer.hpp"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;

/// Encodes the first images of the inputs, while the encoder's backend observes.
void look_at_images(const CalibrateOptions& options, const pipeline::PixelLayout& layout,
                    model::Encoder& encoder, CalibrateReport& report) {
  pipeline::InputStream inputs(pipeline::make_source(options.input, layout.preprocessing),
                               options.input.shard_index, options.input.shard_count);
  pipeline::LoaderOptions loading;
  loading.threads = options.threads > 0 ? options.threads : available_threads();
  loading.image_bytes = layout.image_bytes();
  pipeline::Loader loader(loading, inputs);
  loader.start(pipeline::make_prepare(layout));
  std::vector<float> embeddings;
  std::atomic<std::uint64_t> done = 0;
  const auto on_computed = [&](std::int64_t images) {
    done += static_cast<std::uint64_t>(images);
    if (options.on_progress) {
      options.on_progress("looking", "photos", done, static_cast<std::uint64_t>(options.images));
    }
  };
  while (report.images < options.images) {
    pipeline::Batch* const batch = loader.next();
    if (batch == nullptr) {
      break;
    }
    batch->compact(loading.image_bytes);
    for (const pipeline::Slot& slot : std::span(batch->slots).first(batch->count)) {
      if (slot.failed()) {
        ++report.failed;
        if (options.on_failure) {
          options.on_failure({.source = slot.name, .error = slot.error});
        }
      }
    }
    const std::int64_t images = std::min<std::int64_t>(static_cast<std::int64_t>(batch->rows),
                                                       options.images - report.images);
    embeddings.resize(static_cast<std::size_t>(images * encoder.config().vision.hidden));
    encoder.encode(
        batch->pixels.span().first(static_cast<std::size_t>(images) * loading.image_bytes), images,
        embeddings, {}, on_computed);
    report.images += images;
    loader.recycle(*batch);
  }
  loader.stop();
}

}  // namespace

CalibrateReport calibrate(const CalibrateOptions& options) {
  const Clock::time_point start = Clock::now();
  for (const Precision precision : options.precisions) {
    if (precision != Precision::kInt8 && precision != Precision::kFp8) {
      fail("{} needs no calibration; only int8 and fp8 do", to_string(precision));
    }
  }
  if (options.images < 1) {
    fail("invalid number of images {}; calibration needs at least 1", options.images);
  }
  const model::Checkpoint checkpoint(hub::resolve_model(options.model));
  const model::ModelConfig& config = checkpoint.config();
  if (options.bf16_layers < 0 || options.bf16_layers > config.vision.layers) {
    fail("invalid number of layers in bf16 {}; the model has {} layers", options.bf16_layers,
         config.vision.layers);
  }
  const pipeline::PixelLayout layout{.preprocessing = config.preprocessing,
                                     .patch = static_cast<int>(config.vision.patch)};
  quantize::Observations observations;
  std::vector<std::string> places(std::begin(model::kCalibratedPlaces),
                                  std::end(model::kCalibratedPlaces));
  CalibrateReport report;
  {
    model::Encoder encoder(checkpoint,
                           quantize::observe(make_backend({.device = "cpu",
                                                           .precision = Precision::kFp32,
                                                           .threads = options.threads}),
                                             std::move(places), observations));
    if (options.on_device) {
      options.on_device(encoder.description());
    }
    look_at_images(options, layout, encoder, report);
  }
  if (report.images == 0) {
    fail("no image among the inputs could be used");
  }
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  for (const Precision precision : options.precisions) {
    const std::string step = "rounding for " + std::string(to_string(precision));
    quantize::round_and_write(checkpoint, observations, precision, report.images,
                              options.bf16_layers, pool,
                              [&](std::uint64_t done, std::uint64_t total) {
                                if (options.on_progress) {
                                  options.on_progress(step, "layers", done, total);
                                }
                              });
    report.files.push_back(model::calibration_path(checkpoint.folder(), precision));
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace fovea
