// `fovea calibrate`: runs photos through the model once, so that it can run in 8 bits.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/outputs.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "cli/text_lists.hpp"
#include "core/precision_names.hpp"
#include "fovea/calibrate.hpp"

namespace fovea::cli {

namespace {

std::vector<std::string> file_names(const CalibrateReport& report) {
  return {report.files.begin(), report.files.end()};
}

}  // namespace

void add_calibrate(CLI::App& app, Run& run) {
  const auto options = std::make_shared<CalibrateOptions>();
  const auto json = std::make_shared<JsonOutput>();
  CLI::App* command = app.add_subcommand(
      "calibrate",
      fmt::format("Prepare a model to run in 8 bits ({})", calibrated_precisions("or")));
  const auto take_model = add_model(*command, options->model, options->input.inputs);
  add_texts(*command, "INPUT", options->input.inputs,
            "Photos that represent those to embed: files, folders, archives or lists");
  add_precisions(*command, precision_names(&PrecisionInfo::calibrated), options->precisions);
  add_integer(*command, "--images", {1, 100000}, options->images,
              "Number of photos to use, starting with the first");
  add_max_pixels(*command, options->input.max_pixels);
  const auto texts = std::make_shared<std::vector<std::string>>();
  without_variable(add_repeated(*command, "--text", "TEXT", *texts,
                                "Texts that represent those to embed, or lists of them (@FILE, -), "
                                "to calibrate the text tower, too; may be repeated"));
  add_integer(
      *command, "--bf16-layers", {}, options->bf16_layers,
      "Number of image layers, starting with the first, to keep in bf16: more accurate, slower")
      ->group(kComputeGroup);
  declare_output(
      *command,
      add_calibration(*command, options->calibration,
                      "Folder to write into; other commands read it with the same option")
          ->group(kOutputGroup),
      OutputKind::kCalibrations);
  add_threads(*command, options->threads);
  const auto progress = std::make_shared<ProgressArguments>();
  add_progress_options(*command, *progress);
  json->add_to(*command);
  explain(*command,
          {"Writes calibration-<precision>.safetensors next to the model's weights, and with "
           "--text calibration-<precision>-text.safetensors. If that folder is not writable or "
           "belongs to the Hugging Face cache, it writes into a folder for these weights in "
           "$XDG_CACHE_HOME/fovea/calibrations (default: ~/.cache), where every command also "
           "looks. `fovea info` shows which one is used.",
           kModelRule, kTextLists,
           "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some photos could not be used."},
          {"fovea calibrate MODEL photos --precision int8,fp8"});
  command->callback([options, texts, progress, json, take_model, &run] {
    take_model();
    require_inputs(options->model, options->input.inputs);
    run = [options, texts, progress, json] {
      ProgressLine line(*progress);
      options->on_device = tell_device;
      options->on_progress = [&](std::string_view step, std::string_view unit, std::uint64_t done,
                                 std::uint64_t total) { line.update(step, unit, done, total); };
      options->texts = read_texts(*texts);
      options->on_failure = [](const JobFailure& failure) {
        say(fmt::format("{}: {}", printable_name(failure.source), failure.error));
      };
      const CalibrateReport report = calibrate(*options);
      ProgressLine::clear();
      json->write({{"files", file_names(report)},
                   {"images", report.images},
                   {"failed", report.failed},
                   {"seconds", report.seconds}});
      for (const std::filesystem::path& file : report.files) {
        say(fmt::format("used {} photos and wrote {} in {:.0f} s", report.images, file.native(),
                        report.seconds));
      }
      return report.failed == 0 ? kDone : kSomeInputsFailed;
    };
  });
}

}  // namespace fovea::cli
