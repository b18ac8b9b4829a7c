// fovea::calibrate: runs photos through the fp32 encoder on the CPU, then rounds the weights.
#include "fovea/calibrate.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "backends.hpp"
#include "core/error.hpp"
#include "core/precision_names.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "hub/resolve.hpp"
#include "io/output_place.hpp"
#include "model/calibration.hpp"
#include "model/encoder.hpp"
#include "model/text_encoder.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/loader.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/source.hpp"
#include "quantize/calibrator.hpp"
#include "quantize/observer.hpp"
#include "text/tokenizer.hpp"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;

/// Encodes the first images of the inputs while the encoder's backend records activations.
void look_at_images(const CalibrateOptions& options, const pipeline::PixelLayout& layout,
                    model::Encoder& encoder, CalibrateReport& report) {
  pipeline::InputStream inputs(pipeline::make_source(options.input, layout.preprocessing),
                               options.input.shard_index, options.input.shard_count);
  pipeline::LoaderOptions loading;
  loading.threads = options.threads > 0 ? options.threads : available_threads();
  loading.image_bytes = layout.image_bytes();
  loading.max_pixels = options.input.max_pixels;
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
    const auto images = static_cast<std::size_t>(std::min<std::int64_t>(
        static_cast<std::int64_t>(batch->rows), options.images - report.images));
    embeddings.resize(images * static_cast<std::size_t>(encoder.config().vision.hidden));
    encoder.encode(batch->packed(images), std::span(batch->grids).first(images), embeddings, {},
                   on_computed);
    report.images += static_cast<std::int64_t>(images);
    loader.recycle(*batch);
  }
  loader.stop();
}

/// Makes an encoder that computes in fp32 on the CPU and records the inputs of its layers.
std::unique_ptr<ops::Backend> observing_backend(const CalibrateOptions& options,
                                                quantize::Observations& observations) {
  EncoderOptions computing;
  computing.device = "cpu";
  computing.precision = Precision::kFp32;
  computing.threads = options.threads;
  return quantize::observe(
      make_backend(computing),
      {std::begin(model::kCalibratedPlaces), std::end(model::kCalibratedPlaces)}, observations);
}

void look_at_texts(const CalibrateOptions& options, const std::filesystem::path& folder,
                   quantize::Observations& observations) {
  const text::Tokenizer tokenizer(folder);
  model::TextEncoder encoder(
      std::make_unique<model::Checkpoint>(folder, StopFlag{}, model::Tower::kText),
      observing_backend(options, observations));
  std::vector<std::int32_t> ids;
  for (const std::string& text : options.texts) {
    const std::vector<std::int32_t> tokens = tokenizer.encode(text, encoder.config().tokens);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  }
  std::vector<float> embeddings(options.texts.size() *
                                static_cast<std::size_t>(encoder.config().projection));
  std::atomic<std::uint64_t> done = 0;
  encoder.encode(ids, static_cast<std::int64_t>(options.texts.size()), embeddings, {},
                 [&](std::int64_t texts) {
                   done += static_cast<std::uint64_t>(texts);
                   if (options.on_progress) {
                     options.on_progress("looking", "texts", done, options.texts.size());
                   }
                 });
}

/// Fails early, before the encoding, if the calibration file could not be written at the end.
void check_places(const CalibrateOptions& options, const model::Checkpoint& checkpoint) {
  for (const Precision precision : options.precisions) {
    io::check_writable(model::calibration_to_write(checkpoint, precision));
  }
}

/// Writes the files of one tower.
void round(const CalibrateOptions& options, const model::Checkpoint& checkpoint,
           const quantize::Observations& observations, std::int64_t samples,
           std::int64_t bf16_layers, ThreadPool& pool, CalibrateReport& report) {
  for (const Precision precision : options.precisions) {
    const std::string step = "rounding for " + std::string(to_string(precision));
    report.files.push_back(
        quantize::round_and_write(checkpoint, observations, precision, samples, bf16_layers, pool,
                                  [&](std::uint64_t done, std::uint64_t total) {
                                    if (options.on_progress) {
                                      options.on_progress(step, "layers", done, total);
                                    }
                                  }));
  }
}

}  // namespace

CalibrateReport calibrate(const CalibrateOptions& options) {
  const Clock::time_point start = Clock::now();
  for (const Precision precision : options.precisions) {
    if (!info_of(precision).calibrated) {
      fail("{} needs no calibration; only {} do", to_string(precision),
           listed(precision_names(&PrecisionInfo::calibrated), "and"));
    }
  }
  if (options.images < 1) {
    fail("invalid number of images {}; calibration needs at least 1", options.images);
  }
  const model::Checkpoint checkpoint(hub::resolve_model(options.model), {}, model::Tower::kVision,
                                     options.calibration);
  const model::ModelConfig& config = checkpoint.config();
  if (options.bf16_layers < 0 || options.bf16_layers > config.vision.layers) {
    fail("invalid number of layers in bf16 {}; the model has {} layers", options.bf16_layers,
         config.vision.layers);
  }
  check_places(options, checkpoint);
  std::optional<model::Checkpoint> text;
  if (!options.texts.empty()) {
    text.emplace(checkpoint.folder(), StopFlag{}, model::Tower::kText, options.calibration);
    check_places(options, *text);
  }
  const pipeline::PixelLayout layout{.preprocessing = config.preprocessing,
                                     .patch = static_cast<int>(config.vision.patch)};
  CalibrateReport report;
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  {
    quantize::Observations observations;
    {
      model::Encoder encoder(checkpoint, observing_backend(options, observations));
      if (options.on_device) {
        options.on_device(encoder.description());
      }
      look_at_images(options, layout, encoder, report);
    }
    if (report.images == 0) {
      fail("no image among the inputs could be used");
    }
    round(options, checkpoint, observations, report.images, options.bf16_layers, pool, report);
  }
  if (text) {
    quantize::Observations observations;
    look_at_texts(options, checkpoint.folder(), observations);
    round(options, *text, observations, static_cast<std::int64_t>(options.texts.size()), 0, pool,
          report);
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace fovea
