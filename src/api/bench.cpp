// Times the encoder alone on random pixels; each output is checked before it is timed.
#include "fovea/bench.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/bench_check.hpp"
#include "api/precision.hpp"
#include "backends.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/quantile.hpp"
#include "hub/resolve.hpp"
#include "image/target_size.hpp"
#include "model/architecture.hpp"

namespace fovea {
namespace {

constexpr int kMinCalls = 3;
// Images compared with fp32; two suffice to notice swapped rows.
constexpr std::size_t kExactImages = 2;

// A batch of images of random pixels; for a NaFlex model they have the aspect ratios of photos.
struct RandomImages {
  std::vector<PatchGrid> grids;
  HostBuffer patches;
};

PatchGrid image_grid(const model::ModelConfig& config, std::size_t image) {
  const auto [height, width] = image::typical_photo_size(image);
  const auto target = image::target_size(config.preprocessing, height, width);
  const auto patch = static_cast<int>(config.vision.patch);
  return {.height = target.height / patch, .width = target.width / patch};
}

// Every encoder gets the same pixels; a smaller batch is a prefix of a larger one.
RandomImages random_images(model::Encoder& encoder, std::size_t count) {
  RandomImages images;
  std::int64_t bytes = 0;
  for (std::size_t image = 0; image < count; ++image) {
    images.grids.push_back(image_grid(encoder.config(), image));
    bytes += images.grids.back().patches() * encoder.config().vision.patch_elements();
  }
  std::mt19937 generator(0);
  images.patches = encoder.allocate_input(static_cast<std::size_t>(bytes));
  std::ranges::generate(images.patches.span(),
                        [&] { return static_cast<std::uint8_t>(generator()); });
  return images;
}

// GFLOP per image, averaged over the aspect ratios.
double mean_gflop(const model::ModelConfig& config) {
  constexpr std::size_t kImages = 8;  // one for each aspect ratio
  double sum = 0;
  for (std::size_t image = 0; image < kImages; ++image) {
    model::VisionConfig vision = config.vision;
    vision.max_patches = image_grid(config, image).patches();
    sum += model::flop_per_image(vision);
  }
  return sum / kImages * 1e-9;
}

// Returns the embeddings of the first images of every batch, computed in fp32 on the CPU.
std::vector<float> exact_embeddings(const model::Checkpoint& checkpoint, int threads) {
  model::Encoder encoder(
      checkpoint,
      make_backend({.device = "cpu", .precision = Precision::kFp32, .threads = threads}));
  const RandomImages images = random_images(encoder, kExactImages);
  std::vector<float> embeddings(kExactImages *
                                static_cast<std::size_t>(encoder.config().vision.hidden));
  encoder.encode(images.patches.span(), images.grids, embeddings);
  return embeddings;
}

// Measures the throughput. Checks the embeddings first, so that an encoder that computes nothing is
// not reported as fast.
BenchFigure measure(model::Encoder& encoder, std::int64_t batch_size, double seconds,
                    std::span<const float> exact) {
  const auto count = static_cast<std::size_t>(batch_size);
  const auto dimension = static_cast<std::size_t>(encoder.config().vision.hidden);
  const RandomImages images = random_images(encoder, count);
  AlignedBuffer<float> embeddings(count * dimension);
  std::ranges::fill(embeddings.span(), std::numeric_limits<float>::quiet_NaN());

  const auto encode = [&] {
    encoder.encode(images.patches.span(), images.grids, embeddings.span());
  };
  encode();
  check_distinct(embeddings.span(), dimension);
  check_against_exact(embeddings.span(), exact, dimension);

  using Clock = std::chrono::steady_clock;
  std::vector<double> samples;
  encode();  // the second call with a batch size may still initialise something on the device
  encoder.reset_profile();
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  while (samples.size() < kMinCalls || Clock::now() < end) {
    const Clock::time_point start = Clock::now();
    encode();
    samples.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }

  BenchFigure figure;
  figure.precision = encoder.backend().precision();
  figure.device = encoder.description();
  figure.batch_size = batch_size;
  figure.calls = static_cast<std::int64_t>(samples.size());
  figure.median_seconds = quantile(samples, 0.5);
  figure.p10_seconds = quantile(samples, 0.1);
  figure.p90_seconds = quantile(samples, 0.9);
  figure.images_per_second = static_cast<double>(batch_size) / figure.median_seconds;
  if (const double on_device = encoder.backend().device_seconds(); on_device > 0) {
    figure.device_images_per_second = static_cast<double>(batch_size * figure.calls) / on_device;
  }
  return figure;
}

}  // namespace

BenchReport bench(const BenchOptions& options,
                  const std::function<void(const BenchFigure&)>& on_figure) {
  for (const std::int64_t batch_size : options.batch_sizes) {
    if (batch_size < 1) {
      fail("bench: invalid batch size {}; it must be at least 1", batch_size);
    }
  }
  std::vector<std::int64_t> batch_sizes = options.batch_sizes;
  if (batch_sizes.empty()) {
    batch_sizes = selects_gpu(options.device)
                      ? std::vector<std::int64_t>{1, 8, 32, 128, 256, 512, 1024}
                      : std::vector<std::int64_t>{1, 8, 32};
  }
  const model::Checkpoint checkpoint(hub::resolve_model(options.model), {}, model::Tower::kVision,
                                     options.calibration);
  BenchReport report;
  report.model = options.model;
  report.gflop_per_image = mean_gflop(checkpoint.config());
  const std::vector<Precision> precisions = precisions_or_all(options.precisions, options.device);
  const std::int64_t total = std::ssize(precisions) * std::ssize(batch_sizes);
  std::int64_t done = 0;
  for (const Precision precision : precisions) {
    std::string reason;
    const EncoderOptions encoder_options{
        .device = options.device, .precision = precision, .threads = options.threads};
    const std::unique_ptr<model::Encoder> encoder =
        try_encoder(checkpoint, encoder_options, options.precisions.empty(), reason);
    if (!encoder) {
      report.refused.push_back(reason);
      done += std::ssize(batch_sizes);
      continue;
    }
    if (options.on_device) {
      options.on_device(encoder->description());
    }
    // fp32 is the reference itself. The 8-bit precisions are not checked, since they are not
    // calibrated for random pixels; `verify` compares them on photos.
    std::vector<float> exact;
    if (encoder->backend().precision() == Precision::kBf16) {
      exact = exact_embeddings(checkpoint, options.threads);
    }
    for (const std::int64_t batch_size : batch_sizes) {
      if (options.on_progress) {
        options.on_progress(fmt::format("{}, batch {}", to_string(precision), batch_size), done++,
                            total);
      }
      BenchFigure figure = measure(*encoder, batch_size, options.seconds, exact);
      figure.gflop_per_second = figure.images_per_second * report.gflop_per_image;
      if (on_figure) {
        on_figure(figure);
      }
      report.figures.push_back(std::move(figure));
    }
  }
  if (report.figures.empty() && !report.refused.empty()) {
    fail("{}", report.refused.front());
  }
  return report;
}

}  // namespace fovea
