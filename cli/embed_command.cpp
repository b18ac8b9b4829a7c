// `fovea embed`: turns photos into a folder of embeddings.
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/job_report.hpp"
#include "cli/model_option.hpp"
#include "cli/options.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {
namespace {

struct Options {
  EmbedOptions embed;
  JobArguments job;
  std::string precision = "auto";
  std::string dtype = "f32";
  std::string format = "npy";
  bool no_normalize = false;
};

std::string errors_file(const std::string& output) {
  constexpr std::string_view kArray = ".npy";
  return output.ends_with(kArray)
             ? output.substr(0, output.size() - kArray.size()) + ".errors.jsonl"
             : output + (output.ends_with('/') ? "" : "/") + "errors.jsonl";
}

int run_embed(Options& options) {
  EmbedOptions& embed = options.embed;
  embed.encoder.precision = parse_precision(options.precision);
  embed.dtype = options.dtype == "f16" ? OutputDType::kF16 : OutputDType::kF32;
  embed.format = options.format == "jsonl" ? OutputFormat::kJsonl : OutputFormat::kNpy;
  embed.normalize = !options.no_normalize;
  embed.decode_memory = options.job.decode_memory;
  JobReporter reporter(options.job, embed.output, errors_file(embed.output));
  embed.control = reporter.control();
  return reporter.finish(embed_job(embed));
}

}  // namespace

void add_embed(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  EmbedOptions& embed = options->embed;
  CLI::App* command = app.add_subcommand("embed", "Turn images into embeddings");
  const auto take_model = add_model(*command, embed.model, embed.input.inputs);
  add_output(*command, embed.output, "OUT",
             "Folder for embeddings-*.npy, index-*.jsonl, errors.jsonl, manifest.json; or one file "
             "ending in .npy");
  add_job_options(*command, embed.input, options->job);
  add_whole(*command, "--synthetic", {}, embed.input.synthetic,
            "Embed this many generated images instead, to measure what decoding costs")
      ->group(kInputGroup);
  add_batch_size(*command, embed.batch_size);
  add_threads(*command, embed.encoder.threads);
  add_decode_threads(*command, embed.decode_threads);
  add_precision(*command, options->precision);
  add_device(*command, embed.encoder.device);
  add_flag(*command, "--no-normalize", options->no_normalize, "Do not scale embeddings to length 1")
      ->group(kOutputGroup);
  add_choice(*command, "--dtype", {"f32", "f16"}, options->dtype, "Type of the written numbers")
      ->group(kOutputGroup);
  add_choice(*command, "--format", {"npy", "jsonl"}, options->format,
             "Format of the embeddings files")
      ->group(kOutputGroup);
  add_whole(*command, "--shard-rows", {1}, embed.shard_rows, "Rows per embeddings file")
      ->group(kOutputGroup);
  CLI::Option* overwrite = add_overwrite(*command, embed.overwrite);
  add_flag(*command, "--retry-failed", embed.retry_failed, "Try the inputs in errors.jsonl again")
      ->excludes(overwrite)
      ->group(kOutputGroup);
  explain(*command,
          {kModelRule, "Repeat the command to resume a run that was interrupted or killed.",
           kJobExitCodes},
          {"fovea embed google/siglip2-base-patch16-224 photos -o OUT",
           "fovea embed -m MODEL cat.jpg dog.png @list.txt -o OUT",
           "fovea embed -m MODEL 'shard-{00000..00099}.tar' -o OUT --dtype f16"});
  command->callback([options, take_model, &run] {
    take_model();
    if (options->embed.input.synthetic == 0) {
      require_inputs(options->embed.model, options->embed.input.inputs);
    }
    apply_job_arguments(options->job, options->embed.input, options->embed.max_errors);
    check_output_option(options->embed.output, false);
    run = [options] { return run_embed(*options); };
  });
}

}  // namespace fovea::cli
