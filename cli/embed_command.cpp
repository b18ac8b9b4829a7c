// `fovea embed`: turns photos into a folder of embeddings.
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
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
  command->add_option("-m,--model", embed.model, "Model folder, or name of a pulled model")
      ->required();
  command
      ->add_option("-o,--output", embed.output,
                   "Folder for embeddings-*.npy, index-*.jsonl, errors.jsonl, manifest.json;\n"
                   "or one file ending in .npy")
      ->required();
  add_job_options(*command, embed.input, options->job);
  command->add_option("--synthetic", embed.input.synthetic,
                      "Embed this many generated images instead, to measure what decoding costs");
  command
      ->add_option("--batch-size", embed.batch_size,
                   "Images computed together (0: chosen for the device)")
      ->check(CLI::Range(0, 65536));
  command->add_option("--threads", embed.encoder.threads, "Compute threads (0: one per CPU)")
      ->check(CLI::Range(0, 4096));
  command->add_option("--decode-threads", embed.decode_threads, "Decode threads (0: one per CPU)")
      ->check(CLI::Range(0, 4096));
  command->add_option("--precision", options->precision, "auto, fp32, bf16, int8 or fp8")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "int8", "fp8"}));
  command->add_option("--device", embed.encoder.device, "auto, cpu, cuda or cuda:N")
      ->check(is_device());
  command->add_flag("--no-normalize", options->no_normalize, "Do not scale embeddings to length 1");
  command->add_option("--dtype", options->dtype, "Type of the numbers in the output: f32 or f16")
      ->check(CLI::IsMember({"f32", "f16"}));
  command->add_option("--format", options->format, "Format of the embeddings files: npy or jsonl")
      ->check(CLI::IsMember({"npy", "jsonl"}));
  command->add_option("--shard-rows", embed.shard_rows, "Rows per embeddings file")
      ->check(CLI::PositiveNumber);
  CLI::Option* overwrite =
      command->add_flag("--overwrite", embed.overwrite, "Discard what OUT holds and start again");
  command->add_flag("--retry-failed", embed.retry_failed, "Try the inputs in errors.jsonl again")
      ->excludes(overwrite);
  command->footer(
      "Repeat the command to resume a run that was interrupted or killed.\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some inputs failed, 130 interrupted.");
  command->callback([options, &run] {
    apply_job_arguments(options->job, options->embed.input, options->embed.max_errors);
    run = [options] { return run_embed(*options); };
  });
}

}  // namespace fovea::cli
