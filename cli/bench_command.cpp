// `fovea bench`: throughput and latency by batch size and precision.
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/bench.hpp"

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
          {"device_images_per_second", figure.device_images_per_second},
          {"median_seconds", figure.median_seconds},
          {"p10_seconds", figure.p10_seconds},
          {"p90_seconds", figure.p90_seconds},
          {"gflop_per_second", figure.gflop_per_second}};
}

void print_json(const BenchReport& report) {
  nlohmann::ordered_json json = {{"model", report.model},
                                 {"gflop_per_image", report.gflop_per_image},
                                 {"figures", nlohmann::ordered_json::array()},
                                 {"refused", report.refused}};
  for (const BenchFigure& figure : report.figures) {
    json["figures"].push_back(to_json(figure));
  }
  std::cout << json_text(json, 2) << '\n';
}

int run_bench(const BenchOptions& options, bool as_json) {
  if (as_json) {
    print_json(bench(options));
    return kDone;
  }
  std::string device;
  const BenchReport report = bench(options, [&](const BenchFigure& figure) {
    if (device.empty()) {
      print_header();
    }
    if (std::exchange(device, figure.device) != figure.device) {
      say(figure.device);
    }
    print_row(figure);
  });
  for (const std::string& reason : report.refused) {
    say("not measured: " + reason);
  }
  return kDone;
}

struct BenchArguments {
  BenchOptions options;
  std::vector<std::string> precisions;
  bool json = false;
};

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "bench", "Time the encoder alone (random pixels, no decoding) by batch size and precision");
  const auto arguments = std::make_shared<BenchArguments>();
  BenchOptions& options = arguments->options;
  command->add_option("-m,--model", options.model, "Model folder or hub name")->required();
  command
      ->add_option(
          "--batch-size", options.batch_sizes,
          "Images per call, one or several sizes (default: from 1 to what fills the device)")
      ->delimiter(',');
  command
      ->add_option("--precision", arguments->precisions,
                   "One or several of fp32, bf16, int8 and fp8 (default: all that the device has)")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16", "int8", "fp8"}));
  command->add_option("--device", options.device, "auto, cpu, cuda or cuda:N")->check(is_device());
  command->add_option("--threads", options.threads, "Compute threads (0: one per CPU)")
      ->check(CLI::Range(0, kMostThreads));
  command->add_option("--seconds", options.seconds, "Time to spend on each figure")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &run] {
    run = [arguments] {
      for (const std::string& name : arguments->precisions) {
        arguments->options.precisions.push_back(parse_precision(name));
      }
      return run_bench(arguments->options, arguments->json);
    };
  });
}

}  // namespace fovea::cli
