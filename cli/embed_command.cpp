// `fovea embed`: turns photos into a folder of embeddings.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/model_option.hpp"
#include "cli/text_lists.hpp"
#include "fovea/features.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {
namespace {

struct Options {
  EmbedOptions embed;
  JobArguments job;
  std::string features;
  std::string dtype = "f32";
  bool has_dtype = false;
  std::string format = "npy";
  bool no_normalize = false;
  std::vector<std::string> texts;
  std::string text_clean = "auto";
};

std::string errors_file(const std::string& output) {
  constexpr std::string_view kArray = ".npy";
  return output.ends_with(kArray)
             ? output.substr(0, output.size() - kArray.size()) + ".errors.jsonl"
             : output + (output.ends_with('/') ? "" : "/") + "errors.jsonl";
}

int run_embed(Options& options) {
  EmbedOptions& embed = options.embed;
  embed.dtype = options.dtype == "f16" ? OutputDType::kF16 : OutputDType::kF32;
  if (!options.features.empty()) {
    embed.features = parse_feature_layer(options.features);
    embed.dtype = options.has_dtype ? embed.dtype : OutputDType::kF16;
  }
  embed.format = options.format == "jsonl" ? OutputFormat::kJsonl : OutputFormat::kNpy;
  embed.normalize = !options.no_normalize;
  embed.decode_memory = options.job.decode_memory;
  JobReporter reporter(options.job, embed.output, errors_file(embed.output));
  embed.control = reporter.control();
  return reporter.finish(embed_job(embed));
}

int run_embed_texts(Options& options) {
  const EmbedOptions& embed = options.embed;
  EmbedTextsJob job;
  job.model = embed.model;
  job.encoder = embed.encoder;
  job.texts = read_texts(options.texts);
  job.clean = parse_text_clean(options.text_clean);
  job.output = embed.output;
  job.normalize = !options.no_normalize;
  job.dtype = options.dtype == "f16" ? OutputDType::kF16 : OutputDType::kF32;
  job.overwrite = embed.overwrite;
  JobReporter reporter(options.job, job.output, errors_file(job.output), "text");
  job.control = reporter.control();
  return reporter.finish(embed_texts_job(job));
}

/// Rejects options that apply only to photos.
void check_text_options(const CLI::App& command, const Options& options) {
  if (!options.embed.input.inputs.empty() || options.embed.input.synthetic > 0) {
    throw CLI::ValidationError("--text", "embeds texts instead of photos: give no other inputs");
  }
  for (const char* const name :
       {"--format", "--shard-rows", "--shard", "--retry-failed", "--update", "--batch-size",
        "--decode-threads", "--decode-memory", "--max-pixels", "--strict", "--max-errors",
        "--include", "--exclude", "--hidden", "--image-key", "--null", "--features"}) {
    if (is_typed(command, *command.get_option(name))) {
      throw CLI::ValidationError(name, "does not apply to --text");
    }
  }
}

/// Rejects options that apply only to embeddings.
void check_feature_options(const CLI::App& command, const Options& options) {
  if (options.no_normalize) {
    throw CLI::ValidationError("--no-normalize",
                               "does not apply to --features, which are never scaled");
  }
  if (options.format != "npy" && is_typed(command, *command.get_option("--format"))) {
    throw CLI::ValidationError("--format",
                               "does not apply to --features, which are written as .npy");
  }
}

}  // namespace

void add_embed(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  EmbedOptions& embed = options->embed;
  CLI::App* command = app.add_subcommand("embed", "Turn images into embeddings");
  const auto take_model = add_model(*command, embed.model, embed.input.inputs);
  add_output(*command, embed.output, OutputKind::kEmbeddings, "OUT",
             "Folder for embeddings-*.npy, index-*.jsonl, errors.jsonl, manifest.json; or one file "
             "ending in .npy");
  add_job_options(*command, embed.input, options->job);
  without_variable(
      add_repeated(*command, "--text", "TEXT", options->texts,
                   "Embed texts instead, or lists of them (@FILE, -); OUT is then one .npy file; "
                   "may be repeated"));
  add_text_clean(*command, options->text_clean);
  add_integer(*command, "--synthetic", {}, embed.input.synthetic,
              "Embed this many generated images instead, to measure what decoding costs");
  add_batch_size(*command, embed.batch_size);
  add_threads(*command, embed.encoder.threads);
  add_decode_threads(*command, embed.decode_threads);
  add_precision(*command, embed.encoder.precision);
  add_calibration(*command, embed.encoder.calibration);
  add_device(*command, embed.encoder.device);
  begin_group(*command, kOutputGroup);
  add_flag(*command, "--no-normalize", options->no_normalize,
           "Do not scale embeddings to length 1");
  add_choice(*command, "--features", {"last", "penultimate", "pooled"}, options->features,
             "Write features instead of embeddings, as f16 unless --dtype is given: those of each "
             "patch after the last layer and its norm (last) or before the last layer "
             "(penultimate), or those of the photo after pooling, not scaled (pooled)");
  CLI::Option* dtype = add_choice(*command, "--dtype", {"f32", "f16"}, options->dtype,
                                  "Type of the written numbers");
  add_choice(*command, "--format", {"npy", "jsonl"}, options->format,
             "Format of the embeddings files");
  add_optional_integer(
      *command, "--shard-rows", {1}, embed.shard_rows,
      "Rows per embeddings file (default: 65536, or for features of patches as many "
      "as fit in 256 MiB)");
  CLI::Option* overwrite = command->get_option("--overwrite");
  CLI::Option* retry = add_flag(*command, "--retry-failed", embed.retry_failed,
                                "Try the inputs in errors.jsonl again")
                           ->excludes(overwrite);
  add_update(*command, embed)->excludes(overwrite)->excludes(retry)->excludes("--synthetic");
  explain(*command,
          {kModelRule, "Repeat the command to resume a run that was interrupted or killed.",
           "With --update, rows of photos that did not change keep their bytes and their order.",
           kTextLists, kJobExitCodes},
          {"fovea embed google/siglip2-base-patch16-224 photos -o OUT",
           "fovea embed -m MODEL cat.jpg dog.png @list.txt -o OUT",
           "fovea embed -m MODEL --text @captions.txt -o captions.npy",
           "fovea embed -m MODEL 'shard-{00000..00099}.tar' -o OUT --dtype f16",
           "fovea embed -m MODEL photos -o OUT --update",
           "fovea embed -m MODEL photos -o FEATURES --features penultimate"});
  command->callback([command, options, take_model, dtype, &run] {
    take_model();
    options->embed.overwrite = has_overwrite_flag(*command);
    options->has_dtype = dtype->count() > 0;
    if (!options->texts.empty()) {
      check_text_options(*command, *options);
      check_output_option(options->embed.output, true);
      run = [options] { return run_embed_texts(*options); };
      return;
    }
    if (is_typed(*command, *command->get_option("--text-clean"))) {
      throw CLI::ValidationError("--text-clean", "applies only to --text");
    }
    if (!options->features.empty()) {
      check_feature_options(*command, *options);
    }
    if (options->embed.input.synthetic == 0) {
      require_inputs(options->embed.model, options->embed.input.inputs);
    }
    apply_job_arguments(options->job, options->embed.input, options->embed.max_errors);
    check_output_option(options->embed.output, false);
    run = [options] { return run_embed(*options); };
  });
}

}  // namespace fovea::cli
