// `fovea preprocess`: turns photos into an array of resized pixels.
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
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
  command->add_option("-m,--model", preprocess.model, "Model folder, or name of a pulled model")
      ->required();
  command
      ->add_option("-o,--output", preprocess.output,
                   "File ending in .npy: uint8 [n, height, width, 3]; NAME.index.jsonl and\n"
                   "NAME.errors.jsonl go beside it")
      ->required();
  add_job_options(*command, preprocess.input, options->job);
  command
      ->add_option("--decode-threads", preprocess.decode_threads, "Decode threads (0: one per CPU)")
      ->check(CLI::Range(0, 4096));
  command->footer(
      "`fovea embed` takes the file as an input.\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some inputs failed, 130 interrupted.");
  command->callback([options, &run] {
    apply_job_arguments(options->job, options->preprocess.input, options->preprocess.max_errors);
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
