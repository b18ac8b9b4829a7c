// `fovea label`: scores how well each of several labels fits photos.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/model_option.hpp"
#include "cli/terminal.hpp"
#include "cli/text_lists.hpp"
#include "fovea/label.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli {
namespace {

struct LabelArguments {
  LabelOptions label;
  EncoderOptions encoder;
  std::string model;
  JobArguments job;
  std::string labels;
  std::vector<std::string> templates;
  std::string clean = "auto";
  std::string output;
  JsonOutput json;
  int top = 5;
};

/// Prints the labels for each photo, the best first.
class LabelReport {
 public:
  explicit LabelReport(const LabelArguments& arguments) : arguments_(arguments) {
    if (!arguments.output.empty() && arguments.output != "-") {
      file_.emplace(arguments.output);
    }
  }

  void show(const LabelledImage& image) {
    const std::vector<std::string>& labels = arguments_.label.labels;
    std::vector<std::size_t> order(labels.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      return image.cosines[a] > image.cosines[b] || (image.cosines[a] == image.cosines[b] && a < b);
    });
    if (arguments_.top > 0) {
      order.resize(std::min(order.size(), static_cast<std::size_t>(arguments_.top)));
    }
    if (!arguments_.output.empty() || arguments_.json.is_requested()) {
      write(image, order);
    }
    if (!arguments_.output.empty() || !arguments_.json.prints_text()) {
      return;
    }
    if (stdout_is_terminal() && std::exchange(is_first_, false)) {
      std::cout << fmt::format("  {:8}  {}\n", "prob.", "label");
    }
    std::cout << printable_name(image.source) << '\n';
    for (const std::size_t label : order) {
      std::cout << fmt::format("  {:8.6f}  {}\n", image.scale.probability(image.cosines[label]),
                               io::printable(labels[label]));
    }
  }

  void finish(std::uint64_t failed) {
    if (file_) {
      file_->commit();
    }
    arguments_.json.write(
        {{"labels", arguments_.label.labels}, {"failed", failed}, {"photos", std::move(photos_)}});
  }

 private:
  void write(const LabelledImage& image, const std::vector<std::size_t>& order) {
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
    for (const std::size_t label : order) {
      entries.push_back({{"label", arguments_.label.labels[label]},
                         {"probability", image.scale.probability(image.cosines[label])},
                         {"logit", image.scale.logit(image.cosines[label])}});
    }
    nlohmann::ordered_json photo{{"source", image.source}, {"labels", std::move(entries)}};
    if (!arguments_.output.empty()) {
      const std::string line = json_text(photo) + '\n';
      if (file_) {
        file_->write(line);
      } else {
        std::cout << line;
      }
    }
    if (arguments_.json.is_requested()) {
      photos_.push_back(std::move(photo));
    }
  }

  const LabelArguments& arguments_;
  std::optional<io::AtomicFile> file_;
  bool is_first_ = true;  // whether no image has been shown yet
  nlohmann::ordered_json photos_ = nlohmann::ordered_json::array();
};

int run_label(LabelArguments& arguments) {
  LabelOptions& label = arguments.label;
  if (!arguments.templates.empty()) {
    label.templates = arguments.templates;
  }
  label.clean = parse_text_clean(arguments.clean);
  label.decode_memory = arguments.job.decode_memory;
  JobReporter reporter(arguments.job, "", "");
  label.control = reporter.control();
  ProgressLine line(arguments.job);
  label.on_labels = [&](std::size_t done, std::size_t total) {
    line.update("embedding the labels", "sentences", done, total);
  };
  LabelReport report(arguments);
  Encoder encoder(arguments.model, arguments.encoder);
  const JobReport done =
      encoder.label(label, [&](const LabelledImage& image) { report.show(image); });
  if (!done.interrupted) {
    report.finish(done.failed);
  }
  return reporter.finish(done);
}

}  // namespace

void add_label(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<LabelArguments>();
  LabelOptions& label = arguments->label;
  CLI::App* command = app.add_subcommand("label", "Say which of several labels fit photos");
  const auto take_model = add_model(*command, arguments->model, label.input.inputs);
  add_text(*command, "--labels", "LABELS", arguments->labels,
           "Labels separated by commas, or a list: @FILE with one label per line, or -")
      ->required();
  add_repeated(*command, "--template", "SENTENCE", arguments->templates,
               "Sentence that stands for a label, with {} in its place; repeat it to use the mean "
               "of several (default: \"This is a photo of {}.\")");
  add_text_clean(*command, arguments->clean);
  without_variable(
      add_output_text(
          *command, "-o,--output", "FILE", arguments->output, OutputKind::kLabels,
          "Write a JSON object per photo instead of the table; -: to the standard output"))
      ->group(kOutputGroup);
  arguments->json.add_to(*command);
  add_integer(*command, "--top", {0}, arguments->top, "Labels per photo, the best first (0: all)")
      ->group(kReportGroup);
  add_job_options(*command, label.input, arguments->job);
  add_batch_size(*command, label.batch_size);
  add_threads(*command, arguments->encoder.threads);
  add_decode_threads(*command, label.decode_threads);
  add_precision(*command, arguments->encoder.precision);
  add_calibration(*command, arguments->encoder.calibration);
  add_device(*command, arguments->encoder.device);
  explain(*command,
          {kModelRule,
           "A probability is SigLIP's estimate that the photo and the sentence belong together. "
           "Pairs are scored independently, so the probabilities of a photo do not add up to 1.",
           kJobExitCodes},
          {"fovea label -m MODEL photos --labels cat,dog,\"a red bicycle\"",
           "fovea label -m MODEL photos --labels @labels.txt -o labels.jsonl"});
  command->callback([arguments, take_model, &run] {
    take_model();
    require_inputs(arguments->model, arguments->label.input.inputs);
    apply_job_arguments(arguments->job, arguments->label.input, arguments->label.max_errors);
    if (arguments->output == "-" && arguments->json.to_stdout()) {
      throw CLI::ValidationError("--json", "and -o - both print their result: choose one");
    }
    arguments->label.labels = read_labels(arguments->labels);
    if (arguments->label.labels.empty()) {
      throw CLI::ValidationError("--labels", "contains no label");
    }
    run = [arguments] { return run_label(*arguments); };
  });
}

}  // namespace fovea::cli
