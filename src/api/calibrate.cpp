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

/// Encodes the first images of the inputs; the encoder's backend records the inputs of the layers.
void record_image_inputs(const CalibrateOptions& options, const pipeline::PixelLayout& layout,
                         model::Encoder& encoder, CalibrateReport& report) {
  pipeline::InputStream inputs(pipeline::make_source(options.input, layout.preprocessing),
                               options.input.shard_index, options.input.shard_count);
  pipeline::LoaderOptions loader_options;
  loader_options.threads = options.threads > 0 ? options.threads : available_threads();
  loader_options.image_bytes = layout.image_bytes();
  loader_options.max_pixels = options.input.max_pixels;
  pipeline::Loader loader(loader_options, inputs);
  loader.start(pipeline::make_prepare(layout));
  std::vector<float> embeddings;
  std::atomic<std::uint64_t> done = 0;
  const auto on_computed = [&](std::int64_t images) {
    done += static_cast<std::uint64_t>(images);
    if (options.on_progress) {
      options.on_progress("recording", "photos", done, static_cast<std::uint64_t>(options.images));
    }
  };
  while (report.images < options.images) {
    pipeline::Batch* const batch = loader.next();
    if (batch == nullptr) {
      break;
    }
    batch->compact(loader_options.image_bytes);
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

/// Returns a backend that computes in fp32 on the CPU and records the inputs of the layers.
std::unique_ptr<ops::Backend> recording_backend(const CalibrateOptions& options,
                                                quantize::Observations& observations) {
  EncoderOptions encoder_options;
  encoder_options.device = "cpu";
  encoder_options.precision = Precision::kFp32;
  encoder_options.threads = options.threads;
  return quantize::observe(
      make_backend(encoder_options),
      {std::begin(model::kCalibratedPlaces), std::end(model::kCalibratedPlaces)}, observations);
}

void record_text_inputs(const CalibrateOptions& options, const std::filesystem::path& folder,
                        quantize::Observations& observations) {
  const text::Tokenizer tokenizer(folder);
  model::TextEncoder encoder(
      std::make_unique<model::Checkpoint>(folder, StopFlag{}, model::Tower::kText),
      recording_backend(options, observations));
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
                     options.on_progress("recording", "texts", done, options.texts.size());
                   }
                 });
}

/// Fails before the encoding if the calibration files could not be written after it.
void check_output_files(const CalibrateOptions& options, const model::Checkpoint& checkpoint) {
  for (const Precision precision : options.precisions) {
    io::check_writable(model::calibration_to_write(checkpoint, precision));
  }
}

/// Rounds the weights of one tower and writes its calibration files, one per precision.
void write_calibration_files(const CalibrateOptions& options, const model::Checkpoint& checkpoint,
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
  check_output_files(options, checkpoint);
  std::optional<model::Checkpoint> text;
  if (!options.texts.empty()) {
    text.emplace(checkpoint.folder(), StopFlag{}, model::Tower::kText, options.calibration);
    check_output_files(options, *text);
  }
  const pipeline::PixelLayout layout{.preprocessing = config.preprocessing,
                                     .patch = static_cast<int>(config.vision.patch)};
  CalibrateReport report;
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  {
    quantize::Observations observations;
    {
      model::Encoder encoder(checkpoint, recording_backend(options, observations));
      if (options.on_device) {
        options.on_device(encoder.description());
      }
      record_image_inputs(options, layout, encoder, report);
    }
    if (report.images == 0) {
      fail("no image among the inputs could be used");
    }
    write_calibration_files(options, checkpoint, observations, report.images, options.bf16_layers,
                            pool, report);
  }
  if (text) {
    quantize::Observations observations;
    record_text_inputs(options, checkpoint.folder(), observations);
    write_calibration_files(options, *text, observations,
                            static_cast<std::int64_t>(options.texts.size()), 0, pool, report);
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace fovea
