// `fovea calibrate`: runs photos through the model once, so that it can run in 8 bits.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/calibrate.hpp"

namespace fovea::cli {

void add_calibrate(CLI::App& app, Run& run) {
  const auto options = std::make_shared<CalibrateOptions>();
  const auto precisions = std::make_shared<std::vector<std::string>>(1, "int8");
  const auto progress = std::make_shared<ProgressArguments>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Prepare a model to run in 8 bits (int8 or fp8)");
  command->add_option("model", options->model, "Model folder, or name of a pulled model")
      ->required()
      ->default_str("");
  command
      ->add_option("inputs", options->input.inputs,
                   "Photos of all the kinds to be embedded: files, folders, archives or lists")
      ->required()
      ->default_str("");
  command->add_option("--precision", *precisions, "8-bit precisions to prepare: int8, fp8 or both")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is the model or a photo
      ->check(CLI::IsMember({"int8", "fp8"}));
  command->add_option("--images", options->images, "Number of photos to use, from the first on")
      ->check(CLI::Range(1, 100000));
  command
      ->add_option("--bf16-layers", options->bf16_layers,
                   "Number of layers, from the first on, that stay in bf16: more accurate, slower")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", options->threads, "Compute threads (0: one per CPU)")
      ->check(CLI::Range(0, kMostThreads));
  command->footer(
      "Writes calibration-<precision>.safetensors beside the model's weights.\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some photos could not be used.");
  add_progress_options(*command, *progress);
  command->callback([options, precisions, progress, &run] {
    run = [options, precisions, progress] {
      ProgressLine line(*progress);
      options->on_device = tell_device;
      options->on_progress = [&](std::string_view step, std::string_view unit, std::uint64_t done,
                                 std::uint64_t total) { line.update(step, unit, done, total); };
      options->precisions.clear();
      for (const std::string& name : *precisions) {
        options->precisions.push_back(parse_precision(name));
      }
      options->on_failure = [](const JobFailure& failure) {
        say(fmt::format("{}: {}", printable_name(failure.source), failure.error));
      };
      const CalibrateReport report = calibrate(*options);
      for (const std::filesystem::path& file : report.files) {
        say(fmt::format("used {} photos and wrote {} in {:.0f} s", report.images, file.native(),
                        report.seconds));
      }
      return report.failed == 0 ? kDone : kSomeInputsFailed;
    };
  });
}

}  // namespace fovea::cli
