// Throughput and latency of the encoder by batch size and precision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/encoder.hpp"

namespace [[gnu::visibility("default")]] fovea {

struct BenchOptions {
  /// Folder or hub name, as for Encoder.
  std::string model;
  std::string device = "auto";
  std::filesystem::path calibration = {};  ///< as in EncoderOptions
  /// Compute threads; 0: one per CPU that this process may use.
  int threads = 0;
  /// Empty: every precision that the device supports; on a machine with a GPU, all except fp32.
  std::vector<Precision> precisions;
  /// Images per batch. Empty: sizes from 1 to 32; on a GPU, from 1 to 1024.
  std::vector<std::int64_t> batch_sizes;
  /// Seconds to spend on each figure, after one warm-up call; at least three calls are timed.
  double seconds = 3.0;
  /// Called with the device before its first figure is measured.
  std::function<void(std::string_view)> on_device;
  /// Called with what is measured next ("int8, batch 32"), the number of figures done, and their
  /// total.
  std::function<void(std::string_view next, std::int64_t done, std::int64_t total)> on_progress;
};

/// The figures of one precision at one batch size. Pixels are random and already in memory, so
/// nothing is decoded.
struct BenchFigure {
  Precision precision = Precision::kFp32;
  std::string device;
  std::int64_t batch_size = 0;
  std::int64_t calls = 0;
  /// Seconds per batch: median, and the 10th and 90th percentiles of the timed calls.
  double median_seconds = 0;
  double p10_seconds = 0;
  double p90_seconds = 0;
  double images_per_second = 0;
  /// Images per second of GPU time, with the pixels already in GPU memory; 0 on a CPU.
  double device_images_per_second = 0;
  double gflop_per_second = 0;
};

struct BenchReport {
  std::string model;
  double gflop_per_image = 0;
  std::vector<BenchFigure> figures;
  /// Precisions that were not measured, each with the reason.
  std::vector<std::string> refused;
};

/// Runs the benchmark. `on_figure`, when given, is called with each figure after it is measured.
/// Every output is checked before it is timed: all values are finite, different images have
/// different embeddings, and the first two in bf16 agree with fp32 on the CPU as closely as 16 bits
/// can. Throws fovea::Error when the model or an explicitly requested device is unavailable, or
/// when an output is wrong.
[[nodiscard]] BenchReport bench(const BenchOptions& options,
                                const std::function<void(const BenchFigure&)>& on_figure = {});

}  // namespace fovea
