// `fovea preprocess`: turns photos into an array of resized pixels.
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/model_option.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

void add_preprocess(CLI::App& app, Run& run) {
  struct Options {
    PreprocessOptions preprocess;
    JobArguments job;
  };
  const auto options = std::make_shared<Options>();
  PreprocessOptions& preprocess = options->preprocess;
  CLI::App* command =
      app.add_subcommand("preprocess", "Turn images into the pixels that a model takes");
  const auto take_model = add_model(*command, preprocess.model, preprocess.input.inputs);
  without_variable(add_output(
      *command, preprocess.output, OutputKind::kEmbeddings, "FILE",
      "File ending in .npy: uint8 [n, height, width, 3], or, for a NaFlex model, [n, patches, "
      "patch * patch * 3]; NAME.index.jsonl and NAME.errors.jsonl are written next to it"));
  add_job_options(*command, preprocess.input, options->job);
  add_decode_threads(*command, preprocess.decode_threads);
  explain(*command, {kModelRule, "`fovea embed` takes the file as an input.", kJobExitCodes},
          {"fovea preprocess MODEL photos -o pixels.npy"});
  command->callback([command, options, take_model, &run] {
    take_model();
    options->preprocess.overwrite = has_overwrite_flag(*command);
    require_inputs(options->preprocess.model, options->preprocess.input.inputs);
    apply_job_arguments(options->job, options->preprocess.input, options->preprocess.max_errors);
    check_output_option(options->preprocess.output, true);
    run = [options] {
      const std::string& output = options->preprocess.output;
      JobReporter reporter(options->job, output,
                           output.substr(0, output.rfind(".npy")) + ".errors.jsonl");
      options->preprocess.control = reporter.control();
      options->preprocess.decode_memory = options->job.decode_memory;
      return reporter.finish(preprocess_job(options->preprocess));
    };
  });
}

}  // namespace fovea::cli
