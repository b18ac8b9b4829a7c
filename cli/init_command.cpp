// `fovea init`: writes a checkpoint of random weights, to try everything without a download.
#include <memory>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/model.hpp"

namespace fovea::cli {
namespace {

struct InitArguments {
  InitOptions options;
  std::string dtype = "f32";
};

WeightType weight_type(const std::string& name) {
  if (name == "bf16") {
    return WeightType::kBF16;
  }
  return name == "f16" ? WeightType::kF16 : WeightType::kF32;
}

}  // namespace

void add_init(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<InitArguments>();
  InitOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("init", "Write a model folder with random weights");
  const std::vector<std::string> names(preset_names().begin(), preset_names().end());
  command
      ->add_option("--preset", options.preset,
                   fmt::format("Architecture, one of {}", fmt::join(names, ", ")))
      ->required()
      ->default_str("")
      ->check(CLI::IsMember(names).description(""));
  command->add_option("--seed", options.seed, "The same seed gives the same weights");
  command->add_option("-o,--output", options.folder, "Folder to write")
      ->required()
      ->default_str("");
  command->add_option("--layers", options.layers, "Layers (0: as many as the preset has)")
      ->check(CLI::Range(0, 512));
  command->add_option("--dtype", arguments->dtype, "Type of the stored weights")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command
      ->add_option("--max-shard-bytes", options.max_shard_bytes,
                   "Split the weights into files of at most this many bytes")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options.threads, "Threads (0: one per CPU)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--overwrite", options.overwrite, "Replace the model in a non-empty folder");
  command->callback([arguments, &run] {
    run = [arguments] {
      arguments->options.dtype = weight_type(arguments->dtype);
      init_checkpoint(arguments->options);
      say(fmt::format("wrote {} with random weights, seed {}", arguments->options.preset,
                      arguments->options.seed));
      return kDone;
    };
  });
}

}  // namespace fovea::cli
