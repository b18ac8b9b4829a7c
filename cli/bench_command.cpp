// `fovea bench`: throughput and latency by batch size and precision.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "cli/time_gate.hpp"
#include "core/device_name.hpp"
#include "core/precision_names.hpp"
#include "fovea/bench.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"

namespace fovea::cli {
namespace {

constexpr std::string_view kRow = "{:<6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>9} {:>10}\n";

void print_header() {
  std::cout << fmt::format(kRow, "prec.", "batch", "images/s", "ms", "p10 ms", "p90 ms", "GFLOP/s",
                           "on device");
}

void print_row(const BenchFigure& figure) {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e3); };
  std::cout << fmt::format(kRow, to_string(figure.precision), figure.batch_size,
                           fmt::format("{:.2f}", figure.images_per_second),
                           milliseconds(figure.median_seconds), milliseconds(figure.p10_seconds),
                           milliseconds(figure.p90_seconds),
                           fmt::format("{:.0f}", figure.gflop_per_second),
                           figure.device_images_per_second > 0
                               ? fmt::format("{:.2f}", figure.device_images_per_second)
                               : "-")
            << std::flush;
}

nlohmann::ordered_json to_json(const BenchFigure& figure) {
  return {{"precision", to_string(figure.precision)},
          {"device", figure.device},
          {"batch_size", figure.batch_size},
          {"calls", figure.calls},
          {"images_per_second", figure.images_per_second},
          {"device_images_per_second",
           or_null(figure.device_images_per_second > 0, figure.device_images_per_second)},
          {"median_seconds", figure.median_seconds},
          {"p10_seconds", figure.p10_seconds},
          {"p90_seconds", figure.p90_seconds},
          {"gflop_per_second", figure.gflop_per_second}};
}

/// Opens the GPU to measure; returns null when another device is measured.
std::unique_ptr<gpu::Device> open_measured_gpu(const BenchOptions& options) {
  const std::optional<DeviceName> name = parse_device(options.device);
  if (!name || (name->kind != DeviceKind::kAuto && name->kind != DeviceKind::kCuda)) {
    return nullptr;
  }
  try {
    return gpu::open_cuda_device(name->number);
  } catch (const Error&) {
    return nullptr;  // the encoder reports which device it chooses, and why
  }
}

/// Returns the peak rates of the GPU as JSON. The time gate compares with them, because this
/// benchmark has no peer implementation.
nlohmann::ordered_json ceilings_json(gpu::Device& device) {
  const lab::Ceilings ceilings = measure_gpu_ceilings(device);
  return {{"copy_bytes_per_second", ceilings.copy_bytes_per_second},
          {"bf16_flops", ceilings.bf16_flops},
          {"e4m3_flops", ceilings.e4m3_flops}};
}

nlohmann::ordered_json to_json(const BenchReport& report) {
  nlohmann::ordered_json json = {{"model", report.model},
                                 {"gflop_per_image", report.gflop_per_image},
                                 {"figures", nlohmann::ordered_json::array()},
                                 {"refused", report.refused}};
  for (const BenchFigure& figure : report.figures) {
    json["figures"].push_back(to_json(figure));
  }
  return json;
}

int run_bench(BenchOptions& options, const std::string& against, const JsonOutput& json,
              const ProgressArguments& progress) {
  // Keeps only the name of the device, which is closed again so that the encoder has the GPU to
  // itself.
  const auto device_name = [](const std::unique_ptr<gpu::Device>& device) {
    return device == nullptr ? std::string() : device->info().name;
  };
  const lab::EarlierFigures earlier_figures =
      load_earlier_figures(against, device_name(open_measured_gpu(options)));
  ProgressLine line(progress);
  options.on_device = tell_device;
  options.on_progress = [&](std::string_view /*next*/, std::int64_t done, std::int64_t total) {
    line.update("measuring", "figures", static_cast<std::uint64_t>(done),
                static_cast<std::uint64_t>(total));
  };
  bool is_first = true;
  const BenchReport report = bench(options, [&](const BenchFigure& figure) {
    ProgressLine::clear();
    if (!json.prints_text()) {
      return;
    }
    if (std::exchange(is_first, false)) {
      print_header();
    }
    print_row(figure);
  });
  ProgressLine::clear();
  nlohmann::ordered_json result = to_json(report);
  std::vector<lab::TimeChange> time_changes;
  const bool has_gpu_figures = std::ranges::any_of(report.figures, [](const BenchFigure& figure) {
    return figure.device_images_per_second > 0;
  });
  if (has_gpu_figures && (!earlier_figures.empty() || json.is_requested())) {
    if (const std::unique_ptr<gpu::Device> device = open_measured_gpu(options)) {
      const nlohmann::ordered_json ceilings = ceilings_json(*device);
      for (nlohmann::ordered_json& figure : result["figures"]) {
        figure["ceilings"] = ceilings;
      }
    }
  }
  if (!earlier_figures.empty()) {
    time_changes =
        lab::compare_times(lab::timed_figures(json_text(result), "this run"), earlier_figures);
    result["times"] = nlohmann::ordered_json::parse(lab::to_json(time_changes));
  }
  json.write(result);
  for (const std::string& reason : report.refused) {
    say("not measured: " + reason);
  }
  return pass_time_gate(time_changes, against, json.prints_text()) ? kDone : kFailed;
}

struct BenchArguments {
  BenchOptions options;
  std::string against;
  JsonOutput json;
  ProgressArguments progress;
};

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "bench", "Time the encoder alone (random pixels, no decoding) by batch size and precision");
  const auto arguments = std::make_shared<BenchArguments>();
  BenchOptions& options = arguments->options;
  const auto take_model = add_model(*command, options.model);
  add_batch_sizes(*command, options.batch_sizes);
  add_precisions(*command, precision_names([](const PrecisionInfo& info) {
    return info.precision != Precision::kAuto;
  }),
                 options.precisions);
  add_calibration(*command, options.calibration);
  add_device(*command, options.device);
  add_threads(*command, options.threads);
  add_real(*command, "--seconds", "SECONDS", {0, HUGE_VAL, true}, options.seconds,
           "Time to spend on each figure")
      ->group(kComputeGroup);
  add_against(*command, arguments->against);
  add_progress_options(*command, arguments->progress);
  arguments->json.add_to(*command);
  explain(*command,
          {"Default for --precision: all that the device supports; default for --batch-size: sizes "
           "from 1 to one that fills the device."},
          {"fovea bench MODEL", "fovea bench MODEL --batch-size 1,32"});
  command->callback([arguments, take_model, &run] {
    take_model();
    std::erase(arguments->options.batch_sizes, 0);  // an empty list: bench() chooses the sizes
    run = [arguments] {
      return run_bench(arguments->options, arguments->against, arguments->json,
                       arguments->progress);
    };
  });
}

}  // namespace fovea::cli
