// `fovea verify`: checks a model on the user's photos, comparing pixels with the reference resize
// and every precision with fp32.
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/verify.hpp"

namespace fovea::cli {
namespace {

std::string_view verdict(bool passed) {
  return passed ? "ok" : "FAILED";
}

void print_table(const VerifyReport& report) {
  std::cout << fmt::format("{} photos", report.photos);
  if (report.failed_inputs > 0) {
    std::cout << fmt::format(", {} inputs could not be read", report.failed_inputs);
  }
  std::cout << fmt::format("\npixels  {} of {} differ from the reference resize  {}\n",
                           report.photos_with_wrong_pixels, report.photos,
                           verdict(report.photos_with_wrong_pixels == 0));
  for (const PrecisionCheck& check : report.precisions) {
    std::cout << fmt::format(
        "{:<7} cosine to fp32: mean {:.6f}, 1st percentile {:.6f}, min {:.6f} ({}); "
        "recall@10 {:.4f}  {}\n",
        to_string(check.precision), check.cosine_mean, check.cosine_percentile_1, check.cosine_min,
        printable_name(check.worst), check.recall, verdict(check.passed));
  }
  for (const std::string& reason : report.refused) {
    std::cout << "not checked: " + io::printable(reason) + "\n";
  }
}

nlohmann::ordered_json to_json(const VerifyReport& report) {
  nlohmann::ordered_json json = {{"device", report.device},
                                 {"photos", report.photos},
                                 {"failed_inputs", report.failed_inputs},
                                 {"photos_with_wrong_pixels", report.photos_with_wrong_pixels},
                                 {"precisions", nlohmann::ordered_json::array()},
                                 {"refused", report.refused},
                                 {"passed", report.passed}};
  for (const PrecisionCheck& check : report.precisions) {
    json["precisions"].push_back({{"precision", to_string(check.precision)},
                                  {"cosine_mean", check.cosine_mean},
                                  {"cosine_percentile_1", check.cosine_percentile_1},
                                  {"cosine_min", check.cosine_min},
                                  {"worst", check.worst},
                                  {"recall_at_10", check.recall},
                                  {"passed", check.passed}});
  }
  return json;
}

}  // namespace

void add_verify(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "verify", "Check a model on your photos: pixels exact, every precision close to fp32");
  const auto options = std::make_shared<VerifyOptions>();
  const auto json = std::make_shared<JsonOutput>();
  const auto take_model = add_model(*command, options->model, options->inputs);
  add_texts(*command, "INPUT", options->inputs,
            "Photos: files, folders, archives or lists, as for embed");
  add_limit(*command, options->limit);
  add_max_pixels(*command, options->max_pixels);
  begin_group(*command, kOptionsGroup);
  const auto add_min_cosine = [command](const char* name, double& min_cosine,
                                        const std::string& help) {
    add_real(*command, name, "COSINE", {-1, 2}, min_cosine, help.c_str());
  };
  add_min_cosine("--min-mean-cosine", options->min_mean_cosine,
                 "Minimum mean of the photos' cosines to fp32");
  const std::string eight_bits = fmt::format("The same for {}", calibrated_precisions("and"));
  add_min_cosine("--min-mean-cosine-8bit", options->min_mean_cosine_8bit, eight_bits);
  add_min_cosine("--min-cosine", options->min_cosine, "Minimum cosine to fp32 of each photo");
  add_min_cosine("--min-cosine-8bit", options->min_cosine_8bit, eight_bits);
  add_real(*command, "--min-recall", "SHARE", {0, 2}, options->min_recall,
           "Minimum mean recall@10");
  add_calibration(*command, options->calibration);
  add_device(*command, options->device);
  add_threads(*command, options->threads);
  const auto progress = std::make_shared<ProgressArguments>();
  add_progress_options(*command, *progress);
  json->add_to(*command);
  explain(*command, {kModelRule},
          {"fovea verify MODEL photos", "fovea verify -m MODEL cat.jpg dog.png --json"});
  command->callback([options, progress, json, take_model, &run] {
    take_model();
    require_inputs(options->model, options->inputs);
    run = [options, progress, json] {
      ProgressLine line(*progress);
      options->on_device = tell_device;
      options->on_progress = [&](std::string_view step, std::uint64_t done, std::uint64_t total) {
        line.update(step, "photos", done, total);
      };
      const VerifyReport report = verify(*options);
      ProgressLine::clear();
      if (json->prints_text()) {
        print_table(report);
      }
      json->write(to_json(report));
      return report.passed ? kDone : kFailed;
    };
  });
}

}  // namespace fovea::cli
