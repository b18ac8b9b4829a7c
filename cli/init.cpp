// `fovea init`: a checkpoint of random weights, to try everything without a download.
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "fovea/model.hpp"

namespace fovea::cli {

void add_init(CLI::App& app, Run& run) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* command = app.add_subcommand("init", "Write a model folder with random weights");
  std::vector<std::string> names;
  for (const std::string_view name : preset_names()) {
    names.emplace_back(name);
  }
  command->add_option("--preset", options->preset, "Architecture, named as on the hub")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("--seed", options->seed, "The same seed gives the same weights");
  command->add_option("-o,--output", options->folder, "Folder to write")->required();
  command->add_option("--layers", options->layers, "Layers; 0: as the preset has")
      ->check(CLI::Range(0, 512));
  command->add_option("--dtype", options->dtype, "Type of the stored weights: f32, bf16 or f16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, WeightType>{
          {"f32", WeightType::kF32}, {"bf16", WeightType::kBF16}, {"f16", WeightType::kF16}}))
      ->default_str("f32");
  command
      ->add_option("--max-shard-bytes", options->max_shard_bytes,
                   "Split the weights into files of at most this many bytes")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "Threads; 0: all")->check(CLI::Range(0, 1024));
  command->add_flag("--overwrite", options->overwrite, "Replace the model in a non-empty folder");
  command->callback([options, &run] {
    run = [options] {
      init_checkpoint(*options);
      std::cerr << "fovea: wrote " << options->preset << " with random weights (seed "
                << options->seed << ")\n";
      return kDone;
    };
  });
}

}  // namespace fovea::cli
