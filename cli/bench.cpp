// `fovea bench`: throughput and latency by batch size and precision.
#include "fovea/bench.hpp"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/names.hpp"

namespace fovea::cli {
namespace {

constexpr std::string_view kRow = "{:<6} {:>6} {:>12} {:>10} {:>10} {:>10} {:>10}\n";

void print_row(const BenchFigure& figure) {
  std::cout << fmt::format(kRow, precision_name(figure.precision), figure.batch_size,
                           fmt::format("{:.2f}", figure.images_per_second),
                           fmt::format("{:.2f}", figure.median_seconds * 1e3),
                           fmt::format("{:.2f}", figure.p10_seconds * 1e3),
                           fmt::format("{:.2f}", figure.p90_seconds * 1e3),
                           fmt::format("{:.0f}", figure.gflop_per_second))
            << std::flush;
}

void print_json(const BenchReport& report) {
  std::string figures;
  for (const BenchFigure& figure : report.figures) {
    figures += fmt::format(
        R"({}{{"precision": "{}", "device": {}, "batch_size": {}, "calls": {}, )"
        R"("images_per_second": {:.6g}, "median_seconds": {:.6g}, "p10_seconds": {:.6g}, )"
        R"("p90_seconds": {:.6g}, "gflop_per_second": {:.6g}}})",
        figures.empty() ? "" : ", ", precision_name(figure.precision), json_string(figure.device),
        figure.batch_size, figure.calls, figure.images_per_second, figure.median_seconds,
        figure.p10_seconds, figure.p90_seconds, figure.gflop_per_second);
  }
  std::string refused;
  for (const std::string& reason : report.refused) {
    refused += (refused.empty() ? "" : ", ") + json_string(reason);
  }
  std::cout << fmt::format(
      "{{\"model\": {}, \"gflop_per_image\": {:.6g}, \"figures\": [{}], \"refused\": [{}]}}\n",
      json_string(report.model), report.gflop_per_image, figures, refused);
}

int run_bench(const BenchOptions& options, bool json) {
  if (json) {
    print_json(bench(options));
    return kDone;
  }
  bool first = true;
  const BenchReport report = bench(options, [&](const BenchFigure& figure) {
    if (std::exchange(first, false)) {
      std::cerr << "fovea: " << figure.device << '\n';
      std::cout << fmt::format(kRow, "prec.", "batch", "images/s", "ms", "p10 ms", "p90 ms",
                               "GFLOP/s");
    }
    print_row(figure);
  });
  for (const std::string& reason : report.refused) {
    std::cerr << "fovea: not measured: " << reason << '\n';
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("bench", "Time the encoder alone by batch size and precision");
  const auto options = std::make_shared<BenchOptions>();
  const auto json = std::make_shared<bool>(false);
  const auto precisions = std::make_shared<std::vector<std::string>>();
  command->add_option("-m,--model", options->model, "Model folder or hub name")->required();
  command->add_option("--batch-size", options->batch_sizes, "Images a call; several are timed")
      ->delimiter(',');
  command->add_option("--precision", *precisions, "fp32, bf16 (default: all the device has)")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command->add_option("--device", options->device, "auto or cpu");
  command->add_option("--threads", options->threads, "Compute threads (0: one a CPU)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", options->seconds, "Time to spend on each figure")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->callback([=, &run] {
    run = [=] {
      for (const std::string& name : *precisions) {
        options->precisions.push_back(precision_of(name));
      }
      return run_bench(*options, *json);
    };
  });
}

}  // namespace fovea::cli
